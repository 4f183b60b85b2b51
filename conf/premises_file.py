"""What somebody supposes, as TOML: texts in, one frozen ``PremisesFile`` out, checked as a settings file is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import ReplayOverride
from hindsight.conf.settings_file import explained

_PATTERNS = {"cluster", "producer_group", "consumer_group", "topic", "broker_name", "since"}


class PremiseError(ExpectedError):
    """Raised where premises cannot be read, or suppose what hindsight does not know."""

    exit_code = WRONG_USAGE


class _Premise(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SupposedGroup(_Premise):
    """What is supposed of consumer groups; ``cluster`` and ``consumer_group`` are shell patterns."""

    cluster: str = "*"
    consumer_group: str = "*"
    strategy: str | None = None
    virtual_node_count: int | None = Field(default=None, ge=1)
    client_version: str | None = None
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    since: AwareDatetime | None = None


class SupposedTopic(_Premise):
    """How many queues topics are supposed to have on each broker that holds some; the names are shell patterns."""

    cluster: str = "*"
    topic: str
    broker_name: str = "*"
    queues: int = Field(ge=1, le=65_536)
    since: AwareDatetime | None = None


class PremisesFile(_Premise):
    """All that is supposed at once: ``[[producer]]``, ``[[group]]`` and ``[[topic]]``, each with what it is about."""

    producer: tuple[ReplayOverride, ...] = ()
    group: tuple[SupposedGroup, ...] = ()
    topic: tuple[SupposedTopic, ...] = ()

    @model_validator(mode="after")
    def _says_something_of_each(self) -> PremisesFile:
        for entry in (*self.producer, *self.group, *self.topic):
            if not entry.model_fields_set - _PATTERNS:
                raise ValueError(f"an entry says what it is about, and nothing of it: {entry.model_dump(mode='json')}")
        return self


def load_premises(texts: Iterable[str]) -> PremisesFile:
    """The entries of several TOML texts, in order; without a text nothing is supposed.

    Raises: PremiseError: a text is not TOML, has a key that there is not, or supposes nothing.
    """
    entries: dict[str, list[object]] = {}
    for text in texts:
        try:
            read = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PremiseError(f"this premise is not TOML: {error}. It was: {text.strip()[:200]!r}") from error
        if not read:
            raise PremiseError("nothing is supposed in a text of premises; write [[producer]], [[group]] or [[topic]].")
        for key, value in read.items():
            entries.setdefault(key, []).extend(value if isinstance(value, list) else [value])
    try:
        return PremisesFile.model_validate(entries)
    except ValidationError as error:
        raise PremiseError(f"premises: {explained(error, PremisesFile)}") from error


def microseconds(since: datetime | None) -> int | None:
    """An instant as epoch us."""
    return None if since is None else round(since.timestamp() * 1_000_000)

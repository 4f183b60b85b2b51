"""Files of TOML that people write: paths or texts in, one frozen and checked value out.

Settings are default.toml, overlaid with the operator's own file; premises are what somebody supposes. Both are checked
as a whole: a mistyped key is refused with its nearest name.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field, ValidationError, model_validator

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import ReplayOverride, Section, Settings

# Tables whose keys are names of hindsight's own, all of which stand in default.toml.
_CLOSED = ("timing.opens",)
_PATTERNS = {"cluster", "producer_group", "consumer_group", "topic", "broker_name", "since"}


class SettingsError(ExpectedError):
    """Raised when a settings file cannot be read or holds a key or value that hindsight does not know."""

    exit_code = WRONG_USAGE


def load_settings(path: Path | None = None) -> Settings:
    """The defaults, overlaid with the file at ``path``.

    Raises: SettingsError: with the file, the key, and the nearest key that exists.
    """
    values = tomllib.loads(files("hindsight.conf").joinpath("default.toml").read_text(encoding="utf-8"))
    if path is not None:
        try:
            own = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"settings file {str(path)!r} cannot be read: {error.strerror}.") from error
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"settings file {str(path)!r} is not TOML: {error}.") from error
        unknown = [place for table in _CLOSED for place in _unknown(table, values, own)]
        if unknown:
            raise SettingsError(f"settings file {str(path)!r}: {'; '.join(unknown)}")
        values = _overlaid(values, own)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"settings file {str(path)!r}: {explained(error)}") from error


def _unknown(table: str, base: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """What is wrong with the keys of a table of which ``base`` has every key."""
    for name in table.split("."):
        base, own = base[name], own.get(name, {})
        if not isinstance(own, dict):
            return []  # of another kind: the model says so
    return [_unknown_key(f"{table}.{key}", key, base) for key in own if key not in base]


def _unknown_key(where: str, key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"unknown key {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _overlaid(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _overlaid(merged[key], value) if both_tables else value
    return merged


def explained(error: ValidationError, model: type[BaseModel] = Settings) -> str:
    """What is wrong with values of a model, with the nearest key where one is unknown."""
    sentences = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            keys = [key for key in _all_keys(model) if key != problem["loc"][-1]]  # one that fits in another place
            sentences.append(_unknown_key(where, str(problem["loc"][-1]), keys))
        else:
            # Spark's options may be secret keys of a store, and a sink's address a secret; so may what stands there.
            found = "" if where.startswith(("spark", "events.sink")) else f" (found {problem['input']!r})"
            sentences.append(f"{where}: {problem['msg']}{found}")
    return "; ".join(sentences)


def _all_keys(model: type[BaseModel]) -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        keys.append(name)
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                keys += _all_keys(kind)
    return keys


class PremiseError(ExpectedError):
    """Raised where premises cannot be read, or suppose what hindsight does not know."""

    exit_code = WRONG_USAGE


class SupposedGroup(Section):
    """What is supposed of consumer groups; ``cluster`` and ``consumer_group`` are shell patterns."""

    cluster: str = "*"
    consumer_group: str = "*"
    strategy: str | None = None
    virtual_node_count: int | None = Field(default=None, ge=1)
    client_version: str | None = None
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    since: AwareDatetime | None = None


class SupposedTopic(Section):
    """How many queues topics are supposed to have on each broker that holds some; the names are shell patterns."""

    cluster: str = "*"
    topic: str
    broker_name: str = "*"
    queues: int = Field(ge=1, le=65_536)
    since: AwareDatetime | None = None


class PremisesFile(Section):
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

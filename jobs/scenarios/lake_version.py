"""A lake as it was: a place and a word of its history in; its tables, each at the version that belonged to it, out.

``LAKE`` is the latest; ``LAKE@2026-11-20T10:00Z`` what was published by that instant; ``LAKE@run:<run id>`` what that
run had published. Which versions belong together is what ``publication`` recorded. Tables that no publication names are
taken as they were when the newest of these publications was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.lake_rows import EVERY_ROW, DataFile, Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.publishing.publication_record import in_order
from hindsight.schemas import PUBLICATION, TABLES, Table

_OF_HISTORY = re.compile(
    r"(?P<place>.+)@(?:run:(?P<run>[\w-]+)|(?P<instant>\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?))"
)
_SHOWN = 5


class NoSuchVersionError(ExpectedError):
    """Raised where a lake's history does not reach what was asked for; nothing was compared."""

    exit_code = WRONG_USAGE


class LakeAsOf(LocalLake):
    """The tables of a lake at one point of its history, to read only.

    ``versions``: of each table by its name, None: it was not there; ``published``: the publications up to then.
    """

    def __init__(
        self, root: str, retention_days: int, versions: Mapping[str, int | None], published: list[dict[str, Any]]
    ) -> None:
        super().__init__(root, retention_days=retention_days, confirm=_refuse)
        self._versions = versions
        self._published = published

    def exists(self, table: Table) -> bool:
        """Whether it was there."""
        return self._versions[table.name] is not None

    def opened(self, table: Table, *, as_of: int | datetime | None = None) -> DeltaTable:
        """The table at the version that belongs to the lake."""
        with _reached(self.path(table)):
            return super().opened(table, as_of=self._versions[table.name] if as_of is None else as_of)

    def files(
        self, table: Table, dates: Collection[date] | None = None, *, as_of: int | datetime | None = None
    ) -> list[DataFile]:
        """The files of that version."""
        with _reached(self.path(table)):
            return super().files(table, dates, as_of=as_of)

    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        """Rows of that version; of ``publication`` the rows up to then."""
        if table is PUBLICATION:
            found = [row for row in self._published if all(row[n] in of for n, of in where.values.items())]
            return pa.Table.from_pylist(found, no_rows(table, columns or table.schema.names).schema)
        with _reached(self.path(table)):
            return super().rows(table, columns, where)

    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        """Of that version."""
        with _reached(self.path(table)):
            return super().counted(table, columns, where)


def _refuse() -> None:
    raise RuntimeError("nothing is written to a lake as it was.")


@contextmanager
def _reached(place: str) -> Iterator[None]:
    """Say of what a vacuum has removed that it has.

    Raises: NoSuchVersionError: the version, or a file of it, is gone.
    """
    try:
        yield
    except (DeltaError, FileNotFoundError) as error:
        raise NoSuchVersionError(
            f"that version of {place} cannot be read any more: hindsight maintain has removed what is older than "
            "delta.retention_days. Take a later one."
        ) from error


def lake_version(asked: str, place_of: Callable[[str], str], retention_days: int) -> LocalLake:
    """What ``asked`` names; ``place_of`` makes the root of a lake of what stands before the ``@``.

    Raises: NoSuchVersionError: no publication is as old, or none is of that run.
    """
    found = _OF_HISTORY.fullmatch(asked)
    lake = LocalLake(place_of(found["place"] if found else asked), retention_days=retention_days)
    if found is None:
        return lake
    published = lake.rows(PUBLICATION).to_pylist()
    own = [row for row in published if row["run_id"] == found["run"]]
    at = _last_of(lake, published, own, found["run"]) if found["run"] else _instant(found["instant"])
    until = [row for row in published if row["published_at"] <= at]
    if not until:
        first = min((row["published_at"] for row in published), default=None)
        raise NoSuchVersionError(
            f"nothing was published in {lake.root} by {at:%Y-%m-%d %H:%M:%S} UTC; "
            + (f"the first publication is of {first:%Y-%m-%d %H:%M:%S} UTC." if first else "nothing ever was.")
        )
    return LakeAsOf(lake.root, retention_days, _belonging(lake, until), until)


def _last_of(lake: LocalLake, published: list[dict[str, Any]], own: list[dict[str, Any]], run: str) -> datetime:
    """When a run published last."""
    if own:
        at: datetime = max(row["published_at"] for row in own)
        return at
    known = ", ".join(dict.fromkeys(row["run_id"] for row in sorted(published, key=lambda row: row["published_at"])))
    raise NoSuchVersionError(
        f"no publication of {lake.root} is of run {run!r}; "
        + (f"there are those of {known}." if known else "nothing was published there.")
    )


def _belonging(lake: LocalLake, until: list[dict[str, Any]]) -> dict[str, int | None]:
    """The versions that the newest publication of each job names."""
    newest = {row["job"]: row for row in in_order(until)}
    at = max(row["published_at"] for row in newest.values())
    named: dict[str, int] = {}
    for row in newest.values():
        for name, version in row["table_versions"]:
            named[name] = max(version, named.get(name, version))
    return {name: named[name] if name in named else _version_at(lake, t, at) for name, t in TABLES.items()}


def _version_at(lake: LocalLake, table: Table, at: datetime) -> int | None:
    """A table's version at an instant; None: it was not there yet."""
    if not lake.exists(table):
        return None
    until = int(at.timestamp() * 1000)
    history = lake.opened(table).history()
    return max((commit["version"] for commit in history if commit["timestamp"] <= until), default=None)


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise NoSuchVersionError(f"{text!r} is no instant; write one like 2026-11-20T10:00Z.") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)

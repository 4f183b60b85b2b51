"""The lakes that one is compared with: itself as it was, or what another release of hindsight makes of the same input.

``LAKE`` is the latest; ``LAKE@2026-11-20T10:00Z`` what was published by that instant; ``LAKE@run:<run id>`` what that
run had published. Which versions belong together is what ``publication`` recorded. Tables that no publication names are
taken as they were when the newest of these publications was recorded.

The other release need not know of comparing. It either derives from a copy of the tables that were taken in, which are
shared as files and never written; or, where it does not know these tables' columns, takes the landing folder in itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.lake_rows import EVERY_ROW, DataFile, Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.lake_place import for_others, is_local
from hindsight.jobs.publishing.publication_record import in_order
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.scenarios.table_differences import DERIVED
from hindsight.schemas import PUBLICATION, QUALITY_RESULT, TABLES, Table

_OF_HISTORY = re.compile(
    r"(?P<place>.+)@(?:run:(?P<run>[\w-]+)|(?P<instant>\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?))"
)
_DERIVING = ("rebuild-availability", "flag-allocation-drift")
_OWN_PLACES = ("PYTHONPATH", "PYTHONHOME")  # they would show the other interpreter this release
_SAID = 5  # lines of what it wrote


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

    def files(self, table: Table, *asked: Any, **named: Any) -> list[DataFile]:
        """The files of that version."""
        with _reached(self.path(table)):
            return super().files(table, *asked, **named)

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


class OtherReleaseError(ExpectedError):
    """Raised where the other release did not do what it was asked; nothing was compared."""


def command_of(asked: str) -> list[str]:
    """The words that start a release: a command with its arguments, or a Python interpreter that has it."""
    words = shlex.split(asked)
    is_python = len(words) == 1 and Path(words[0]).name.startswith("python")
    return [*words, "-m", "hindsight.jobs.command_line"] if is_python else words


def derived_by(
    command: list[str], lake: LocalLake, folder: Path, landing: str | None, settings: Path | None
) -> LocalLake:
    """The lake that another release makes in ``folder``; from ``landing``, or else from the lake's own input tables.

    Raises: OtherReleaseError: it failed, or the lake is on a store, whose files cannot be shared.
    """
    own = LocalLake(str(folder / "lake"), retention_days=lake.retention_days)
    with_settings = [] if settings is None else ["--settings", str(settings)]
    if landing is not None:
        _run([*command, "run-pipeline", "--landing", landing, "--lake", own.root, *with_settings])
        return own
    if not is_local(lake.root):
        raise OtherReleaseError(f"{lake.root} is on a store; name the landing folder with --landing.")
    share_inputs(Path(for_others(lake.root)), Path(own.root))
    (folder / "landing").mkdir()
    for job in _DERIVING:
        _run([*command, job, "--landing", str(folder / "landing"), "--lake", own.root, *with_settings])
    return own


def share_inputs(lake: Path, into: Path) -> None:
    """Copy the tables that were taken in, with the ledger. Data files are linked: no release writes into one."""
    not_inputs = {table.name for table in (*DERIVED, PUBLICATION, QUALITY_RESULT)}
    for name in TABLES:
        if name not in not_inputs and (lake / name).is_dir():
            shutil.copytree(lake / name, into / name, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    if source.endswith(".parquet") and "_delta_log" not in source:
        try:
            os.link(source, target)
            return
        except OSError:  # another disk, or one without links
            pass
    shutil.copy2(source, target)


def _run(words: list[str]) -> None:
    tell("runs the other release", command=shlex.join(words))
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_PLACES}
    environment["PYTHONSAFEPATH"] = "1"  # "python -m" would else take a hindsight in the current folder for it
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OtherReleaseError(f"{words[0]!r} cannot be started: {error.strerror}.") from error
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_SAID:])
        raise OtherReleaseError(
            f"{shlex.join(words)} ended with {done.returncode}:\n{said}\nIf it does not know these tables, let it take "
            "in the landing folder itself: --landing."
        )

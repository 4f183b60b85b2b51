"""Upkeep of a table without a JVM: what there is of it, small files made large, files that nobody needs removed."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta

from pyarrow import fs

from hindsight.jobs.engines.arrow_lake import CANDIDATES, Footprint
from hindsight.jobs.engines.local_lake import RETENTIONS, LocalLake
from hindsight.jobs.lake.lake_place import file_system
from hindsight.schemas import Table

_VERSION = re.compile(r"(\d{20})\.json")
_LENGTH = re.compile(r"(\d+) (week|day|hour|minute|second)s?")
_NEVER_SAID = "interval 7 days"


class LocalUpkeep:
    """Upkeep of the tables of a lake; every change is confirmed by the lease first."""

    def __init__(self, lake: LocalLake) -> None:
        self._lake = lake

    def silenced(self) -> AbstractContextManager[None]:
        """Nothing here prints anything."""
        return nullcontext()

    def footprint(self, table: Table) -> Footprint:
        """Size of the table now, and how far its history goes back."""
        files = self._lake.files(table)
        since = datetime.now(UTC) - self._kept(table)
        commits = sorted(self._commits(table))
        # Vacuum keeps the files of the version that was current then; the log may begin later.
        oldest = max((commit for commit in commits if commit[1] <= since), default=commits[0])
        uncounted = any(file.rows is None for file in files)
        return Footprint(
            rows=len(self._lake.rows(table, table.key[:1])) if uncounted else sum(file.rows or 0 for file in files),
            files=len(files),
            bytes=sum(file.size for file in files),
            bytes_with_history=sum(info.size for info in _below(self._lake.path(table))),
            oldest_version=oldest[0],
            oldest_at=oldest[1],
        )

    def compact(self, table: Table) -> None:
        """Write the small files of each partition as one."""
        self._lake.confirm()
        self._lake.opened(table).optimize.compact()
        self._lake.changed(table)

    def vacuum(self, table: Table) -> None:
        """Remove the files that no version within the retention needs, staged ones that were never committed too.

        Delta goes by what the table carries, so a longer retention of the settings is put there.
        """
        self._lake.confirm()
        stored = self._lake.opened(table)
        wanted = self._lake.retention_days
        if self._kept(table) < timedelta(days=wanted):
            stored.alter.set_table_properties(dict.fromkeys(RETENTIONS, f"interval {wanted} days"))
        if stored.vacuum(dry_run=True, full=True):  # else it would add a version that says nothing
            stored.vacuum(dry_run=False, full=True)
        stored.cleanup_metadata()
        self._lake.changed(table)

    def drop_old_candidates(self, table: Table) -> None:
        """Remove candidates that a run on Spark left behind; those with a file younger than the retention stay."""
        self._lake.confirm()
        place = f"{self._lake.root}/{CANDIDATES}/{table.name}"
        written = [info.mtime for info in _below(place)]
        if written and datetime.now(UTC) - max(written) > timedelta(days=self._lake.retention_days):
            system, path = file_system(place)
            system.delete_dir(path)

    def _kept(self, table: Table) -> timedelta:
        """How long the table keeps the files of earlier versions."""
        text = self._lake.opened(table).metadata().configuration.get(RETENTIONS[1], _NEVER_SAID)
        return sum((timedelta(**{f"{unit}s": int(n)}) for n, unit in _LENGTH.findall(text)), timedelta())

    def _commits(self, table: Table) -> list[tuple[int, datetime]]:
        found = ((_VERSION.fullmatch(info.base_name), info) for info in _below(f"{self._lake.path(table)}/_delta_log"))
        return [(int(name.group(1)), info.mtime) for name, info in found if name]


def _below(place: str) -> list[fs.FileInfo]:
    system, path = file_system(place)
    found = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info for info in found if info.type == fs.FileType.File]

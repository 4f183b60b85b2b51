"""Where a run can be broken off between two commits, and what a reader without Spark sees of its tables meanwhile."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable

from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import Table
from tests.pipeline.lake_contents import COMPARED

# By engine, what writes: its lake's methods.
WRITES: dict[type, tuple[str, ...]] = {
    LocalLake: ("_create", "append", "add_candidates", "store", "update", "replace", "replace_since"),
    Lake: ("_create", "append", "add_candidates", "update", "replace", "replace_since"),
}
Seen = dict[str, list[str]]


@contextmanager
def after_each_write(call: Callable[[Any, str, Table], None]) -> Iterator[None]:
    """Call after every write of every lake; writes that would go on at once come one after the other."""
    with one_write_at_a_time(), ExitStack() as patches:
        for lake, names in WRITES.items():
            for name in names:
                patches.enter_context(patch.object(lake, name, _followed(getattr(lake, name), name, call)))
        yield


class BrokenOffError(Exception):
    """A run ends here."""


@contextmanager
def broken_off(last: int) -> Iterator[None]:
    """Raise after so many writes of the runs within."""
    writes = count(1)

    def break_off(*_: object) -> None:
        if next(writes) == last:
            raise BrokenOffError

    with after_each_write(break_off):
        yield


@contextmanager
def one_write_at_a_time() -> Iterator[None]:
    with patch("hindsight.jobs.engines.arrow_lake._AT_ONCE", 1):
        yield


def _followed(write: Callable[..., None], name: str, call: Callable[[Any, str, Table], None]) -> Callable[..., None]:
    def followed(lake: Any, table: Table, *rest: Any, **named: Any) -> None:
        write(lake, table, *rest, **named)
        call(lake, name, table)

    return followed


def rows_of_table(path: Path, columns: list[str], version: int | None = None) -> list[str]:
    """A table's rows as sorted text."""
    found = DeltaTable(path, version=version).to_pyarrow_table(columns=columns)
    return sorted(map(repr, found.to_pylist()))


def seen(lake: Path, versions: dict[str, int] | None = None) -> Seen:
    """Every table's rows, contract columns only; ``versions``: of these tables, at these versions."""
    wanted = [table for table in COMPARED if versions is None or table.name in versions]
    there = [table for table in wanted if DeltaTable.is_deltatable(str(lake / table.name))]
    return {t.name: rows_of_table(lake / t.name, t.contract_columns, (versions or {}).get(t.name)) for t in there}


def published(lake: Path) -> dict[str, dict[str, int]]:
    """Per job, the table versions that its newest publication names."""
    if not DeltaTable.is_deltatable(str(lake / "publication")):
        return {}
    rows = DeltaTable(lake / "publication").to_pyarrow_table().to_pylist()
    # An earlier release did not count.
    newest = {row["job"]: row for row in sorted(rows, key=lambda row: (row.get("number") or 0, row["published_at"]))}
    return {job: dict(row["table_versions"]) for job, row in newest.items()}


def is_published_whole(lake: Path, *runs: Seen) -> bool:
    """Whether the versions that each job's newest publication names are together what one of the runs stored."""
    named = [seen(lake, versions) for versions in published(lake).values()]
    return all(any(tables == {name: run.get(name, []) for name in tables} for run in runs) for tables in named)


class Reader:
    """Reads what is published, over and over, without Spark and without asking anybody."""

    def __init__(self, lake: Path, *runs: Seen) -> None:
        self.lake, self.runs, self.reads = lake, runs, 0

    def read(self) -> None:
        """Once."""
        self.reads += bool(published(self.lake))
        assert is_published_whole(self.lake, *self.runs)

    def until(self, process: subprocess.Popen[bytes], enough: Path | None = None) -> None:
        """While a process lives, and at most ten minutes; ``enough`` is there once it has read four times."""
        end = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < end:
            self.read()
            if enough and self.reads > 3:
                enough.touch()
            time.sleep(0.1)


def without_empty(tables: Seen) -> Seen:
    """A table without rows need not be there."""
    return {name: rows for name, rows in tables.items() if rows}

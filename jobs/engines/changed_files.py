"""Which files of a table hold rows that a write touches, and what of these files stays."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import meets
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile, StagedFile, Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.udfs.values.columns import BoolArray
from hindsight.udfs.values.row_hashes import have_keys_of, places_of_keys

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Rows that are much alike take few bytes, though each must be read and written again.
_SMALL_BYTES = 2 << 20
_SMALL_ROWS = 1 << 18
MOST_SMALL_FILES = 16  # of a partition
_OF_DATES = ["cluster", "event_date"]


def files_of(
    stored: DeltaTable, dates: Collection[date] | None, since: tuple[str, datetime] | None = None
) -> list[DataFile]:
    """The files of a version that hold rows of these dates, older ones first; None: all.

    ``since``: a column and an instant; files whose statistics say that all their rows are earlier are left out.
    """
    found = pa.table(stored.get_add_actions(flatten=True))
    if since is not None:
        found = found.filter(_may_be_since(found, f"max.{since[0]}", since[1]))
    there, absent = {*found.column_names}, [None] * len(found)
    names = ("path", "size_bytes", "num_records", "partition.event_date", "min.cluster", "max.cluster")
    columns = (found.column(name).to_pylist() if name in there else absent for name in names)
    wanted = None if dates is None else frozenset(dates)
    # Arrow's own sorting takes longer than all else where files are few.
    in_order = sorted(zip(found.column("modification_time").cast(pa.int64()).to_pylist(), *columns, strict=True))
    return [
        DataFile(path, size, rows, day, least if least == most else None)
        for _, path, size, rows, day, least, most in in_order
        if wanted is None or day in wanted
    ]


def _may_be_since(files: pa.Table, name: str, since: datetime) -> pa.ChunkedArray:
    """A bound may be short by less than a millisecond, and may be missing."""
    if name not in files.column_names:
        return pa.chunked_array([np.ones(len(files), bool)])
    least = pa.scalar(since - timedelta(milliseconds=1), files.column(name).type)
    return pc.fill_null(pc.greater_equal(files.column(name), least), True)


def partition_of(file: DataFile | StagedFile) -> dict[str, str | None]:
    """A file's date as Delta's log has it."""
    return {"event_date": file.event_date.isoformat()} if file.event_date else {}


def is_small(file: DataFile | StagedFile) -> bool:
    """A file that a later commit may put together with others, at a cost that is little."""
    return file.size < _SMALL_BYTES and (file.rows is None or file.rows < _SMALL_ROWS)


def too_many_small(
    table: str, live: Iterable[DataFile], added: Iterable[StagedFile], removed: Collection[DataFile]
) -> list[DataFile]:
    """The small files of the partitions that a commit adds to, where they would be too many with what is added.

    Tables differ in how many are too many, so that not all are due in the same run.
    """
    most = MOST_SMALL_FILES - zlib.crc32(table.encode()) % (MOST_SMALL_FILES // 2)
    gone = {file.path for file in removed}
    fresh = Counter(file.event_date for file in added if is_small(file))
    small = [f for f in live if f.event_date in fresh and is_small(f) and f.path not in gone]
    of_each = Counter(file.event_date for file in small)
    all_small = of_each + fresh
    return [file for file in small if of_each[file.event_date] > 1 and all_small[file.event_date] > most]


def rest(folder: TableFolder, touched: Mapping[DataFile, Sequence[Where]]) -> tuple[list[DataFile], Iterator[pa.Table]]:
    """The files with rows that meet a condition, and file by file the rows of these that meet none.

    ``touched``: files that may hold rows that meet one of the conditions, with each such condition.
    """
    removed, mixed = [], []
    for file, conditions in touched.items():
        told = told_by_statistics(file, conditions)
        if told is None:
            columns = sorted({name for where in conditions for name in where.columns()})
            hits = _mask(folder.read(file, columns), conditions)
            told = bool(hits.any())
            mixed += [file] if told and not hits.all() else []
        removed += [file] if told else []
    return removed, (_others(folder.read(file), touched[file]) for file in mixed)


def told_by_statistics(file: DataFile, conditions: Sequence[Where]) -> bool | None:
    """Whether all rows of a file meet a condition (True), or none does (False); None: its rows are to be looked at."""
    at = None if file.cluster is None or file.event_date is None else ClusterDate(file.cluster, file.event_date)
    if at is None or any(where.dates is None or where.columns() != _OF_DATES for where in conditions):
        return None
    return any(at in (where.dates or ()) for where in conditions)


def rest_in_files(task: tuple[TableFolder, DataFile, Sequence[Where]]) -> tuple[DataFile | None, list[StagedFile]]:
    """A file if it holds rows that meet a condition, and the files in which those of its rows that meet none stand."""
    folder, file, conditions = task
    removed, kept = rest(folder, {file: conditions})
    return next(iter(removed), None), folder.stage(kept)


def _others(rows: pa.Table, conditions: Iterable[Where]) -> pa.Table:
    return rows.filter(pa.array(~_mask(rows, conditions)))


def _mask(rows: pa.Table, conditions: Iterable[Where]) -> BoolArray:
    """The rows that meet one of the conditions."""
    mask: BoolArray = np.zeros(len(rows), dtype=bool)
    for where in conditions:
        found = meets(rows, where)
        mask |= found.as_py() if isinstance(found, pa.Scalar) else found.fill_null(False).to_numpy()
    return mask


def with_keys(folder: TableFolder, files: Iterable[DataFile], key: Sequence[str], others: pa.Table) -> list[DataFile]:
    """The files with rows that have keys of ``others``."""
    return [file for file in files if have_keys_of(folder.read(file, key), others, key).any()]


def updated(rows: pa.Table, fresh: pa.Table, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Rows with the ``columns`` that ``fresh`` ones of their keys have; others as they are."""
    places = places_of_keys(rows, fresh, key)
    for name in columns:
        new = fresh.column(name).take(pa.array(places, mask=places < 0))
        both = pc.if_else(pa.array(places >= 0), new, rows.column(name))
        rows = rows.set_column(rows.column_names.index(name), name, both)
    return rows

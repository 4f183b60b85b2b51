"""Parquet files of a table: one in, its rows in the contract's columns out; rows in, files in its folder out.

Workers use both by themselves. A staged file belongs to no version until a commit names it; what is never named goes
with the next vacuum after the retention.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from hindsight.jobs.engines.arrow_columns import conformed_rows, no_rows, require_values
from hindsight.jobs.engines.lake_rows import DataFile, Rows, StagedFile
from hindsight.jobs.lake.lake_place import file_system
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import row_schema

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake

_ROW_GROUP_BYTES = 16_000_000  # a run reads the last few of a date's
_FILE_BYTES = 512_000_000  # before they are packed
_SAMPLE_ROWS = 4096
_STATS_CHARS = 32
_PIECE_ROWS = 250_000
_MILLISECOND = timedelta(milliseconds=1)
_CODES = {"PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY", "BIT_PACKED"}  # encodings of texts as codes

STAGED = pa.schema(
    {"path": pa.string(), "size": pa.int64(), "rows": pa.int64(), "event_date": pa.date32(), "stats": pa.string()}
)


def table_of_files(files: Iterable[StagedFile]) -> pa.Table:
    """Staged files as rows (``STAGED``)."""
    return pa.Table.from_pylist([file._asdict() for file in files], schema=STAGED)


def files_of_tables(tables: Iterable[pa.Table]) -> Iterator[StagedFile]:
    """The same the other way."""
    return (StagedFile(**row) for table in tables for row in table.to_pylist())


class TableFolder(NamedTuple):
    """Where a table of a lake stands; a plain value that travels to workers."""

    root: str
    table: Table

    def read(self, file: DataFile | StagedFile, columns: Sequence[str] = ()) -> pa.Table:
        """A file's rows, in the columns named (none: all of the contract).

        Spark writes instants as Parquet's oldest kind, without a zone; they are UTC.
        """
        wanted = list(columns) or self.table.schema.names
        return pa.concat_tables([no_rows(self.table, wanted), *self.pieces(file, wanted)])

    def pieces(
        self,
        file: DataFile | StagedFile,
        columns: Sequence[str],
        *,
        since: tuple[str, datetime] | None = None,
        as_codes: Sequence[str] = (),
    ) -> Iterator[pa.Table]:
        """The same in pieces, of which each is read when it is asked for.

        ``since``: a column and an instant; parts of the file that have only earlier ones are not read.
        ``as_codes``: columns whose texts may come as places in the distinct ones, as most files hold them.
        """
        system, path = self._place(file.path)
        footer = pq.read_metadata(path, filesystem=system) if as_codes else None
        coded = _held_as_codes(footer, as_codes) if footer else []
        with pq.ParquetFile(
            path, filesystem=system, metadata=footer, read_dictionary=coded, coerce_int96_timestamp_unit="us"
        ) as stored:
            there = [name for name in columns if name in stored.schema_arrow.names]
            groups = None if since is None else _groups_since(stored.metadata, *since)
            for batch in stored.iter_batches(_PIECE_ROWS, row_groups=groups, columns=there):
                rows = pa.Table.from_batches([batch])
                conformed = self._conformed(rows.drop_columns(coded), len(batch), file, columns)
                for name in coded:
                    conformed = conformed.set_column(columns.index(name), name, rows[name])
                yield conformed

    def _conformed(self, rows: pa.Table, count: int, file: DataFile | StagedFile, wanted: Sequence[str]) -> pa.Table:
        if "event_date" in wanted and "event_date" not in rows.column_names:
            rows = rows.append_column("event_date", pa.repeat(pa.scalar(file.event_date, pa.date32()), count))
        if not rows.num_columns:  # nothing is left to count the rows by
            return no_rows(self.table, wanted) if not count else pa.table([pa.nulls(count)] * len(wanted), list(wanted))
        return conformed_rows(rows, self.table, wanted)

    def stage(self, rows: Rows) -> list[StagedFile]:
        """Write rows into the table's folder, each date's into its own; files that stand there stay as they are.

        Raises: NullInColumnError: a value that the contract requires is absent.
        """
        staging = Staging(self)
        done = []
        for piece in [rows] if isinstance(rows, pa.Table) else rows:
            if isinstance(piece, StagedFile):
                done.append(piece)
            else:
                staging.add(piece)
        return done + staging.end()

    def drop(self, file: StagedFile) -> None:
        """Remove a staged file that no commit will name."""
        system, path = self._place(file.path)
        system.delete_file(path)

    def _place(self, path: str) -> tuple[fs.FileSystem, str]:
        system, root = file_system(self.root)
        return system, f"{root}/{self.table.name}/{path}"


class Staging:
    """Files that are being written into a table's folder, one a date. Small pieces wait until they are a row group."""

    def __init__(self, folder: TableFolder) -> None:
        self._folder = folder
        self._waiting: dict[date | None, list[pa.Table]] = {}
        self._open: dict[date | None, _Writing] = {}
        self._done: list[StagedFile] = []

    def add(self, rows: pa.Table) -> None:
        """Take rows. Raises: NullInColumnError."""
        rows = conformed_rows(rows, self._folder.table)
        require_values(rows, self._folder.table)
        for day, of_day in _by_date(rows, self._folder.table):
            waiting = self._waiting.setdefault(day, [])
            waiting.append(of_day)
            if sum(piece.nbytes for piece in waiting) >= _ROW_GROUP_BYTES:
                self._write(day)

    def _write(self, day: date | None) -> None:
        rows = pa.concat_tables(self._waiting.pop(day)).combine_chunks()
        writing = self._open.get(day) or _Writing(self._folder, day, rows)
        writing.write(rows)
        self._open[day] = writing
        if writing.bytes >= _FILE_BYTES:
            self._done.append(self._open.pop(day).end())

    def end(self) -> list[StagedFile]:
        """All files that were written; nothing is taken any more."""
        for day in list(self._waiting):
            self._write(day)
        return self._done + [writing.end() for writing in self._open.values()]


class _Writing:
    def __init__(self, folder: TableFolder, day: date | None, first: pa.Table) -> None:
        self._day, self.bytes = day, 0
        self._path = f"{f'event_date={day.isoformat()}/' if day else ''}part-{uuid4()}.parquet"
        self._system, self._place = folder._place(self._path)
        schema = row_schema(folder.table)
        if day:
            schema = schema.remove(schema.get_field_index("event_date"))
        self._schema = schema
        self._system.create_dir(self._place.rpartition("/")[0], recursive=True)
        self._written: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._place,
            schema,
            filesystem=self._system,
            store_schema=False,
            metadata_collector=self._written,
            **_encodings(first.select(schema.names)),
        )

    def write(self, rows: pa.Table) -> None:
        self.bytes += rows.nbytes
        self._writer.write_table(rows.select(self._schema.names))

    def end(self) -> StagedFile:
        self._writer.close()
        size, (written,) = self._system.get_file_info(self._place).size, self._written
        return StagedFile(self._path, size, written.num_rows, self._day, _stats(written))


def _encodings(first: pa.Table) -> dict[str, Any]:
    """How columns are written: those of which few values come twice by their differences, all others by dictionaries.

    ``first``: rows to go by. Spark, DuckDB, Polars and delta-rs read them.
    """
    some = first.slice(0, _SAMPLE_ROWS)
    differences = {}
    for field in first.schema:
        is_number = pa.types.is_timestamp(field.type) or pa.types.is_integer(field.type)
        if len(some) == _SAMPLE_ROWS and (is_number or pa.types.is_string(field.type)):
            values = some[field.name].drop_null()
            if 2 * pc.count_distinct(values).as_py() > len(values):
                differences[field.name] = "DELTA_BINARY_PACKED" if is_number else "DELTA_BYTE_ARRAY"
    repeated = [path for field in first.schema for path in _paths(field, field.name) if path not in differences]
    return {"use_dictionary": repeated, "column_encoding": differences}


def _paths(field: pa.Field, path: str) -> list[str]:
    """Parquet's columns of an Arrow column."""
    if pa.types.is_list(field.type):
        return _paths(field.type.value_field, f"{path}.list.element")
    if pa.types.is_struct(field.type):
        return [each for own in field.type for each in _paths(own, f"{path}.{own.name}")]
    return [path]


def _held_as_codes(file: pq.FileMetaData, columns: Sequence[str]) -> list[str]:
    """The columns that are stored so; Arrow (26.0.1) reads none so that is stored by differences."""
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(file.num_columns)]
    there = {chunk.path_in_schema for chunk in chunks}
    others = {chunk.path_in_schema for chunk in chunks if not _CODES.issuperset(chunk.encodings)}
    return [name for name in columns if name in there - others]


def _groups_since(file: pq.FileMetaData, name: str, since: datetime) -> list[int]:
    """The row groups that may hold an instant that is not earlier."""
    places = [place for place in range(file.num_columns) if file.schema.column(place).path == name]
    found = []
    for number in range(file.num_row_groups):
        told = [file.row_group(number).column(place).statistics for place in places]
        most = [one.max for one in told if one is not None and one.has_min_max and isinstance(one.max, datetime)]
        if not most or most[0].replace(tzinfo=most[0].tzinfo or UTC) >= since:
            found.append(number)
    return found


def _by_date(rows: pa.Table, table: Table) -> Iterator[tuple[date | None, pa.Table]]:
    if not len(rows):
        return
    if not table.dated:
        yield None, rows
        return
    days = pc.unique(rows.column("event_date")).sort().to_pylist()
    for day in days:
        yield day, rows if len(days) == 1 else rows.filter(pc.equal(rows.column("event_date"), day))


def _stats(file: pq.FileMetaData) -> str:
    """Delta's statistics of a file: its rows, and of plain columns nulls and bounds."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    for place in range(file.num_columns):
        columns = [group.column(place) for group in groups]
        of_each = [column.statistics for column in columns]
        name = columns[0].path_in_schema if columns else ""
        if "." in name or not all(found is not None for found in of_each):
            continue
        if all(found.has_null_count for found in of_each):
            nulls[name] = sum(found.null_count for found in of_each)
        bounds = [(found.min, found.max) for found in of_each if found.has_min_max]
        # A row group of nulls only has no bounds, and needs none.
        if bounds and all(found.has_min_max or found.num_values == 0 for found in of_each):
            least[name] = _bound(min(low for low, _ in bounds), is_upper=False)
            most[name] = _bound(max(high for _, high in bounds), is_upper=True)
    least, most = ({name: bound for name, bound in of.items() if bound is not None} for of in (least, most))
    return json.dumps({"numRecords": file.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def _bound(value: Any, *, is_upper: bool) -> Any:
    """A bound as Delta writes it, never inside the values; None: it has no such form."""
    if isinstance(value, datetime):  # in milliseconds
        over = value.microsecond % 1000
        moved = value - timedelta(microseconds=over) + (_MILLISECOND if is_upper and over else timedelta())
        return moved.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moved.microsecond // 1000:03}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value[:_STATS_CHARS] if len(value) <= _STATS_CHARS or not is_upper else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rows_in(folder: TableFolder, files: Iterable[DataFile | StagedFile]) -> pa.Table:
    """The rows of several files."""
    return pa.concat_tables([no_rows(folder.table), *map(folder.read, files)])


# Spark writes instants as Parquet's oldest kind.
_PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


def scanned(
    lake: LocalLake, table: Table, dates: DateRange = EVERY_DATE, *, as_of: int | datetime | None = None
) -> ds.Dataset | pa.Table:
    """The rows of some dates in the contract's columns; a column that is not stored yet is null.

    A condition on ``event_date`` leaves files unread, one on another column parts of files.
    Raises: WrongSchemaError: the table is of no earlier contract either.
    """
    files = [file for file in lake.files(table, as_of=as_of) if file.event_date is None or file.event_date in dates]
    return dataset_of(lake.folder(table), files) if files else no_rows(table)


def dataset_of(folder: TableFolder, files: Iterable[DataFile | StagedFile]) -> ds.Dataset:
    """Files of a table, to be read by columns, piece by piece."""
    system, root = file_system(folder.root)
    fragments = [_fragment(file, system, f"{root}/{folder.table.name}/{file.path}") for file in files]
    return ds.FileSystemDataset(fragments, row_schema(folder.table), _PARQUET, system)


def _fragment(file: DataFile | StagedFile, system: fs.FileSystem, path: str) -> ds.Fragment:
    of_date = None if file.event_date is None else ds.field("event_date") == pa.scalar(file.event_date, pa.date32())
    return _PARQUET.make_fragment(path, filesystem=system, partition_expression=of_date)

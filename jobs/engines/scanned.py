"""A table of a lake in, an Arrow dataset out: whoever reads it names columns and conditions, and gets no more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from hindsight.jobs.engines.arrow_columns import arrow_schema, no_rows
from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.lake.lake_place import file_system
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.schemas import Table

if TYPE_CHECKING:
    from hindsight.jobs.engines.local_lake import LocalLake

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
    if not files:
        return no_rows(table)
    system, folder = file_system(f"{lake.root}/{table.name}")
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    return ds.FileSystemDataset(list(_fragments(files, system, folder)), schema, _PARQUET, system)


def _fragments(files: list[DataFile], system: pa.fs.FileSystem, folder: str) -> Iterator[ds.Fragment]:
    for file in files:
        of_date = None if file.event_date is None else ds.field("event_date") == pa.scalar(file.event_date, pa.date32())
        yield _PARQUET.make_fragment(f"{folder}/{file.path}", filesystem=system, partition_expression=of_date)

"""Rows of any writer or kernel in; exactly the columns and types of their table's contract out.

Lineage is set here: when, and by which run, rows were computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.runner import Blob
from hindsight.jobs.lake.table_schema import stored_columns
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.schemas.column_types import StructType, of_json


class NullInColumnError(ValueError):
    """Raised when a row lacks a value that its contract requires; nothing was stored."""


def delta_schema(columns: StructType) -> Schema:
    """Columns as a Delta table keeps them, comments and all."""
    return Schema.from_json(columns.json())


def columns_of(found: Schema) -> StructType:
    """The same the other way."""
    return of_json(found.to_json())


def with_comments(table: Table, stored: Schema) -> pa.Schema:
    """The same with each column's comment, as a new column of a Delta table is described.

    What is ``stored`` keeps its own: delta-rs merges no column whose comment has changed.
    """
    columns, there = (pa.schema(schema.to_arrow()) for schema in (delta_schema(stored_columns(table)), stored))
    return pa.schema([_described(field, _field(there, field.name)) for field in columns])


def _described(field: pa.Field, stored: pa.Field | None) -> pa.Field:
    if stored is None:
        return field
    kind, found = field.type, stored.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_described(inner, _field(found, inner.name)) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_described(kind.value_field, found.value_field))
    return pa.field(field.name, kind, field.nullable, stored.metadata)


def _field(of: pa.Schema | pa.StructType, name: str) -> pa.Field | None:
    return of.field(name) if name in of.names else None


def conformed_rows(rows: pa.Table, table: Table, columns: Sequence[str] = ()) -> pa.Table:
    """The contract's columns (or those named of them), in order and type; an absent one is null.

    Types are those of the contract, whatever the writer's: instants without a zone are UTC, and what is nested goes by
    name, in whichever order it was stored.
    """
    schema = arrow_schema(table)
    fields = [schema.field(name) for name in (columns or schema.names)]
    there = set(rows.column_names)
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    return pa.table(arrays, schema=pa.schema([field.with_nullable(True) for field in fields]))


def no_rows(table: Table, columns: Sequence[str] = ()) -> pa.Table:
    """The contract's columns (or those named of them) without a row."""
    return conformed_rows(pa.table({}), table, columns)


def require_values(rows: pa.Table, table: Table) -> None:
    """Refuse nulls where the contract has none, as Spark does.

    Raises: NullInColumnError.
    """
    required = [field.name for field in table.schema.fields if not field.nullable]
    empty = [name for name in required if rows.column(name).null_count]
    if empty:
        raise NullInColumnError(f"{table.name}: {', '.join(empty)} may not be null.")


def meets(rows: pa.Table, where: Where) -> pa.ChunkedArray | pa.Scalar:
    """Which rows meet a condition."""
    found = pa.scalar(True)
    for name, values in where.values.items():
        column = rows.column(name)
        found = pc.and_(found, pc.is_in(column, value_set=pa.array(sorted(values), column.type)))
    for name, instant in where.before.items():
        column = rows.column(name)
        found = pc.and_(found, pc.fill_null(pc.less(column, pa.scalar(instant, column.type)), False))
    for name, instant in where.since.items():
        column = rows.column(name)
        found = pc.and_(found, pc.fill_null(pc.greater_equal(column, pa.scalar(instant, column.type)), False))
    if where.dates is not None:
        found = pc.and_(found, _of_dates(rows, where))
    return found


def _of_dates(rows: pa.Table, where: Where) -> pa.ChunkedArray | pa.Scalar:
    by_cluster: dict[str, set[date]] = {}
    for cluster, day in where.dates or ():
        by_cluster.setdefault(cluster, set()).add(day)
    found = pa.scalar(False)
    for cluster, days in by_cluster.items():
        is_one = pc.is_in(rows.column("event_date"), value_set=pa.array(sorted(days), pa.date32()))
        found = pc.or_(found, pc.and_(is_one, pc.equal(rows.column("cluster"), cluster)))
    return found


def chosen(rows: pa.Table, where: Where) -> pa.Table:
    """The rows that meet a condition."""
    mask = meets(rows, where)
    if isinstance(mask, pa.Scalar):
        return rows if mask.as_py() else rows.slice(0, 0)
    return rows.filter(mask)


class Lineage(NamedTuple):
    """When and by which run rows are computed."""

    computed_at: datetime
    run_id: str

    def of(self, table: Table, key: int, midnight_ms: int, rows: pa.Table) -> Blob:
        """Rows of a table, as its contract has them."""
        for name, value in zip(self._fields, (pa.scalar(self.computed_at), pa.scalar(self.run_id)), strict=True):
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        return Blob(table.name, key, midnight_ms, conformed_rows(rows, table))


def rows_that_meet(pieces: Iterable[Any], conditions: Sequence[Where]) -> Iterator[Any]:
    """The rows, each of which must meet the condition that picks what they replace."""
    for piece in pieces:
        if isinstance(piece, pa.Table) and sum(len(chosen(piece, where)) for where in conditions) < len(piece):
            raise ValueError("rows that replace others must be of the same dates or files.")
        yield piece

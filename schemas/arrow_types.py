"""Contracts as Arrow has them: what is stored, rows that are not stored yet, and rows as kernels give them."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from hindsight.schemas.column_types import ArrayType, DataType, MapType, StructType
from hindsight.schemas.table_contract import Table

_PLAIN = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """A contract's columns as they are stored; instants are microseconds in UTC."""
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in table.schema])


def row_schema(table: Table) -> pa.Schema:
    """The same as rows have it that are not stored yet: null is for the writer to refuse."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def kernel_schema(table: Table, **more: pa.DataType) -> pa.Schema:
    """The same without the columns that say which run made a row, and with some that only kernels need."""
    own = [field for field in row_schema(table) if field.name not in table.lineage]
    return pa.schema([*own, *more.items()])


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType)))
    if isinstance(kind, MapType):
        value = pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
        return pa.map_(_arrow_type(kind.keyType), value)
    if isinstance(kind, StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType)) for field in kind])
    return _PLAIN[kind.simpleString()]

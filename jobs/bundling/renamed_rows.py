"""Rows of a table in; the names that are in them, or the same rows with new names, out.

A text that is no name and no word of the product's own is left out: null, or empty where a value must be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.schemas import Table
from hindsight.udfs.bundles.column_kinds import DIGESTS, NAMED, STATES, TOLD, WORDS
from hindsight.udfs.bundles.new_names import NewNames
from hindsight.udfs.bundles.state_shapes import SHAPES, walked

Change = Callable[[str, str], str | None]  # a column's name and a text of it: what it becomes
_LEFT_OUT = frozenset({"pid", "invoke_id"})  # numbers that name a process


def found_names(rows: pa.Table, table: Table, found: defaultdict[str, set[str]]) -> None:
    """Add the names of some rows to ``found``, by kind."""

    def note(kind: str, name: str) -> str:
        found[kind].add(name)
        return name

    _changed(rows, table, lambda column, text: _put(table, column, text, note))


def renamed(rows: pa.Table, table: Table, names: NewNames) -> pa.Table:
    """The rows with new names. Raises: KeyError: a name was not found before; UnknownStateError."""
    return _changed(rows, table, lambda column, text: _put(table, column, text, names.of))


def compared_columns(table: Table) -> list[str]:
    """The columns of which every text is a name or a word: with new names they are what the old ones are."""
    return [field.name for field in table.schema if field.name in table.contract_columns and _is_told(table, field)]


def _is_told(table: Table, field: object) -> bool:
    name = getattr(field, "name", "")
    if (table.name, name) in TOLD or name in DIGESTS:
        return False
    return all(leaf in NAMED or leaf in WORDS for leaf in _text_leaves(name, getattr(field, "dataType", None)))


def _text_leaves(name: str, kind: object) -> list[str]:
    """The names of the texts in a column of the contract."""
    inner = getattr(kind, "elementType", None)
    if inner is not None:
        return _text_leaves(name, inner)
    fields = getattr(kind, "fields", None)
    if fields is not None:
        return [leaf for field in fields for leaf in _text_leaves(field.name, field.dataType)]
    return [name] if type(kind).__name__ == "StringType" else []


def _put(table: Table, column: str, text: str, put: Callable[[str, str], str]) -> str | None:
    if (table.name, column) in STATES:
        return walked(text, SHAPES[table.name], put)
    kind = NAMED.get(column) or ("word" if column in WORDS else None)
    return put(kind, text) if kind else None


def _changed(rows: pa.Table, table: Table, change: Change) -> pa.Table:
    needed = {field.name for field in table.schema if not field.nullable}
    made = []
    for field in rows.schema:
        array = _whole(rows[field.name])
        if field.name in _LEFT_OUT:
            array = pa.nulls(len(array), field.type)
        elif field.name not in table.lineage:
            array = _of_type(array, field.name, change)
        if field.name in needed and array.null_count and pa.types.is_string(field.type):
            array = pc.fill_null(array, "")
        made.append(array)
    return pa.table(made, schema=rows.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _of_type(array: pa.Array, name: str, change: Change) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return _texts(array, name, change)
    if pa.types.is_list(kind):
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        values = _of_type(array.flatten(), name, change)
        if pa.types.is_string(values.type) and values.null_count:
            values = pc.fill_null(values, "")
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())
    if pa.types.is_struct(kind):
        inner = [_of_type(pc.struct_field(array, field.name), field.name, change) for field in kind]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
    return array


def _texts(array: pa.Array, name: str, change: Change) -> pa.Array:
    """Each distinct text is looked at once."""
    encoded = array.dictionary_encode()
    new = pa.array([change(name, text) for text in encoded.dictionary.to_pylist()], pa.string())
    return new.take(encoded.indices)

"""Rows of any contract, drawn from its columns' types: nulls, nested values and names that are no good as SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema

DAY = date(2026, 1, 5)
DAYS = [DAY + timedelta(days=n) for n in range(3)]
HOSTILE = ["", "o'brien", "a\\", "\\'", "100%", "${env:HOME}", '"', "`", "a\nb", "ü€😀", "-- ", "?", "x'; DROP TABLE t"]
CLUSTERS = ["prod", "o'brien", "a\\' OR 1=1 --"]
_TEXT = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
_INSTANTS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, nested ones null at times."""
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: st.none() | values(field.type) for field in kind})
    if pa.types.is_list(kind):
        return st.lists(st.none() | values(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(_TEXT, values(kind.item_type), max_size=3).map(lambda found: list(found.items()))
    if pa.types.is_integer(kind):
        top = 2 ** (kind.bit_width - 1)
        return st.integers(-top, top - 1)
    return {
        pa.string(): _TEXT,
        pa.bool_(): st.booleans(),
        pa.date32(): st.sampled_from(DAYS),
        pa.float64(): st.floats(allow_nan=False),
        pa.timestamp("us", "UTC"): _INSTANTS,
    }[kind]


def rows(table: Table, *, max_size: int = 12, min_size: int = 0) -> st.SearchStrategy[pa.Table]:
    """Rows of a contract, of few clusters and dates."""
    known = {"cluster": st.sampled_from(CLUSTERS), "event_date": st.sampled_from(DAYS)}
    schema = arrow_schema(table)
    of_column = {
        field.name: known.get(field.name, values(field.type) if not field.nullable else st.none() | values(field.type))
        for field in schema
    }
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    each = st.lists(st.fixed_dictionaries(of_column), max_size=max_size, min_size=min_size)
    return each.map(lambda found: pa.Table.from_pylist(found, schema=nullable))


def as_text(found: pa.Table) -> list[str]:
    """Rows in a form that can be compared, whatever their order."""
    return sorted(repr(row) for row in found.to_pylist())

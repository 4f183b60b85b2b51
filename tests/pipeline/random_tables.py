"""A lake of random rows: few values, so that rows meet, and any of them null where the contract allows it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema

TEXTS = ("a", "b", "c", "o'brien", "x\\y")
DAYS = (date(2026, 1, 5), date(2026, 1, 6))
ROWS = 60


def random_lake(root: str, *, seed: int) -> LocalLake:
    lake, random = LocalLake(root, retention_days=7), Random(seed)
    for table in TABLES.values():
        lake.append(table, _rows(table, random))
    return lake


def one_row(table: Table, **values: Any) -> pa.Table:
    """A row with these values; of the others those that may be null are."""
    schema, random = arrow_schema(table), Random(0)
    row = {field.name: None if field.nullable else _of_type(field.type, random) for field in schema} | values
    return pa.Table.from_pylist([row], pa.schema([field.with_nullable(True) for field in schema]))


def _rows(table: Table, random: Random) -> pa.Table:
    """Rows of which no two have one key, nor one instant of those that rows are told apart by."""
    schema = arrow_schema(table)
    known = dict(table.values)
    found: dict[Any, dict[str, Any]] = {}
    for number in range(ROWS):
        row = {field.name: _value(field, random, known.get(field.name)) for field in schema}
        if table.dated and pa.types.is_timestamp(schema.field(table.date_of).type):
            at = row[table.date_of] or datetime.combine(random.choice(DAYS), datetime.min.time(), UTC)
            row[table.date_of] = at + timedelta(milliseconds=number)
            row["event_date"] = row[table.date_of].date()
        found[repr([row[name] for name in table.key])] = row
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist(list(found.values()), nullable)


def _value(field: pa.Field, random: Random, known: tuple[str, ...] | None = None) -> Any:
    if field.nullable and random.random() < 0.2:
        return None
    return random.choice(known) if known else _of_type(field.type, random)


def _of_type(kind: pa.DataType, random: Random) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _value(field.with_nullable(False), random) for field in kind}
    if pa.types.is_list(kind):
        return [_of_type(kind.value_type, random) for _ in range(random.randrange(3))]
    if pa.types.is_map(kind):
        return [(text, _of_type(kind.item_type, random)) for text in random.sample(TEXTS, random.randrange(3))]
    if pa.types.is_timestamp(kind):
        at = datetime.combine(random.choice(DAYS), datetime.min.time(), UTC)
        return at + timedelta(seconds=random.randrange(4) * 30)
    return {
        pa.string(): lambda: random.choice(TEXTS),
        pa.bool_(): lambda: random.random() < 0.5,
        pa.date32(): lambda: random.choice(DAYS),
        pa.float64(): lambda: random.choice((0.0, 0.5, 1.25)),
        pa.int32(): lambda: random.randrange(4),
        pa.int64(): lambda: random.randrange(4),
    }[kind]()

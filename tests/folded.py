"""Rows of the input tables in, what the producer fold makes of them out. No Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import groupby

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from hindsight.schemas import PRODUCER_INSTANCE, SEND_ATTEMPT, TOPIC_ROUTE
from hindsight.udfs.producer.producer_date import Options
from tests.producer_dates import History, fold_dates, in_one, sliced

TABLES_OF_FOLD = {
    "producer_replay": "replay",
    "fault_item_state": "items",
    "broker_availability_window": "windows",
    "send_verdict": "verdicts",
    "send_call": "calls",
    "producer_release": "releases",
    "fleet_minute": "fleet",
    "producer_finding": "findings",
}
INPUTS = (SEND_ATTEMPT, PRODUCER_INSTANCE, TOPIC_ROUTE)
OPTIONS = Options(carry_days=7, clock_tolerance_ms=3, route_stale_s=31, route_valid_s=300)


def rows_of(attempts, starts, routes=()):
    """Rows by table, each key once."""
    lineage = {"ingested_at": datetime(2026, 1, 7, tzinfo=UTC), "run_id": "r"}
    every = zip(INPUTS, (attempts, starts, routes), strict=True)
    return {table.name: _distinct(table, [{**row, **lineage} for row in rows]) for table, rows in every}


def _distinct(table, rows):
    return list({tuple(row.get(name) for name in table.key): row for row in rows}.values())


def epoch_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def history_of(given):
    """What is recorded, as the fold takes it."""
    found = []
    for table in INPUTS:
        rows = sorted(given[table.name], key=lambda row: row["event_date"])
        days = groupby(rows, key=lambda row: row["event_date"])
        found.append({epoch_ms(day): arrow(table, list(own)) for day, own in days})
    return History("c", sorted({day for each in found for day in each}), *found)


def arrow(table, rows):
    schema = pa.schema([field.with_nullable(True) for field in to_arrow_schema(table.columns, timezone="UTC")])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def folded(given, options=OPTIONS, cut=in_one, dates=None):
    """Arrow tables by name, all dates together; ``dates``: those recorded, where others have more."""
    history = history_of(given)
    made = list(fold_dates(history._replace(dates=dates or history.dates), options, cut))
    return {name: pa.concat_tables(getattr(rows, own) for rows in made) for name, own in TABLES_OF_FOLD.items()}


def cut_at(instants):
    """A way to cut each date at these instants, ms of it."""
    return lambda table, midnight_ms: sliced(table, midnight_ms, sorted(instants))


def comparable(table, names=None):
    """Rows of a table as sorted texts."""
    return sorted(repr(row) for row in (table.select(names) if names else table).to_pylist())

"""The rows that the producer fold gives, against those of today's rebuild in Spark: every contract column of each."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from itertools import groupby

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from schemas import PRODUCER_INSTANCE, SEND_ATTEMPT, TABLES, TOPIC_ROUTE
from tests.random_producers import PRODUCERS, lines_of, name_of
from tests.recorded_rows import attempt_rows, captured, start_row
from tests.restless_producers import SEED, attempts_of, starts_of
from tests.transforms import test_verdicts_by_date as by_date
from udfs.fleet_fold import fleet_rows
from udfs.producer_date import Options
from udfs.producer_dates import History, fold_dates

COMPARED = {
    "producer_replay": "replay",
    "fault_item_state": "items",
    "broker_availability_window": "windows",
    "send_verdict": "verdicts",
    "fleet_minute": "fleet",
}
INPUTS = (SEND_ATTEMPT, PRODUCER_INSTANCE, TOPIC_ROUTE)


def epoch_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def arrow(table, rows):
    schema = pa.schema([field.with_nullable(True) for field in to_arrow_schema(table.columns, timezone="UTC")])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def history_of(rows_of_table):
    """Rows of the input tables as the fold takes them."""
    found = []
    for table in INPUTS:
        rows = sorted(rows_of_table.get(table.name, []), key=lambda row: row["event_date"])
        days = groupby(rows, key=lambda row: row["event_date"])
        found.append({epoch_ms(day): arrow(table, list(own)) for day, own in days})
    return History("c", sorted({day for each in found for day in each}), *found)


def folded(rows_of_table, settings):
    """Contract rows of each table, as today's are compared."""
    active = settings.producer_findings.min_sends_per_minute
    options = Options(**settings.replay.model_dump(), min_sends_per_minute=active)
    made = []
    for midnight_ms, rows in fold_dates(history_of(rows_of_table), options):
        made.append({**rows._asdict(), "fleet": fleet_rows("c", midnight_ms, [rows.share])})
    return {name: comparable(name, pa.concat_tables(rows[own] for rows in made)) for name, own in COMPARED.items()}


def comparable(name, table):
    contract = [column for column in TABLES[name].contract_columns if column in table.column_names]
    return sorted(repr(row) for row in table.select(contract).to_pylist())


class Tables:
    """What a rebuild reads, held in memory."""

    def __init__(self, spark, rows):
        self.spark, self.rows = spark, rows

    def read(self, table):
        rows = [tuple(row.get(name) for name in table.columns.names) for row in self.rows.get(table.name, [])]
        return self.spark.createDataFrame(rows, table.columns)


def rebuilt(spark, settings, rows_of_table):
    """The same rows as today's rebuild makes them, all dates at once."""
    from jobs.publication import Stretch
    from jobs.rebuild_availability import compute
    from jobs.run_context import RunContext
    from jobs.transforms.frames import ClusterDate

    days = sorted({row["event_date"] for rows in rows_of_table.values() for row in rows})
    dates = [ClusterDate("c", day) for day in days]
    context, sources = RunContext("nowhere"), frozenset({"producer_hook"})
    stretch = Stretch(
        Tables(spark, rows_of_table), context, dates, {}, {}, {"c": days[-1]}, frozenset(dates), frozenset(), sources
    )
    made = compute(stretch, settings)
    found = {}
    for name in COMPARED:
        own = made[name].select(*TABLES[name].contract_columns).toArrow()
        found[name] = comparable(name, own)
    return found


CAPTURED = (
    *("4.7.1_latoff", "4.7.1_laton", "4.7.1_oneway", "4.7.1_short", "4.9.8_async"),
    *("4.9.8_short", "5.3.3_async", "5.3.3_detect", "5.3.3_laton", "5.3.3_oneway"),
)
LINEAGE = {"ingested_at": datetime(2026, 1, 7, tzinfo=UTC), "run_id": "r"}


def rows_of(attempts, starts, routes=()):
    every = zip(INPUTS, (attempts, starts, routes), strict=True)
    return {table.name: _distinct(table, [{**row, **LINEAGE} for row in rows]) for table, rows in every}


def _distinct(table, rows):
    return list({tuple(row.get(name) for name in table.key): row for row in rows}.values())


def _restless():
    dice = random.Random(SEED)
    return ([row for number in range(36) for row in made(number, dice)] for made in (attempts_of, starts_of))


def _unpaired():
    """The restless ones, of whose retries no line names the last broker."""
    attempts, starts = _restless()
    return [{**row, "last_broker_name": None} for row in attempts], starts


def _captured():
    every = [captured(name) for name in CAPTURED]
    return ([row for each in every for row in each[kind]] for kind in (0, 1))


CASES = {
    "random": lambda: rows_of(
        [row for producer in PRODUCERS for row in attempt_rows(lines_of(*producer))],
        [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS],
    ),
    "two dates": lambda: rows_of(by_date.ATTEMPTS, by_date.STARTS, by_date.ROUTES),
    "restless": lambda: rows_of(*_restless()),
    "unpaired": lambda: rows_of(*_unpaired()),
    "captured": lambda: rows_of(*_captured()),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fold_gives_the_rows_of_todays_rebuild(spark, settings, case):
    given = CASES[case]()
    expected, actual = rebuilt(spark, settings, given), folded(given, settings)
    for name in COMPARED:
        lacks, more = sorted(set(expected[name]) - set(actual[name])), sorted(set(actual[name]) - set(expected[name]))
        assert not lacks and not more, f"{name}: {len(lacks)} missing, first {lacks[:2]}; {len(more)} more, {more[:2]}"
        assert expected[name] == actual[name]
        assert actual[name] or name == "fleet_minute"

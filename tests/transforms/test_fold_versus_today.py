"""The rows that the producer fold gives, against those of the rebuild in Spark: every contract column of each."""

from __future__ import annotations

import pyarrow as pa
import pytest

from conf.settings import ReplayOverride
from schemas import TABLES
from tests import dated_cases
from tests.folded import TABLES_OF_FOLD, comparable, folded, rows_of
from tests.odd_producers import OVERRIDES, odd
from tests.random_producers import PRODUCERS, lines_of, name_of
from tests.recorded_rows import attempt_rows, captured, start_row
from tests.restless_producers import restless, unpaired
from udfs.producer_date import Options
from udfs.producer_finding import Thresholds

CAPTURED = (
    *("4.7.1_latoff", "4.7.1_laton", "4.7.1_oneway", "4.7.1_short", "4.9.8_async"),
    *("4.9.8_short", "5.3.3_async", "5.3.3_detect", "5.3.3_laton", "5.3.3_oneway"),
)


HANDED_OVER = ("producer_replay", "fault_item_state")
OF_FRAMES = [name for name in TABLES_OF_FOLD if name != "send_call"]  # the fold alone gives that


class Tables:
    """What a rebuild reads, held in memory."""

    def __init__(self, spark, rows):
        self.spark, self.rows = spark, rows

    def read(self, table):
        rows = [tuple(row.get(name) for name in table.columns.names) for row in self.rows.get(table.name, [])]
        return self.spark.createDataFrame(rows, table.columns)

    def of_dates(self, table, stored, computed):
        from jobs.transforms.frames import in_dates

        assert not computed
        return self.read(table).where(in_dates(stored))


def rebuilt(spark, settings, given, *, at_once):
    """The rows as today's rebuild makes them, all dates at once or one after the other."""
    from jobs.publication import Stretch
    from jobs.rebuild_by_frames import compute
    from jobs.run_context import RunContext
    from jobs.transforms.frames import ClusterDate

    days = sorted({row["event_date"] for rows in given.values() for row in rows})
    recorded = frozenset(ClusterDate("c", day) for day in days)
    made, before, context = [], {}, RunContext("nowhere")
    for own in [days] if at_once else [[day] for day in days]:
        previous, following = ([day for day in days if day < own[0]], [day for day in days if day > own[-1]])
        stretch = Stretch(
            Tables(spark, given | before),
            context,
            [ClusterDate("c", day) for day in own],
            {"c": previous[-1]} if previous else {},
            {"c": following[0]} if following else {},
            {"c": days[-1]},
            recorded,
            frozenset(),
            frozenset({"producer_hook"}),
        )
        frames = compute(stretch, settings)
        made.append({name: frames[name].select(*TABLES[name].contract_columns).toArrow() for name in OF_FRAMES})
        lineage = {"computed_at": context.started_at, "run_id": "r"}
        before = {name: [row | lineage for row in made[-1][name].to_pylist()] for name in HANDED_OVER}
    return {name: pa.concat_tables(each[name] for each in made) for name in OF_FRAMES}


def _captured():
    every = [captured(name) for name in CAPTURED]
    return ([row for each in every for row in each[kind]] for kind in (0, 1))


CASES = {
    "random": lambda: rows_of(
        [row for producer in PRODUCERS for row in attempt_rows(lines_of(*producer))],
        [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS],
    ),
    "two dates": lambda: rows_of(dated_cases.ATTEMPTS, dated_cases.STARTS, dated_cases.ROUTES),
    "restless": lambda: rows_of(*restless()),
    "unpaired": lambda: rows_of(*unpaired()),
    "captured": lambda: rows_of(*_captured()),
    "odd": lambda: rows_of(*odd()),
    "odd, overridden": lambda: rows_of(*odd(seed=8)),
}


# So small that every rule finds something in a few attempts.
EAGER = {
    "min_sends_per_minute": 1,
    "not_returning_s": 5,
    "not_returning_expected_sends": 1,
    "not_returning_max_percent": 60,
    "fault_off_slow_percentile": 90,
    "fault_off_slow_minutes": 1,
    "over_isolation_max_percent": 50,
}


def settings_of(case, settings):
    if case.endswith("overridden"):
        replay = settings.replay.model_copy(update={"override": tuple(ReplayOverride(**entry) for entry in OVERRIDES)})
        settings = settings.model_copy(update={"replay": replay})
    if case.startswith(("odd", "restless", "random")):
        eager = settings.producer_findings.model_copy(update=EAGER)
        settings = settings.model_copy(update={"producer_findings": eager})
    return settings


LONG = ("random", "restless", "unpaired", "captured", "odd, overridden")  # each some minute


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.soak if c in LONG else ()) for c in CASES])
def test_the_fold_gives_the_rows_of_todays_rebuild(spark, settings, case):
    given, settings = CASES[case](), settings_of(case, settings)
    limits = Thresholds(**settings.producer_findings.model_dump())
    options = Options(**settings.replay.model_dump(), limits=limits)
    # Of odd ones today's rebuild says more at a midnight if it knows the date before than if it is handed over.
    today = rebuilt(spark, settings, given, at_once=not case.startswith("odd"))
    fold = folded(given, options)
    differ = []
    for name in OF_FRAMES:
        columns = TABLES[name].contract_columns
        expected, actual = (comparable(made[name], list(columns)) for made in (today, fold))
        lacks, more = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
        if expected != actual:
            differ.append(f"{name}: {len(expected)} rows, {len(actual)} now; gone {lacks[:3]}; new {more[:3]}")
        assert expected or name in ("fleet_minute", "producer_finding")
    assert not differ, "\n".join(differ)

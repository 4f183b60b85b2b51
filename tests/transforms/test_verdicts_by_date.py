"""Small producers, each a case: both dates rebuilt at once, and one by one from the attempts that matter."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from jobs.delta_tables import Lake
from jobs.publication import Stretch
from jobs.rebuild_by_frames import compute
from jobs.run_context import RunContext
from jobs.transforms.frames import ClusterDate
from schemas import FAULT_ITEM_STATE, PRODUCER_INSTANCE, PRODUCER_REPLAY, SEND_ATTEMPT, TABLES, TOPIC_ROUTE
from tests.dated_cases import ATTEMPTS, CASES, DAYS, ROUTES, STARTS
from tests.dated_checks import *  # noqa: F403  the tests themselves

COMPARED = ("producer_replay", "fault_item_state", "broker_availability_window", "send_verdict", "producer_finding")


@pytest.fixture(scope="module")
def rebuilt(spark, settings, tmp_path_factory):
    """Rows of both dates at once, and of one after the other from the attempts that matter: table, case -> rows."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")), retention_days=1)
    context = RunContext("")
    lineage = {"ingested_at": context.started_at, "run_id": "r"}
    for table, rows in ((SEND_ATTEMPT, ATTEMPTS), (PRODUCER_INSTANCE, STARTS), (TOPIC_ROUTE, ROUTES)):
        stored = [tuple({**row, **lineage}.get(name) for name in table.columns.names) for row in rows]
        lake.append(table, spark.createDataFrame(stored, table.columns))
    both = [ClusterDate("c", day) for day in DAYS.values()]
    few = settings.model_copy(
        update={"pruning": settings.pruning.model_copy(update={"from_attempts": 0, "below_share": 1.0})}
    )

    def of(dates, previous, following, chosen):
        known = ({"c": DAYS[previous]} if previous else {}, {"c": DAYS[following]} if following else {})
        sources = frozenset({"producer_hook"})
        return compute(
            Stretch(lake, context, dates, *known, {"c": DAYS[6]}, frozenset(both), frozenset(), sources), chosen
        )

    together = _by_case(of(both, None, None, settings))
    first = of(both[:1], None, 6, few)
    for table in (PRODUCER_REPLAY, FAULT_ITEM_STATE):
        lake.append(table, first[table.name])
    second = of(both[1:], 5, None, few)
    return together, _by_case({name: first[name].unionByName(second[name]) for name in COMPARED})


def _by_case(made):
    found = {}
    for name in COMPARED:
        contract = F.to_json(F.struct(*TABLES[name].contract_columns))
        for row in made[name].select("client_id", contract.alias("row")).collect():
            found.setdefault((name, row.client_id), []).append(row.row)
    return {key: sorted(rows) for key, rows in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_both_dates_at_once_give_what_one_after_the_other_gives(rebuilt, case):
    together, one_by_one = ({name: made.get((name, case), []) for name in COMPARED} for made in rebuilt)
    assert one_by_one == together
    assert together["producer_replay"]

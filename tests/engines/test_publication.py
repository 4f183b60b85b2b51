"""The shared course of a derived job on this machine's engine, and on a lake that changes engine between two runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product

import pyarrow as pa
import pytest

from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_upkeep import LocalUpkeep
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.producers.broker_naming import names_by_date
from hindsight.jobs.publishing.publication import Derivation, publish
from hindsight.jobs.publishing.publication_record import half_published, renew
from hindsight.jobs.publishing.quality_gate import GateFailedError
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import GROUP_DRIFT_STATE, INGESTED_FILE, PUBLICATION, SEND_ATTEMPT, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landing_formats import TRACE
from tests.pipeline.test_quality_gate import sound

DAYS = [date(2026, 1, 5) + timedelta(days=n) for n in range(3)]
CLUSTERS = ["o'brien", "a\\"]
AT = datetime(2026, 1, 5, 0, 0, 0, 123_457, tzinfo=UTC)


def arrow(table: Table, *rows: dict) -> pa.Table:
    return pa.Table.from_pylist([sound(table, **row) for row in rows], arrow_schema(table))


def take_in(lake, file: str, days: list[date]) -> None:
    of_file = {"format": "f", "file": file, "event_dates": days}
    lake.append(INGESTED_FILE, arrow(INGESTED_FILE, *({"cluster": c, **of_file} for c in CLUSTERS)))


def states(cluster: str, day: date) -> list[dict]:
    evidence = [{"incident_id": "i'\\", "lines": ["a:1", None, "ü😀"]}, None]
    return [
        {"cluster": cluster, "event_date": day, "consumer_group": f"g{n}", "last_round_at": AT, "evidence": evidence}
        for n in range(3)
    ]


def computed(stretch) -> dict[str, pa.Table]:
    found = [row for at in stretch.dates for row in states(*at)]
    return {GROUP_DRIFT_STATE.name: arrow(GROUP_DRIFT_STATE, *found)}


def derivation(compute=computed) -> Derivation:
    table = GROUP_DRIFT_STATE
    waiting = (table, Where(values={"consumer_group": ["g2"], "cluster": CLUSTERS[:1]}))
    return Derivation("a_job", ("f",), (INGESTED_FILE,), (table,), (table,), "settings", compute, (waiting,))


def run(lake, compute=computed) -> tuple[int, int]:
    done = publish(lake, RunContext("landing"), derivation(compute))
    return done.dates, done.rows


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    return LocalLake(str(tmp_path / "a lake's own ü"), retention_days=7)


def test_dates_are_published_once_and_anew_when_a_file_touches_them(lake):
    take_in(lake, "one", DAYS[:2])
    # An open row waits for a later date's record: that of the first date has come at once.
    assert run(lake) == (4, 12)
    assert run(lake) == (1, 3)
    assert run(lake) == (1, 3)
    assert len(lake.rows(GROUP_DRIFT_STATE)) == 12
    take_in(lake, "two", DAYS[2:])
    assert run(lake)[0] >= 2
    assert len(lake.rows(GROUP_DRIFT_STATE)) == 18
    newest = max(lake.rows(PUBLICATION).to_pylist(), key=lambda row: row["number"])
    assert newest["number"] == 4
    assert dict(newest["table_versions"])["group_drift_state"] == lake.version(GROUP_DRIFT_STATE)


def test_a_date_that_closes_otherwise_carries_the_next_one_with_it_and_an_equal_one_does_not(lake):
    take_in(lake, "one", DAYS)
    plain = replace(derivation(), waiting=())
    assert publish(lake, RunContext("landing"), plain).dates == 6

    def otherwise(stretch) -> dict[str, pa.Table]:
        found = [row | {"evidence": [None]} for at in stretch.dates for row in states(*at)]
        return {GROUP_DRIFT_STATE.name: arrow(GROUP_DRIFT_STATE, *found)}

    for file, compute, dates in (("two", computed, 2), ("three", otherwise, 6)):
        take_in(lake, file, DAYS[:1])
        assert publish(lake, RunContext("landing"), replace(plain, compute=compute)).dates == dates


def test_dates_whose_stored_rows_were_corrected_and_dates_that_rows_spill_into_count(lake):
    take_in(lake, "one", DAYS[:1])
    at = ClusterDate(CLUSTERS[0], DAYS[0])

    def spilling(stretch) -> dict[str, pa.Table]:
        found = [row for at in stretch.dates for day in DAYS[:2] for row in states(at.cluster, day)]
        return {GROUP_DRIFT_STATE.name: arrow(GROUP_DRIFT_STATE, *found)}

    plain = replace(derivation(spilling), waiting=())
    assert publish(lake, RunContext("landing"), plain).dates == 4
    assert publish(lake, RunContext("landing"), plain).dates == 0
    corrected = replace(plain, corrected=lambda _: {at: "named"})
    assert [publish(lake, RunContext("landing"), corrected).dates for _ in range(2)] == [2, 0]


def test_a_broken_candidate_is_not_published(lake):
    take_in(lake, "one", DAYS[:1])

    def twice(stretch) -> dict[str, pa.Table]:
        rows = computed(stretch)
        return {name: pa.concat_tables([of, of]) for name, of in rows.items()}

    with pytest.raises(GateFailedError, match="expect_compound_columns_to_be_unique"):
        run(lake, twice)
    assert len(lake.rows(GROUP_DRIFT_STATE)) == 0 and not lake.exists(PUBLICATION)


def test_a_run_that_is_broken_off_between_commit_and_record_is_healed(lake, monkeypatch):
    take_in(lake, "one", DAYS[:1])
    with monkeypatch.context() as broken:
        broken.setattr("hindsight.jobs.publishing.publication.record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(lake)
    assert len(half_published(lake, "a_job")) == 2
    assert run(lake) == (2, 6)
    assert half_published(lake, "a_job") == [] and len(lake.rows(GROUP_DRIFT_STATE)) == 6


@pytest.mark.parametrize("first", ["local", pytest.param("spark", marks=pytest.mark.soak)])
def test_a_lake_that_changes_engine_computes_nothing_that_has_not_changed(lake, spark, first):
    """Each date begins with what the one before handed over: the digests of the engines must be one."""
    from hindsight.jobs.engines.delta_tables import Lake

    engines = {"local": lake, "spark": Lake(spark, lake.root, retention_days=7)}
    one, other = engines.pop(first), next(iter(engines.values()))
    plain = replace(derivation(), waiting=())
    context = RunContext("landing")
    take_in(one, "one", DAYS)
    assert publish(one, context, plain).dates == 6
    assert (publish(other, context, plain).dates, publish(one, context, plain).dates) == (0, 0)
    take_in(other, "two", DAYS[:1])
    assert publish(other, context, plain).dates == 2
    assert publish(one, context, plain).dates == 0
    assert len(one.rows(GROUP_DRIFT_STATE)) == len(other.rows(GROUP_DRIFT_STATE)) == 18
    attempts = [
        {"cluster": c, "event_date": d, "source": TRACE, "broker_address": a, "broker_name": b, "msg_id": f"{a}{b}"}
        for c, d, a, b in product(CLUSTERS, DAYS, ("x", None), ("b", None))
    ]
    trace = {"format": TRACE, "file": "t", "event_dates": DAYS}
    one.append(INGESTED_FILE, arrow(INGESTED_FILE, *({**trace, "cluster": c} for c in CLUSTERS)))
    one.append(SEND_ATTEMPT, arrow(SEND_ATTEMPT, *attempts))
    assert names_by_date(one) == names_by_date(other) and len(names_by_date(one)) == 6


def test_what_maintenance_alone_moved_is_published_anew(lake):
    for file in ("one", "two"):
        take_in(lake, file, DAYS[:1])
    run(lake)
    renew(lake, "too early")
    LocalUpkeep(lake).compact(INGESTED_FILE)
    renew(lake, "later")
    before, after = sorted(lake.rows(PUBLICATION).to_pylist(), key=lambda row: row["number"])
    assert (after["run_id"], after["dates"]) == ("later", before["dates"])
    assert dict(after["table_versions"])["ingested_file"] == dict(before["table_versions"])["ingested_file"] + 1
    take_in(lake, "three", DAYS[:1])
    LocalUpkeep(lake).compact(INGESTED_FILE)
    renew(lake, "rows have come")
    assert len(lake.rows(PUBLICATION)) == 2

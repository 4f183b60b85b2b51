"""The shared course of a derived job on this machine's engine, and on a lake that changes engine between two runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.ledger import files_of_dates
from hindsight.jobs.producers.broker_naming import names_by_date
from hindsight.jobs.publishing import publication, quality_gate
from hindsight.jobs.publishing.publication import Derivation, publish
from hindsight.jobs.publishing.publication_record import dates_of, forget, half_published, in_order, renew
from hindsight.jobs.publishing.quality_gate import GateFailedError
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import GROUP_DRIFT_STATE, INGESTED_FILE, PUBLICATION, QUALITY_RESULT, SEND_ATTEMPT, Table
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


@pytest.fixture
def looked_at(monkeypatch) -> list[ClusterDate]:
    """The dates whose files' names were read."""
    found: list[ClusterDate] = []

    def noted(rows):
        for of in files_of_dates(rows):
            yield of._replace(names=lambda of=of: found.append(of.at) or of.names())

    monkeypatch.setattr(publication, "files_of_dates", noted)
    return found


def plain() -> Derivation:
    return replace(derivation(), waiting=())


@pytest.mark.parametrize("note", [None, "", "{", "[]", '{"rests_on": 1}', '{"rests_on": "settings", "digests": 3}'])
def test_names_are_read_of_dates_alone_that_files_have_touched_since(lake, looked_at, note):
    def run_again() -> int:
        looked_at.clear()
        return publish(lake, RunContext("landing"), plain()).dates

    take_in(lake, "one", DAYS[:2])
    take_in(lake, "two", DAYS[1:])
    every = [ClusterDate(cluster, day) for cluster in sorted(CLUSTERS) for day in DAYS]
    assert run_again() == len(every) and looked_at == every
    assert run_again() == 0 and looked_at == []
    take_in(lake, "three", DAYS[1:2])
    assert run_again() == 2 and looked_at == [ClusterDate(cluster, DAYS[1]) for cluster in sorted(CLUSTERS)]
    if note is not None:  # one that is damaged costs time and changes nothing
        lake.note("files_a_job", note)
        assert run_again() == 0 and looked_at == every


def test_of_what_rests_on_other_settings_nothing_is_known(lake, looked_at):
    take_in(lake, "one", DAYS[:1])
    publish(lake, RunContext("landing"), plain())
    looked_at.clear()
    assert publish(lake, RunContext("landing"), replace(plain(), settings_fingerprint="others")).dates == 2
    assert len(looked_at) == 2


NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
PUBLISHED = st.lists(
    st.tuples(st.integers(-9, 9), st.sets(st.sampled_from(["a", "b", "c", "d"]), max_size=2), st.sampled_from("xy")),
    max_size=12,
)


@given(PUBLISHED)
def test_what_is_forgotten_is_missing_at_no_instant_that_can_be_asked_for(tmp_path_factory, published):
    lake = LocalLake(str(tmp_path_factory.mktemp("lake")), retention_days=7)
    lake.create(PUBLICATION)
    rows = []
    for number, (day, clusters, job) in enumerate(sorted(published, key=lambda one: one[0]), 1):
        prints = dict.fromkeys(("files_fingerprint", "opening_fingerprint", "closing_fingerprint"), str(number))
        dates = [{"cluster": name, "event_date": DAYS[0], **prints, "is_open": False} for name in clusters]
        at = {"number": number, "published_at": NOON + timedelta(days=day), "dates": dates, "table_versions": []}
        rows.append({"run_id": str(number), "job": job, "rows_written": 0, "schema_version": 1, **at})
    lake.append(PUBLICATION, pa.Table.from_pylist(rows, arrow_schema(PUBLICATION)))

    def state_at(day: int) -> tuple:
        until = [row for row in lake.rows(PUBLICATION).to_pylist() if row["published_at"] <= NOON + timedelta(days=day)]
        last = {(row["job"], *at): of.files for row in in_order(until) for at, of in dates_of(row)}
        return sorted(last.items()), {row["job"]: row["number"] for row in in_order(until)}

    asked = range(10)
    before = [state_at(day) for day in asked]
    forget(lake, NOON)
    assert [state_at(day) for day in asked] == before
    left = [row for row in lake.rows(PUBLICATION).to_pylist() if row["published_at"] < NOON]
    told = {(row["job"], *at) for row in left for at, _ in dates_of(row)}
    assert len(left) <= len(told) + len({row["job"] for row in left})


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 6), st.integers(-3, 3)), max_size=12, unique=True))
def test_of_old_checks_the_last_ones_of_each_job_stay(tmp_path_factory, checked):
    lake = LocalLake(str(tmp_path_factory.mktemp("lake")), retention_days=7)
    lake.create(QUALITY_RESULT)
    rows = [
        {"run_id": f"r{n}", "job": job, "number": n, "checked_at": NOON + timedelta(days=day), "expectation": str(day)}
        for job, n, day in checked
    ]
    lake.append(QUALITY_RESULT, arrow(QUALITY_RESULT, *rows))
    last = {job: max(n for other, n, _ in checked if other == job) for job, _, _ in checked}
    quality_gate.forget(lake, NOON)
    left = lake.rows(QUALITY_RESULT, ["job", "number", "expectation"]).to_pylist()
    stays = [(job, n, str(day)) for job, n, day in checked if day >= 0 or n == last[job]]
    assert sorted((row["job"], row["number"], row["expectation"]) for row in left) == sorted(stays)


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
    lake.compact(INGESTED_FILE)
    renew(lake, "later")
    before, after = sorted(lake.rows(PUBLICATION).to_pylist(), key=lambda row: row["number"])
    assert (after["run_id"], after["dates"]) == ("later", before["dates"])
    assert dict(after["table_versions"])["ingested_file"] == dict(before["table_versions"])["ingested_file"] + 1
    take_in(lake, "three", DAYS[:1])
    lake.compact(INGESTED_FILE)
    renew(lake, "rows have come")
    assert len(lake.rows(PUBLICATION)) == 2

"""However the rows of producers' dates come in, runs that go on from what others kept find what one run finds."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines import changed_files
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.producers import producer_cut, producer_derivation
from hindsight.jobs.producers.producer_derivation import DERIVED
from hindsight.jobs.publishing import kept_walks
from hindsight.jobs.rebuild_availability import run_on
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE, LOST_LINES, PRODUCER_INSTANCE, SEND_ATTEMPT, TABLES, TOPIC_ROUTE
from hindsight.udfs.fault_tolerance import profile_for
from hindsight.udfs.producer import producer_date
from hindsight.udfs.producer.kept_fold import CannotGoOnError
from hindsight.udfs.producer.weighed_samples import Samples
from tests.engines.test_drift_buckets import filled
from tests.finding_cases import EAGER
from tests.folded import rows_of
from tests.odd_producers import odd
from tests.pipeline.interrupted_lake import BrokenOffError, broken_off
from tests.random_examples import SOAKING
from tests.simulated_producer import BEGIN, DAY, recorded

BATCHES = 6 if SOAKING else 4
AT = datetime(2026, 1, 7, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]
Run = Callable[[LocalLake, Any], None]
SOAK = pytest.mark.soak
WHO = {"producer_group": "g", "client_id": "p0"}
MORE = [("contradicting", 0.01), ("steady", 0), ("steady", 0.01), ("partly recorded", 0)]
MORE += [("in doubt", 0.001), ("odd", 0), ("odd", 0.01)]
SEEDS = [1, *(pytest.param(seed, marks=SOAK) for seed in range(2, 20))]


def steady(releases=("4.9.8", "4.7.1", "5.3.3"), seed=1, seconds=200, between=1_200, **how) -> Rows:
    """Producers that choose as their release does, for some minutes."""
    attempts, starts = [], []
    for number, release in enumerate(releases):
        who = {"cluster": "c", "producer_group": "g", "client_id": f"p{number}"}
        made = recorded(profile_for(release), seed + number, seconds=seconds, between=between, **how)
        attempts += [row | who for row in made]
        profile = profile_for(release)
        told = {"client_version": release, "latency_fault_enabled": True, "detector_enabled": False}
        told |= {"latency_max_ms": list(profile.latency_max_ms), "not_available_ms": list(profile.not_available_ms)}
        starts.append(
            who | told | {"event_date": BEGIN.date(), "started_at": BEGIN, "source_file": "f", "source_line": 1}
        )
    return rows_of(attempts, starts)


def partly_recorded() -> Rows:
    """Of one of them nobody recorded the release: it is told by its whole date."""
    rows = steady(("4.9.8", "4.7.1", "4.9.8"))
    return {**rows, "producer_instance": rows["producer_instance"][:-1]}


def odd_ones() -> Rows:
    """Of hooks alone, which name the broker before a retry's: where others tell too, no date goes on."""
    rows = rows_of(*odd(count=20))
    attempts = [row for row in rows["send_attempt"] if row["source"] == "producer_hook"]
    first = {row["msg_id"]: row["broker_name"] for row in reversed(attempts)}
    again = [{**row, "last_broker_name": first[row["msg_id"]] if row["attempt"] else None} for row in attempts]
    return {**rows, "send_attempt": again}


def contradicting() -> Rows:
    """Their ladder, as recorded, avoids brokers for longer than they do: they are told by their whole date."""
    rows = steady(("4.9.8", "4.7.1", "4.9.8"))
    short = {"latency_max_ms": [50, 100, 550], "not_available_ms": [0, 0, 300_000]}
    return {**rows, "producer_instance": [row | short for row in rows["producer_instance"][:2]]}


CASES = {
    "contradicting": contradicting,
    "steady": steady,
    "partly recorded": partly_recorded,
    "in doubt": lambda: steady(seed=9, lost=0.01),
    "odd": odd_ones,
}


@pytest.fixture(autouse=True)
def often_cut(monkeypatch):
    """Dates of minutes, cut every minute or two, in some buckets."""
    monkeypatch.setattr(kept_walks, "HOUR_US", 60_000_000 if SOAKING else 100_000_000)
    monkeypatch.setattr(producer_derivation, "_buckets", lambda files: 3 if SOAKING else 2)


@pytest.fixture(scope="module")
def settings():
    """Brokers are watched for half a minute."""
    loaded = load_settings(None)
    findings = loaded.producer_findings.model_copy(update=EAGER | {"not_returning_within_s": 30})
    return loaded.model_copy(update={"producer_findings": findings})


@pytest.fixture
def folds(monkeypatch) -> Counter[str]:
    """How many folds went on, and how many could not."""
    found: Counter[str] = Counter()
    check = producer_date.check_belief

    def noted(*given) -> None:
        try:
            check(*given)
        except CannotGoOnError:
            found["could not"] += 1
            raise
        found["went on"] += 1

    monkeypatch.setattr(producer_date, "check_belief", noted)
    part = Samples._with_part

    def weighed(samples, told, day, judge, since, until):
        found["weighed on"] += bool(told.rests_on and since > 0)
        return part(samples, told, day, judge, since, until)

    monkeypatch.setattr(Samples, "_with_part", weighed)
    return found


def instant_of(row: dict[str, Any]) -> datetime:
    return row.get("end_at") or row.get("started_at") or row.get("told_at") or row["captured_at"]


def batches(rows: Rows, draw: random.Random, late: float) -> list[Rows]:
    """The rows in the order in which they end, some of them late."""
    order = sorted(((instant_of(row), table, n) for table, own in rows.items() for n, row in enumerate(own)))
    found: list[Rows] = [defaultdict(list) for _ in range(BATCHES)]
    for place, (_, table, number) in enumerate(order):
        batch = place * BATCHES // len(order) + (draw.randint(1, BATCHES) if draw.random() < late else 0)
        found[min(batch, BATCHES - 1)][table].append(rows[table][number])
    return [batch for batch in found if batch]


def land(lake: LocalLake, batch: Rows, number: int) -> None:
    for table, rows in batch.items():
        names = TABLES[table].schema.names
        lake.append(TABLES[table], filled(table, [{n: r[n] for n in names if r.get(n) is not None} for r in rows]))
    instants = [at for rows in batch.values() for row in rows for at in (row.get("begin_at"), instant_of(row)) if at]
    days = sorted({(at + timedelta(minutes=step)).date() for at in instants for step in (-11, 0, 11)})
    noted = {"cluster": "c", "format": "producer_hook", "file": f"f/{number}", "event_dates": days}
    noted |= {"complete": True, "ingested_at": AT, "run_id": "r", "read": 1}
    lake.append(INGESTED_FILE, filled(INGESTED_FILE.name, [noted]))


def rebuild(lake: LocalLake, settings) -> None:
    with LocalRunner(1) as runner:
        run_on(lake, runner, settings, RunContext("landing"))


def contents(lake: LocalLake) -> dict[str, list[str]]:
    return {table.name: sorted(map(repr, lake.rows(table, table.contract_columns).to_pylist())) for table in DERIVED}


def in_one_run(lake: LocalLake, rows: Rows, settings) -> dict[str, list[str]]:
    land(lake, rows, 0)
    rebuild(lake, settings)
    return contents(lake)


def run_by_run(lake: LocalLake, arriving: Sequence[Rows], settings, run: Run = rebuild) -> dict[str, list[str]]:
    for batch in arriving:
        land(lake, batch, lake.rows(INGESTED_FILE, ["file"]).num_rows)
        run(lake, settings)
    return contents(lake)


@pytest.mark.parametrize(
    ("case", "late"),
    [("partly recorded", 0.001), ("contradicting", 0), *(pytest.param(*both, marks=SOAK) for both in MORE)],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_go_on_find_what_one_run_finds(lake_at, settings, monkeypatch, folds, case, seed, late):
    rows = CASES[case]()
    if case == "odd":  # over days
        monkeypatch.setattr(kept_walks, "HOUR_US", 6 * 3_600_000_000)
    whole = in_one_run(lake_at("whole"), rows, settings)
    assert not {*folds} - {"weighed on"} and whole["broker_availability_window"]
    assert not folds["weighed on"]
    found = run_by_run(lake_at("cut"), batches(rows, random.Random(seed), late), settings)
    for name, expected in whole.items():
        assert found[name] == expected, name
    assert folds["went on"] or case == "contradicting"
    assert folds["weighed on"] or (case, late) != ("contradicting", 0)  # late rows are weighed anew


def few() -> Rows:
    return steady(("4.9.8", "5.3.3"), seconds=200, between=2_000)


def lost(rows: Rows) -> tuple[str, dict[str, Any]]:
    return LOST_LINES.name, {**WHO, "told_at": BEGIN + timedelta(seconds=100), "lines": 3}


def started(rows: Rows) -> tuple[str, dict[str, Any]]:
    return PRODUCER_INSTANCE.name, {**rows["producer_instance"][0], "started_at": BEGIN + timedelta(seconds=40)}


def started_otherwise(rows: Rows) -> tuple[str, dict[str, Any]]:
    """Its choices are not those of the release that it is said to have been started with."""
    ladder = {"latency_max_ms": [1, 2, 3], "not_available_ms": [60_000, 120_000, 240_000]}
    told = {**rows["producer_instance"][0], "started_at": BEGIN - timedelta(seconds=1), "client_version": "4.7.1"}
    return PRODUCER_INSTANCE.name, told | ladder


def routed(rows: Rows) -> tuple[str, dict[str, Any]]:
    read = {"captured_at": BEGIN + timedelta(seconds=10), "topic": "T", "broker_name": "broker-a", "perm": 6}
    return TOPIC_ROUTE.name, WHO | read | {"write_queue_nums": 4, "has_master": True}


def sent_elsewhere(rows: Rows) -> tuple[str, dict[str, Any]]:
    return SEND_ATTEMPT.name, {**rows["send_attempt"][-1], "broker_name": "broker-z", "msg_id": "elsewhere"}


def taken_against_the_rules(rows: Rows) -> tuple[str, dict[str, Any]]:
    """Right after the last send that made its producer avoid the broker."""
    slow = max((r for r in rows["send_attempt"] if r["latency_ms"] > 700), key=instant_of)
    at = {"begin_at": slow["end_at"] + timedelta(seconds=5), "end_at": slow["end_at"] + timedelta(seconds=5)}
    return SEND_ATTEMPT.name, slow | at | {
        "msg_id": "against",
        "latency_ms": 0,
        "outcome": "SEND_OK",
        "exception": None,
    }


@pytest.fixture(scope="module")
def begun(settings, tmp_path_factory) -> Callable[[LocalLake], None]:
    """Makes a lake what the first batches of the few gave run by run, worked out once."""

    @cache
    def made() -> Path:
        root = tmp_path_factory.mktemp("begun") / "lake"
        run_by_run(LocalLake(str(root), retention_days=7), batches(few(), random.Random(1), 0)[:-2], settings)
        return root

    return lambda lake: shutil.copytree(made(), lake.root, dirs_exist_ok=True)


@pytest.mark.parametrize("change", [lost, started, routed, sent_elsewhere, taken_against_the_rules])
def test_what_changes_what_was_believed_is_folded_whole(begun, lake_at, settings, folds, change):
    rows, lake = few(), lake_at("cut")
    begun(lake)
    folds.clear()
    table, row = change(rows)
    row = {"cluster": "c", "event_date": BEGIN.date(), "ingested_at": AT, "run_id": "r", **row}
    last_but_one, last = batches(rows, random.Random(1), 0)[-2:]
    (last_but_one if table != SEND_ATTEMPT.name else last).setdefault(table, []).append(row)
    both = {**rows, table: [*rows.get(table, ()), row]}
    whole = in_one_run(lake_at("whole"), both, settings)
    assert run_by_run(lake, [last_but_one, last], settings) == whole
    assert folds["went on"] and (folds["could not"] or change is taken_against_the_rules)


def over_midnight(rows: Rows) -> Rows:
    """Some that last some minutes, two of which lie before a midnight, and so what ``lost`` tells."""
    later = DAY + timedelta(days=1) - BEGIN - timedelta(seconds=120)
    found: Rows = defaultdict(list)
    for table, own in rows.items():
        for row in own:
            moved = {name: value + later if isinstance(value, datetime) else value for name, value in row.items()}
            found[table].append(moved | {"event_date": moved[TABLES[table].date_of].date()})
    return found


# Each of these changes is held against one run within a date, too.
@pytest.mark.parametrize(
    "change", [None, started_otherwise, *(pytest.param(one, marks=SOAK) for one in (lost, started, routed))]
)
def test_runs_around_midnight_go_on_although_the_date_before_ends_at_no_new_cut(
    lake_at, settings, monkeypatch, folds, change
):
    """The first attempts of a date bear on the one before, run after run: what was kept of that stays.

    ``change``: what the second run after midnight brings of the date before, that changes what was believed of it.
    """
    monkeypatch.setattr(kept_walks, "HOUR_US", 6 * 3_600_000_000)
    few = steady(("4.9.8", "5.3.3"), seconds=220, between=2_000)
    rows, arriving = over_midnight(few), defaultdict[int, Rows](lambda: defaultdict(list))
    for table, own in rows.items():
        for row in own:
            arriving[max(0, 1 + (instant_of(row) - DAY - timedelta(days=1)) // timedelta(seconds=30))][table].append(
                row
            )
    if change is not None:
        table, row = change(few)
        row = over_midnight({table: [{"cluster": "c", "ingested_at": AT, "run_id": "r", **row}]})[table][0]
        arriving[2][table].append(row)
        rows[table].append(row)
    lake = lake_at("cut")
    for number in sorted(arriving):
        folds.clear()
        land(lake, arriving[number], number)
        rebuild(lake, settings)
        assert folds["went on"] or not number or change is not None, number
    assert folds["went on"] and not folds["could not"]  # what a change made wrong is not kept for good
    assert contents(lake) == in_one_run(lake_at("whole"), rows, settings)


def test_a_run_that_goes_on_cuts_only_the_last_rows_of_a_file_of_many_runs(lake_at, settings, monkeypatch, folds):
    cut, lake, rows = [], lake_at("runs"), steady(("4.9.8", "5.3.3"), seconds=300)
    of_cluster = producer_cut._of_cluster

    def noted(own, *rest):
        cut.append(len(own))
        return of_cluster(own, *rest)

    monkeypatch.setattr(changed_files, "MOST_SMALL_FILES", 2)
    monkeypatch.setattr(producer_cut, "_of_cluster", noted)
    *earlier, last = batches(rows, random.Random(1), 0)
    run_by_run(lake, earlier, settings)
    cut.clear()
    land(lake, last, len(earlier))
    rebuild(lake, settings)
    assert len(lake.files(SEND_ATTEMPT)) == 2 and folds["went on"]
    assert len(last["send_attempt"]) < sum(cut) < 0.9 * len(rows["send_attempt"])
    assert contents(lake) == in_one_run(lake_at("one run"), rows, settings)


def test_what_is_kept_may_be_damaged_and_a_run_broken_off(lake_at, settings, folds):
    rows, draw, runs = few(), random.Random(1), count()
    whole = in_one_run(lake_at("whole"), rows, settings)

    def badly(lake: LocalLake, settings) -> None:
        kept = sorted(Path(lake.root, "_producer_walks").rglob("*.arrow"))
        for file in draw.sample(kept, len(kept) // 5 * (next(runs) % 2)):  # before every other run
            file.write_bytes(b"") if draw.random() < 0.5 else file.unlink()
        try:
            with broken_off(draw.randint(1, 40)):
                rebuild(lake, settings)
        except BrokenOffError:
            rebuild(LocalLake(lake.root, retention_days=7), settings)

    assert run_by_run(lake_at("cut"), batches(rows, draw, 0), settings, badly) == whole
    assert folds["went on"]

"""However the rows of a date come in, the runs that go on from what others kept find what one run over all finds."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.drift import kept_groups
from hindsight.jobs.drift.drift_cut import END_SCHEMA
from hindsight.jobs.drift.kept_groups import KEPT_TOLD, SHARE, CutRows
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.flag_allocation_drift import run_on
from hindsight.jobs.publishing import kept_walks
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE, PUBLICATION, TABLES
from hindsight.udfs.rebalances.round_shares import ShareRound
from tests import random_groups
from tests.engines.test_drift_buckets import contents, filled
from tests.pipeline.interrupted_lake import BrokenOffError, broken_off
from tests.random_examples import SOAKING
from tests.random_groups import MIDNIGHT, RandomGroups

OF_ROUNDS = (
    "snapshot_capture", "topic_route", "consumer_heartbeat", "queue_ownership", "queue_progress", "topic_status",
)  # fmt: skip
ROUNDS, BATCHES = (70, 8) if SOAKING else (30, 4)
Batch = dict[str, list[dict[str, Any]]]
SOAK = pytest.mark.soak
SEEDS = [1, *(pytest.param(seed, marks=SOAK) for seed in range(2, 40))]


@pytest.fixture(autouse=True)
def often_cut(monkeypatch):
    """Dates of minutes: cut every two."""
    monkeypatch.setattr(kept_walks, "HOUR_US", 120_000_000)
    monkeypatch.setattr(random_groups, "ROUNDS", ROUNDS)


@pytest.fixture(scope="module")
def settings():
    """Rounds look back for one minute."""
    loaded = load_settings(None)
    drift = loaded.drift.model_copy(update={"lookback_s": 60, "progress_valid_s": 40})
    return loaded.model_copy(update={"drift": drift})


@pytest.fixture
def went_on(monkeypatch) -> list[datetime]:
    """Where the walks of the test's runs went on."""
    found: list[datetime] = []
    keep = kept_groups.Walks.keep

    def noted(self, *given) -> None:
        found.extend(self.since().values())
        keep(self, *given)

    monkeypatch.setattr(kept_groups.Walks, "keep", noted)
    return found


def drawn(seed: int) -> Batch:
    """What a collector reads of a cluster over a midnight."""
    tables = RandomGroups("c", seed).tables
    return {name: [row for row in tables[name] if row["collector"] != "mqadmin"] for name in OF_ROUNDS}


def batches(rows: Batch, draw: random.Random, late: float) -> list[Batch]:
    """The rows in the order of their reads, some of them late."""
    first, last = (MIDNIGHT + timedelta(seconds=sign * ROUNDS * 15 + 60) for sign in (-1, 1))
    found: list[Batch] = [defaultdict(list) for _ in range(BATCHES)]
    for table, of_table in rows.items():
        for row in of_table:
            place = int((row["captured_at"] - first) / (last - first) * BATCHES)
            place += draw.randint(1, BATCHES) if draw.random() < late else 0
            found[min(max(place, 0), BATCHES - 1)][table].append(row)
    return found


def land(lake: LocalLake, batch: Batch, number: int) -> None:
    for table, rows in batch.items():
        lake.append(TABLES[table], filled(table, rows))
    # A capture bears on its own round, the one before, and on rounds that look back on it.
    reads = [row["captured_at"] for rows in batch.values() for row in rows]
    days = sorted({(at + timedelta(seconds=s)).date() for at in reads for s in (-120, 0, 120)})
    noted = {"cluster": "c", "format": "admin_snapshots", "file": f"f/{number}", "event_dates": days}
    noted |= {"complete": True, "ingested_at": MIDNIGHT, "run_id": "r", "read": 1}
    lake.append(INGESTED_FILE, filled(INGESTED_FILE.name, [noted]))


def flag(lake: LocalLake, settings) -> None:
    with LocalRunner(1) as runner:
        run_on(lake, runner, settings, RunContext("landing"))


def in_one_run(lake: LocalLake, rows: Batch, settings) -> dict[str, list[str]]:
    land(lake, rows, 0)
    flag(lake, settings)
    return contents(lake)


@pytest.fixture(scope="module")
def whole_of(settings, tmp_path_factory):
    """What one run over all that is drawn by a seed finds, worked out once."""

    @cache
    def found(seed: int) -> dict[str, list[str]]:
        return in_one_run(LocalLake(str(tmp_path_factory.mktemp("whole")), retention_days=7), drawn(seed), settings)

    return found


@pytest.fixture(scope="module")
def begun(settings, tmp_path_factory):
    """Makes a lake what the batches of a seed but the last two gave run by run, worked out once; gives those two."""

    @cache
    def made() -> tuple[Path, list[Batch]]:
        *before, last_but_one, last = batches(drawn(1), random.Random(1), 0)
        root = tmp_path_factory.mktemp("begun") / "lake"
        run_by_run(LocalLake(str(root), retention_days=7), before, settings)
        return root, [last_but_one, last]

    def copied(lake: LocalLake) -> list[Batch]:
        root, rest = made()
        shutil.copytree(root, lake.root, dirs_exist_ok=True)
        return rest

    return copied


def run_by_run(
    lake: LocalLake, arriving: Sequence[Batch], settings, run: Callable[[LocalLake, Any], None] = flag
) -> dict[str, list[str]]:
    for number, batch in enumerate(arriving):
        land(lake, batch, number)
        run(lake, settings)
    return contents(lake)


@pytest.mark.parametrize("late", [pytest.param(0, marks=SOAK), pytest.param(0.003, marks=SOAK), 0.01])
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_go_on_find_what_one_run_finds(whole_of, lake_at, settings, went_on, seed, late):
    rows = drawn(seed)
    whole = whole_of(seed)
    assert not went_on and whole["group_round"] and whole["drift_incident"]
    assert run_by_run(lake_at("cut"), batches(rows, random.Random(seed), late), settings) == whole
    assert went_on or seed != 1


def test_runs_around_midnight_go_on_although_the_date_before_ends_at_no_new_cut(lake_at, settings, went_on):
    """The first reads of a date bear on the one before, run after run: what was kept of that stays."""
    arriving: dict[int, Batch] = defaultdict(lambda: defaultdict(list))
    for table, of_table in drawn(1).items():
        for row in of_table:
            arriving[max(0, 1 + (row["captured_at"] - MIDNIGHT) // timedelta(seconds=40))][table].append(row)
    lake = lake_at("cut")
    for number in range(5):
        went_on.clear()
        land(lake, arriving[number], number)
        flag(lake, settings)
        assert went_on or not number, number


def test_what_is_kept_may_be_damaged_or_gone(whole_of, lake_at, settings, went_on):
    """As after a machine lost its power: a list that names files that are empty, or are not there."""
    rows, draw = drawn(1), random.Random(1)
    whole = whole_of(1)

    def damaged(lake: LocalLake, settings) -> None:
        for file in Path(lake.root, kept_groups.FOLDER).rglob("*.arrow"):
            if draw.random() < 0.5:
                file.write_bytes(b"") if draw.random() < 0.5 else file.unlink()
        flag(lake, settings)

    assert run_by_run(lake_at("cut"), batches(rows, random.Random(1), 0), settings, damaged) == whole


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_are_broken_off_between_two_writes_leave_no_state_that_counts(
    whole_of, lake_at, settings, went_on, seed
):
    rows, draw = drawn(seed), random.Random(seed)
    whole = whole_of(seed)

    def broken_off_at_times(lake: LocalLake, settings) -> None:
        try:
            with broken_off(draw.randint(1, 60)):
                flag(lake, settings)
        except BrokenOffError:
            flag(LocalLake(lake.root, retention_days=7), settings)

    assert run_by_run(lake_at("cut"), batches(rows, draw, 0), settings, broken_off_at_times) == whole
    assert went_on or seed != 1


def test_a_date_that_another_engine_or_other_settings_computed_is_walked_as_a_whole_once(
    whole_of, begun, lake_at, settings, went_on
):
    whole = whole_of(1)
    lake = lake_at("cut")
    last_but_one, last = begun(lake)
    went_on.clear()
    land(lake, last_but_one, 98)
    list_of_date = Path(lake.root, kept_groups.FOLDER, "c", "2026-03-03", "kept.json")
    older = list_of_date.read_text()
    flag(lake, settings)
    assert went_on
    went_on.clear()
    list_of_date.write_text(older)  # as if the last publication were another engine's, which keeps nothing
    land(lake, last, 99)
    flag(lake, settings)
    assert not went_on
    assert contents(lake) == whole
    assert json.loads(list_of_date.read_text())["number"] == max(
        r["number"] for r in lake.rows(PUBLICATION).to_pylist()
    )


def test_what_another_build_kept_is_not_gone_on_from(begun, lake_at, settings, went_on, monkeypatch):
    """Its states may be others, though its release is the same."""
    lake = lake_at("cut")
    land(lake, begun(lake)[0], 98)
    went_on.clear()
    monkeypatch.setattr(kept_walks, "own_build", lambda: "another")
    flag(lake, settings)
    assert not went_on


def test_what_stands_before_the_first_new_round_is_not_written_again(begun, lake_at, settings, went_on):
    lake = lake_at("cut")
    last_but_one, last = begun(lake)
    land(lake, last_but_one, 98)
    flag(lake, settings)
    table = TABLES["group_round"]
    were = {file.path for file in lake.files(table)}
    land(lake, last, 99)
    flag(lake, settings)
    assert 0 < len(were - {file.path for file in lake.files(table)}) < len(were)
    stored = lake.rows(table, ["round_at", "run_id"]).to_pylist()
    newest = {row["run_id"] for row in stored if row["round_at"] == max(r["round_at"] for r in stored)}
    assert min(row["round_at"] for row in stored if row["run_id"] in newest) == went_on[-1]


def test_a_group_that_shares_anew_all_day_long_is_kept():
    every = [ShareRound(at, None, ("m",), {}, {}, None, True) for at in range(5760)]
    rows = CutRows("c", [], {}, END_SCHEMA.empty_table(), 0, 60, {})
    kept = [
        table["kind"].to_pylist()
        for until in (3000, 5760)
        for name, table in rows.at(MIDNIGHT.date(), until, {("g", "c"): every[:until]}, [], [])
        if name == KEPT_TOLD
    ]
    assert kept == [[SHARE] * 3000, [SHARE] * 2760]


def test_a_date_is_cut_at_full_hours_after_its_first_round_and_where_it_ends():
    """There is nothing to keep of the hours before it; the hours of these tests last two minutes."""
    midnight = kept_walks.midnight_us(MIDNIGHT.date())
    first, *last = (midnight + minutes * 60_000_000 for minutes in (8, 13, 15))
    cuts = kept_walks.cuts_of(MIDNIGHT.date(), first, last, 0)
    assert [(at - midnight) // 60_000_000 for at in cuts] == [10, 12, 13]
    cuts = kept_walks.cuts_of(MIDNIGHT.date(), first, last, cuts[0])
    assert [(at - midnight) // 60_000_000 for at in cuts] == [12, 13]
    assert kept_walks.cuts_of(MIDNIGHT.date(), first, [first], 0) == [first]

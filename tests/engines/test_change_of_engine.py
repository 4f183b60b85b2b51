"""One landing folder on either engine, and on one after the other: the tables are the same to the row."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.opened import Opened
from hindsight.jobs.engines.spark_runner import lake_and_runner
from hindsight.jobs.run_pipeline import JOBS, run_job
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.telling.incident_noting import note_events
from hindsight.schemas import TABLES, WINDOW_CONFIRMATION
from hindsight.udfs.values.columns import DAY_MS
from tests.conftest import CAPTURES
from tests.pipeline.undisturbed_runs import lines
from tests.telling.told_streams import stream

PRODUCERS = ("4.7.1_laton", "5.3.3_async", "5.3.3_detect", "5.3.3_laton")
_OF_A_DAY = re.compile(rb'(?<="beginMs":)\d+|(?<="endMs":)\d+|(?<="ts":)\d+')
# Of runs, not of facts.
LEDGERS = ("ingested_file", "quality_result", "publication")


def hooks(first: int, last: int, *, later_ms: int = 0) -> dict[str, bytes]:
    found = {p: lines(f"producers/producer_{p}.jsonl.gz", first, last) for p in PRODUCERS}
    moved = {p: _OF_A_DAY.sub(lambda at: b"%d" % (int(at[0]) + later_ms), text) for p, text in found.items()}
    return {f"producer_hook/{p}-{first}-{later_ms}.jsonl": text for p, text in moved.items()}


def logs() -> dict[str, bytes]:
    folder = CAPTURES / "producers" / "client_logs"
    files = (path for path in folder.rglob("*") if path.is_file())
    return {f"client_log/producers/{path.relative_to(folder)}": path.read_bytes() for path in files}


_ROUNDS = "consumers/admin_snapshots.jsonl.gz"
# Two sweeps that were cut before running infos were asked for: a cluster of its own.
CUT = {"admin_snapshots/cluster=cut/a.jsonl": (CAPTURES / "cut_sweeps.jsonl").read_bytes()}
ARRIVALS: list[dict[str, bytes]] = [
    {**hooks(0, 900), "admin_snapshots/a.jsonl": lines(_ROUNDS, 0, 150), **CUT},
    {
        **hooks(0, 300, later_ms=DAY_MS),
        "admin_snapshots/b.jsonl": lines(_ROUNDS, 150, 300),
    },
    {**hooks(900, 1800), **logs()},
]


def land(landing: Path, arrival: dict[str, bytes]) -> None:
    for name, content in arrival.items():
        path = landing / (name if "/cluster=" in name else name.replace("/", "/cluster=c/", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run_here(settings, root: Path) -> None:
    context = RunContext(str(root / "landing"))
    with LocalRunner(1) as runner:
        lake = LocalLake(str(root / "lake"), retention_days=7)
        _run(Opened(lake, runner, context), settings)


def run_on_spark(spark, settings, root: Path) -> None:
    context = RunContext(str(root / "landing"))
    _run(Opened(*lake_and_runner(spark, settings, context, str(root / "lake")), context), settings)


def _run(opened: Opened, settings) -> None:
    for job in JOBS:
        run_job(job, opened, settings)


def contents(root: Path) -> dict[str, list[str]]:
    lake = LocalLake(str(root / "lake"), retention_days=7)
    kept = (table for name, table in TABLES.items() if name not in LEDGERS)
    return {table.name: sorted(map(repr, lake.rows(table, table.contract_columns).to_pylist())) for table in kept}


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, Any]:
    pairs = ((name, set(one[name]) ^ set(other[name])) for name in one if one[name] != other[name])
    return {name: (len(one[name]), len(other[name]), sorted(rows)[:2]) for name, rows in pairs}


@pytest.fixture(scope="module")
def at_once(settings, tmp_path_factory) -> Path:
    """All of it at once, on this machine's engine."""
    root = tmp_path_factory.mktemp("at-once")
    for arrival in ARRIVALS:
        land(root / "landing", arrival)
    run_here(settings, root)
    return root


@pytest.mark.soak
def test_arrivals_one_after_the_other_give_the_tables_of_all_at_once(settings, at_once, tmp_path):
    for arrival in ARRIVALS:
        land(tmp_path / "landing", arrival)
        run_here(settings, tmp_path)
    expected = contents(at_once)
    assert differences(expected, contents(tmp_path)) == {}
    shown = LocalLake(str(at_once / "lake"), retention_days=7).rows(WINDOW_CONFIRMATION, ["shows"])["shows"].to_pylist()
    assert {"opened", "nothing"} <= {*shown}


@pytest.fixture(scope="module")
def of_spark(spark, settings, at_once, tmp_path_factory) -> Path:
    """All of it at once, on Spark."""
    root = tmp_path_factory.mktemp("of-spark")
    shutil.copytree(at_once / "landing", root / "landing")
    run_on_spark(spark, settings, root)
    return root


def test_spark_gives_the_same_tables(at_once, of_spark):
    expected = contents(at_once)
    assert differences(expected, contents(of_spark)) == {}
    assert any("'cut'" in row and "the sweep was cut" in row for row in expected["group_round"])


def test_a_lake_that_spark_wrote_has_the_same_events(spark, settings, at_once, of_spark, tmp_path):
    """And Spark notes the same of it."""
    here, there, copy = (tmp_path / name for name in ("here", "there", "copy"))
    for root, own in ((at_once, here), (of_spark, there), (of_spark, copy)):
        shutil.copytree(root / "lake", own)
    context = RunContext(str(at_once / "landing"))
    noting = [LocalLake(str(root), retention_days=7) for root in (here, copy)]
    for lake in (*noting, lake_and_runner(spark, settings, context, str(there))[0]):
        note_events(lake, context, settings.events)
    assert {event["source"] for event in stream(here)} == {"drift", "producer"}
    assert stream(here) == stream(copy) == stream(there)


@pytest.mark.soak
def test_a_lake_may_change_its_engine_from_one_run_to_the_next(spark, settings, at_once, tmp_path):
    """This machine's begins, Spark adds a day, this machine's goes on."""
    here, there = partial(run_here, settings, tmp_path), partial(run_on_spark, spark, settings, tmp_path)
    for arrival, run in zip(ARRIVALS, (here, there, here), strict=True):
        land(tmp_path / "landing", arrival)
        run()
    assert differences(contents(at_once), contents(tmp_path)) == {}

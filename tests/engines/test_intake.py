"""Landing files taken in without Spark, in any portions, runs, crashes and reruns, versus their lines one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import ingest_consumer_snapshots, ingest_send_records
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange, RunContext
from hindsight.schemas import INGESTED_FILE, QUALITY_RESULT, QUARANTINE, SEND_ATTEMPT, SNAPSHOT_CAPTURE, TABLES, Table
from hindsight.udfs.landing.landing_formats import TRACE
from tests.pipeline.test_order_and_splits import cuts_of, write
from tests.pipeline.test_order_and_splits import inputs as inputs  # a fixture
from tests.random_examples import examples
from tests.readers.test_landed_rows import OTHERS, landing, lines_of, places_in, records_of, smallest
from tests.readers.test_landed_rows import TABLES as OF_SENDS
from tests.readers.test_rival_rows import careful_pass, rows_of

SETTINGS = load_settings(None)
LINEAGE = ("ingested_at", "run_id")
JOBS = (ingest_send_records, ingest_consumer_snapshots)
AGAIN = DateRange(first=date(2000, 1, 1))


class Broken(Exception):
    """A run ends here."""


class Run(NamedTuple):
    """Which part of each file has landed by then; at which commit it breaks off, before or after; what is asked for."""

    share: dict[str, float]
    breaks_at: int | None = None
    after: bool = False
    dates: DateRange = EVERY_DATE


class BreakingLake(LocalLake):
    """A lake that breaks a run off at a commit."""

    run = Run({})
    commits = 0

    def _commit(self, *given, **named) -> None:
        self.commits += 1
        if self.commits == self.run.breaks_at and not self.run.after:
            raise Broken
        super()._commit(*given, **named)
        if self.commits == self.run.breaks_at:
            raise Broken


@st.composite
def arrivals(draw) -> tuple[dict[str, bytes], list[Run]]:
    """Files and runs, of which the last is whole and sees them whole."""
    files = draw(landing())
    runs = []
    for _ in range(draw(st.integers(0, 2))):
        some = draw(st.lists(st.sampled_from(sorted(files)), unique=True))
        share = {name: draw(st.sampled_from([0.3, 0.7, 1.0])) for name in some}
        breaks_at = draw(st.sampled_from([None, 1, 2, 3, 4, 5]))
        runs.append(Run(share, breaks_at, draw(st.booleans()), draw(st.sampled_from([EVERY_DATE, AGAIN]))))
    whole = Run(dict.fromkeys(files, 1.0))
    return files, [*runs, whole, *([whole._replace(dates=AGAIN)] if draw(st.booleans()) else [])]


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    with LocalRunner(1) as made:
        yield made


@contextmanager
def small_portions(files: int, buckets: int) -> Iterator[None]:
    """So many files to a worker, so many buckets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hindsight.jobs.engines.runner._TASKS", files)
        patch.setattr("hindsight.jobs.intake.ingestion._BUCKET_BYTES", 1)
        patch.setattr("hindsight.jobs.intake.ingestion._MOST_BUCKETS", buckets)
        patch.setattr("hindsight.jobs.intake.ingestion.check", lambda *_: None)
        yield


def land(folder: Path, name: str, raw: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


def part_of(name: str, raw: bytes, share: float) -> bytes:
    if name.endswith(".gz") or share == 1:
        return raw
    lines = raw.split(b"\n")
    return b"".join(line + b"\n" for line in lines[: int(len(lines) * share)])


@examples(4, 40)
@given(arrived=arrivals(), portion=st.sampled_from([1, 2, 9]), buckets=st.sampled_from([1, 3]))
def test_any_arrival_stores_what_the_lines_say_one_by_one(runner, arrived, portion, buckets):
    files, runs = arrived
    with TemporaryDirectory() as root, small_portions(portion, buckets):
        for run in runs:
            landed = {name: part_of(name, files[name], share) for name, share in run.share.items()}
            for name, raw in landed.items():
                land(Path(root, "landing"), name, raw)
            lake = BreakingLake(f"{root}/lake", retention_days=7)
            lake.run = run
            context = RunContext(f"{root}/landing", run.dates)
            before = ledger_of(lake)
            try:
                ingest_send_records.run_on(lake, runner, SETTINGS, context)
                lake.write_gathered()  # as a run does at its end
            except Broken:
                # The ledger is written last: what stands in it is stored.
                if not [*of_run(lake, context)]:
                    continue
            landed = {path.relative_to(context.landing).as_posix() for path in Path(context.landing).rglob("*.jsonl*")}
            assert ledger_of(lake).keys() == landed | before.keys()
            check_ledger(lake, context)
            if run.dates.is_given:
                known = {name for name, row in before.items() if row["event_dates"]}
                assert known <= {row["file"] for row in of_run(lake, context)}
        check_tables(lake, files)


def ledger_of(lake: LocalLake) -> dict[str, dict]:
    return {row["file"]: row for row in lake.rows(INGESTED_FILE).to_pylist()}


def of_run(lake: LocalLake, context: RunContext) -> Iterator[dict]:
    return (row for row in ledger_of(lake).values() if row["run_id"] == context.run_id)


def check_ledger(lake: LocalLake, context: RunContext) -> None:
    """Each file that was read now stands there with the counts of its lines."""
    named = places_in({table.name: lake.rows(table) for table in OF_SENDS})
    for row in of_run(lake, context):
        raw = Path(context.landing, row["file"]).read_bytes()
        lines = lines_of(row["file"], raw)
        told = {one.line.number for one in lines if one.records and not one.refusal}
        stored = {number for file, number in named if file == row["file"]} & told
        assert (row["read"], row["stored"], row["duplicate"]) == (len(lines), len(stored), len(told - stored))
        assert row["quarantined"] == sum(bool(one.refusal) for one in lines)
        assert row["size_bytes"] == len(raw)
        records = records_of(row["file"], lines)
        assert set(row["event_dates"]) == {
            day
            for table in OF_SENDS[:2]
            for record in records[table.name]
            for day in (record["event_date"], *([record["end_at"].date()] if table is SEND_ATTEMPT else []))
        }


def plain(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in LINEAGE}


def check_tables(lake: LocalLake, files: dict[str, bytes]) -> None:
    lines = {name: lines_of(name, raw) for name, raw in files.items()}
    careful = {name: records_of(name, of) for name, of in lines.items()}
    attempts = {key: plain(row) for key, row in rows_of(lake.rows(SEND_ATTEMPT)).items()}
    by_file = {name: of["send_attempt"] for name, of in careful.items()}
    assert attempts == {key: plain(row) for key, row in careful_pass(by_file).items()}
    for table in OTHERS:
        told = smallest([row for of in careful.values() for row in of[table.name]], table)
        stored = {tuple(row[name] for name in table.key): plain(row) for row in lake.rows(table).to_pylist()}
        assert stored == {key: plain(row) for key, row in told.items()}
        assert len(lake.rows(table)) == len(told)
    refused = {
        (name, one.line.number, *one.refusal) for name, of in lines.items() for one in of if one.refusal is not None
    }
    columns = ["source_file", "line_number", "reason_code", "detail"]
    assert {tuple(row.values()) for row in lake.rows(QUARANTINE, columns).to_pylist()} == refused
    assert len(lake.rows(QUARANTINE)) == sum(one.refusal is not None for of in lines.values() for one in of)


def test_a_refused_line_that_leaves_a_row_counts_as_refused_alone(runner, tmp_path):
    """An answer that cannot be read shows that it was asked for; here twice, beside a line that is known by then."""
    marker = {"ts": 1_795_253_414_272, "kind": "round", "round": 1}
    stats = {"ts": 1_795_253_414_300, "ts_end": 1_795_253_414_400, "kind": "consumeStats", "subject": "g", "raw": "[1]"}
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in (marker, stats | {"error": None}))
    for name in "ab":
        land(tmp_path / "landing", f"admin_snapshots/cluster=c/{name}.jsonl", lines)
    lake = LocalLake(str(tmp_path / "lake"), retention_days=7)
    with small_portions(1, 1):
        take_in_all(lake, runner, tmp_path / "landing", [ingest_consumer_snapshots])
    counts = [[row[n] for n in ("read", "stored", "duplicate", "quarantined")] for row in ledger_of(lake).values()]
    assert sorted(counts) == [[2, 0, 1, 1], [2, 1, 0, 1]]
    assert lake.rows(SNAPSHOT_CAPTURE, ["answered", "source_file"])["answered"].to_pylist() == [False]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_captures_that_arrive_in_any_split_are_placed_as_in_one_run(runner, inputs, tmp_path, seed):
    """Both jobs, in any order; traces wait for the routes that name their brokers."""
    draw = random.Random(seed)
    whole, split = (LocalLake(str(tmp_path / name), retention_days=7) for name in ("whole", "split"))
    with small_portions(3, 2):
        for name, lines in inputs.items():
            write(tmp_path / "landing", name, lines)
        take_in_all(whole, runner, tmp_path / "landing", JOBS)
        so_far: dict[str, int] = dict.fromkeys(inputs, 0)
        for run in range(4):
            for name, lines in inputs.items():
                cuts = [cut for cut in (0, *cuts_of(name, lines), len(lines)) if cut >= so_far[name]]
                so_far[name] = len(lines) if run == 3 else draw.choice(cuts)
                if so_far[name]:
                    write(tmp_path / "pieces", name, lines[: so_far[name]])
            (tmp_path / "pieces").mkdir(exist_ok=True)
            take_in_all(split, runner, tmp_path / "pieces", draw.sample(JOBS, 1 if run < 3 else 2))
    found, expected = (contents(lake, without=(QUALITY_RESULT, INGESTED_FILE)) for lake in (split, whole))
    assert found == expected
    assert all(expected[name] for name in ("send_attempt", "consumer_heartbeat", "collection_round", "client_event"))
    named = {
        row["broker_name"] for row in whole.rows(SEND_ATTEMPT, where=Where(values={"source": [TRACE]})).to_pylist()
    }
    assert named - {None}
    before = {name: whole.version(table) for name, table in TABLES.items() if whole.exists(table)}
    take_in_all(whole, runner, tmp_path / "landing", JOBS)
    assert before == {name: whole.version(table) for name, table in TABLES.items() if whole.exists(table)}


def take_in_all(lake: LocalLake, runner: LocalRunner, landing: Path, jobs: Sequence[ModuleType]) -> None:
    for job in jobs:
        job.run_on(lake, runner, SETTINGS, RunContext(str(landing)))


def contents(lake: LocalLake, *, without: Sequence[Table] = (QUALITY_RESULT,)) -> dict[str, list[str]]:
    compared = [table for table in TABLES.values() if table not in without]
    read = {table.name: lake.rows(table, table.contract_columns) for table in compared}
    return {name: sorted(map(repr, rows.to_pylist())) for name, rows in read.items()}

"""The harness of the benchmarks: what it meters, what it compares, and that its data and its oracle are sound."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bench.spark
from bench import allocation_peers, daily, ingestion, whole_jobs, windows
from bench.allocation_answer import digests
from bench.consumer_tables import Population, write_tables
from bench.contest import Contestant, Outcome, Round, SpeedTarget, Target, compared, disagreements, hold
from bench.growth import AXES, Measured, Slope, exponent, slope, stage_by_stage
from bench.parser_throughput import BENCHMARKS, CONTESTANTS, megabytes_of, rows_of
from bench.process_tree import JVM, PYTHON, Meter, usages
from bench.producer_tables import Shape
from bench.producer_tables import _unhealthy as drawn_unhealthy
from bench.producer_tables import write_tables as write_sends
from bench.reader_inputs import INPUTS, MAX_LINE_BYTES, chunks_of, files_of
from bench.record import commit_of, made_by, record_name, row_count, table, targets
from bench.small_run import BARE, MORE, SAMPLES, Run, Watch, report, seconds_by_step
from bench.spark import stages_s
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import CONSUMER_HEARTBEAT, INGESTED_FILE, PRODUCER_INSTANCE, QUEUE_OWNERSHIP, SEND_ATTEMPT
from hindsight.udfs.allocation import MessageQueue, allocate
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.lines.parsed_line import LandedFile

BUSY = "import time\nend = time.process_time() + 0.5\nheld = bytearray(80 << 20)\nwhile time.process_time() < end: pass"


def metered_parent(prelude: str = "pass") -> Meter:
    """What a process took from before it started a busy child until after that had ended; it lives on meanwhile."""
    busy = f"subprocess.run([sys.executable, '-c', {BUSY!r}])"
    code = f"import signal, subprocess, sys; {prelude}; input(); {busy}; print('done', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        meter = Meter(parent.pid)
        meter.start()
        parent.stdin.write("begin\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "done\n"
        meter.stop()
        parent.stdin.write("end\n")
    return meter


def test_cpu_and_memory_of_a_process_that_a_child_started_are_counted():
    meter = metered_parent()
    assert 0.4 < meter.cpu_s[PYTHON] < 5
    assert meter.wall_s > 0.4
    assert meter.peak[PYTHON] > meter.largest_python > 80 << 20
    assert (meter.cpu_s[JVM], meter.peak[JVM]) == (0, 0)


def test_cpu_of_a_process_that_nobody_waited_for_is_counted_after_its_end():
    """As the daemon of Spark's Python workers does it: a child of which the parent wants to hear nothing."""
    meter = metered_parent("signal.signal(signal.SIGCHLD, signal.SIG_IGN)")
    assert 0.4 < meter.cpu_s[PYTHON] < 5


IN_A_THREAD_OF_ITS_OWN = f"""
import ctypes, threading, time
def compile():
    ctypes.CDLL(None).prctl(15, b"C2 CompilerThread0", 0, 0, 0)  # PR_SET_NAME
    exec({BUSY!r}, {{}})
one = threading.Thread(target=compile)
one.start(); one.join(); time.sleep(0.5)
"""


@pytest.mark.parametrize(("called", "kinds"), [("java", [JVM]), ("Executor task", []), ("worker", [PYTHON])])
def test_a_thread_of_a_jvm_that_is_about_to_start_a_program_is_not_counted_as_one(called, kinds, tmp_path):
    binary = Path(shutil.copy(shutil.which("sleep"), tmp_path / ("worker" if called == "worker" else "java")))
    shown = tmp_path / called  # as its name; /proc tells the binary beside it
    if shown != binary:
        shown.symlink_to(binary)
    with subprocess.Popen(["sleep", "60"], executable=shown) as process:
        try:
            assert [one.kind for one in usages(process.pid)] == kinds
        finally:
            process.kill()


def test_what_a_thread_of_a_jvm_did_is_remembered_after_its_end(tmp_path):
    java = tmp_path / "java"
    java.symlink_to(Path(sys.executable).resolve())
    with subprocess.Popen([java, "-S", "-c", IN_A_THREAD_OF_ITS_OWN]) as process:
        watch = Watch(process.pid)
        watch.start()
        process.wait()
        watch.join()
    spent = watch.cpu_s()
    assert spent["JVM: compiling what ran often (C2)"] > 0.3
    assert spent["in all"] >= spent["JVM: compiling what ran often (C2)"]
    assert spent["JVM: tasks"] == spent["Python: driver and workers"] == 0


def test_the_seconds_of_a_run_are_those_between_the_events_that_it_logs():
    def event(second, name, **facts):
        return {"at": f"2026-03-02T00:00:{second:02}Z", "event": name, **facts}

    log = [
        event(7, "begins", job="a"),
        event(8, "checked", job="a", seconds=0.5),
        event(10, "ends", job="a", seconds=3.0),
        event(10, "begins", job="b"),
        event(14, "checked", job="b", seconds=2.0),
        event(15, "ends", job="b", seconds=5.0),
    ]
    begun, ended = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 2, 0, 0, 17, tzinfo=UTC)
    before, *jobs, after, in_all, checks = seconds_by_step(log, begun, ended).values()
    assert (before, jobs, after, in_all, checks) == (7.0, [3.0, 5.0], 2.0, 17.0, 2.5)


def test_a_small_run_is_told_beside_a_bare_session():
    told = report(
        {name: Run({"in all": s}, {"in all": s}, 1) for name, s in ((SAMPLES, 12.0), (MORE, 6.1), (BARE, 10.0))}
    )
    assert told.splitlines()[-2:] == [
        "- reached: the whole pipeline on data_samples at most 1.2x a bare Spark session: 1.20 (aim 1.2).",
        "- MISSED: one more day of 4,000 sends at most half of that: 0.61 (aim 0.6).",
    ]


def outcome(name, *cpu_s, covers=(), answer=None, rows=None):
    rounds = [Round(10 * s, s, 0, 0, 0, 0) for s in cpu_s]
    return Outcome(Contestant(name, "m", covers=covers, rows=rows), rounds, answer or {})


def test_contestants_disagree_only_where_they_cover_the_same_part_of_the_same_data():
    one = outcome("one", covers=("a", "b"), answer={"a": 1, "b": 2})
    assert disagreements([one, outcome("two", covers=("a",), answer={"a": 1, "b": 9})]) == []
    assert disagreements([one, outcome("small", covers=("a",), answer={"a": 5}, rows=9)]) == []
    assert disagreements([one, outcome("two", covers=("b",), answer={"b": 3})]) == ["b: one says 2, two says 3"]
    assert disagreements([outcome("none", covers=("a",))]) == ["a: none says None, none says None"]


def test_only_what_two_contestants_answered_of_the_same_data_was_compared():
    one = outcome("one", covers=("a", "b"), answer={"a": 1, "b": 2})
    assert compared([one, outcome("scan")]) == []
    assert compared([one, outcome("two", covers=("b",)), outcome("small", covers=("a",), rows=9)]) == ["b"]
    small = [outcome(name, covers=("a",), rows=9) for name in ("small", "smaller")]
    assert compared([one, *small]) == ["a"]


def test_what_a_round_needs_is_made_before_it_and_not_measured(tmp_path):
    contestant = Contestant("prepared", "tests.prepared_contestant")
    benchmark = SimpleNamespace(contestants=[contestant], master="local[1]")
    settings = {"rounds": 2, "warm_ups": 1, "peer_python": sys.executable, "log": tmp_path / "log"}
    (held,) = hold(benchmark, lambda _: tmp_path, **settings)
    assert held.answer == {"prepared": 3, "run": 3, "master": "local[1]"}
    assert len(held.rounds) == 2 and held.fresh not in (None, *held.rounds)
    assert all(one.cpu_s < 0.3 and one.stages_s == () for one in held.rounds)


@pytest.mark.parametrize(("factor", "word"), [(2.0, "reached"), (1.9, "MISSED")])
def test_a_target_compares_the_best_rounds(factor, word):
    class One:
        targets = (Target("text", "slow", "fast", factor),)

    said = targets(One, [outcome("slow", 9, 4, 6), outcome("fast", 3, 2, 4)])
    assert said == f"- {word}: text. slow / fast: 2.00 (aim {factor:.2f}; pairs 1.50 to 3.00, median 2.00)."


def test_cpu_seconds_of_the_table_are_of_one_round_and_beside_them_those_of_the_first():
    rounds = [Round(5, 6, 4, 0, 0, 0), Round(9, 9, 0, 0, 0, 0)]
    one = Outcome(Contestant("one", "m"), rounds, fresh=Round(20, 30, 10, 0, 0, 0))
    scan = outcome("scan", 3)
    benchmark = SimpleNamespace(floor="scan", peers=())
    last = table(benchmark, [scan, one], {None: {"rows": 10}}).splitlines()[-1]
    assert last.split("|")[4:9] == [" 5.00 ", " 9.00 ", " 9.00 ", " 0.00 ", " 40.00 "]


@pytest.mark.parametrize(("aim", "word"), [(25.0, "reached"), (25.1, "MISSED")])
def test_a_speed_is_that_of_the_best_round_and_stands_in_the_table(aim, word):
    class One:
        floor, peers, targets, speeds = "text", ("text",), (), (SpeedTarget("aim", "own", aim),)
        contestants = (outcome("text").contestant, outcome("own").contestant)

    outcomes = [outcome("text", 1, 2), outcome("own", 5, 4)]
    said = f"- {word}: aim. own: 25.0 (aim {aim:.1f}; rounds 20.0 to 25.0, median 22.5)."
    assert targets(One, outcomes, 100.0) == said
    head, _, *lines = [line.split(" | ") for line in table(One, outcomes, {None: {"lines": 10}}, 100.0).splitlines()]
    assert head[-1] == "MB/s per core |"
    assert [line[-1] for line in lines] == ["100.0 |", "25.0 |"]


def test_every_format_has_a_reader_that_is_timed():
    assert {given.format for given in INPUTS} == set(FORMATS)


@pytest.mark.parametrize("given", INPUTS, ids=[given.name for given in INPUTS])
def test_a_reader_is_timed_on_lines_of_which_rows_come(given, tmp_path):
    (benchmark,) = (one for one in BENCHMARKS if one.name == given.name)
    pickle.loads(pickle.dumps(benchmark.prepare))(tmp_path, 600)  # it runs in a process of its own
    assert CONTESTANTS[given.name](tmp_path)()() == rows_of(tmp_path) == {"lines": 600}
    assert round(megabytes_of(tmp_path) * 1e6) == sum(len(chunk) for p in files_of(tmp_path) for chunk in chunks_of(p))
    (path,) = files_of(tmp_path)
    lines = read_lines(chunks_of(path), gzipped=False, max_line_bytes=MAX_LINE_BYTES)
    parsed = list(PARSERS[given.format](lines, UTC, given.about))
    assert not [one.refusal for one in parsed if one.refusal]
    assert sum(len(one.records) for one in parsed) > 30
    if given.is_json:
        assert CONTESTANTS["json.loads"](tmp_path)()() == {"lines": 600}


def test_who_covers_no_part_is_credited_with_each_attempt_once(tmp_path):
    write_sends(tmp_path, Shape(2_000))
    stored = pq.read_table(tmp_path / "send_attempt").num_rows
    assert sum(windows.rows_of(tmp_path).values()) == stored > 1_900


def test_a_contestant_is_credited_with_the_rows_of_the_parts_that_it_covers():
    rows = {None: {"AVG": 6, "CONFIG": 4}}
    assert row_count(outcome("all").contestant, rows) == 10
    assert row_count(outcome("some", covers=("AVG",)).contestant, rows) == 6


def test_equal_seeds_give_equal_tables(tmp_path):
    for place in ("one", "two"):
        write_tables(tmp_path / place, 5_000, Population(groups=20))
    one, two = (pq.read_table(tmp_path / place / QUEUE_OWNERSHIP.name) for place in ("one", "two"))
    assert one.equals(two)
    assert 4_000 < len(one) < 6_000
    assert one.column_names == QUEUE_OWNERSHIP.columns.names


def test_equal_seeds_give_equal_sends(tmp_path):
    for place in ("one", "two"):
        write_sends(tmp_path / place, Shape(3_000))
    one, two = (pq.read_table(tmp_path / place / SEND_ATTEMPT.name) for place in ("one", "two"))
    assert one.equals(two)
    assert one.column_names == SEND_ATTEMPT.columns.names


def test_brokers_are_as_often_slow_however_many_there_are():
    begin = np.arange(0, 86_400_000, 500)
    broker = np.random.default_rng(1)
    bad = {
        n: drawn_unhealthy(begin, broker.integers(0, n, len(begin)), Shape(0, brokers=n), np.random.default_rng(2))
        for n in (5, 20, 80)
    }
    assert all(0.01 < share.mean() < 0.025 for share in bad.values())


def test_the_data_say_how_much_of_them_is_striking(tmp_path):
    write_sends(tmp_path, Shape(4_000, 0.5))
    sends = pq.read_table(tmp_path / SEND_ATTEMPT.name).to_pandas()
    slow = (sends.end_at - sends.begin_at).dt.total_seconds() >= 0.55
    striking = slow | sends.exception.notna() | sends.last_broker_name.notna()
    assert striking.mean() > slow.mean() > 0.3
    assert windows.about(tmp_path).startswith(f"{striking.mean():.2%} of the attempts")


def test_a_record_names_its_command_and_no_folder(monkeypatch):
    words = ["x", "windows", "--data", "/some/where", "--note", "a b", "--only", "scan;own"]
    monkeypatch.setattr(sys, "argv", [*words, "--data=/else/where"])
    assert made_by("bench").startswith("Made by `python -m bench windows --only 'scan;own'` at commit ")


def test_a_record_of_the_same_day_does_not_change_what_is_measured(tmp_path):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=tmp_path, check=True)

    record, code = tmp_path / "bench" / "records" / "day.md", tmp_path / "bench" / "own.py"
    record.parent.mkdir(parents=True)
    for file in (record, code):
        file.write_text("as committed", encoding="utf-8")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    clean = commit_of(tmp_path)
    record.write_text("measured again", encoding="utf-8")
    assert commit_of(tmp_path) == clean
    code.write_text("another", encoding="utf-8")
    assert commit_of(tmp_path) == f"{clean}-dirty"


@pytest.mark.parametrize(
    ("names", "rows", "called"),
    [
        ([], None, "all"),
        (["windows", "windows-20"], None, "windows-windows-20"),
        (["windows"], 30_000_000, "windows-30000000-rows"),
        ([], 1_000, "all-1000-rows"),
    ],
)
def test_records_of_other_numbers_of_rows_stand_beside_each_other(names, rows, called):
    assert record_name(names, rows) == called


@pytest.mark.parametrize("members", [1, 3, 7, 12])
def test_the_numpy_peer_gives_each_queue_to_the_owner_that_the_kernel_names(members):
    brokers, each = ("broker-a", "broker-b"), 4
    cids = [f"10.0.0.{n}@1" for n in range(members)]
    rows = []
    for number, strategy in enumerate(("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONSISTENT_HASH")):
        queues = [MessageQueue(f"t{number}", broker, n) for broker in brokers for n in range(each - number)]
        taken = {q: c for c, given in allocate(strategy, queues, cids).items() for q in given}
        rows.append((number, strategy, queues, [taken[q] for q in queues]))
    table = pa.table(
        {
            "snapshot": pa.array([r[0] for r in rows], pa.int64()),
            "strategy": [r[1] for r in rows],
            "topic": [f"t{r[0]}" for r in rows],
            "members": [cids] * len(rows),
            "queues": [[{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in r[2]] for r in rows],
        }
    )
    made = allocation_peers._allocate(table)
    assert made["owners"].to_pylist() == [r[3] for r in rows]
    assert len(digests(made)) == 3
    swapped = made.set_column(0, "snapshot", pa.array(np.arange(len(rows))[::-1], pa.int64()))
    assert digests(swapped)["CONSISTENT_HASH"] != digests(made)["CONSISTENT_HASH"]


def test_the_exponent_of_growth_is_that_of_a_power():
    at = [1.0, 4.0, 16.0, 64.0]
    for power in (0.0, 1.0, 1.5):
        assert exponent(at, [3 * x**power for x in at]) == pytest.approx(power)


def test_of_a_skewed_point_each_stage_is_compared_with_its_balanced_self():
    def point(*stages_s):
        return Measured(1, 1, "own", 1, 1, 1, 1, 1, "", stages_s)

    by_rank = stage_by_stage([point(0.4, 2.0, 4.0), point(3.0, 5.0, 1.2)])
    assert by_rank == (
        "the longest stage took 4.0 s, then 5.0 s; of 3 that took a second, by rank, 0.4 s became 1.2 s at most."
    )
    one_more = stage_by_stage([point(4.0), point(1.0, 5.0)])
    assert one_more.endswith("of 2 that took a second, by rank, 0.0 s became 1.0 s at most.")


@pytest.mark.soak
def test_a_stage_takes_as_long_as_its_longest_task(spark, monkeypatch):
    def rest(rows):
        time.sleep(1.2 if 0 in rows else 0.0)
        return [0]

    monkeypatch.setattr(bench.spark, "session", lambda: spark)
    rests = spark.sparkContext.parallelize(range(4), 4).mapPartitions(rest)
    rests.count()  # Python starts
    stages_s()
    rests.count()
    [longest] = stages_s()
    assert longest >= 1.2  # shared evenly by two cores it were 0.6
    assert stages_s() == []


@pytest.mark.soak
def test_a_whole_job_finds_the_day_that_was_drawn_to_be_computed(tmp_path):
    whole_jobs.prepare_sends(Shape(300, producers=3, brokers=2), tmp_path, 300)
    lake = LocalLake(str(tmp_path / "lake"), retention_days=7)
    (file,) = lake.rows(INGESTED_FILE).to_pylist()
    days = lake.rows(SEND_ATTEMPT)["event_date"].value_counts().to_pylist()
    assert [(day["values"], day["counts"]) for day in days] == [(file["event_dates"][0], file["read"])]
    assert lake.rows(PRODUCER_INSTANCE).num_rows == 3 and file["format"] in formats_of("producer")


@pytest.mark.soak
def test_each_file_of_the_lake_has_all_producers_and_some_hours(tmp_path):
    lake = windows.store(tmp_path, Shape(8_000, producers=3, brokers=2))
    drawn = pq.read_table(tmp_path / SEND_ATTEMPT.name)
    files = [
        lake.folder(SEND_ATTEMPT).read(file, ["client_id", "begin_at", "msg_id"]) for file in lake.files(SEND_ATTEMPT)
    ]
    assert len(files) == 8
    assert {len(set(file["client_id"].to_pylist())) for file in files} == {3}
    spans = sorted((min(each), max(each)) for each in (file["begin_at"].to_pylist()[:100] for file in files))
    assert all(before[0] < after[0] for before, after in pairwise(spans))
    assert sorted(m for file in files for m in file["msg_id"].to_pylist()) == sorted(drawn["msg_id"].to_pylist())


@pytest.mark.soak
def test_a_window_that_midnight_cuts_is_told_as_one():
    midnight = datetime(2026, 3, 3, tzinfo=UTC)
    minute = timedelta(minutes=1)
    rows = [
        (False, midnight - minute, midnight, 2, "unavailable"),
        (True, midnight, midnight + minute, 1, "unavailable"),
        (False, midnight, midnight + minute, 1, "unreachable"),
    ]
    names = ("continues_previous", "window_start", "window_end", "attempts", "state")
    made = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    assert windows.told_of_windows(made) == [1, 120_000, 3]


def test_the_fold_gives_what_the_clients_own_table_gives_row_by_row(tmp_path):
    windows.store(tmp_path, Shape(3_000, 0.2, producers=12, brokers=3, releases=windows.RELEASES))
    sends = pq.read_table(tmp_path / SEND_ATTEMPT.name)
    names = ["client_id", "broker_name", "mode", "thread", "msg_id", "attempt", "exception"]
    instants = ("begin_at", "end_at", "submit_end_at", "callback_end_at")
    frame = (
        sends.select(names)
        .to_pandas()
        .assign(**{n: pc.cast(sends[n], pa.int64()).to_pandas() // 1000 for n in instants})
    )
    walked = [windows._walk(own) for _, own in frame.groupby(["client_id", "broker_name"])]
    held = pd.concat(walked)
    told = windows.in_one_process(tmp_path)()()
    assert told[windows.WINDOWS] == [len(held), int((held.until - held.since).sum()), int(held.updates.sum())]
    assert len(held) > 100


def test_a_slope_is_of_a_million_rows_more(monkeypatch):
    def point(name, rows, cpu_s):
        return Measured(rows, rows, name, 1, cpu_s, 1, 1, 1, "", ())

    measured = [
        point("own", 1_000_000, 5),
        point("own", 3_000_000, 9),
        point("peer", 1_000_000, 1),
        point("peer", 3_000_000, 2),
    ]
    told = "a million rows more cost own 2.00 s of CPU, peer 0.50: 4.00 times (aim"
    assert slope(Slope("own", "peer", 4), measured) == f"reached: {told} 4.00)."
    assert slope(Slope("own", "peer", 3.9), measured) == f"MISSED: {told} 3.90)."


@pytest.mark.parametrize("axis", AXES.values(), ids=AXES)
def test_a_figure_shows_who_was_measured_at_each_point(axis):
    assert len({benchmark.name for benchmark in axis.points.values()}) == len(axis.points) > 1
    for benchmark in axis.points.values():
        assert [contestant.name for contestant in benchmark.contestants] == list(axis.contestants)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (Shape(4_000, producers=3), {"producers": 3}),
        (Shape(4_000, brokers=30), {"brokers": 30}),
        (Shape(4_000, giant=0.5), {"giant": 0.5}),
        (Shape(4_000, crowd=0.4), {"crowd": 0.4}),
    ],
)
def test_attempts_are_drawn_as_their_shape_says(shape, told, tmp_path):
    write_sends(tmp_path, shape)
    sends = pq.read_table(tmp_path / SEND_ATTEMPT.name).to_pandas()
    of_clients = sends.client_id.value_counts(normalize=True)
    of_minutes = sends.begin_at.dt.floor("min").value_counts(normalize=True)
    found = {
        "producers": len(of_clients),
        "brokers": sends.broker_name.nunique(),
        "giant": round(of_clients.iloc[0], 1),
        "crowd": round(of_minutes.iloc[0], 1),
    }
    assert {name: found[name] for name in told} == told


def test_groups_are_drawn_as_their_population_says(tmp_path):
    write_tables(tmp_path, 3_000, Population(groups=5, members=9))
    members = pq.read_table(tmp_path / CONSUMER_HEARTBEAT.name).to_pandas()
    sizes = members.groupby(["consumer_group", "round_at"]).client_id.nunique()
    assert members.consumer_group.nunique() == 5
    assert 7 <= sizes.min() <= sizes.max() <= 11
    owned = pq.read_table(tmp_path / QUEUE_OWNERSHIP.name).to_pandas()
    assert set(
        owned.groupby("consumer_group")[["broker_name", "queue_id"]].apply(lambda g: len(g.drop_duplicates()))
    ) == {64}


def records_under(landing):
    """What a run would take in from these files; no line may be refused."""
    for path in landing.rglob("*.jsonl"):
        format_name, _, *inside = path.relative_to(landing).parts
        lines = read_lines([path.read_bytes()], gzipped=False, max_line_bytes=MAX_LINE_BYTES)
        parsed = list(PARSERS[format_name](lines, UTC, LandedFile("/".join(inside))))
        assert parsed and all(one.records and not one.refusal for one in parsed), path
        yield from (record for one in parsed for record in one.records)


def test_every_line_of_a_day_is_taken_in(tmp_path):
    daily.land(tmp_path, 3)
    assert list(records_under(tmp_path))


def test_no_two_lines_that_are_taken_in_tell_of_the_same_send(tmp_path):
    ingestion.land(tmp_path, 4_000)
    assert ingestion.rows_of(tmp_path) == {ingestion.STORED: 4_040}
    records = [record for name in ("landing", "next") for record in records_under(tmp_path / name)]
    sent = [(r.row["client_id"], r.row["msg_id"]) for r in records if r.table == SEND_ATTEMPT.name]
    assert len(sent) == len(set(sent)) == 8_000

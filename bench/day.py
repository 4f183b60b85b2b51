"""``python -m bench.day``: a day of a lake that is run all the time, and what each of its runs costs.

Every few minutes of the day that is played the files of these minutes land, a producer's and a collector's, and the
pipeline runs over them: each run a process of its own, or (``--in-one``) all in one process, as ``hindsight watch``
makes them. What lands is as much in each run, so a run should cost what the first ones cost.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from datetime import UTC, datetime, timedelta
from multiprocessing import active_children
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.contest import ROOT
from bench.daily import hook_lines
from bench.record import RECORDS, machine, made_by
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.watch_command import run_pipeline
from hindsight.jobs.engines.changed_files import is_small
from hindsight.jobs.engines.kept_between_runs import KeptBetweenRuns
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES
from hindsight.udfs.landing.hour_folders import SEAL, hour_folder, seal_of

_FIRST = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
_SWEEP_S = 15
_BROKERS, _QUEUES, _MEMBERS = 2, 4, 3
_SLOW_MS, _LONGEST_MS = 550, 125_000  # 4.9.8: from when on it avoids a broker, and beyond how long it surely does not
_EARLY = slice(2, 10)  # runs 3 to 10


class Run(NamedTuple):
    """One run: CPU and wall seconds, of its page CPU seconds apart, and what stands in the lake after it."""

    cpu_s: float
    wall_s: float
    page_s: float
    commits: int
    log_files: int
    data_files: int


_COMPARED: dict[str, Callable[[Run], float]] = {
    "CPU s with the page": lambda run: run.cpu_s,
    "CPU s without it": lambda run: run.cpu_s - run.page_s,
    "wall s with it": lambda run: run.wall_s,
}


def land(
    landing: Path,
    number: int,
    minutes: int,
    *,
    lines: int = 100,
    groups: int = 1,
    producers: int = 5,
    forgets: bool = False,
) -> None:
    """Write the files of one run: ``lines`` attempts of some producers, and a sweep of ``groups`` every 15 s.

    ``forgets``: with each run, clients forget whom they avoid, so that their choices contradict their record.
    """
    begin = _FIRST + timedelta(minutes=number * minutes)
    sends = landing / "producer_hook" / "cluster=prod"
    sweeps = landing / "admin_snapshots" / "cluster=prod"
    _write(sends, "ship", begin, _sends(begin, minutes, lines, number, producers, forgets))
    _write(sweeps, "collector", begin, _sweeps(begin, minutes, groups))


def _write(folder: Path, writer: str, begin: datetime, rows: Iterator[dict[str, Any]]) -> None:
    """A file in the folder of its hour, as ``--by-hour`` has it; the first file of an hour seals the one before."""
    before, hour = (folder / hour_folder(writer, at) for at in (begin - timedelta(hours=1), begin))
    if before.is_dir() and not hour.is_dir():
        (before / SEAL).write_bytes(seal_of({file.name: file.stat().st_size for file in before.iterdir()}))
    hour.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (hour / f"{begin:%Y%m%dT%H%M%S}.jsonl").write_text(lines, encoding="utf-8")


def _sends(
    begin: datetime, minutes: int, lines: int, seed: int, producers: int, forgets: bool
) -> Iterator[dict[str, Any]]:
    """Clients that go by their tables: none takes a broker that it avoids, nor avoids one when the minutes are over.

    Those that forget may avoid one then.
    """
    at, length_ms = int(begin.timestamp() * 1000), minutes * 60_000
    made = hook_lines(at, np.random.default_rng(seed), sends=lines, producers=producers)
    attempt, avoided = 0, dict[tuple[str, str], int]()
    for row in made:
        if row["type"] == "start":
            if seed == 0:
                yield row
            continue
        took = row["endMs"] - row["beginMs"]
        row["beginMs"] = at + 1_000 + attempt * (length_ms - 10_000) // lines
        names = [row["broker"], *(f"broker-{broker}" for broker in range(4))]
        free = [name for name in names if avoided.get((row["clientId"], name), 0) < row["beginMs"]]
        row["broker"] = free[0]
        lasts = not forgets and at + length_ms - _LONGEST_MS < row["beginMs"]
        if lasts or len({*free}) < 2:
            took = min(took, _SLOW_MS - 1)
        row["endMs"] = row["beginMs"] + took
        if took >= _SLOW_MS:
            avoided[row["clientId"], row["broker"]] = row["endMs"] + _LONGEST_MS
        row["msgId"] = f"{row['beginMs']:032X}"
        attempt += 1
        yield row


def _sweeps(begin: datetime, minutes: int, groups: int) -> Iterator[dict[str, Any]]:
    at = int(begin.timestamp() * 1000)
    for number in range(minutes * 60 // _SWEEP_S):
        yield from _sweep(at + number * _SWEEP_S * 1000, number, groups)


def _sweep(at: int, number: int, groups: int) -> Iterator[dict[str, Any]]:
    """What a collector writes: the route, and of each group its connections, running infos and offsets."""

    def answer(kind: str, subject: str, raw: Any, ms: int) -> dict[str, Any]:
        told = {"ts": at + ms, "ts_end": at + ms + 2, "kind": kind, "subject": subject, "error": None, "mqs": None}
        return told | {"raw": raw if isinstance(raw, str) else json.dumps(raw)}

    yield {"ts": at, "kind": "round", "round": number}
    yield answer("topicRoute", "T", _route(), 1)
    for group in range(groups):
        name = f"g_{group}"
        yield answer("consumerConnection", name, _connections(name), 5)
        for member in range(_MEMBERS):
            yield answer("consumerRunningInfo", f"{name}|{_client(member)}", _running(name, member, at), 10 + member)
        yield answer("consumeStats", name, _offsets(at), 20)


def _client(member: int) -> str:
    return f"10.1.0.{member}@7"


def _route() -> dict[str, Any]:
    brokers = [
        {"brokerAddrs": {"0": f"10.2.0.{b}:10911"}, "brokerName": f"broker-{b}", "cluster": "C"}
        for b in range(_BROKERS)
    ]
    queues = [
        {"brokerName": f"broker-{b}", "perm": 6, "readQueueNums": _QUEUES, "writeQueueNums": _QUEUES, "topicSysFlag": 0}
        for b in range(_BROKERS)
    ]
    return {"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues}


def _connections(group: str) -> dict[str, Any]:
    connected = [
        {"clientId": _client(m), "clientAddr": f"10.1.0.{m}:5000{m}", "language": "JAVA", "version": 409}
        for m in range(_MEMBERS)
    ]
    return {
        "connectionSet": connected,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionTable": {"T": _subscription("T"), f"%RETRY%{group}": _subscription(f"%RETRY%{group}")},
    }


def _subscription(topic: str) -> dict[str, Any]:
    return {"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 1, "tagsSet": [], "codeSet": []}


def _queues() -> list[tuple[str, int]]:
    return [(f"broker-{broker}", queue) for broker in range(_BROKERS) for queue in range(_QUEUES)]


def _running(group: str, member: int, at: int) -> str:
    """A running info as brokers send it: the keys of its tables are objects."""
    every = _queues()
    share, over = divmod(len(every), _MEMBERS)
    first = member * share + min(member, over)
    own = every[first : first + share + (member < over)]
    process = {
        "commitOffset": 0,
        "droped": False,
        "lastConsumeTimestamp": at,
        "lastLockTimestamp": at,
        "lastPullTimestamp": at,
        "locked": False,
    }
    queues = ",".join(f"{_queue(*queue)}:{json.dumps(process)}" for queue in own)
    properties = {"PROP_CONSUMER_START_TIMESTAMP": str(int(_FIRST.timestamp() * 1000) - 3_600_000)}
    told = {"properties": properties, "subscriptionSet": [_subscription("T"), _subscription(f"%RETRY%{group}")]}
    return f'{{"mqTable":{{{queues}}},{json.dumps(told)[1:]}'


def _offsets(at: int) -> str:
    offset = at // 1000
    of_queue = {"brokerOffset": offset, "consumerOffset": offset, "lastTimestamp": at, "pullOffset": offset}
    queues = ",".join(f"{_queue(*queue)}:{json.dumps(of_queue)}" for queue in _queues())
    return f'{{"consumeTps":1.0,"offsetTable":{{{queues}}}}}'


def _queue(broker: str, number: int) -> str:
    return json.dumps({"brokerName": broker, "queueId": number, "topic": "T"})


def played(
    place: Path,
    runs: int,
    minutes: int,
    *,
    in_one: bool,
    lines: int,
    groups: int,
    producers: int = 5,
    forgets: bool = False,
    first: int = 0,
) -> Iterator[Run]:
    """The runs of a day, one after the other; ``first``: how many were played in this place before."""
    landing, lake = place / "landing", place / "lake"
    words = ["run-pipeline", "--landing", str(landing), "--lake", str(lake), "--json"]
    with KeptBetweenRuns() if in_one else nullcontext() as kept:
        for number in range(first, first + runs):
            land(landing, number, minutes, lines=lines, groups=groups, producers=producers, forgets=forgets)
            cpu_s, wall_s = (_here if in_one else _in_a_process)(words)
            yield Run(cpu_s, wall_s, kept.page_cpu_s if kept else 0.0, *_counted(lake))


def _in_a_process(words: list[str]) -> tuple[float, float]:
    """CPU seconds of the command and of all that it waited for, and wall seconds."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        program = [sys.executable, "-m", "hindsight.jobs.command_line", *words]
        process = subprocess.Popen(program, cwd=ROOT, stdout=told, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            raise SystemExit(f"a run ended with {process.returncode}:\n{told.read().decode()[-2000:]}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begun


def _here(words: list[str]) -> tuple[float, float]:
    """The same of a run in this process, as ``hindsight watch`` makes them."""
    begun, spent = time.perf_counter(), _spent()
    with redirect_stdout(io.StringIO()):
        code = run_pipeline(words[1:])
    if code:
        raise SystemExit(f"a run ended with {code}")
    return _spent() - spent, time.perf_counter() - begun


def _spent() -> float:
    """CPU seconds of this process, of those that it waited for, and of workers that live on."""
    now = [Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split() for child in active_children()]
    ticks = sum(int(fields[place]) for fields in now for place in (11, 12))  # utime and stime
    return sum(os.times()[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def _counted(lake: Path) -> tuple[int, int, int]:
    """Commits so far, files in logs, data files: those of old versions too."""
    logs = [file for log in lake.glob("*/_delta_log") for file in log.iterdir()]
    newest: dict[Path, int] = {}
    for file in logs:
        if file.suffix == ".json" and file.stem.isdigit():
            newest[file.parent] = max(newest.get(file.parent, 0), int(file.stem) + 1)
    return sum(newest.values()), len(logs), sum(1 for _ in lake.rglob("*.parquet")) - _checkpoints(logs)


def what_readers_open(lake: Path) -> str:
    """How many commits a reader replays at most, and how many small files a partition has at most."""
    commits, small = Counter[str](), Counter[tuple[str, str]]()
    stored = LocalLake(str(lake), retention_days=load_settings(None).delta.retention_days)
    for table in filter(stored.exists, TABLES.values()):
        log = Path(stored.path(table), "_delta_log")
        kept = [int(file.name.partition(".")[0]) for file in log.glob("*.checkpoint*.parquet")]
        commits[table.name] = (stored.version(table) or 0) - max(kept, default=0)
        small.update((table.name, str(f.event_date)) for f in stored.files(table) if is_small(f))
    (of_table, replayed), (of_partition, files) = commits.most_common(1)[0], small.most_common(1)[0]
    return (
        f"A reader replays at most {replayed} commits after a checkpoint ({of_table}; aim 10), and opens at most "
        f"{files} small files of a partition ({' '.join(of_partition)}; aim 16)."
    )


def _checkpoints(logs: Sequence[Path]) -> int:
    return sum(1 for file in logs if file.suffix == ".parquet")


def report(runs: Sequence[Run]) -> str:
    """Some of the runs, and the last ones beside runs 3 to 10."""
    shown = sorted({*range(min(10, len(runs))), *range(9, len(runs), max(1, len(runs) // 12)), len(runs) - 1})
    lines = ["| run | CPU s | wall s | of the page | commits | files in logs | data files |", f"|{'---:|' * 7}"]
    for number in shown:
        run = runs[number]
        lines.append(
            f"| {number + 1} | {run.cpu_s:.2f} | {run.wall_s:.2f} | {run.page_s:.2f} | {run.commits} | {run.log_files} "
            f"| {run.data_files} |"
        )
    if len(runs) > 20:
        lines.append("")
        for what, of in _COMPARED.items():
            early, late = (statistics.median(map(of, some)) for some in (runs[_EARLY], runs[-8:]))
            lines.append(
                f"- {'reached' if late <= 1.3 * early else 'MISSED'}: {what}: the last eight runs' median {late:.2f}, "
                f"runs 3 to 10 {early:.2f}: {late / early:.2f} times (aim 1.3)."
            )
    return "\n".join(lines)


def main() -> None:
    """Play the day, print the table, write the record."""
    parser = argparse.ArgumentParser(prog="python -m bench.day", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="how many (default 40; a day of five minutes has 288)")
    parser.add_argument("--first", type=int, default=0, help="how many were played in --place before (default 0)")
    parser.add_argument("--minutes", type=int, default=5, help="between two runs (default 5)")
    parser.add_argument("--lines", type=int, default=100, help="attempts that land for each run (default 100)")
    parser.add_argument("--groups", type=int, default=1, help="groups that are read each 15 s (default 1)")
    parser.add_argument("--producers", type=int, default=5, help="that these attempts are of (default 5)")
    parser.add_argument("--forgets", action="store_true", help="their choices contradict their record")
    parser.add_argument("--in-one", action="store_true", help="all runs in one process, as watch makes them")
    parser.add_argument("--place", help="a folder to keep; default: a temporary one")
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-bench/bin/python"), help="for the record's head")
    parser.add_argument("--note", default="", help="what the record should say of the circumstances")
    parser.add_argument("--no-record", action="store_true", help="print only")
    given = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory(prefix="hindsight-day-") as scratch:
        place = Path(given.place or scratch)
        what = {"in_one": given.in_one, "lines": given.lines, "groups": given.groups}
        what |= {"producers": given.producers, "forgets": given.forgets, "first": given.first}
        for run in played(place, given.runs, given.minutes, **what):
            runs.append(run)
            shown = (f"{value:.2f}" if isinstance(value, float) else value for value in run)
            print(given.first + len(runs), *shown, flush=True)
        told = f"{report(runs)}\n- {what_readers_open(place / 'lake')}"
    print(told)
    if given.no_record:
        return
    now = datetime.now(UTC)
    way = "in-one" if given.in_one else "processes"
    head = f"# {now:%Y-%m-%d}: a day of runs\n\n{machine(given.peer_python)} {given.note}".rstrip()
    head += f"\n\n{made_by('bench.day')}"
    record = RECORDS / f"{now:%Y-%m-%d}-day-{given.runs}-{way}.md"
    record.write_text(f"{head}\n\n{told}\n", encoding="utf-8")
    print(f"\nwritten to {record.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""``python -m bench.small_run``: what a run on a few thousand lines costs beside its rows, and where that goes.

The command itself is run on the samples, on the first day of a lake, on one more day and on nothing new, beside a Spark
session that does nothing of its own (``bench.bare_spark``). Its log tells how long each job and each check took, and
/proc what the threads of a JVM did.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench import daily
from bench.contest import ROOT
from bench.process_tree import JVM, PYTHON, ProcessTree, threads
from bench.record import RECORDS, machine, made_by

_LOOK_EVERY_S = 0.1
_THREADS = {
    "C2 CompilerThre": "JVM: compiling what ran often (C2)",
    "C1 CompilerThre": "JVM: compiling what ran a few times (C1)",
    "GC Thread": "JVM: collecting garbage",
    "Executor task": "JVM: tasks",
    "Thread-": "JVM: calls from Python (plans, code generation, commits)",
    "dag-scheduler": "JVM: scheduling",
    "dispatcher-": "JVM: scheduling",
    "task-result": "JVM: scheduling",
}
_OTHER = "JVM: the rest"
_PYTHON = "Python: driver and workers"
SAMPLES, FIRST, MORE, NOTHING, BARE = "data_samples", "first day", "one more day", "nothing new", "bare Spark session"
_AIMS = (
    ("the whole pipeline on data_samples at most 1.2x a bare Spark session", SAMPLES, 1.2),
    ("one more day of 4,000 sends at most half of that", MORE, 0.6),
)


class Run(NamedTuple):
    """One run of the command: rows of its table, wall seconds by step and CPU seconds by what was done, and commits."""

    seconds: Mapping[str, float]
    cpu_s: Mapping[str, float]
    commits: int


def main() -> None:
    """Run the command in each case, print the table, write the record."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_run", description=__doc__)
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-bench/bin/python"), help="for the record's head")
    parser.add_argument("--note", default="", help="what the record should say of the circumstances")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of what can be repeated; the shortest counts (default 3)"
    )
    parser.add_argument("--no-record", action="store_true", help="print only")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hindsight-small-run-") as scratch:
        runs = _runs(Path(scratch), given.rounds)
    print(report(runs))
    if given.no_record:
        return
    now = datetime.now(UTC)
    head = f"# {now:%Y-%m-%d}: small runs\n\n{machine(given.peer_python)} {given.note}".rstrip()
    head += f"\n\n{made_by('bench.small_run')}"
    record = RECORDS / f"{now:%Y-%m-%d}-small-run.md"
    record.write_text(f"{head}\n\n{report(runs)}\n", encoding="utf-8")
    print(f"\nwritten to {record.relative_to(ROOT)}")


def _runs(place: Path, rounds: int) -> dict[str, Run]:
    runs: dict[str, list[Run]] = {name: [] for name in (SAMPLES, FIRST, MORE, NOTHING, BARE)}

    def noted(name: str, run: Run) -> None:
        runs[name].append(run)
        print(f"{name}: {run.seconds['in all']:.1f} s", flush=True)

    landing, lake = place / "landing", place / "lake"
    daily.land(landing, 0)
    noted(FIRST, _run(landing, lake))
    for number in range(rounds):
        noted(SAMPLES, _run(ROOT / "data_samples", place / f"samples-{number}"))
        daily.land(landing, number + 1)
        noted(MORE, _run(landing, lake))
        noted(BARE, _bare(place / f"bare-{number}"))
    noted(NOTHING, _run(landing, lake))
    return {name: min(own, key=lambda run: run.seconds["in all"]) for name, own in runs.items()}


def _run(landing: Path, lake: Path) -> Run:
    before, begun = _commits(lake), datetime.now(UTC)
    watch, log = _watched("hindsight.jobs.run_pipeline", "--landing", str(landing), "--lake", str(lake))
    events = [json.loads(line) for line in log.splitlines() if line.startswith('{"')]
    return Run(seconds_by_step(events, begun, datetime.now(UTC)), watch.cpu_s(), _commits(lake) - before)


def _bare(folder: Path) -> Run:
    begun = datetime.now(UTC)
    watch, _ = _watched("bench.bare_spark", str(folder))
    return Run({"in all": (datetime.now(UTC) - begun).total_seconds()}, watch.cpu_s(), _commits(folder))


def _watched(*words: str) -> tuple[Watch, str]:
    """A module run as a program: what was seen of it, and what it wrote."""
    with tempfile.TemporaryFile() as told:
        with subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=told, stderr=told) as process:
            watch = Watch(process.pid)
            watch.start()
            process.wait()
            watch.join()
        told.seek(0)
        log = told.read().decode("utf-8", "replace")
    if process.returncode:
        raise SystemExit(f"{words[0]} ended with {process.returncode}:\n{log[-2000:]}")
    return watch, log


def _commits(lake: Path) -> int:
    return sum(1 for _ in lake.rglob("_delta_log/*.json"))


def seconds_by_step(events: Iterable[Mapping[str, Any]], begun: datetime, ended: datetime) -> dict[str, float]:
    """Wall seconds of a run that logged these events: until its first job, each job, what came after, checks of all."""
    jobs = [event for event in events if event["event"] == "ends"]
    first = next(event for event in events if event["event"] == "begins")
    checks = sum(event["seconds"] for event in events if event["event"] == "checked")
    return {
        "until the first job (Python, Spark session)": (_at(first) - begun).total_seconds(),
        **{event["job"]: event["seconds"] for event in jobs},
        "after the last job (summary, end of Spark)": (ended - _at(jobs[-1])).total_seconds(),
        "in all": (ended - begun).total_seconds(),
        "of these: Great Expectations": checks,
    }


def _at(event: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(event["at"])


class Watch(threading.Thread):
    """Looks at a process tree until it ends, and remembers what the threads of its JVM took that ended before."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._tree = ProcessTree(root)
        self._threads: dict[int, tuple[str, float]] = {}

    def run(self) -> None:
        """Look until the root is gone."""
        pause = threading.Event()
        while found := self._tree.look():
            for jvm in (usage.pid for usage in found if usage.kind == JVM):
                self._threads |= {tid: (name, cpu_s) for tid, name, cpu_s in threads(jvm)}
            pause.wait(_LOOK_EVERY_S)

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds by what was done; what no look has seen of a thread is of the rest."""
        told = dict.fromkeys([*_THREADS.values(), _OTHER], 0.0)
        for name, cpu_s in self._threads.values():
            told[next((what for begin, what in _THREADS.items() if name.startswith(begin)), _OTHER)] += cpu_s
        spent = self._tree.cpu_s()
        told[_OTHER] += spent[JVM] - sum(told.values())
        return {**told, _PYTHON: spent[PYTHON], "in all": sum(spent.values())}


def report(runs: Mapping[str, Run]) -> str:
    """Both tables, a column a run, and the aims."""
    lines = _lines("wall s", runs, [run.seconds for run in runs.values()])
    commits = ["Delta commits", *(f"{run.commits}" for run in runs.values())]
    cpu_s = _lines("CPU s", runs, [run.cpu_s for run in runs.values()])
    bare_s = runs[BARE].seconds["in all"]
    ratios = [(text, runs[name].seconds["in all"] / bare_s, aim) for text, name, aim in _AIMS]
    aims = [
        f"- {'reached' if ratio <= aim else 'MISSED'}: {text}: {ratio:.2f} (aim {aim})." for text, ratio, aim in ratios
    ]
    return "\n".join([*lines, _line(commits), "", *cpu_s, "", *aims])


def _lines(what: str, names: Iterable[str], columns: Sequence[Mapping[str, float]]) -> list[str]:
    head = [what, *names]
    steps = dict.fromkeys(step for column in columns for step in column)
    rows = [[step, *(f"{column.get(step, 0.0):.1f}" for column in columns)] for step in steps]
    return [_line(head), _line(["---", *("---:" for _ in columns)]), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

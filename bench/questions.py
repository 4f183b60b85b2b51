"""``python -m bench.questions``: what questions cost as a lake gets older, beside loading what they are asked with.

A day of sends and sweeps lands for each date and the pipeline runs over it. Where the lake holds so many days, each
question is asked some times by a process of its own, in turn with the others; the least CPU time of each counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL
from typing import NamedTuple

from bench import day
from bench.contest import ROOT
from bench.record import RECORDS, machine, made_by
from hindsight.jobs.engines.asker import Record, as_records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake

_MINUTES = 1_440
_LOADED = "import duckdb, deltalake, pyarrow"
_OF_A_DATE = (
    "SELECT broker_name, count(*) FROM send_attempt "
    "WHERE event_date = (SELECT max(event_date) FROM send_attempt) GROUP BY broker_name"
)
_A_WINDOW = (
    "SELECT client_id, broker_name, window_start FROM broker_availability_window "
    "ORDER BY window_start DESC, client_id, broker_name LIMIT 1"
)
_A_MESSAGE = "SELECT msg_id FROM send_attempt ORDER BY begin_at LIMIT 1"
_OF_ALL = "SELECT event_date, broker_name, count(*), avg(latency_ms) FROM send_attempt GROUP BY ALL"


class Cost(NamedTuple):
    """Of one process, seconds."""

    cpu_s: float
    wall_s: float


def main() -> None:
    """Grow the lake, ask at each age, print the table, write the record."""
    given = _options()
    ages = sorted(given.days)
    with tempfile.TemporaryDirectory(prefix="hindsight-questions-") as scratch:
        place = Path(given.data or scratch)
        landing, lake = place / "landing", place / "lake"
        found: dict[int, dict[str, Cost]] = {}
        about = []
        for number in range(ages[-1]):
            day.land(landing, number, _MINUTES, lines=given.sends, groups=given.groups, producers=50)
            _cost(["-m", "hindsight.jobs.command_line", "run-pipeline", f"--landing={landing}", f"--lake={lake}"])
            if number + 1 in ages:
                found[number + 1] = _asked(lake, given.rounds)
                about.append(f"{number + 1} days: {_size(lake)}")
                print(about[-1], flush=True)
    told = "\n\n".join(["; ".join(about) + ".", report(found)])
    print(told)
    if not given.no_record:
        now = datetime.now(UTC)
        head = f"# {now:%Y-%m-%d}: questions\n\n{machine(given.peer_python)} {given.note}".rstrip()
        record = RECORDS / f"{now:%Y-%m-%d}-questions.md"
        record.write_text(f"{head}\n\n{made_by('bench.questions')}\n\n{told}\n", encoding="utf-8")
        print(f"\nwritten to {record.relative_to(ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.questions", description=__doc__)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 10, 30], help="ages of the lake (default 1 10 30)")
    parser.add_argument("--sends", type=int, default=333_000, help="attempts of a day (default 333,000)")
    parser.add_argument("--groups", type=int, default=2, help="consumer groups of 8 queues (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="times that each is asked; the least counts (default 3)")
    parser.add_argument("--data", help="folder for the lake; default: a temporary one")
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-bench/bin/python"), help="for the record's head")
    parser.add_argument("--note", default="", help="what the record should say of the circumstances")
    parser.add_argument("--no-record", action="store_true", help="print only")
    return parser.parse_args()


def _asked(lake: Path, rounds: int) -> dict[str, Cost]:
    """The least of each, by what is asked."""
    window = " AND ".join(f"{name} = '{value}'" for name, value in _row(lake, _A_WINDOW).items())
    questions = {
        _LOADED: ["-c", _LOADED],
        "sql of the last date": _command("sql", lake, _OF_A_DATE),
        "sql of all dates": _command("sql", lake, _OF_ALL),
        "drift": _command("drift", lake),
        "explain a window": _command("explain", lake, "broker_availability_window", window),
        "message": _command("message", lake, _one(lake, _A_MESSAGE)),
        "events of a day": _command("events", lake, "--since=24"),
        "metrics": _command("metrics", lake),
        "lint": _command("lint", lake),
        "top --once": _command("top", lake, "--once"),
    }
    costs = [{name: _cost(words) for name, words in questions.items()} for _ in range(rounds)]
    return {name: min((one[name] for one in costs), key=lambda cost: cost.cpu_s) for name in questions}


def _command(name: str, lake: Path, *words: str) -> list[str]:
    return ["-m", "hindsight.jobs.command_line", name, f"--lake={lake}", *words]


def _one(lake: Path, query: str) -> str:
    return str(*_row(lake, query).values())


def _row(lake: Path, query: str) -> Record:
    return as_records(LocalAsker(LocalLake(str(lake), retention_days=0)).answer(query, 1).read_all())[0]


def _cost(words: Sequence[str]) -> Cost:
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begun)


def _size(lake: Path) -> str:
    tables = ("send_attempt", "queue_progress", "expected_allocation", "broker_availability_window")
    return ", ".join(f"{int(_one(lake, f'SELECT count(*) FROM {table}')):,} rows of {table}" for table in tables)


def report(found: Mapping[int, Mapping[str, Cost]]) -> str:
    """A row a question: CPU seconds at each age, and at the last one multiples, wall seconds, and growth."""
    ages = list(found)
    first, last = found[ages[0]], found[ages[-1]]
    head = ["asked", *(f"CPU s, {age} days" for age in ages), "x loading", "wall s", "x first age"]
    lines = [head, ["---", *("---:" for _ in head[1:])]]
    for name, cost in last.items():
        own = [f"{found[age][name].cpu_s:.2f}" for age in ages]
        times = cost.cpu_s / last[_LOADED].cpu_s
        lines.append([name, *own, f"{times:.1f}", f"{cost.wall_s:.2f}", _grown(first[name], cost)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _grown(first: Cost, last: Cost) -> str:
    return f"{last.cpu_s / first.cpu_s:.2f}"


if __name__ == "__main__":
    main()

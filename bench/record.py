"""Outcomes of a benchmark in; one table, the targets and the machine it ran on out, as Markdown."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

from bench.contest import ROOT, Benchmark, Contestant, Outcome, SpeedTarget, Target

_HEAD = (
    *("contestant", "rows", "rows/s", "wall s", "CPU s", "JVM CPU s", "Python CPU s"),
    *("fresh CPU s", "JVM MB", "Python MB", "largest Python MB", "x scan CPU"),
)
_PEAKS = ("jvm_bytes", "python_bytes", "largest_python_bytes")
_MB = 1 << 20
_OF_THE_MACHINE = {"--data", "--peer-python", "--note"}
RECORDS = ROOT / "bench" / "records"
_PEER_VERSIONS = """
from importlib.metadata import version
print(*(f"{name} {version(name)}" for name in ("duckdb", "polars", "numpy")), sep=", ")
"""


def best(outcome: Outcome, figure: str) -> float:
    """The smallest of a figure over the rounds."""
    return float(min(getattr(one, figure) for one in outcome.rounds))


def table(
    benchmark: Benchmark,
    outcomes: Sequence[Outcome],
    rows: Mapping[int | None, Mapping[str, int]],
    megabytes: float | None = None,
) -> str:
    """All contestants: the shortest round and the CPU seconds of the cheapest one; peaks of all rounds.

    CPU seconds stand beside the scan's, and per row beside the peers'. Fresh: of the first round,
    which is what a job takes, a process of its own.

    ``megabytes``: of the data; None: MB per second of CPU are not shown.
    """
    floor = next(o for o in outcomes if o.contestant.name == benchmark.floor)
    peers = [o for name in benchmark.peers for o in outcomes if o.contestant.name == name and _counts(benchmark, o)]
    speed = [] if megabytes is None else ["MB/s per core"]
    lines = [[*_HEAD, *(f"x {p.contestant.name}" for p in peers), *speed]]
    lines.append(["---", *("---:" for _ in lines[0][1:])])
    for outcome in outcomes:
        count = row_count(outcome.contestant, rows)
        per_row = best(outcome, "cpu_s") / count
        beside_floor = per_row / (best(floor, "cpu_s") / row_count(floor.contestant, rows))
        ratios = [per_row / (best(p, "cpu_s") / row_count(p.contestant, rows)) for p in peers]
        line = [outcome.contestant.name, f"{count:,}", *_figures(outcome, count), *map(_ratio, (beside_floor, *ratios))]
        lines.append(line if megabytes is None else [*line, f"{megabytes / best(outcome, 'cpu_s'):,.1f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row_count(contestant: Contestant, rows: Mapping[int | None, Mapping[str, int]]) -> int:
    """The rows that a contestant was given: those of the parts it covers, all of them if it names none."""
    given = rows[contestant.rows]
    return sum(given[part] for part in contestant.covers) if contestant.covers else sum(given.values())


def _counts(benchmark: Benchmark, outcome: Outcome) -> bool:
    """Of two entries of one name only the one on the whole data is compared with."""
    same = [c for c in benchmark.contestants if c.name == outcome.contestant.name]
    return outcome.contestant is same[0]


def _figures(outcome: Outcome, count: int) -> list[str]:
    wall_s = best(outcome, "wall_s")
    cheapest = min(outcome.rounds, key=lambda one: one.cpu_s)
    seconds = [wall_s, cheapest.cpu_s, cheapest.cpu_jvm_s, cheapest.cpu_python_s, (outcome.fresh or cheapest).cpu_s]
    peaks = [max(getattr(one, name) for one in outcome.rounds) // _MB for name in _PEAKS]
    return [f"{count / wall_s:,.0f}", *(f"{s:.2f}" for s in seconds), *(f"{p:,}" for p in peaks)]


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def targets(benchmark: Benchmark, outcomes: Sequence[Outcome], megabytes: float | None = None) -> str:
    """Each target: the ratio of the best rounds, that of each round's pair, and whether it is reached."""
    ratios = [_target(target, outcomes) for target in benchmark.targets]
    speeds = [] if megabytes is None else [_speed(target, outcomes, megabytes) for target in benchmark.speeds]
    return "\n".join([*ratios, *speeds])


def _target(target: Target, outcomes: Sequence[Outcome]) -> str:
    what, of = (next(o for o in outcomes if o.contestant.name == name) for name in (target.what, target.of))
    ratio = best(what, target.figure) / best(of, target.figure)
    pairs = [getattr(a, target.figure) / getattr(b, target.figure) for a, b in zip(what.rounds, of.rounds, strict=True)]
    word = "reached" if ratio <= target.factor else "MISSED"
    spread = f"pairs {min(pairs):.2f} to {max(pairs):.2f}, median {median(pairs):.2f}"
    return f"- {word}: {target.text}. {target.what} / {target.of}: {ratio:.2f} (aim {target.factor:.2f}; {spread})."


def _speed(target: SpeedTarget, outcomes: Sequence[Outcome], megabytes: float) -> str:
    what = next(o for o in outcomes if o.contestant.name == target.what)
    speeds = [megabytes / one.cpu_s for one in what.rounds]
    word = "reached" if max(speeds) >= target.mb_per_s else "MISSED"
    spread = f"rounds {min(speeds):.1f} to {max(speeds):.1f}, median {median(speeds):.1f}"
    return f"- {word}: {target.text}. {target.what}: {max(speeds):.1f} (aim {target.mb_per_s:.1f}; {spread})."


def machine(peer_python: str) -> str:
    """Cores, memory and versions; no name and no path."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    peers = subprocess.run(
        [peer_python, "-c", _PEER_VERSIONS], capture_output=True, text=True, check=True
    ).stdout.strip()
    own = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy", "pandas"))
    java = said.partition('"')[2].partition('"')[0]
    load = os.getloadavg()
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GB, {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, Java {java}, {own}; peers: {peers}. "
        f"Load average at the end: {load[0]:.1f} (1 min), {load[2]:.1f} (15 min)."
    )


def record_name(names: Sequence[str], rows: int | None) -> str:
    """What a record is called: by its benchmarks, and by its rows where these are not the benchmarks' own."""
    return "-".join([*(names or ["all"]), *([f"{rows}-rows"] if rows else [])])


def made_by(module: str) -> str:
    """The command that made a record, but for what is of this machine or stands in it, and the commit measured."""
    words, given = ["python", "-m", module], iter(sys.argv[1:])
    for word in given:
        option, has_value, _ = word.partition("=")
        if option not in _OF_THE_MACHINE:
            words.append(word)
        elif not has_value:
            next(given)
    return f"Made by `{shlex.join(words)}` at commit {commit_of(ROOT)}."


def commit_of(root: Path) -> str:
    """The commit of a working tree, and ``-dirty`` where it was changed since, records aside: each run writes one."""

    def told(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    changed = told("diff", "--name-only", "HEAD", "--", ".", ":(exclude)bench/records")
    return told("describe", "--always") + ("-dirty" if changed else "")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())

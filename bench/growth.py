"""``python -m bench.growth [AXIS ...]``: what one thing about the input costs as it grows, a table and a figure each.

Each point is a benchmark of its own with the contestants of the others, in ascending order; the CPU time of the best
round counts. ``exponent``: of the power of the axis that fits the CPU time best; 1 is linear, 0 is not at all. Where
rows grow, what a million more of them cost stands beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import allocation_data, daily, ingestion, whole_jobs, windows
from bench.consumer_tables import Population
from bench.contest import ROOT, Benchmark, Contestant, Outcome, data_of_benchmark, disagreements, hold
from bench.producer_tables import Shape
from bench.record import RECORDS, best, machine, made_by

_SENDS = 3_000_000
_QUEUE_ROWS = 1_000_000
_MB = 1 << 20


class Slope(NamedTuple):
    """An aim: a million rows more cost ``what`` at most ``factor`` times the CPU seconds that they cost ``of``."""

    what: str
    of: str
    factor: float


class Axis(NamedTuple):
    """What grows: what it is, the benchmark of each point, who takes part; ``skew``: the first point is balanced."""

    title: str
    points: Mapping[float, Benchmark]
    contestants: Sequence[str]
    skew: bool = False
    slopes: Sequence[Slope] = ()


class Measured(NamedTuple):
    """A contestant at a point: its best round, the highest peaks of all; ``about``: of the point's data.

    ``fresh_cpu_s``: of the first round, which is what a job takes, a process of its own.
    """

    at: float
    rows: int
    contestant: str
    wall_s: float
    cpu_s: float
    fresh_cpu_s: float
    jvm_mb: float
    largest_python_mb: float
    about: str
    stages_s: tuple[float, ...]


def main() -> None:
    """Measure the axes that were named, all of them by default."""
    given = _options()
    parts = []
    with tempfile.TemporaryDirectory(prefix="hindsight-growth-") as scratch:
        for name in given.names or AXES:
            axis = AXES[name]
            measured = [one for at in axis.points for one in _measured(axis, at, Path(given.data or scratch), given)]
            figure = RECORDS / f"{datetime.now(UTC):%Y-%m-%d}-growth-{name}.svg"
            if not given.no_record:
                _draw(axis, measured, figure, given.peer_python)
            parts.append(_section(axis, measured, figure))
            print(parts[-1], flush=True)
    if given.no_record:
        return
    head = f"# {datetime.now(UTC):%Y-%m-%d}: growth\n\n{machine(given.peer_python)} {given.note}".rstrip()
    head += f"\n\n{made_by('bench.growth')}"
    record = RECORDS / f"{datetime.now(UTC):%Y-%m-%d}-growth-{'-'.join(given.names) or 'all'}.md"
    record.write_text("\n\n".join([head, *parts]) + "\n", encoding="utf-8")
    print(f"\nwritten to {record.relative_to(ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="AXIS", help=f"axes ({', '.join(AXES)}); default: all")
    parser.add_argument("--data", help="folder to keep the generated data in; default: a temporary one")
    parser.add_argument("--most", type=float, help="leave out the points beyond this")
    parser.add_argument("--rounds", type=int, default=2, help="measured rounds, the best counts (default 2)")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before, not counted (default 1)")
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-bench/bin/python"), help="interpreter that draws")
    parser.add_argument("--note", default="", help="what the record should say of the circumstances")
    parser.add_argument("--no-record", action="store_true", help="print only")
    given = parser.parse_args()
    if unknown := set(given.names) - AXES.keys():
        parser.error(f"no axis is called {', '.join(sorted(unknown))} (known: {', '.join(AXES)})")
    return given


def _measured(axis: Axis, at: float, place: Path, given: argparse.Namespace) -> list[Measured]:
    if given.most and at > given.most:
        return []
    benchmark = axis.points[at]
    print(f"{axis.title}: {at:,}", flush=True)
    data = data_of_benchmark(benchmark, place, benchmark.rows)
    log = place / f"{benchmark.name}.log"
    outcomes = hold(
        benchmark, lambda _: data, rounds=given.rounds, warm_ups=given.warm_ups, peer_python=given.peer_python, log=log
    )
    if wrong := disagreements(outcomes):
        raise SystemExit("contestants disagree:\n" + "\n".join(wrong))
    rows = max(benchmark.rows_of(data).values())
    about = benchmark.about(data) if benchmark.about else ""
    return [_point(at, rows, outcome, about) for outcome in outcomes]


def _point(at: float, rows: int, outcome: Outcome, about: str) -> Measured:
    wall_s, cpu_s = (best(outcome, figure) for figure in ("wall_s", "cpu_s"))
    jvm, python = (max(getattr(one, name) for one in outcome.rounds) for name in ("jvm_bytes", "largest_python_bytes"))
    stages_s = min(outcome.rounds, key=lambda one: one.wall_s).stages_s
    fresh = outcome.fresh or outcome.rounds[0]
    name = outcome.contestant.name
    return Measured(at, rows, name, wall_s, cpu_s, fresh.cpu_s, jvm / _MB, python / _MB, about, stages_s)


def exponent(at: Sequence[float], cost: Sequence[float]) -> float:
    """The power of ``at`` that fits the cost best, by least squares of the logarithms; two points or more."""
    return float(np.polyfit(np.log(at), np.log(cost), 1)[0])


def _section(axis: Axis, measured: Sequence[Measured], figure: Path) -> str:
    lines = ["| at | rows | contestant | wall s | CPU s | CPU us a row | fresh CPU s | JVM MB | largest Python MB |"]
    lines.append("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in measured:
        per_row = one.cpu_s / one.rows * 1e6
        lines.append(
            f"| {one.at:,.12g} | {one.rows:,} | {one.contestant} | {one.wall_s:.1f} | {one.cpu_s:.1f} | {per_row:.2f} "
            f"| {one.fresh_cpu_s:.1f} | {one.jvm_mb:,.0f} | {one.largest_python_mb:,.0f} |"
        )
    about = {one.at: one.about for one in measured if one.about}
    told = [f"- at {at:,.12g}: {text}" for at, text in about.items()]
    told += [f"- {name}: {_growth([m for m in measured if m.contestant == name])}" for name in axis.contestants]
    told += [f"- {slope(aim, measured)}" for aim in axis.slopes if len({one.at for one in measured}) > 1]
    if axis.skew:
        told += [
            f"- {name}: {stage_by_stage([m for m in measured if m.contestant == name])}" for name in axis.contestants
        ]
    return "\n".join([f"## {axis.title}", "", *lines, "", *told, "", f"![{axis.title}]({figure.name})"])


def _growth(series: Sequence[Measured]) -> str:
    if len(series) < 2:
        return "one point tells of no growth."
    times = series[-1].cpu_s / series[0].cpu_s
    if len(series) == 2:
        wall_times = series[-1].wall_s / series[0].wall_s
        return f"CPU time is {times:.2f} times that of the first point, wall time {wall_times:.2f} times."
    power = exponent([one.at for one in series], [one.cpu_s for one in series])
    told = f"CPU time grows with the power {power:.2f}: {times:.1f} times at {series[-1].at / series[0].at:,.3g} times."
    return f"{told} A million rows more cost {of_a_million(series):.2f} s." if _rows_grow(series) else told


def _rows_grow(series: Sequence[Measured]) -> bool:
    return series[-1].rows > 2 * series[0].rows


def of_a_million(series: Sequence[Measured]) -> float:
    """CPU seconds of a million rows more, from the first point to the last."""
    return (series[-1].cpu_s - series[0].cpu_s) / (series[-1].rows - series[0].rows) * 1e6


def slope(aim: Slope, measured: Sequence[Measured]) -> str:
    """An aim, and whether it is reached."""
    what, of = (of_a_million([one for one in measured if one.contestant == name]) for name in (aim.what, aim.of))
    word = "reached" if what <= aim.factor * of else "MISSED"
    costs = f"{aim.what} {what:.2f} s of CPU, {aim.of} {of:.2f}: {what / of:.2f} times (aim {aim.factor:.2f})"
    return f"{word}: a million rows more cost {costs}."


def stage_by_stage(series: Sequence[Measured]) -> str:
    """How much longer a stage of Spark took at the last point than at the first; of those that took a second at all.

    The longest is compared with the longest, the next with the next: numbers and order of stages differ from run to
    run, for the sides of joins are computed at the same time.
    """
    first, last = (sorted(one.stages_s, reverse=True) for one in (series[0], series[-1]))
    pairs = [(before, after) for before, after in zip_longest(first, last, fillvalue=0.0) if after >= 1]
    before, after = max(pairs, key=lambda pair: pair[1] / max(pair[0], 0.001), default=(0.0, 0.0))
    longest = f"the longest stage took {first[0]:.1f} s, then {last[0]:.1f} s"
    return f"{longest}; of {len(pairs)} that took a second, by rank, {before:.1f} s became {after:.1f} s at most."


def _draw(axis: Axis, measured: Sequence[Measured], figure: Path, python: str) -> None:
    given = {"title": axis.title, "figure": str(figure), "points": [one._asdict() for one in measured]}
    subprocess.run([python, "-m", "bench.draw_growth"], input=json.dumps(given), text=True, check=True, cwd=ROOT)


def _point_of(
    name: str,
    rows: int,
    contestants: Sequence[Contestant],
    prepare: Callable[[Path, int], None],
    rows_of: Callable[[Path], Mapping[str, int]],
    about: Callable[[Path], str] | None = None,
) -> Benchmark:
    return Benchmark(name, name, rows, prepare, rows_of, contestants, contestants[0].name, targets=(), about=about)


def _of_shape(shape: Shape, data: Path, rows: int) -> None:
    windows.store(data, shape)


def _sends(name: str, shapes: Mapping[float, Shape]) -> dict[float, Benchmark]:
    own = [Contestant(windows.SCAN, "bench.windows"), *windows.FOLDS, windows.PEERS[0]]
    return {
        at: _point_of(f"{name}-{at:g}", shape.rows, own, partial(_of_shape, shape), windows.rows_of, windows.about)
        for at, shape in shapes.items()
    }


def _executors(counts: Sequence[int]) -> dict[float, Benchmark]:
    points = _sends("executors", dict.fromkeys(counts, _SHAPE))
    return {
        n: replace(point, master=f"local-cluster[{n:g},1,2048]", contestants=point.contestants[:2])
        for n, point in points.items()
    }


def _of_population(population: Population, data: Path, rows: int) -> None:
    allocation_data.prepare(data, rows, population)


def _total_rows(data: Path) -> dict[str, int]:
    return {"all": sum(allocation_data.rows_of(data).values())}


def _groups(name: str, rows: int, populations: Mapping[float, Population]) -> dict[float, Benchmark]:
    return {at: _of_groups(f"{name}-{at:g}", rows, one) for at, one in populations.items()}


def _of_groups(name: str, rows: int, population: Population) -> Benchmark:
    own = [Contestant(one, "bench.allocation") for one in _CONSUMERS]
    return _point_of(name, rows, own, partial(_of_population, population), _total_rows)


def _rebuilt(name: str, shape: Shape, counts: Sequence[int]) -> dict[float, Benchmark]:
    own = [Contestant(windows.SCAN, "bench.windows"), *whole_jobs.REBUILDS, windows.PEERS[0]]
    points = {n: partial(whole_jobs.prepare_sends, shape._replace(rows=n)) for n in counts}
    return {
        n: _point_of(f"{name}-{n}", n, own, prepare, windows.rows_of, windows.about) for n, prepare in points.items()
    }


def _flagged(counts: Sequence[int]) -> dict[float, Benchmark]:
    own = [Contestant(one, "bench.whole_jobs") for one in _FLAGGERS]
    prepare = allocation_data.prepare_lake
    return {n: _point_of(f"flag-drift-{n}", n, own, prepare, whole_jobs.queue_rows_of) for n in counts}


def _days(days: Sequence[int]) -> dict[float, Benchmark]:
    own = [Contestant(daily.ONE_MORE, "bench.daily")]
    return {n: _point_of(f"days-{n}", n, own, daily.prepare, daily.rows_of) for n in days}


def _lines(counts: Sequence[int]) -> dict[float, Benchmark]:
    own = [Contestant(one, "bench.ingestion") for one in ingestion.CONTESTANTS]
    return {n: _point_of(f"lines-{n}", n, own, ingestion.prepare, ingestion.rows_of) for n in counts}


_SENDERS = (windows.SCAN, windows.ON_SPARK, windows.ONE_PROCESS, windows.DUCKDB)
_REBUILDERS = (windows.SCAN, whole_jobs.REBUILD, whole_jobs.LOCAL_REBUILD, windows.DUCKDB)
_FLAGGERS = (whole_jobs.LOCAL_FLAG_DRIFT, whole_jobs.FLAG_DRIFT)
_CONSUMERS = ("scan", "own", "findings and incidents")
_SHAPE = Shape(_SENDS, releases=("V4_7_1", "V4_9_8"))
AXES = {
    "rows": Axis(
        "Attempts",
        _sends("rows", {n: _SHAPE._replace(rows=n) for n in (1_000_000, 3_000_000, 10_000_000, 30_000_000)}),
        _SENDERS,
        slopes=(Slope(windows.ON_SPARK, windows.DUCKDB, 1.5), Slope(windows.ONE_PROCESS, windows.DUCKDB, 1)),
    ),
    "producers": Axis(
        "Producers that send 3 million attempts",
        _sends("producers", {n: _SHAPE._replace(producers=n) for n in (25, 100, 400, 1_600)}),
        _SENDERS,
    ),
    "brokers": Axis(
        "Brokers that 3 million attempts go to",
        _sends("brokers", {n: _SHAPE._replace(brokers=n) for n in (5, 20, 80)}),
        _SENDERS,
    ),
    "executors": Axis("Executors of one core that share 3 million attempts", _executors((1, 2)), _SENDERS[:2]),
    "queue-rows": Axis(
        "(queue, round) rows of 2,000 groups",
        {n: _of_groups(f"queue-rows-{n}", n, Population()) for n in (1_000_000, 5_000_000, 20_000_000)},
        _CONSUMERS,
    ),
    "rebuild": Axis(
        "Attempts of a day whose availability is rebuilt, by the whole job",
        _rebuilt("rebuild", _SHAPE, (1_000_000, 3_000_000, 10_000_000, 30_000_000)),
        _REBUILDERS,
        slopes=(Slope(whole_jobs.LOCAL_REBUILD, windows.DUCKDB, 2),),
    ),
    "rebuild-contradicted": Axis(
        "The same by producers whose choices ignore their fault table",
        _rebuilt("rebuild-contradicted", _SHAPE._replace(shuns=False), (1_000_000, 3_000_000)),
        _REBUILDERS,
    ),
    "flag-drift": Axis(
        "(queue, round) rows of a day that is judged, by the whole job",
        _flagged((250_000, 1_000_000, 4_000_000, 20_000_000)),
        _FLAGGERS,
    ),
    "members": Axis(
        "Members of each of 50 groups in 16 rounds, 64 queues each",
        _groups("members", 50_000, {n: Population(groups=50, members=n) for n in (2, 16, 125, 1_000)}),
        _CONSUMERS,
    ),
    "days": Axis("Days that the lake holds when one more is run", _days((1, 4, 16)), (daily.ONE_MORE,)),
    "lines": Axis("Lines of producer hooks", _lines((100_000, 1_000_000, 10_000_000)), tuple(ingestion.CONTESTANTS)),
    "one-producer": Axis(
        "Share of one producer in 3 million attempts",
        _sends("one-producer", {share: _SHAPE._replace(giant=share) for share in (0.15, 0.5)}),
        _SENDERS,
        skew=True,
    ),
    "one-minute": Axis(
        "Share of one minute in 3 million attempts",
        _sends("one-minute", {share: _SHAPE._replace(crowd=share) for share in (0.001, 0.333)}),
        _SENDERS,
        skew=True,
    ),
    "one-group": Axis(
        "Groups of many sizes, 1 million (queue, round) rows; at 2 one of them has 1,024 queues and 300 members",
        _groups("one-group", _QUEUE_ROWS, {1: Population(largest=False), 2: Population()}),
        _CONSUMERS,
        skew=True,
    ),
}

if __name__ == "__main__":
    main()

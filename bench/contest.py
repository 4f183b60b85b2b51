"""A benchmark in, what each contestant cost in each round out: interleaved, each in a process that stays alive."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.process_tree import JVM, PYTHON, Meter

ROOT = Path(__file__).parent.parent
MASTER = "BENCH_MASTER"  # the variable that tells a contestant which Spark is its own
ONE_MACHINE = "local[*]"


@dataclass(frozen=True)
class Contestant:
    """Who takes part; ``CONTESTANTS[name]`` of ``module`` is ``(data) -> run``.

    covers: the parts of the common answer that it gives. rows: it is given its own, smaller data of so many rows.
    """

    name: str
    module: str
    peer: bool = False  # runs in the peers' environment
    covers: tuple[str, ...] = ()
    rows: int | None = None


@dataclass(frozen=True)
class Target:
    """A ratio that is aimed at: ``figure`` (cpu_s or wall_s) of ``what`` is at most ``factor`` times that of ``of``."""

    text: str
    what: str
    of: str
    factor: float
    figure: str = "cpu_s"


@dataclass(frozen=True)
class SpeedTarget:
    """A speed that is aimed at: ``what`` reads ``mb_per_s`` or more, per second of CPU."""

    text: str
    what: str
    mb_per_s: float


@dataclass(frozen=True)
class Benchmark:
    """What is measured. ``rows_of(data)``: rows by part of the answer, what rows/s counts; ``floor``: the scan.

    ``megabytes_of(data)``: where the size of the data says more than its rows; ``speeds`` need it.
    ``about(data)``: a sentence on what in the data decides the cost beside its size. ``master``: Spark's.
    """

    name: str
    title: str
    rows: int
    prepare: Callable[[Path, int], None]
    rows_of: Callable[[Path], Mapping[str, int]]
    contestants: Sequence[Contestant]
    floor: str
    targets: Sequence[Target]
    peers: Sequence[str] = ()  # contestants that the table compares all others with
    megabytes_of: Callable[[Path], float] | None = None
    speeds: Sequence[SpeedTarget] = ()
    about: Callable[[Path], str] | None = None
    master: str = ONE_MACHINE


@dataclass(frozen=True)
class Round:
    """One run of one contestant: seconds, and bytes at their peak."""

    wall_s: float
    cpu_jvm_s: float
    cpu_python_s: float
    jvm_bytes: int
    python_bytes: int
    largest_python_bytes: int
    stages_s: tuple[float, ...] = ()  # each of Spark's by itself, the longest first

    @property
    def cpu_s(self) -> float:
        """CPU seconds in all."""
        return self.cpu_jvm_s + self.cpu_python_s


@dataclass
class Outcome:
    """A contestant's rounds and its answer; ``fresh``: the first round of its process, measured or to warm up."""

    contestant: Contestant
    rounds: list[Round] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    fresh: Round | None = None


class Stage:
    """A contestant's process, alive and waiting between its rounds."""

    def __init__(self, contestant: Contestant, data: Path, peer_python: str, master: str, log: Path) -> None:
        python = peer_python if contestant.peer else sys.executable
        self._log = log.open("ab")
        self._name = contestant.name
        self._process = subprocess.Popen(
            [python, "-m", "bench.stage", contestant.module, contestant.name, str(data)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC", MASTER: master},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ready(self) -> None:
        """Wait until it is open."""
        self._reply()

    def run(self) -> Round:
        """One round, measured; what it needs to be there is made before."""
        self._ask("prepare")
        meter = Meter(self._process.pid)
        meter.start()
        self._ask("run")
        meter.stop()
        return Round(
            meter.wall_s,
            meter.cpu_s[JVM],
            meter.cpu_s[PYTHON],
            meter.peak[JVM],
            meter.peak[PYTHON],
            meter.largest_python,
            tuple(self._ask("stages")["stages_s"]),
        )

    def answer(self) -> dict[str, Any]:
        """What the last round found."""
        answer: dict[str, Any] = self._ask("answer")["answer"]
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()

    def _ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"contestant {self._name!r} ended with {self._process.wait()}; see {self._log.name}.")
        reply: dict[str, Any] = json.loads(line)
        return reply


def hold(
    benchmark: Benchmark,
    data_of: Callable[[Contestant], Path],
    *,
    rounds: int,
    warm_ups: int,
    peer_python: str,
    log: Path,
) -> list[Outcome]:
    """All contestants, in turn in each round; the order turns by one, so that nobody is always after the same one."""
    outcomes = [Outcome(contestant) for contestant in benchmark.contestants]
    stages = [Stage(o.contestant, data_of(o.contestant), peer_python, benchmark.master, log) for o in outcomes]
    for stage in stages:
        stage.ready()
    pairs = list(zip(outcomes, stages, strict=True))
    for number in range(-warm_ups, rounds):
        shift = number % len(pairs)
        for outcome, stage in pairs[shift:] + pairs[:shift]:
            measured = stage.run()
            name = outcome.contestant.name
            print(f"  {number + 1:>2} {name:<32} {measured.wall_s:7.2f} s wall {measured.cpu_s:7.2f} s CPU", flush=True)
            outcome.fresh = outcome.fresh or measured
            if number >= 0:
                outcome.rounds.append(measured)
            if number == rounds - 1:
                outcome.answer = stage.answer()
    for stage in stages:
        stage.close()
    return outcomes


def disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    """Where contestants on the same data gave different answers to the same part."""
    told: dict[tuple[int | None, str], tuple[str, Any]] = {}
    found = []
    for outcome in outcomes:
        for part in outcome.contestant.covers:
            given = outcome.answer.get(part)
            name, first = told.setdefault((outcome.contestant.rows, part), (outcome.contestant.name, given))
            if given != first or given is None:
                found.append(f"{part}: {name} says {first}, {outcome.contestant.name} says {given}")
    return found


def compared(outcomes: Sequence[Outcome]) -> list[str]:
    """The parts that two contestants or more answered on the same data: what ``disagreements`` can tell of."""
    told = Counter((outcome.contestant.rows, part) for outcome in outcomes for part in outcome.contestant.covers)
    return list(dict.fromkeys(part for (_, part), answers in told.items() if answers > 1))


def data_of_benchmark(benchmark: Benchmark, place: Path, rows: int) -> Path:
    """The folder of the benchmark's data; made once, and anew where that was interrupted."""
    data = place / f"{benchmark.name}-{rows}"
    done = data / "_DONE"
    if not done.exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        print(f"  making {rows:,} rows", flush=True)
        # A process of its own: its memory is not that of a contestant.
        maker = multiprocessing.get_context("spawn").Process(target=benchmark.prepare, args=(data, rows))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise SystemExit(f"the data of {benchmark.name} could not be made (exit code {maker.exitcode}).")
        done.touch()
    return data

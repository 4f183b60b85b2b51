"""``python -m bench [NAME ...]``: make the data, hold the benchmarks, print the tables, write the record."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench.contest import ROOT, Benchmark, Contestant, compared, data_of_benchmark, disagreements, hold
from bench.record import RECORDS, machine, made_by, record_name, table, targets

MODULES = ("bench.windows", "bench.whole_jobs", "bench.ingestion", "bench.allocation", "bench.parser_throughput")
BENCHMARKS = {one.name: one for module in MODULES for one in import_module(module).BENCHMARKS}
# A name for all benchmarks of a module that has many.
GROUPS = {"readers": [one.name for one in import_module("bench.parser_throughput").BENCHMARKS]}


def main() -> None:
    """Hold the benchmarks that were named, all of them by default. Exit code 1: contestants disagree."""
    given = _options()
    names = [name for said in given.names or BENCHMARKS for name in GROUPS.get(said, [said])]
    with tempfile.TemporaryDirectory(prefix="hindsight-bench-") as scratch:
        place = Path(given.data or scratch)
        reports = [_held(BENCHMARKS[name], place, given) for name in names]
    if not given.no_record:
        now = datetime.now(UTC)
        record = RECORDS / f"{now:%Y-%m-%d}-{record_name(given.names, given.rows)}.md"
        head = f"# {now:%Y-%m-%d}: {', '.join(names)}\n\n{machine(given.peer_python)} {given.note}".rstrip()
        head += f"\n\n{made_by('bench')}\n"
        record.write_text("\n".join([head, *reports]), encoding="utf-8")
        print(f"\nwritten to {record.relative_to(ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = f"{', '.join(BENCHMARKS)}; {', '.join(GROUPS)}: all of them"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks ({known}); default: all")
    parser.add_argument("--data", help="folder to keep the generated data in; default: a temporary one")
    parser.add_argument("--rows", type=int, help="rows instead of the benchmark's own number")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, the best counts (default 3)")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before, not counted (default 1)")
    parser.add_argument("--only", help="only these contestants, separated by ';'; the scan is always one")
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-bench/bin/python"), help="the peers' interpreter")
    parser.add_argument("--note", default="", help="what the record should say of the circumstances")
    parser.add_argument("--no-record", action="store_true", help="print only")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS) - set(GROUPS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))} (known: {known})")
    return given


def _held(benchmark: Benchmark, place: Path, given: argparse.Namespace) -> str:
    whole = given.rows or benchmark.rows
    left_out = ""
    if given.only:
        benchmark, left_out = _with_only(benchmark, given.only.split(";"))

    def data_of(contestant: Contestant) -> Path:
        return data_of_benchmark(benchmark, place, min(whole, contestant.rows or whole))

    print(f"{benchmark.title}: {whole:,} rows", flush=True)
    log = place / f"{benchmark.name}.log"
    for contestant in benchmark.contestants:
        data_of(contestant)
    outcomes = hold(
        benchmark, data_of, rounds=given.rounds, warm_ups=given.warm_ups, peer_python=given.peer_python, log=log
    )
    if wrong := disagreements(outcomes):
        raise SystemExit("contestants disagree:\n" + "\n".join(wrong))
    rows = {c.rows: benchmark.rows_of(data_of(c)) for c in benchmark.contestants}
    both = compared(outcomes)
    answers = f"Equal answers to: {', '.join(both)}." if both else "No two answer the same part."
    how = (
        f"{given.rounds} interleaved rounds after {given.warm_ups} to warm up; the best of each counts. "
        f"{answers}{left_out}"
    )
    if benchmark.about:
        how += f" {benchmark.about(data_of(benchmark.contestants[0]))}"
    size = benchmark.megabytes_of(data_of(benchmark.contestants[0])) if benchmark.megabytes_of else None
    parts = [f"## {benchmark.title}", how, table(benchmark, outcomes, rows, size), targets(benchmark, outcomes, size)]
    report = "\n\n".join(parts) + "\n"
    print(report, flush=True)
    return report


def _with_only(benchmark: Benchmark, names: list[str]) -> tuple[Benchmark, str]:
    """The benchmark with these contestants, its floor and the targets that are left, and a sentence on the others."""
    chosen = [c for c in benchmark.contestants if c.name in (*names, benchmark.floor)]
    there = {c.name for c in chosen}
    targets = [t for t in benchmark.targets if {t.what, t.of} <= there]
    speeds = [t for t in benchmark.speeds if t.what in there]
    others = ", ".join(dict.fromkeys(c.name for c in benchmark.contestants if c.name not in there))
    return replace(benchmark, contestants=chosen, targets=targets, speeds=speeds), f" Left out: {others}."


if __name__ == "__main__":
    main()

"""Imports go one way and are spelled one way: what is installed is ``hindsight``, and nothing in it makes a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from bench.reach import COMMAND_LINE, circle, modules, named

ROOT = Path(__file__).parent.parent
PACKAGES = ("conf", "schemas", "udfs", "jobs")
# Folders that may import less than all that lies below jobs; the longest that matches counts.
ALLOWED = {
    "udfs": {"schemas", "udfs"},
    "schemas": {"schemas"},
    "conf": {"conf"},
    # none loads Spark
    "jobs/collect": {
        "conf.failure",
        "jobs.collect",
        "jobs.running.interrupts",
        "jobs.running.run_log",
        "jobs.running.run_metrics",
        "jobs.running.terminal",
        "udfs",
    },
    "jobs": {"conf", "jobs", "schemas", "udfs"},
}
TOP = ("jobs", "udfs")
# What ``ls jobs`` shows beside folders: what spark-submit starts, each by its command's name.
JOBS = {
    "check_quality": "check",
    "flag_allocation_drift": "flag-allocation-drift",
    "ingest_consumer_snapshots": "ingest-consumer-snapshots",
    "ingest_send_records": "ingest-send-records",
    "maintain": "maintain",
    "rebuild_availability": "rebuild-availability",
    "render_report": "render-report",
    "run_pipeline": "run-pipeline",
}
MODULES = {
    "hindsight." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py" or package == "schemas"
}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}
SOURCES = sorted(
    path for folder in (*PACKAGES, "bench", "collectors", "tests") for path in (ROOT / folder).rglob("*.py")
)


@cache
def imports(path: Path, *, loaded: bool = False) -> list[str]:
    """Modules that a file imports, wherever in it, and names in them; ``loaded``: not for its annotations alone."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), []
    if loaded:
        tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_" in ast.unparse(node.test))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or "."] + [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def of_folder(path: Path) -> set[str]:
    place = path.parent.relative_to(ROOT)
    return next(ALLOWED[str(at)] for at in (place, *place.parents) if str(at) in ALLOWED)


def has_circle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def wrong(paths: Iterable[Path], of_file: Callable[[Path], Collection[str]]) -> dict[str, Collection[str]]:
    """What is wrong in each file, by its place; nothing where all is well."""
    return {str(path.relative_to(ROOT)): found for path in paths if (found := of_file(path))}


def test_imports_have_one_spelling():
    in_programs = re.compile(rf"\b(?:from|import) (?:{'|'.join(PACKAGES)})[. ](?!the\b)")  # that a test starts

    def misspelt(path: Path) -> list[str]:
        own = [name for name in imports(path) if name.split(".")[0] in (*PACKAGES, "")]
        return own + in_programs.findall(path.read_text(encoding="utf-8"))

    assert wrong(SOURCES, misspelt) == {}


def test_a_module_imports_only_what_lies_below_it():
    def above(path: Path) -> list[str]:
        own = [name.removeprefix("hindsight.") for name in imports(path) if is_within(name, "hindsight")]
        return [name for name in own if not any(is_within(name, ok) for ok in of_folder(path))]

    assert wrong(MODULES.values(), above) == {}


def test_folders_import_as_the_page_says():
    """Names as strings counted."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`(?:jobs|conf|udfs|schemas)/[^|]*) \|", page.partition("## Folders")[2], re.MULTILINE)
    rank = {place: number for number, line in enumerate(lines) for place in re.findall(r"`([\w/.*]+)`", line)}

    def rank_of(path: Path) -> int:
        place = path.relative_to(ROOT)
        return (
            rank[str(place)] if str(place) in rank else rank[f"{place.parent}/" + "*.py" * (str(place.parent) in TOP)]
        )

    def above(path: Path) -> list[str]:
        text = path.read_text(encoding="utf-8")
        named = [*imports(path), *re.findall(r"[\"']\.?(hindsight\.[\w.]+)", text)]
        other = {name: MODULES[name] for name in named if name in MODULES and MODULES[name] != path}
        return [name for name, file in other.items() if rank_of(file) < rank_of(path)]

    starting = [*(f"jobs/{job}.py" for job in JOBS), "jobs/scenarios/other_lakes.py"]  # the last: of another release
    assert wrong(MODULES.values(), above) == {job: ["hindsight.jobs.command_line"] for job in starting}


def test_only_the_border_module_of_udfs_imports_pyspark():
    kernels = [path for name, path in MODULES.items() if is_within(name, "hindsight.udfs")]
    meet_spark = [path for path in kernels if any(name.split(".")[0] == "pyspark" for name in imports(path))]
    assert [path.name for path in meet_spark] == ["pandas_udfs.py"]


def test_only_the_pipeline_and_the_commands_import_jobs():
    def jobs(path: Path) -> set[str]:
        return {name.split(".")[2] for name in imports(path) if name.startswith("hindsight.jobs.")} & JOBS.keys()

    others = [path for path in MODULES.values() if path.parent.name != "commands" and path.stem != "run_pipeline"]
    assert wrong(others, jobs) == {}


def test_what_lies_in_jobs_are_the_jobs():
    assert {path.stem for path in (ROOT / "jobs").glob("*.py")} == {*JOBS, "__init__", "command_line"}


def test_a_job_is_started_by_its_file():
    for job, command in JOBS.items():
        assert f'if __name__ == "__main__":\n    main("{command}")\n' in (ROOT / "jobs" / f"{job}.py").read_text()


def test_nothing_in_jobs_hides_a_module_of_the_standard_library():
    """A file that is started has its folder searched first."""
    assert not {path.stem for path in (ROOT / "jobs").iterdir()} - {"__init__"} & set(sys.stdlib_module_names)


def test_imports_make_no_circle():
    assert has_circle({name: {*imports(path, loaded=True)} & MODULES.keys() for name, path in MODULES.items()}) is None


def test_names_as_strings_make_no_circle_and_the_command_line_is_named_where_it_is_started():
    """By a job's file that spark-submit starts, and as another release, in a process of its own."""
    starting = {name for name in modules(ROOT) if COMMAND_LINE in named(ROOT, name)}
    assert starting == {*(f"hindsight.jobs.{job}" for job in JOBS), "hindsight.jobs.scenarios.other_lakes"}
    assert circle(ROOT) == []


def test_folders_make_no_circle():
    """Modules of ``jobs`` and ``udfs`` that lie in no folder stand for themselves."""

    def place(name: str) -> str:
        _, package, *rest = name.split(".")
        return f"{package}/{rest[0]}" if package in ("jobs", "udfs") else package

    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        graph.setdefault(place(name), set()).update(
            place(other) for other in {*imports(path, loaded=True)} & MODULES.keys() if place(other) != place(name)
        )
    assert has_circle(graph) is None


def test_kernels_found_from_the_root_alone_are_the_same_modules():
    """By the name that they have there, whatever else is installed."""
    code = f"""
import {"udfs"}.fault_tolerance as faults, {"udfs"}.release_profiles as releases, {"udfs"}.allocation as allocation
import hindsight.udfs.allocation as own, hindsight.udfs.release_profiles as own_releases
import {"udfs"}.values.row_hashes
assert allocation is own and releases is own_releases
assert own.__spec__.name == own.__name__ == "hindsight.udfs.allocation"
try:
    faults.profile_for("0.1")
except releases.UnknownReleaseError:
    print("one")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("one\n", "")

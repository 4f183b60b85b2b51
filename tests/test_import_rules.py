"""Imports go one way: jobs -> transforms -> udfs, schemas; jobs -> conf. Only the border module meets Spark in udfs."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWN = ("conf", "schemas", "udfs", "jobs")
ALLOWED = {
    "udfs": {"udfs"},
    "schemas": {"schemas"},
    "conf": {"conf"},
    "jobs/transforms": {"jobs.transforms", "schemas", "udfs"},
    # none loads Spark
    "jobs/collect": {"conf.failure", "jobs.collect", "jobs.run_log", "jobs.run_metrics", "jobs.terminal", "udfs"},
    "jobs/engines": {"jobs", "conf", "schemas", "udfs"},
    "jobs": {"jobs", "conf", "schemas", "udfs"},
}
JOBS = {
    "ingest_send_records",
    "ingest_consumer_snapshots",
    "rebuild_availability",
    "flag_allocation_drift",
    "render_report",
    "maintain",
    "run_pipeline",
    "job_commands",
    "lake_commands",
    "asking_commands",
    "watch_command",
}
# Modules that put jobs together.
COMMANDS = {"run_pipeline", "job_commands", "lake_commands", "asking_commands", "watch_command"}
MODULES = sorted(path for package in OWN for path in (ROOT / package).rglob("*.py"))


def imports(path: Path, *, loaded: bool = False) -> list[str]:
    """Modules that a file imports, wherever in it, and names in them; ``loaded``: not for its annotations alone."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), []
    if loaded:
        tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_" in ast.unparse(node.test))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_what_lies_below_it(path):
    place = str(path.parent.relative_to(ROOT))
    own = [name for name in imports(path) if name.split(".")[0] in OWN]
    wrong = [name for name in own if not any(name == ok or name.startswith(f"{ok}.") for ok in ALLOWED[place])]
    assert wrong == []


@pytest.mark.parametrize("path", [p for p in MODULES if p.parent.name == "udfs"], ids=lambda p: p.name)
def test_only_the_border_module_of_udfs_imports_pyspark(path):
    meets_spark = any(name.split(".")[0] == "pyspark" for name in imports(path))
    assert meets_spark == (path.name == "pandas_udfs.py")


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.py")), ids=lambda p: p.name)
def test_only_the_pipeline_and_the_command_line_import_jobs(path):
    imported = {name.split(".")[1] for name in imports(path) if name.startswith("jobs.")} & JOBS
    assert not imported or path.stem in COMMANDS


def test_no_module_hides_one_of_the_standard_library():
    names = {path.stem for path in (ROOT / "jobs").glob("*.py")} - {"__init__"}
    assert not names & set(sys.stdlib_module_names)


def test_imports_make_no_circle():
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in MODULES}
    order = TopologicalSorter({name: {*imports(path, loaded=True)} & names.keys() for name, path in names.items()})
    order.prepare()

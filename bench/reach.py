"""How far each job reaches: the modules that its file imports, at any level, and how many lines they have.

``python -m bench.reach [ROOT]``: of the checkout at ROOT, which is only read. An import counts wherever it stands, and
so does a module's name that stands as a string; of ``f"hindsight.jobs.{name}"`` each string of that file that names a
module there. What only annotations need (``TYPE_CHECKING``) does not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGES = ("conf", "schemas", "udfs", "jobs")
COMMAND_LINE = "hindsight.jobs.command_line"


@cache
def modules(root: Path) -> dict[str, Path]:
    """Every module of the product by its name; a package's face by the package's, if it has code."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        name = ".".join(("hindsight", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        if path.name != "__init__.py" or len(ast.parse(path.read_text(encoding="utf-8")).body) > 1:
            found[name] = path
    return found


@cache
def named(root: Path, name: str) -> frozenset[str]:
    """The modules that one module imports or names."""
    tree = ast.parse(modules(root)[name].read_text(encoding="utf-8"))
    nodes = [*_loaded(tree)]
    prefixes = {text for node in nodes if isinstance(node, ast.JoinedStr) for text in _texts(node.values[:1])}
    found = {found for node in nodes for found in _imported(node)}
    for text in _texts(nodes):
        found |= {text, *(f"{prefix}{text}" for prefix in prefixes if prefix.startswith("hindsight."))}
        found |= {f"{other}{text}" for other in _texts(nodes) if other.startswith("hindsight.") and other[-1:] == "."}
    return frozenset(found & modules(root).keys() - {name})


def _loaded(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _loaded(node)


def _texts(nodes: list[ast.expr] | list[ast.AST]) -> set[str]:
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reach(root: Path, job: str, *, without: frozenset[str] = frozenset()) -> set[str]:
    """The modules that a job's file reaches, itself among them; ``without``: where it goes no further."""
    found, waiting = set(), [f"hindsight.jobs.{job}"]
    while waiting:
        name = waiting.pop()
        if name not in found and name not in without:
            found.add(name)
            waiting += named(root, name)
    return found


def circle(root: Path) -> list[str]:
    """The modules of a circle of imports, names as strings counted; none where there is none.

    The command line's name does not count: it stands where it is started, by a job's file and as another release.
    """
    try:
        TopologicalSorter({name: named(root, name) - {COMMAND_LINE} for name in modules(root)}).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def lines(root: Path, names: set[str] | None = None) -> int:
    """Lines of modules, else of all."""
    wanted = modules(root) if names is None else {name: modules(root)[name] for name in names}
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in wanted.values())


def main(root: Path) -> None:
    """Print the table."""
    print(f"{len(modules(root))} modules, {lines(root):,} lines; a circle: {' > '.join(circle(root)) or 'none'}\n")
    print("| job | modules | lines | with the command line: modules | lines |\n|---|---:|---:|---:|---:|")
    for path in sorted((root / "jobs").glob("*.py")):
        if path.stem not in ("__init__", "command_line"):
            alone, whole = reach(root, path.stem, without=frozenset({COMMAND_LINE})), reach(root, path.stem)
            print(f"| {path.stem} | {len(alone)} | {lines(root, alone):,} | {len(whole)} | {lines(root, whole):,} |")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())

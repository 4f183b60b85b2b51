"""A process id in; CPU seconds and resident memory of it and everything it started out, read from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_S = 0.05
JVM, PYTHON = "jvm", "python"


@dataclass(frozen=True)
class Usage:
    """One process at one instant: what it is, its own CPU seconds, resident bytes."""

    pid: int
    kind: str
    cpu_s: float
    resident: int


def usages(root: int) -> Iterator[Usage]:
    """The process and all its descendants that are alive."""
    below: dict[int, list[int]] = {}
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(entry)) is not None:
            stats[int(entry.name)] = stat
            below.setdefault(int(stat[2]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += below.get(pid, [])
        if pid in stats and (kind := _kind(pid, stats[pid][0])):
            cpu_s = sum(map(int, stats[pid][12:14])) / _TICKS
            yield Usage(pid, kind, cpu_s, int(stats[pid][22]) * _PAGE)


def _kind(pid: int, name: str) -> str | None:
    """What a process is; None: a thread of a JVM on its way to another program, which still shows the JVM's memory."""
    if name == "java":
        return JVM
    try:
        return None if Path(f"/proc/{pid}/exe").readlink().name == "java" else PYTHON
    except FileNotFoundError:
        return None  # it has ended


def threads(pid: int) -> Iterator[tuple[int, str, float]]:
    """The threads of a process that are alive: id, the first 15 letters of the name, CPU seconds."""
    for entry in _listed(Path(f"/proc/{pid}/task")):
        if (stat := _stat(entry)) is not None:
            yield int(entry.name), stat[0], sum(map(int, stat[12:14])) / _TICKS


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def _stat(process: Path) -> list[str] | None:
    """Name and fields of /proc/<pid>/stat, numbered as proc(5) does from 2 on; None: it has ended."""
    try:
        text = (process / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    head, _, rest = text.rpartition(")")
    return [head.partition("(")[2], *rest.split()]


class ProcessTree:
    """A process and its descendants, looked at now and then; what ended between two looks is remembered.

    Nobody waits for the Python workers of Spark: what they took is in no account of their parents when they end.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._last: dict[int, Usage] = {}

    def look(self) -> list[Usage]:
        """What is alive; none once the root has ended."""
        found = [usage for usage in usages(self._root) if usage.resident]
        self._last |= {usage.pid: usage for usage in found}
        return found

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds by kind up to the last look."""
        return {kind: sum(u.cpu_s for u in self._last.values() if u.kind == kind) for kind in (JVM, PYTHON)}


class Meter(threading.Thread):
    """Watches a process tree from ``start()`` to ``stop()``: wall and CPU seconds, and peaks of memory, by kind."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._tree = ProcessTree(root)
        self._over = threading.Event()
        self.peak: dict[str, int] = {JVM: 0, PYTHON: 0}
        self.largest_python = 0
        self.cpu_s: dict[str, float] = {}
        self.wall_s = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._look()
        self._cpu_before = self._tree.cpu_s()
        self._begin = time.perf_counter()
        super().start()

    def run(self) -> None:
        """Sample until stopped."""
        while not self._over.wait(_SAMPLE_S):
            self._look()

    def stop(self) -> None:
        """End the measurement."""
        self.wall_s = time.perf_counter() - self._begin
        self._over.set()
        self.join()
        self._look()
        self.cpu_s = {kind: after - self._cpu_before[kind] for kind, after in self._tree.cpu_s().items()}

    def _look(self) -> None:
        resident = {JVM: 0, PYTHON: 0}
        for usage in self._tree.look():
            resident[usage.kind] += usage.resident
            if usage.kind == PYTHON:
                self.largest_python = max(self.largest_python, usage.resident)
        self.peak = {kind: max(peak, resident[kind]) for kind, peak in self.peak.items()}

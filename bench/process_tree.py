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
    """One process at one instant: what it is, CPU seconds with those of its ended children, resident bytes."""

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
        if pid in stats:
            name, stat = stats[pid][0], stats[pid]
            cpu_s = sum(map(int, stat[12:16])) / _TICKS
            yield Usage(JVM if name == "java" else PYTHON, cpu_s, int(stat[22]) * _PAGE)


def _stat(process: Path) -> list[str] | None:
    """Name and fields of /proc/<pid>/stat, numbered as proc(5) does from 2 on; None: it has ended."""
    try:
        text = (process / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    head, _, rest = text.rpartition(")")
    return [head.partition("(")[2], *rest.split()]


class Meter(threading.Thread):
    """Watches a process tree from ``start()`` to ``stop()``: wall and CPU seconds, and peaks of memory, by kind."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._over = threading.Event()
        self.peak: dict[str, int] = {JVM: 0, PYTHON: 0}
        self.largest_python = 0
        self.cpu_s: dict[str, float] = {}
        self.wall_s = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._cpu_before = self._sample()
        self._begin = time.perf_counter()
        super().start()

    def run(self) -> None:
        """Sample memory until stopped."""
        while not self._over.wait(_SAMPLE_S):
            self._sample()

    def stop(self) -> None:
        """End the measurement."""
        self.wall_s = time.perf_counter() - self._begin
        self._over.set()
        self.join()
        after = self._sample()
        self.cpu_s = {kind: max(0.0, after[kind] - before) for kind, before in self._cpu_before.items()}

    def _sample(self) -> dict[str, float]:
        cpu_s, resident = {JVM: 0.0, PYTHON: 0.0}, {JVM: 0, PYTHON: 0}
        for usage in usages(self._root):
            cpu_s[usage.kind] += usage.cpu_s
            resident[usage.kind] += usage.resident
            if usage.kind == PYTHON:
                self.largest_python = max(self.largest_python, usage.resident)
        self.peak = {kind: max(peak, resident[kind]) for kind, peak in self.peak.items()}
        return cpu_s

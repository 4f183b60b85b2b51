"""Many small tasks in a few heaps: a worker takes one at a time, and a small input is one heap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hindsight.jobs.engines.blobs import Blob
from hindsight.jobs.engines.runner import Kernel

_BYTES, _TASKS = 8 << 20, 200


@dataclass(frozen=True)
class OfHeap:
    """Runs a kernel for each task of a heap."""

    kernel: Kernel

    def __call__(self, heap: Sequence[Any]) -> Iterator[Blob]:
        """What it gives for one after the other."""
        for task in heap:
            yield from self.kernel(task)


def heaps(tasks: Sequence[Any], size_of: Callable[[Any], int]) -> list[Sequence[Any]]:
    """The tasks in their order: a large one by itself, small ones together; ``size_of`` says of how many bytes."""
    found: list[list[Any]] = []
    room = 0
    for task in tasks:
        size = size_of(task)
        if not found or len(found[-1]) == _TASKS or size > room:
            found.append([])
            room = _BYTES
        found[-1].append(task)
        room -= size
    return list(found)


def file_heaps(tasks: Sequence[Any]) -> list[Sequence[Any]]:
    """The same of tasks that each read one ``file`` of a table."""
    return heaps(tasks, lambda task: task.file.size)

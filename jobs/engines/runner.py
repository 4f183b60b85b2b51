"""How kernels run, whatever runs them: over tasks, then over keys; rows go from one to the next as blobs.

An example: each task gives the attempts of a file, by bucket of producers. Then each bucket counts those of all files.

>>> from hindsight.jobs.engines.local_runner import LocalRunner
>>> def cut(attempts_by_bucket):
...     for bucket, attempts in attempts_by_bucket.items():
...         yield Blob("attempts", bucket, 0, pa.table({"client_id": attempts}))
>>> def count(bucket, given):
...     rows = sum(table.num_rows for table in given.tables("attempts"))
...     yield Blob("counted", 0, bucket, pa.table({"bucket": [bucket], "rows": [rows]}))
>>> with LocalRunner(workers=1) as runner:
...     cut_rows = runner.each(cut, [{0: ["a", "a"], 1: ["b"]}, {0: ["c"]}])
...     for table in runner.by_key(count, cut_rows).tables("counted"):
...         print(table.to_pylist())
[{'bucket': 0, 'rows': 3}]
[{'bucket': 1, 'rows': 1}]

``SparkRunner`` does the same with a shuffle between the two steps.

Many small tasks in a few heaps: a worker takes one at a time, and a small input is one heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from hindsight.jobs.engines.blobs import Blob, Given

# Of one task, a plain value that can be pickled.
Kernel = Callable[[Any], Iterator[Blob]]
# Of some rows of a table.
RowKernel = Callable[[pa.Table], Iterator[Blob]]
# Of one key, with all blobs that have it.
KeyKernel = Callable[[int, Given], Iterator[Blob]]
_BYTES, _TASKS = 8 << 20, 200


class KernelFailedError(RuntimeError):
    """Raised where a kernel failed in a worker of this machine; its text is the worker's."""


class Blobs(Protocol):
    """What kernels gave, kept until the run ends."""

    def of(self, *names: str) -> Blobs:
        """Those of these names alone."""

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Those of a name, brought here: for small things only."""

    def rows(self, name: str, schema: pa.Schema) -> Any:
        """Those of a name as the engine's lake takes rows; ``schema``: of each of them."""


class Runner(Protocol):
    """Runs kernels in workers. A kernel and its tasks are pickled, so it is a function of a module, or a value of one.

    Raises of each method: KernelFailedError, or what Spark raises.
    """

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> Blobs:
        """Run a kernel for each task."""

    def over(self, kernel: RowKernel, rows: Any) -> Blobs:
        """Run a kernel over rows as the engine's lake hands them on, piece by piece."""

    def together(self, *given: Any) -> Blobs:
        """Several blobs as one."""

    def by_key(self, kernel: KeyKernel, *given: Any) -> Blobs:
        """Run a kernel for each key of some blobs; all blobs of a key meet."""


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

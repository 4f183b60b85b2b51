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

Rows on their way from one kernel to the next: named, addressed, in order; as bytes in files that workers map.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from hindsight.udfs.values.columns import whole

_NEW_OBJECTS = 100_000  # until Python looks at the youngest for circles; its own: 700
_MOST_BYTES = 16 << 20  # of one blob: Spark hands a worker some of them at once


class Blob(NamedTuple):
    """Some rows that a kernel gives.

    Attributes:
        name: what they are: of a table, or the kernels' own word.
        key: who gets them.
        place: their place among those of the same name and key.
    """

    name: str
    key: int
    place: int
    rows: pa.Table


class Entry(NamedTuple):
    """Packed rows of a blob in a file: where their bytes stand."""

    name: str
    key: int
    place: int
    file: str
    start: int
    size: int


def copies(name: str, rows: pa.Table, keys: Callable[[str], Collection[int]], place: int = 0) -> Iterator[Blob]:
    """The rows of topics, as copies for those that want them: ``keys`` gives these by the topic."""
    topics = whole(rows, "topic").dictionary_encode()
    wanted: dict[int, list[int]] = defaultdict(list)
    for number, topic in enumerate(topics.dictionary.to_pylist()):
        for key in keys(topic):
            wanted[key].append(number)
    codes = topics.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for key, numbers in sorted(wanted.items()):
        yield Blob(name, key, place, rows.filter(pa.array(np.isin(codes, numbers))))


def packed(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Rows as bytes of an Arrow stream; of many, several streams."""
    parts = max(1, -(-rows.nbytes // _MOST_BYTES))
    of_each = max(1, -(-rows.num_rows // parts))
    for start in range(0, max(1, rows.num_rows), of_each):
        yield _bytes(rows.slice(start, of_each))


def _bytes(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # Chunks of one column may have dictionaries of their own, which a stream can hold only one after the other.
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.unify_dictionaries().combine_chunks())
    return sink.getvalue()


def unpacked(rows: pa.Buffer | bytes | memoryview) -> pa.Table:
    """The rows of a packed blob; they share its bytes."""
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()


class Spool:
    """A file of blobs that grows at its end."""

    def __init__(self, path: Path) -> None:
        self._path, self._end = path, 0
        self._file = path.open("wb")
        self.entries: list[Entry] = []

    def add(self, address: tuple[str, int, int], rows: pa.Buffer) -> None:
        """Write packed rows of a blob of this name, key and place."""
        self._file.write(rows)
        size = len(rows)
        self.entries.append(Entry(*address, str(self._path), self._end, size))
        padding = -size % 64  # Arrow wants its buffers aligned
        self._file.write(bytes(padding))
        self._end += size + padding

    def close(self) -> None:
        """Nothing more is added."""
        self._file.close()


def by_key(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """The entries of each key, by key in order."""
    found: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.key].append(entry)
    return dict(sorted(found.items()))


class Given:
    """The blobs of one key, for a kernel to read by name, as often as it likes."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_name: dict[str, list[Entry]] = defaultdict(list)
        for entry in sorted(entries):
            self._by_name[entry.name].append(entry)
        self._maps: dict[str, pa.Buffer] = {}

    def places(self, name: str) -> list[int]:
        """The places of the blobs of this name, in order, each once."""
        return sorted({entry.place for entry in self._by_name.get(name, ())})

    def tables(self, name: str, first: int | None = None, last: int | None = None) -> Iterator[pa.Table]:
        """Their rows, in order of place; from the place ``first`` to before ``last``."""
        for entry in self._by_name.get(name, ()):
            if (first is None or entry.place >= first) and (last is None or entry.place < last):
                yield self._rows(entry)

    def _rows(self, entry: Entry) -> pa.Table:
        if entry.file not in self._maps:
            with pa.memory_map(entry.file) as source:
                self._maps[entry.file] = source.read_buffer()
        return unpacked(self._maps[entry.file].slice(entry.start, entry.size))


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


@contextmanager
def rare_collections() -> Iterator[None]:
    """Few searches for objects that refer to each other in circles inside, where a kernel makes many that last.

    Such a search looks at all objects that are alive, again and again: a fifth of the time of a fold that remembers
    something of every queue.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)

"""Rows on their way from one kernel to the next: named, addressed, in order; as bytes in files that workers map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.values.arrays import whole

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


class Packed(NamedTuple):
    """A blob as bytes of an Arrow stream."""

    name: str
    key: int
    place: int
    rows: pa.Buffer


class Entry(NamedTuple):
    """A packed blob in a file: where its bytes stand."""

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


def packed(blob: Blob) -> Iterator[Packed]:
    """A blob as bytes; one that is large in parts of the same place."""
    parts = max(1, -(-blob.rows.nbytes // _MOST_BYTES))
    rows = max(1, -(-blob.rows.num_rows // parts))
    for start in range(0, max(1, blob.rows.num_rows), rows):
        yield Packed(*blob[:3], _bytes(blob.rows.slice(start, rows)))


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

    def add(self, blob: Packed) -> None:
        """Write a blob."""
        self._file.write(blob.rows)
        size = len(blob.rows)
        self.entries.append(Entry(*blob[:3], str(self._path), self._end, size))
        padding = -size % 64  # Arrow wants its buffers aligned
        self._file.write(bytes(padding))
        self._end += size + padding

    def close(self) -> None:
        """Nothing more is added."""
        self._file.close()


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

"""Rows that a run read, and stored ones with the same keys, in; what becomes of them, and of which lines, out.

Most rows have no rival: neither the run nor the table holds another row of the same key. A hash of the key is enough to
see that, and such rows are stored as they are. All others are taken apart into their source lines and settled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.landing.rows_by_key import Keyed, merged
from hindsight.udfs.landing.send_halves import halves_apart, halves_named
from hindsight.udfs.values.arrays import BoolArray, IntArray
from hindsight.udfs.values.row_hashes import HashArray

_LINE_BITS = 40  # no file has as many lines


def rival_hashes(read: HashArray, stored: HashArray) -> HashArray:
    """The hashes that come more than once in all that a run has ``read`` and that is ``stored``, sorted.

    ``stored``: each key once; of keys that are only stored nothing is said.
    """
    hashes, counts = np.unique(read, return_counts=True)
    return hashes[(counts > 1) | are_among(hashes, np.sort(stored))]


def are_among(hashes: HashArray, wanted: HashArray) -> BoolArray:
    """Which hashes are among the ``wanted`` ones, which are sorted."""
    if not len(wanted):
        return np.zeros(len(hashes), dtype=np.bool_)
    places = np.searchsorted(wanted, hashes)
    found: BoolArray = wanted[np.minimum(places, len(wanted) - 1)] == hashes
    return found


class LineNumbers(NamedTuple):
    """Numbers for the lines of a run's landing files: ``files`` numbers these from 0."""

    files: Mapping[str, int]

    def of(self, rows: pa.Table, keyed: Keyed) -> IntArray:
        """The lines that the rows, or parts of them, are from; each once, sorted. Of other files nothing is said."""
        lines = {part.line for part in keyed.parts} | {"source_line"}
        return np.unique(np.concatenate([self._of(rows, line) for line in sorted(lines)]))

    def _of(self, rows: pa.Table, line: str) -> IntArray:
        named = rows.select([line.replace("_line", "_file"), line]).drop_null().combine_chunks()
        names, numbers = named.columns
        encoded = names.combine_chunks().dictionary_encode()
        of_name: IntArray = np.array([self.files.get(name, -1) for name in encoded.dictionary.to_pylist()], np.int64)
        file = of_name[encoded.indices.to_numpy()]
        found: IntArray = (file << _LINE_BITS | numbers.to_numpy())[file >= 0]
        return found

    def each(self, file: str, lines: Iterable[int]) -> IntArray:
        """Those of some lines of a file."""
        return np.array([self.files[file] << _LINE_BITS | line for line in lines], np.int64)

    @staticmethod
    def file_of(lines: IntArray) -> IntArray:
        """The number of each one's file."""
        return lines >> _LINE_BITS


class Settled(NamedTuple):
    """What becomes of rows that have rivals.

    Attributes:
        inserted: rows of new keys.
        changed: stored rows as they are now.
        lines: the lines read of which a row or a part of one is stored, sorted.
    """

    inserted: pa.Table
    changed: pa.Table
    lines: IntArray


def settled(rows: pa.Table, stored: pa.Table, keyed: Keyed, numbers: LineNumbers, *, hook: str | None) -> Settled:
    """Each key once: of rival lines the smallest wins, part by part.

    Args:
        rows: all of a run that have a key in common, as ``landed_rows`` gives them.
        stored: those of the table that have a key in common with them.
        keyed: the key and parts of the table.
        numbers: of the run's files.
        hook: the source of which equal lines are two halves; None: a row of the table has no halves.
    """
    lines = rows if hook is None else halves_named(halves_apart(rows), keyed.key, hook)
    result = merged(stored, lines, keyed)
    read, named = numbers.of(rows, keyed), numbers.of(pa.concat_tables(result), keyed)
    return Settled(result.inserted, result.changed, np.intersect1d(read, named, assume_unique=True))


def without(rows: pa.Table, is_rival: BoolArray) -> tuple[pa.Table, pa.Table]:
    """The rows that are no rivals, and those that are."""
    if not is_rival.any():
        return rows, rows.slice(0, 0)
    flags = pa.array(is_rival)
    return rows.filter(pc.invert(flags)), rows.filter(flags)

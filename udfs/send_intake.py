"""What a run read of the send attempts in, what becomes of the stored ones out; which lines are stored, and which not.

Most attempts have no rival: neither the run nor the table holds another row of the same key. A hash of the key is
enough to see that, and such rows are stored as they are. All others are taken apart into their source lines and
settled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from udfs.not_available_duration import BoolArray
from udfs.row_hashes import HashArray, row_hashes
from udfs.rows_by_key import Keyed, merged
from udfs.send_halves import halves_apart, halves_named


def rival_hashes(read: Iterable[HashArray], stored: Iterable[HashArray]) -> HashArray:
    """The hashes that come more than once in all that a run has ``read`` and that is ``stored``, sorted.

    ``stored``: each key once; of keys that are only stored nothing is said.
    """
    read = np.concatenate([np.zeros(0, dtype=np.uint64), *read])
    hashes, counts = np.unique(read, return_counts=True)
    known = np.zeros(len(hashes), dtype=np.bool_)
    for some in stored:
        known |= are_among(hashes, np.sort(some))
    return hashes[(counts > 1) | known]


def are_among(hashes: HashArray, wanted: HashArray) -> BoolArray:
    """Which hashes are among the ``wanted`` ones, which are sorted."""
    if not len(wanted):
        return np.zeros(len(hashes), dtype=np.bool_)
    places = np.searchsorted(wanted, hashes)
    found: BoolArray = wanted[np.minimum(places, len(wanted) - 1)] == hashes
    return found


def hashes_read(rows: pa.Table, key: Sequence[str]) -> tuple[HashArray, HashArray]:
    """Of rows of ``halves_joined``, those of one file, each one's hash, and those that ``rival_hashes`` is to be told.

    A line that brings several rows is told twice: it is stored or not as a whole, so its rows are settled together.
    """
    hashes = row_hashes(rows, key)
    own = rows.column("source_line").to_numpy()
    submits = rows.column("submit_line").fill_null(0).to_numpy()
    joined = np.flatnonzero((submits > 0) & (submits != own))
    of_row = np.append(np.arange(len(own)), joined)
    _, line, counts = np.unique(np.append(own, submits[joined]), return_inverse=True, return_counts=True)
    return hashes, np.append(hashes, hashes[of_row[counts[line] > 1]])


class Settled(NamedTuple):
    """What becomes of rows that have rivals.

    Attributes:
        inserted: rows of new keys.
        changed: stored rows as they are now.
        lines: the lines read, ``source_file`` and ``source_line``, of which a row or a part of one is stored.
    """

    inserted: pa.Table
    changed: pa.Table
    lines: pa.Table


def settled(rows: pa.Table, stored: pa.Table, keyed: Keyed, *, hook: str) -> Settled:
    """Each attempt once: of rival lines the smallest wins, part by part.

    Args:
        rows: of ``halves_joined``, all of a run that have a key in common.
        stored: those of the table that have a key in common with them.
        keyed: the key and parts of ``send_attempt``.
        hook: the source of which equal lines are two halves.
    """
    lines = halves_apart(rows)
    result = merged(stored, halves_named(lines, keyed.key, hook), keyed)
    read = lines.select(_PLACE).group_by(_PLACE).aggregate([])
    stored_lines = read.join(lines_named([*result], keyed), _PLACE, join_type="left semi")
    return Settled(result.inserted, result.changed, stored_lines)


_PLACE = ["source_file", "source_line"]


def lines_named(tables: Iterable[pa.Table], keyed: Keyed) -> pa.Table:
    """The source lines that rows, or parts of them, are from: ``source_file`` and ``source_line``, each once."""
    places = [
        rows.select([part.line.replace("_line", "_file"), part.line]).rename_columns(_PLACE).drop_null()
        for rows in tables
        for part in keyed.parts
    ]
    return pa.concat_tables(places).group_by(_PLACE).aggregate([])

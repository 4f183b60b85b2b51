"""Rows and keys in, which rows have one of the keys out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hindsight.udfs.values.arrays import BoolArray, IntArray
from hindsight.udfs.values.row_hashes import groups_of


def places_of_keys(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> IntArray:
    """For each of ``rows`` the place of a row of ``others`` with the same key, -1: there is none; null equals null.

    Of several with that key, the last.
    """
    both = pa.concat_tables([rows.select(list(key)), others.select(list(key))], promote_options="default")
    group = groups_of(both, key).of_row
    of_group: IntArray = np.full(int(group.max()) + 1 if len(group) else 0, -1, dtype=np.int64)
    of_group[group[len(rows) :]] = np.arange(len(others))
    found: IntArray = of_group[group[: len(rows)]]
    return found


def have_keys_of(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> BoolArray:
    """For each of ``rows``, whether one of ``others`` has the same key."""
    found: BoolArray = places_of_keys(rows, others, key) >= 0
    return found

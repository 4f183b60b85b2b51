"""Which of several sources of a producer is computed with."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.landing.landing_formats import distances
from hindsight.udfs.producer.attempt_facts import NEEDED, merged_nearest, nearest_attempts, nearest_of

DAYS = date(2026, 11, 21), date(2026, 11, 22)
MESSAGE, OTHER = "7F00000142CF5FFD2B270A1B2C3D0001", "7F00000142D05FFD2B270A1B2C3D0001"
ROW = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(DAYS),
    st.sampled_from(["g", "h"]),
    st.sampled_from(["c", "d", "process p"]),
    st.sampled_from([MESSAGE, MESSAGE[:-1] + "2", OTHER, "short", ""]),
    st.sampled_from(["producer_hook", "canonical_sends", "trace_topic"]),
)


def table(rows):
    kinds = [pa.date32() if name == "event_date" else pa.string() for name in NEEDED]
    columns = list(zip(*rows, strict=True)) or [()] * len(NEEDED)
    made = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table([*made, pa.array(range(len(rows)))], names=[*NEEDED, "number"])


def nearest(parts):
    seen = [nearest_of(part, distances()) for part in parts]
    return tuple(merged_nearest(list(each)) for each in zip(*seen, strict=True))


def kept(rows):
    made = table(rows)
    return nearest_attempts(made, nearest([made]), distances())["number"].to_pylist()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # The trace names the process by the message id, the hook's records of the same process are nearer.
        ([("c", MESSAGE, "producer_hook"), ("process p", MESSAGE, "trace_topic")], [0]),
        ([("c", OTHER, "producer_hook"), ("process p", MESSAGE, "trace_topic")], [0, 1]),
        ([("process p", MESSAGE, "trace_topic")], [0]),
        # One client, whose message ids a table of one's own does not keep.
        ([("c", MESSAGE, "producer_hook"), ("c", "own-id-of-forty", "canonical_sends")], [0]),
        ([("c", MESSAGE, "canonical_sends"), ("process p", MESSAGE, "trace_topic")], [0]),
    ],
)
def test_of_several_sources_of_a_producer_the_nearest_is_kept(rows, expected):
    assert kept([("oracle", DAYS[0], "g", *row) for row in rows]) == expected


@given(rows=st.lists(ROW, max_size=20), cuts=st.sets(st.integers(1, 19)))
def test_what_is_kept_does_not_depend_on_how_the_rows_lie(rows, cuts):
    far = distances()

    def same(row, other):
        client, process = row[3] == other[3], row[4][:-12] == other[4][:-12]
        return row[:3] == other[:3] and (client or process)

    expected = [n for n, row in enumerate(rows) if all(far[row[5]] <= far[o[5]] for o in rows if same(row, o))]
    assert kept(rows) == expected
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    parts = [table(rows[a:b]) for a, b in pairwise(edges)]
    least = nearest(parts)
    found = [nearest_attempts(part, least, far).num_rows for part in parts]
    assert sum(found) == len(expected)

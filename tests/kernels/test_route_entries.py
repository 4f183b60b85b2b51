"""Entries of routes with their reads: the rows of any rounds come out as they went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.drift.drift_cut import ROUTE_ENTRIES, ROUTE_SCHEMAS
from hindsight.udfs.consumer.topic_routes import READ, entries_of, rounds_of, rows_of

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([f.with_type(f.type.value_type) if f.name in READ else f for f in ROUTE_SCHEMAS[ROUTE_ENTRIES]])
HELD = (None, [], [{"logical_id": 0, "queue_id": 1}], [{"logical_id": 1, "queue_id": 0}])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "collector": st.sampled_from(["", "x"]),
            "round_at": st.one_of(st.none(), st.integers(0, 3)),
            "captured_at": st.integers(0, 9),
            "topic": st.sampled_from("TU"),
            "name_server": st.sampled_from([None, "n"]),
            "broker_name": st.sampled_from("ab"),
            "read_queue_nums": st.integers(1, 2),
            "perm": st.sampled_from([4, 6]),
            "logical_queues": st.sampled_from(HELD),
        }
    ),
    max_size=40,
)


def instant(seconds):
    return None if seconds is None else START + timedelta(seconds=seconds)


def table_of(rows):
    return pa.Table.from_pylist([row | {name: instant(row[name]) for name in READ} for row in rows], schema=SCHEMA)


def as_text(rows):
    return sorted(map(repr, rows.to_pylist()))


@given(ROWS, st.sets(st.tuples(st.sampled_from(["", "x", "y"]), st.integers(0, 3))))
def test_the_rows_of_rounds_come_out_as_they_went_in(rows, rounds):
    table = table_of(rows)
    entries = entries_of(table)
    assert entries.schema == ROUTE_SCHEMAS[ROUTE_ENTRIES].remove_metadata()
    start_us = int(START.timestamp()) * 1_000_000
    wanted = rounds_of((collector, start_us + at * 1_000_000) for collector, at in rounds)
    of_rounds = [(row["collector"], row["round_at"]) in rounds for row in rows]
    assert as_text(rows_of(entries, wanted)) == as_text(table.filter(pa.array(of_rounds, pa.bool_())))


def test_what_is_said_again_costs_an_entry_no_row_more():
    row = {
        "collector": "", "topic": "T", "name_server": None, "broker_name": "a", "read_queue_nums": 4, "perm": 6,
    }  # fmt: skip
    entries = entries_of(table_of([row | {"round_at": at, "captured_at": at} for at in range(100)]))
    assert len(entries) == 1
    assert np.diff(entries["captured_at"][0].values.cast(pa.int64()).to_numpy()).tolist() == [1_000_000] * 99

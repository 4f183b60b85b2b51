"""Digests of dates: equal for equal rows in any order and split, another for any other row."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.schemas import FAULT_ITEM_STATE, GROUP_DRIFT_STATE, PRODUCER_REPLAY
from hindsight.udfs.values.date_digests import SUMMED, by_date, digests_of
from tests.engines.random_rows import rows
from tests.random_examples import examples

STATES = pytest.mark.parametrize("table", [PRODUCER_REPLAY, FAULT_ITEM_STATE, GROUP_DRIFT_STATE], ids=lambda t: t.name)


def columns(table):
    return [name for name in table.carried_columns if name != "event_date"]


@STATES
@examples(10, 100)
@given(st.data())
def test_any_order_and_split_gives_the_digests_of_the_whole(table, data):
    drawn = data.draw(rows(table))
    whole = digests_of(by_date(drawn, columns(table)))
    order = data.draw(st.permutations(range(len(drawn))))
    cut = data.draw(st.integers(0, len(drawn)))
    shuffled = drawn.take(pa.array(order, pa.int64()))
    pieces = [by_date(piece, columns(table)) for piece in (shuffled[:cut], shuffled[cut:], shuffled[:0])]
    assert digests_of(pa.concat_tables([SUMMED.empty_table(), *pieces])) == whole
    counts = {}
    for row in drawn.to_pylist():
        at = row["cluster"], row["event_date"]
        counts[at] = counts.get(at, 0) + 1
    assert {(c, day): digest.rows for c, day, digest in whole} == counts


@STATES
@examples(13, 100)
@given(st.data())
def test_a_row_that_differs_in_one_column_gives_another_digest(table, data):
    drawn = data.draw(rows(table, min_size=1, max_size=1))
    name = data.draw(st.sampled_from([n for n in columns(table) if n != "cluster"]))
    other = data.draw(rows(table, min_size=1, max_size=1)).column(name)
    changed = drawn.set_column(drawn.column_names.index(name), drawn.schema.field(name), other)
    one, two = (digests_of(by_date(each, columns(table))) for each in (drawn, changed))
    assert (one == two) == (drawn.equals(changed))


def test_columns_that_are_not_named_and_the_zone_of_an_instant_change_nothing():
    from datetime import UTC, datetime

    at = datetime(2026, 1, 5, tzinfo=UTC)
    row = {"cluster": "c", "event_date": at.date(), "x": at, "y": 1}
    schema = pa.schema([("cluster", pa.string()), ("event_date", pa.date32()), ("y", pa.int64())])
    of_zones = [pa.table([pa.array([row["x"]], pa.timestamp("us", zone))], ["x"]) for zone in ("UTC", "Asia/Shanghai")]
    tables = [pa.Table.from_pylist([row | {"y": n}], schema) for n in range(2)]
    found = [digests_of(by_date(t.append_column("x", z["x"]), ["x"])) for t, z in zip(tables, of_zones, strict=True)]
    assert found[0] == found[1]
    later = pa.array([at + timedelta(microseconds=1)], pa.timestamp("us", "UTC"))
    assert digests_of(by_date(tables[0].append_column("x", later), ["x"])) != found[0]

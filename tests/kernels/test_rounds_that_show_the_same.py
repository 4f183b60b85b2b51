"""Rounds as a collector reads them, in whatever order, that show the same: they get the same number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from hindsight.schemas import CONSUMER_HEARTBEAT, SNAPSHOT_CAPTURE
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.consumer.capture_rounds import captured_rounds
from hindsight.udfs.consumer.listed_members import listed_again, listed_members

BEGIN = datetime(2026, 1, 7, tzinfo=UTC)
MEMBERS = ("m1", "m2")
PLACE = {"cluster": "c", "collector": "", "consumer_group": "g", "source": "s", "source_file": "f"}
Rows = list[dict[str, Any]]


def swept(number: int, *, ids=MEMBERS, ids_first=False, through=("a", "b"), answers=(True, True)) -> tuple[Rows, Rows]:
    """A round: of two brokers the connections and the ids, of each member its own words."""
    at = BEGIN + timedelta(seconds=15 * number)
    order = ("consumerIdList", "consumerConnection") if ids_first else ("consumerConnection", "consumerIdList")
    captures, beats = [], []
    for place, broker in enumerate(("a", "b")):
        for step, kind in enumerate(order):
            told = {
                "kind": kind,
                "broker_name": broker,
                "answered": True,
                "captured_at": at + timedelta(milliseconds=step),
            }
            captures.append(
                told | {"member_ids": list(ids) if kind == "consumerIdList" else None, "source_line": place}
            )
            if kind == "consumerConnection":
                of = {"broker_name": broker, "captured_at": told["captured_at"], "client_version": 409}
                beats += [of | {"client_id": client, "address": f"{client}:1"} for client in MEMBERS]
    for client, broker, answered in zip(MEMBERS, through, answers, strict=True):
        told = {"kind": "consumerRunningInfo", "client_id": client, "broker_name": broker, "answered": answered}
        captures.append(told | {"captured_at": at + timedelta(milliseconds=9), "source_line": 9})
    return [row | PLACE | {"round_at": at} for row in captures], [row | PLACE | {"round_at": at} for row in beats]


def shown(*rounds: tuple[Rows, Rows]) -> list[int]:
    captures, beats = ([row for one in rounds for row in one[n]] for n in (0, 1))
    tables = [
        pa.Table.from_pylist(
            [{name: row.get(name) for name in row_schema(table).names} for row in rows], row_schema(table)
        )
        for table, rows in ((SNAPSHOT_CAPTURE, captures), (CONSUMER_HEARTBEAT, beats))
    ]
    return captured_rounds(*tables).shows.tolist()


def test_lists_of_ids_beside_connections_and_the_broker_that_was_asked_change_nothing():
    first, second, third = shown(swept(0), swept(1, ids_first=True), swept(2, through=("b", "a")))
    assert first == second == third != 0


@pytest.mark.parametrize("ids", [("m1",), ("m1", "m2", "m2"), ("m1", "m3")])
def test_lists_that_differ_may_show_something_else_in_each_order(ids):
    assert shown(swept(0), swept(1, ids=ids))[1] == 0


def test_where_a_read_failed_the_brokers_that_were_asked_count():
    lost = (True, False)
    one, same, other = shown(*(swept(n, answers=lost, through=t) for n, t in enumerate(("ab", "ab", "aa"))))
    assert one == same != other


def test_the_list_of_such_a_round_is_what_would_be_read_of_it():
    first, (captures, beats) = swept(0), swept(1, ids_first=True)
    names = ("kind", "broker_name", "name_server", "answered", "error", "error_code", "member_ids", "captured_at")

    def rows(given: Rows) -> Rows:
        return [{n: row.get(n) for n in names} | {"evidence": f"f:{row['source_line']}"} for row in given]

    def connected(given: Rows) -> Rows:
        others = ("client_version", "language", "client_kind", "message_model", "address", "client_id")
        return [{n: row.get(n) for n in (*others, "broker_name", "captured_at")} for row in given]

    before = listed_members(rows(first[0]), connected(first[1]))
    assert before is not None
    assert listed_again(before, rows(captures)) == listed_members(rows(captures), connected(beats))

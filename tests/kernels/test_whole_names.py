"""Of progress with cut names: whose it is, by what else is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from hindsight.udfs.consumer.round_reads import KnownNames, printed_names
from hindsight.udfs.formats.mqadmin_command import BROKER_MAYBE_CUT, CUT_MARK, TOPIC_MAYBE_CUT

T0 = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
CUT = "order_event_payment_confirmed_v1"
LONGER, OTHER = f"{CUT}_retry", f"{CUT}_done"
GROUP = "g_" + "x" * 30
PROGRESS = pa.schema(
    [
        ("collector", pa.string()),
        ("round_at", pa.timestamp("us", "UTC")),
        ("consumer_group", pa.string()),
        ("topic", pa.string()),
        ("broker_name", pa.string()),
        ("doubts", pa.list_(pa.string())),
    ]
)


def resolved(topic, doubts, *, routes=(), subscribed=(), earlier=(), broker="b", brokers=("b",), group="g"):
    """(topic, broker) of a row of progress; ``earlier``: topics that another collector read on the same date."""
    here, there = ("mqadmin", T0), ("", T0 - timedelta(hours=1))
    told = [(*here, "topic", name) for name in (*routes, *subscribed)]
    told += [(*here, "broker_name", name) for name in brokers]
    told += [(*there, "topic", name) for name in earlier]
    told += [("mqadmin", T0 - timedelta(days=1), "topic", OTHER)]
    rows = [
        ("mqadmin", T0, group, topic, broker, doubts),
        ("mqadmin", T0, "h", CUT, "b", None),
    ]
    progress = pa.Table.from_pylist([dict(zip(PROGRESS.names, row, strict=True)) for row in rows], schema=PROGRESS)
    first, second = KnownNames(told).with_whole_names(progress).to_pylist()
    assert (second["topic"], second["broker_name"]) == (CUT, "b")
    return first["topic"], first["broker_name"]


@pytest.mark.parametrize(
    ("known", "topic"),
    [
        ({"routes": [LONGER]}, LONGER),
        ({"subscribed": [LONGER]}, LONGER),
        ({"routes": [LONGER], "subscribed": [LONGER], "earlier": [OTHER]}, LONGER),
        ({"routes": [CUT]}, CUT),
        ({"routes": [CUT, LONGER]}, CUT + CUT_MARK),
        ({"routes": [LONGER], "subscribed": [OTHER]}, CUT + CUT_MARK),
        ({"earlier": [LONGER]}, LONGER),
        ({"earlier": [LONGER, OTHER]}, CUT + CUT_MARK),
        ({"routes": ["T"]}, CUT),
    ],
)
def test_a_topic_that_may_be_cut_is_the_one_that_begins_so(known, topic):
    assert resolved(CUT, [TOPIC_MAYBE_CUT], **known) == (topic, "b")


def test_a_topic_without_doubt_is_as_it_was_printed():
    assert resolved(CUT, None, routes=[LONGER]) == (CUT, "b")
    assert resolved(CUT, ["NEGATIVE_LAG"], routes=[LONGER]) == (CUT, "b")


def test_the_retry_topic_of_the_group_is_known_without_a_route():
    whole = f"%RETRY%{GROUP}"
    others = [f"{whole[:32]}_other"]
    assert resolved(whole[:32], [TOPIC_MAYBE_CUT], routes=others, group=GROUP) == (whole, "b")
    assert resolved(whole[:32], [TOPIC_MAYBE_CUT], group=GROUP) == (whole, "b")


@pytest.mark.parametrize(
    ("brokers", "broker"),
    [(["b" * 32], "b" * 32), (["b" * 40], "b" * 40), (["b" * 32, "b" * 40], "b" * 32 + CUT_MARK), (["c"], "b" * 32)],
)
def test_a_broker_is_told_by_the_routes(brokers, broker):
    said = resolved("T", [BROKER_MAYBE_CUT], routes=["T"], broker="b" * 32, brokers=brokers)
    assert said == ("T", broker)


def test_both_names_of_a_row_may_be_cut():
    both = [TOPIC_MAYBE_CUT, BROKER_MAYBE_CUT]
    assert resolved(CUT, both, routes=[LONGER], broker="b" * 32, brokers=["b" * 33]) == (LONGER, "b" * 33)


def test_names_in_doubt_are_told_with_their_kind():
    rows = [{"topic": "T", "broker_name": "b", "doubts": [BROKER_MAYBE_CUT, "NEGATIVE_LAG"]}, {"topic": "U"}]
    progress = pa.Table.from_pylist(rows, schema=PROGRESS)
    assert printed_names(progress) == {("broker_name", "b")}

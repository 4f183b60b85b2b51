"""Of progress with cut names: whose it is, by what else is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.transforms.cut_names import with_whole_names
from udfs.cut_names import BROKER_MAYBE_CUT, CUT_MARK, TOPIC_MAYBE_CUT

T0 = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
CUT = "order_event_payment_confirmed_v1"
LONGER, OTHER = f"{CUT}_retry", f"{CUT}_done"
GROUP = "g_" + "x" * 30
PLACE = "cluster string, collector string, round_at timestamp"
PROGRESS = f"{PLACE}, consumer_group string, topic string, broker_name string, lag bigint, doubts array<string>"
CAPTURES = f"{PLACE}, subscriptions array<struct<topic string>>"
ROUTES = f"{PLACE}, topic string, broker_name string"


def resolved(spark, topic, doubts, *, routes=(), subscribed=(), earlier=(), broker="b", brokers=("b",), group="g"):
    """(topic, broker) of a row of progress; ``earlier``: topics that another collector read on the same date."""
    here, there = ("c", "mqadmin", T0), ("c", "", T0 - timedelta(hours=1))
    told = [(*here, name, on) for name in routes for on in brokers] + [(*there, name, "b") for name in earlier]
    told += [("d", "mqadmin", T0, OTHER, "b"), ("c", "mqadmin", T0 - timedelta(days=1), OTHER, "b")]
    found = with_whole_names(
        spark.createDataFrame([(*here, group, topic, broker, 1, doubts), (*here, "h", CUT, "b", 2, None)], PROGRESS),
        spark.createDataFrame([(*here, [(name,) for name in subscribed])], CAPTURES),
        spark.createDataFrame(told, ROUTES),
    )
    rows = {row.lag: row for row in found.collect()}
    assert (rows[2].topic, rows[2].broker_name, len(rows)) == (CUT, "b", 2)
    return rows[1].topic, rows[1].broker_name


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
def test_a_topic_that_may_be_cut_is_the_one_that_begins_so(spark, known, topic):
    assert resolved(spark, CUT, [TOPIC_MAYBE_CUT], **known) == (topic, "b")


def test_a_topic_without_doubt_is_as_it_was_printed(spark):
    assert resolved(spark, CUT, None, routes=[LONGER]) == (CUT, "b")
    assert resolved(spark, CUT, ["NEGATIVE_LAG"], routes=[LONGER]) == (CUT, "b")


def test_the_retry_topic_of_the_group_is_known_without_a_route(spark):
    whole = f"%RETRY%{GROUP}"
    others = [f"{whole[:32]}_other"]
    assert resolved(spark, whole[:32], [TOPIC_MAYBE_CUT], routes=others, group=GROUP) == (whole, "b")
    assert resolved(spark, whole[:32], [TOPIC_MAYBE_CUT], group=GROUP) == (whole, "b")


@pytest.mark.parametrize(
    ("brokers", "broker"),
    [(["b" * 32], "b" * 32), (["b" * 40], "b" * 40), (["b" * 32, "b" * 40], "b" * 32 + CUT_MARK), (["c"], "b" * 32)],
)
def test_a_broker_is_told_by_the_routes(spark, brokers, broker):
    said = resolved(spark, "T", [BROKER_MAYBE_CUT], routes=["T"], broker="b" * 32, brokers=brokers)
    assert said == ("T", broker)


def test_both_names_of_a_row_may_be_cut(spark):
    both = [TOPIC_MAYBE_CUT, BROKER_MAYBE_CUT]
    assert resolved(spark, CUT, both, routes=[LONGER], broker="b" * 32, brokers=["b" * 33]) == (LONGER, "b" * 33)

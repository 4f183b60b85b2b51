from __future__ import annotations

import json

import pytest

from udfs.admin_snapshot_lines import parse_admin_snapshots
from udfs.bounded_lines import Line

OFFSETS = '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":0}'


def stats(queue_id):
    queue = '{"brokerName":"broker-a","queueId":' + str(queue_id) + ',"topic":"T"}'
    return '{"offsetTable":{' + queue + ":" + OFFSETS + "}}"


def parse(**fields):
    text = json.dumps({"ts": 1795253414272, "ts_end": 1795253414300, "error": None, **fields})
    (parsed,) = parse_admin_snapshots([Line(1, 0, len(text), text, None)])
    return parsed


def rows(parsed, table):
    return [record.row for record in parsed.records if record.table == table]


def test_a_marker_is_a_round():
    (row,) = rows(parse(kind="round", round=7), "collection_round")
    assert row == {"collector": "", "round_at": 1795253414272, "kind": "marker", "round_number": 7}


def test_a_failed_read_is_kept_as_one_that_was_not_answered():
    parsed = parse(kind="consumerRunningInfo", subject="g|c@1", error="MQClientException: CODE: 206  DESC: not online")
    (row,) = rows(parsed, "snapshot_capture")
    assert (row["answered"], row["error_code"], row["consumer_group"], row["client_id"]) == (False, 206, "g", "c@1")
    assert len(parsed.records) == 1


def test_a_group_name_may_hold_the_separator():
    (row,) = rows(parse(kind="consumerRunningInfo", subject="g|x|c@1", error="e"), "snapshot_capture")
    assert (row["consumer_group"], row["client_id"]) == ("g|x", "c@1")


@pytest.mark.parametrize("key", ["0", '"0"'])
def test_a_route_knows_its_masters_by_bare_and_quoted_broker_ids(key):
    brokers = '{"brokerAddrs":{KEY:"h:1"},"brokerName":"a"},{"brokerAddrs":{1:"h:2"},"brokerName":"b"}'
    queues = (
        '{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":2,"topicSynFlag":0},'
        '{"brokerName":"b","perm":4,"readQueueNums":4,"writeQueueNums":4,"topicSysFlag":0}'
    )
    raw = '{"brokerDatas":[' + brokers.replace("KEY", key) + '],"queueDatas":[' + queues + "]}"
    a, b = rows(parse(kind="topicRoute", subject="T", raw=raw), "topic_route")
    assert (a["has_master"], a["master_address"], a["read_queue_nums"], a["write_queue_nums"]) == (True, "h:1", 4, 2)
    assert (b["has_master"], b["perm"]) == (False, 4)


def test_consume_stats_give_the_lag_of_each_queue():
    (row,) = rows(parse(kind="consumeStats", subject="g", raw=stats(2)), "queue_progress")
    assert (row["queue_id"], row["lag"], row["last_timestamp"]) == (2, 5, None)


def test_a_queue_id_below_zero_refuses_the_line():
    assert parse(kind="consumeStats", subject="g", raw=stats(-1)).refusal.code == "NEGATIVE_QUEUE_ID"


@pytest.mark.parametrize(
    ("printed", "strategy"),
    [
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle@1f", "AVG_BY_CIRCLE"),
        ("com.shop.Own@1f", "class:com.shop.Own"),
        ("com.shop.AllocateMessageQueueAveragely@1f", "class:com.shop.AllocateMessageQueueAveragely"),
    ],
)
def test_only_rocketmqs_own_strategy_classes_are_known_by_name(printed, strategy):
    raw = json.dumps({"properties": {"allocateMessageQueueStrategy": printed}, "mqTable": {}, "subscriptionSet": []})
    (row,) = rows(parse(kind="consumerRunningInfo", subject="g|c", raw=raw), "snapshot_capture")
    assert row["strategy"] == strategy


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "consumeStats", "subject": "g", "raw": '{"offsetTable":{'}, "BAD_RAW"),
        ({"kind": "consumeStats", "subject": "g", "raw": "[1]"}, "BAD_RAW"),
        ({"kind": "consumeStats", "subject": "g", "raw": None}, "MISSING_FIELD"),
        ({"kind": "consumeStats", "raw": "{}"}, "MISSING_FIELD"),
        ({"kind": "consumerRunningInfo", "subject": "g", "raw": "{}"}, "BAD_SUBJECT"),
        ({"kind": "round", "ts": 1795253414}, "TIMESTAMP_IN_SECONDS"),
        ({"kind": "topicRoute", "subject": "T", "raw": '{"queueDatas":[{"brokerName":"a"}]}'}, "MISSING_FIELD"),
        ({"kind": "topicRoute", "subject": "T", "raw": '{"queueDatas":{"a":1}}'}, "BAD_RAW"),
    ],
)
def test_a_broken_line_is_refused_with_its_reason(fields, code):
    assert parse(**fields).refusal.code == code


def test_kinds_that_feed_no_table_are_ignored():
    parsed = parse(kind="producerConnection", subject="pg@T", raw="{}")
    assert parsed.records == () and parsed.refusal is None

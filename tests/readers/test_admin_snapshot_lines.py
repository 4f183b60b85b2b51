from __future__ import annotations

import json
from pathlib import Path

import pytest

from udfs.admin_snapshot_lines import parse_admin_snapshots
from udfs.bounded_lines import Line

POP = Path(__file__).parent.parent / "golden" / "running_info" / "pop_5.3.3.json"
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


def test_offsets_between_which_no_long_can_count_refuse_the_line():
    answer = stats(2).replace(
        '"brokerOffset":9,"consumerOffset":4', '"brokerOffset":9223372036854775807,"consumerOffset":-1'
    )
    parsed = parse(kind="consumeStats", subject="g", raw=answer)
    assert parsed.refusal.code == "OUT_OF_RANGE"
    (asked,) = parsed.records
    assert (asked.row["answered"], asked.row["error"]) == (False, "answer not readable: OUT_OF_RANGE")
    assert "offsets 9223372036854775807 and -1" in parsed.refusal.detail
    (row,) = rows(parse(kind="consumeStats", subject="g", raw=answer.replace(":-1", ":0")), "queue_progress")
    assert row["lag"] == 2**63 - 1


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
    parsed = parse(kind="brokerStats", subject="b", raw="{}")
    assert parsed.records == () and parsed.refusal is None


def test_producer_connections_name_the_clients_of_a_group():
    connections = '[{"clientAddr":"h:1","clientId":"c@1","language":"JAVA","version":409},{"clientId":"c@2"}]'
    parsed = parse(kind="producerConnection", subject="pg@T", raw='{"connectionSet":' + connections + "}")
    first, second = rows(parsed, "producer_connection")
    assert (first["producer_group"], first["topic"], first["client_id"]) == ("pg", "T", "c@1")
    assert (first["address"], first["language"], first["client_version"]) == ("h:1", "JAVA", 409)
    assert (second["address"], second["language"], second["client_version"]) == ("", None, None)
    (capture,) = rows(parsed, "snapshot_capture")
    assert (capture["producer_group"], capture["topic"], capture.get("consumer_group")) == ("pg", "T", None)


def test_a_failed_read_of_producer_connections_is_kept():
    parsed = parse(kind="producerConnection", subject="pg@T", error="MQBrokerException: CODE: 1  DESC: not exist")
    (row,) = rows(parsed, "snapshot_capture")
    assert (row["answered"], row["error_code"], row["producer_group"]) == (False, 1, "pg")


def test_queues_consumed_by_pop_are_no_ownership():
    raw = POP.read_text()
    parsed = parse(kind="consumerRunningInfo", subject="g|c@1", raw=raw)
    (pop,) = rows(parsed, "pop_assignment")
    assert (pop["queue_id"], pop["wait_ack_count"], pop["last_pop_at"], pop["dropped"]) == (-1, 3, 1795253661728, False)
    (owned,) = rows(parsed, "queue_ownership")
    assert (owned["queue_id"], owned["last_pull_at"]) == (0, None)


@pytest.mark.parametrize("name", ["mqTable", "mqPopTable", "properties", "subscriptionSet"])
def test_a_part_that_is_null_or_absent_is_empty(name):
    parsed = parse(kind="consumerRunningInfo", subject="g|c@1", raw='{"' + name + '":null}')
    assert parsed.refusal is None
    assert len(parsed.records) == 1


def test_a_route_tells_of_ordered_and_of_static_topics():
    queues = '"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":4,"topicSynFlag":null}]'
    raw = (
        '{"orderTopicConf":"a:4","topicQueueMappingByBroker":{"a":{"bname":"a"}},"filterServerTable":null,'
        + queues
        + "}"
    )
    (row,) = rows(parse(kind="topicRoute", subject="T", raw=raw), "topic_route")
    assert (row["order_topic_conf"], row["is_static_topic"], row["has_master"]) == ("a:4", True, False)
    (row,) = rows(parse(kind="topicRoute", subject="T", raw="{" + queues + "}"), "topic_route")
    assert (row["order_topic_conf"], row["is_static_topic"]) == (None, False)


@pytest.mark.parametrize(("member", "pull_offset"), [("", None), (',"pullOffset":7', 7), (',"pullOffset":null', None)])
def test_the_pull_offset_is_known_from_5_0_on(member, pull_offset):
    raw = stats(0).replace('"lastTimestamp":0', '"lastTimestamp":0' + member)
    (row,) = rows(parse(kind="consumeStats", subject="g", raw=raw), "queue_progress")
    assert row["pull_offset"] == pull_offset

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hindsight.udfs.consumer.round_reads import NEEDED, NOTHING, reads_of
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines.bounded_lines import Line
from tests.readers.line_checks import lines_of

GOLDEN = Path(__file__).parent.parent / "golden"
POP = GOLDEN / "running_info" / "pop_5.3.3.json"
OTHERS = GOLDEN / "running_info" / "other_clients"
STATUS = GOLDEN / "broker_status"
OFFSETS = '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":0}'


def stats(queue_id):
    queue = '{"brokerName":"broker-a","queueId":' + str(queue_id) + ',"topic":"T"}'
    return '{"offsetTable":{' + queue + ":" + OFFSETS + "}}"


def parse(**fields):
    text = json.dumps({"ts": 1795253414272, "ts_end": 1795253414300, "error": None, **fields})
    (parsed,) = parse_admin_snapshots([Line(1, 0, len(text), text, None)])
    return parsed


def is_refused(parsed, code):
    """The line is refused, and of it nothing is stored but that it was asked in vain."""
    (asked,) = parsed.records
    unread = (asked.table, asked.row["answered"], asked.row["error"])
    return parsed.refusal.code == code and unread == ("snapshot_capture", False, f"answer not readable: {code}")


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
    slaves = '2:"h:4","1":"h:3"'
    brokers = '{"brokerAddrs":{KEY:"h:1"},"brokerName":"a"},{"brokerAddrs":{' + slaves + '},"brokerName":"b"}'
    queues = (
        '{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":2,"topicSynFlag":0},'
        '{"brokerName":"b","perm":4,"readQueueNums":4,"writeQueueNums":4,"topicSysFlag":0}'
    )
    raw = '{"brokerDatas":[' + brokers.replace("KEY", key) + '],"queueDatas":[' + queues + "]}"
    a, b = rows(parse(kind="topicRoute", subject="T", raw=raw), "topic_route")
    assert (a["has_master"], a["master_address"], a["read_queue_nums"], a["write_queue_nums"]) == (True, "h:1", 4, 2)
    assert (b["has_master"], b["perm"], a["slaves"]) == (False, 4, [])
    assert b["slaves"] == [{"broker_id": 1, "address": "h:3"}, {"broker_id": 2, "address": "h:4"}]


def test_a_route_whose_broker_id_is_no_number_is_refused():
    raw = '{"brokerDatas":[{"brokerAddrs":{"x":"h:1"},"brokerName":"a"}],"queueDatas":[QUEUE]}'
    raw = raw.replace("QUEUE", '{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":4}')
    parsed = parse(kind="topicRoute", subject="T", raw=raw)
    assert parsed.refusal.code == "BAD_RAW" and "broker id 'x'" in parsed.refusal.detail


def mode_row(**changes):
    nothing = {"topic": None, "consumer_group": None, "mode": None, "pop_share_queue_num": None}
    row = {"collector": "", "captured_at": 1795253414272, "broker_name": "broker-a", "server_load_balancer": None}
    return row | nothing | {"told_by": "messageRequestModes"} | changes


def test_a_broker_says_which_modes_were_set_and_that_these_are_all():
    """As brokers of 5.3.3 write it; the last row is of every other topic and group."""
    one = '{"consumerGroup":"g","mode":"POP","popShareQueueNum":2,"topic":"T"}'
    parsed = parse(
        kind="messageRequestModes", broker="broker-a", raw=f'{{"messageRequestModeMap":{{"T":{{"g":{one}}}}}}}'
    )
    of_group = mode_row(topic="T", consumer_group="g", mode="POP", pop_share_queue_num=2)
    assert rows(parsed, "message_request_mode") == [of_group, mode_row()]
    (capture,) = rows(parsed, "snapshot_capture")
    assert (capture["subject"], capture["broker_name"], capture["answered"]) == ("broker-a", "broker-a", True)


def test_a_broker_says_how_it_hands_out_queues_of_which_nothing_was_set():
    raw = '{"defaultMessageRequestMode":"POP","defaultPopShareQueueNum":"-1","serverLoadBalancerEnable":"false"}'
    own = {"told_by": "brokerConfig", "mode": "POP", "pop_share_queue_num": -1, "server_load_balancer": False}
    assert rows(parse(kind="brokerConfig", broker="broker-a", raw=raw), "message_request_mode") == [mode_row(**own)]


def test_a_broker_before_5_says_nothing_of_handing_out():
    parsed = parse(kind="brokerConfig", broker="broker-a", raw='{"brokerName":"broker-a"}')
    assert [record.table for record in parsed.records] == ["snapshot_capture"]


def test_a_broker_says_how_far_it_is_with_delayed_messages_and_all_else_is_left():
    raw = '{"table":{"scheduleMessageOffset_18":"3,9","scheduleMessageOffset_1":"0,0","bootTimestamp":"1","x_3":"4,5"}}'
    parsed = parse(kind="brokerRuntimeInfo", broker="broker-a", raw=raw)
    found = [
        (r["broker_name"], r["delay_level"], r["delay_offset"], r["max_offset"])
        for r in rows(parsed, "schedule_progress")
    ]
    assert found == [("broker-a", 18, 3, 9), ("broker-a", 1, 0, 0)]
    assert {record.table for record in parsed.records} == {"schedule_progress", "snapshot_capture"}
    assert is_refused(parse(kind="brokerRuntimeInfo", broker="broker-a", raw="{}"), "BAD_RAW")


def test_a_broker_says_since_when_it_runs_and_how_far_its_timers_are_behind():
    """As 5.3.3 answers, but for numbers; a broker before 5.0 has no timers."""
    table = {"bootTimestamp": "1795933285771", "brokerVersionDesc": "V5_3_3", "commitLogMaxOffset": "4096"}
    timers = {"timerReadBehind": "7", "timerOffsetBehind": "2", "timerCongestNum": "30", "timerEnqueueTps": "0.0"}
    for more, read in ((timers, (7, 2, 30)), ({}, (None, None, None))):
        raw = json.dumps({"table": table | more})
        (row,) = rows(parse(kind="brokerRuntimeInfo", broker="broker-a", raw=raw), "broker_status")
        assert (row["booted_at"], row["release"], row["log_end"]) == (1795933285771, "V5_3_3", 4096)
        assert (row["timer_behind_s"], row["timer_not_taken"], row["timer_waiting"]) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        (str(2**63), None),
        (str(-(2**63) - 1), None),
        ("9" * 30, None),
        ("1.5", None),
        ("\u0661", None),
        ("-", None),
    ],
)
def test_a_number_of_a_broker_is_one_of_64_bits_or_left(said, read):
    raw = json.dumps({"table": {"commitLogMaxOffset": said, "brokerVersionDesc": "V5_3_3"}})
    (row,) = rows(parse(kind="brokerRuntimeInfo", broker="broker-a", raw=raw), "broker_status")
    assert row["log_end"] == read


def test_a_master_tells_its_replicas_and_a_replica_its_master():
    """As brokers of 5.3.3 answer."""
    master, replica = (STATUS / "ha_status_5.3.3.jsonl").read_text().splitlines()
    (row,) = rows(parse(kind="brokerHaStatus", broker="broker-a", raw=master), "broker_status")
    assert (row["is_master"], row["in_sync_replicas"], row["master_address"]) == (True, 1, None)
    assert row["replicas"] == [{"address": "192.0.2.2:48714", "in_sync": True, "behind_bytes": 0}]
    (row,) = rows(parse(kind="brokerHaStatus", broker="broker-a", raw=replica), "broker_status")
    assert (row["is_master"], row["in_sync_replicas"], row["replicas"], row["log_end"]) == (False, None, None, 0)
    assert row["master_address"] == "192.0.2.2:26973"
    assert is_refused(parse(kind="brokerHaStatus", broker="broker-a", raw='{"code":3}'), "BAD_RAW")


@pytest.mark.parametrize(
    ("kind", "raw", "code"),
    [
        ("messageRequestModes", '{"messageRequestModeMap":{"T":{"g":{"mode":"PUSH"}}}}', "UNKNOWN_VALUE"),
        ("messageRequestModes", '{"messageRequestModeMap":{"T":{"g":"POP"}}}', "BAD_RAW"),
        ("messageRequestModes", '{"messageRequestModeMap":{"T":7}}', "BAD_RAW"),
        ("messageRequestModes", "{}", "BAD_RAW"),
        ("brokerConfig", '{"defaultMessageRequestMode":7}', "UNKNOWN_VALUE"),
        ("brokerConfig", '{"defaultMessageRequestMode":"POP","defaultPopShareQueueNum":"many"}', "WRONG_TYPE"),
    ],
)
def test_a_word_of_handing_out_that_is_none_is_refused(kind, raw, code):
    assert is_refused(parse(kind=kind, broker="broker-a", raw=raw), code)


def test_consume_stats_give_the_lag_of_each_queue():
    (row,) = rows(parse(kind="consumeStats", subject="g", raw=stats(2)), "queue_progress")
    assert (row["queue_id"], row["lag"], row["last_timestamp"]) == (2, 5, None)


def test_offsets_between_which_no_long_can_count_refuse_the_line():
    answer = stats(2).replace(
        '"brokerOffset":9,"consumerOffset":4', '"brokerOffset":9223372036854775807,"consumerOffset":-1'
    )
    parsed = parse(kind="consumeStats", subject="g", raw=answer)
    assert is_refused(parsed, "OUT_OF_RANGE")
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
        (
            {"kind": "topicRoute", "subject": "T", "raw": '{"brokerDatas":[],"queueDatas":[{"brokerName":"a"}]}'},
            "MISSING_FIELD",
        ),
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


INFO = {"properties": {}, "subscriptionSet": [], "mqTable": {}}


@pytest.mark.parametrize("name", ["mqPopTable", "statusTable", "jstack", "userConsumerInfo"])
def test_a_part_that_not_every_release_writes_may_be_null_or_absent(name):
    for info in (INFO, INFO | {name: None}):
        parsed = parse(kind="consumerRunningInfo", subject="g|c@1", raw=json.dumps(info))
        assert parsed.refusal is None
        assert len(parsed.records) == 1


ANSWERS = {
    "topicRoute": ("T", {"brokerDatas": [], "queueDatas": []}),
    "consumerConnection": ("g", {"connectionSet": [], "subscriptionTable": {}}),
    "consumerRunningInfo": ("g|c@1", INFO),
    "consumeStats": ("g", {"offsetTable": {}}),
    "producerConnection": ("pg@T", {"connectionSet": []}),
}


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("kind", ANSWERS)
def test_an_object_without_what_every_such_answer_has_is_no_answer(kind, null):
    subject, whole = ANSWERS[kind]
    assert parse(kind=kind, subject=subject, raw=json.dumps(whole)).refusal is None
    for name in whole:
        less = {k: v for k, v in whole.items() if k != name} | ({name: None} if null else {})
        parsed = parse(kind=kind, subject=subject, raw=json.dumps(less))
        assert is_refused(parsed, "BAD_RAW")
        assert name in parsed.refusal.detail


@pytest.mark.parametrize("kind", ANSWERS)
def test_no_answer_is_taken_for_one_of_another_kind(kind):
    subject, _ = ANSWERS[kind]
    # A listing of producers holds nothing that one of consumers has not as well.
    for other in ANSWERS.keys() - {kind} - ({"consumerConnection"} if kind == "producerConnection" else set()):
        assert parse(kind=kind, subject=subject, raw=json.dumps(ANSWERS[other][1])).refusal.code == "BAD_RAW"


@pytest.mark.parametrize(
    "raw", ["", "null", "0", "[1]", '"x"', "{}", "<html><body>502 Bad Gateway</body></html>", "true"]
)
@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_no_object_of_its_kind_is_no_answer(kind, raw):
    parsed = parse(kind=kind, subject=ANSWERS[kind][0], raw=raw)
    assert is_refused(parsed, "BAD_RAW")


def test_a_line_with_an_error_is_a_failed_read_whatever_its_raw_holds():
    parsed = parse(kind="consumeStats", subject="g", raw=stats(0), error="MQBrokerException: CODE: 206  DESC: x")
    (row,) = rows(parsed, "snapshot_capture")
    assert (row["answered"], row["error_code"], len(parsed.records)) == (False, 206, 1)


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_dashboards_wrapper_is_taken_off(kind):
    subject, answer = ANSWERS[kind]
    for wrapper in ({"status": 0, "data": answer, "errMsg": None}, {"status": 0, "data": answer}):
        wrapped = parse(kind=kind, subject=subject, raw=json.dumps(wrapper))
        assert wrapped.records == parse(kind=kind, subject=subject, raw=json.dumps(answer)).records != ()


@pytest.mark.parametrize(
    ("wrapper", "error", "code"),
    [
        ({"status": -1, "data": None, "errMsg": "CODE: 206  DESC: the consumer group[g] not online"}, "CODE: 206", 206),
        ({"status": -1, "errMsg": "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"}, "org.apa", None),
        ({"status": 500, "data": None}, "status 500", None),
        ({"status": -1, "data": {"connectionSet": [], "subscriptionTable": {}}}, "status -1", None),
    ],
)
def test_a_wrapper_that_says_so_is_a_failed_read(wrapper, error, code):
    (record,) = parse(kind="consumerConnection", subject="g", raw=json.dumps(wrapper)).records
    assert (record.row["answered"], record.row["error_code"]) == (False, code)
    assert record.row["error"].startswith(error)


@pytest.mark.parametrize("data", [None, [], [{"topic": "T", "diffTotal": 1, "queueStatInfoList": []}], 1, "x", {}])
def test_a_wrapper_without_an_answer_in_it_is_no_answer(data):
    parsed = parse(kind="consumeStats", subject="g", raw=json.dumps({"status": 0, "data": data, "errMsg": None}))
    assert is_refused(parsed, "BAD_RAW")


def test_queues_may_be_named_as_the_dashboard_writes_them():
    info = INFO | {"mqTable": {"MessageQueue [topic=%RETRY%g, brokerName=b-1, queueId=3]": {"locked": True}}}
    (row,) = rows(parse(kind="consumerRunningInfo", subject="g|c", raw=json.dumps(info)), "queue_ownership")
    assert (row["topic"], row["broker_name"], row["queue_id"], row["locked"]) == ("%RETRY%g", "b-1", 3, True)
    info = INFO | {"mqTable": {"MessageQueue [topic=T, brokerName=b]": {}}}
    assert parse(kind="consumerRunningInfo", subject="g|c", raw=json.dumps(info)).refusal.code == "BAD_RAW"


@pytest.mark.parametrize("name", ["droped", "dropped"])
@pytest.mark.parametrize("table", ["mqTable", "mqPopTable"])
def test_a_queue_is_on_its_way_out_as_java_and_as_go_write_it(name, table):
    info = INFO | {table: {"MessageQueue [topic=T, brokerName=b, queueId=0]": {name: True}}}
    records = parse(kind="consumerRunningInfo", subject="g|c", raw=json.dumps(info)).records
    assert [record.row["dropped"] for record in records[1:]] == [True]


STACK = 'TID: 1 STATE: RUNNABLE\n\tat "quoted" (x.go:1)\n'


@pytest.mark.parametrize("release", ["go_2.0.0-rc1", "go_2.1.0", "go_2.1.2", "cpp_1.2", "cpp_2.2.0"])
def test_running_infos_of_go_and_cpp_clients_are_read(release):
    for text in (OTHERS / f"running_info_{release}.jsonl").read_text().splitlines():
        line = json.loads(text)
        parsed = parse(**line)
        (capture,) = rows(parsed, "snapshot_capture")
        assert capture["answered"]
        assert len(rows(parsed, "queue_ownership")) == line["raw"].replace(" ", "").count('"queueId"')
        assert all(r["last_pull_at"] for r in rows(parsed, "queue_ownership"))


def test_what_an_old_cpp_client_never_set_is_no_instant_and_no_offset():
    first, later = (OTHERS / "running_info_cpp_1.2.jsonl").read_text().splitlines()
    begun, read = (
        {(r["topic"], r["broker_name"], r["queue_id"]): r for r in rows(parse(**json.loads(text)), "queue_ownership")}
        for text in (first, later)
    )
    queue = "Heard", "broker-a", 0
    assert (begun[queue]["last_consume_at"], begun[queue]["last_lock_at"], begun[queue]["commit_offset"]) == (
        None,
        None,
        -1,
    )
    assert (read[queue]["last_consume_at"], read[queue]["last_lock_at"], read[queue]["commit_offset"]) == (
        1795932497814,
        None,
        1,
    )
    (capture,) = rows(parse(**json.loads(first)), "snapshot_capture")
    assert capture["consume_orderly"] is False


def test_a_stack_that_go_does_not_escape_is_cut_off():
    for text in (OTHERS / "running_info_go_2.1.2.jsonl").read_text().splitlines():
        line = json.loads(text)
        bare, _, _ = line["raw"].partition(', "jstack"')
        assert bare != line["raw"]
        stacked = parse(**line | {"raw": bare + f', "jstack":"{STACK}" }}'})
        assert stacked.records == parse(**line).records != ()


def test_an_empty_table_that_cpp_does_not_open_is_empty():
    raw = '{"mqTable":},"jstack":"","properties":{},"subscriptionSet":[]}'
    (record,) = parse(kind="consumerRunningInfo", subject="g|c", raw=raw).records
    assert record.table == "snapshot_capture"


def test_a_route_tells_of_ordered_and_of_static_topics():
    queues = '"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":4,"topicSynFlag":null}]'
    raw = (
        '{"brokerDatas":[],"orderTopicConf":"a:4","topicQueueMappingByBroker":{"a":{"bname":"a"}},"filterServerTable":null,'
        + queues
        + "}"
    )
    (row,) = rows(parse(kind="topicRoute", subject="T", raw=raw), "topic_route")
    assert (row["order_topic_conf"], row["is_static_topic"], row["has_master"]) == ("a:4", True, False)
    raw = '{"brokerDatas":[],' + queues + "}"
    (row,) = rows(parse(kind="topicRoute", subject="T", raw=raw), "topic_route")
    assert (row["order_topic_conf"], row["is_static_topic"]) == (None, False)


@pytest.mark.parametrize(("member", "pull_offset"), [("", None), (',"pullOffset":7', 7), (',"pullOffset":null', None)])
def test_the_pull_offset_is_known_from_5_0_on(member, pull_offset):
    raw = stats(0).replace('"lastTimestamp":0', '"lastTimestamp":0' + member)
    (row,) = rows(parse(kind="consumeStats", subject="g", raw=raw), "queue_progress")
    assert row["pull_offset"] == pull_offset


def test_no_line_of_the_capture_with_every_kind_of_client_is_refused():
    """A broker without the group answers null to the question how it is set up."""
    folder = GOLDEN / "captures" / "scope" / "admin_snapshots"
    parsed = [one for path in folder.rglob("*.gz") for one in parse_admin_snapshots(lines_of(path))]
    assert [one.refusal for one in parsed if one.refusal] == []
    kinds = Counter(r.row["kind"] for one in parsed for r in one.records if r.table == "snapshot_capture")
    assert {"consumerIdList", "topicStatus", "topicConfig", "subscriptionGroupConfig"} <= kinds.keys()
    tables = Counter(record.table for one in parsed for record in one.records)
    assert tables["topic_status"] and tables["topic_config"] and tables["subscription_group"]
    hosted = {len(r.row["hosted_queues"]) for one in parsed for r in one.records if r.table == "topic_config"}
    assert hosted == {0, 3}


def test_a_client_id_with_a_bar_is_not_split_where_the_client_tells_its_group():
    info = '{"properties":{"consumerGroup":"g"},"mqTable":{},"statusTable":{},"subscriptionSet":[]}'
    raw = json.dumps({"kind": "consumerRunningInfo", "ts": 1795253591125, "subject": "g|a|b@7", "raw": info})
    lines = [Line(1, 0, 0, raw, None)]
    ((record,),) = ([r for r in p.records if r.table == "snapshot_capture"] for p in parse_admin_snapshots(lines))
    assert (record.row["consumer_group"], record.row["client_id"]) == ("g", "a|b@7")


def held_with(last_lock):
    """The answer of a client that holds one queue."""
    queue = '{"brokerName":"b","queueId":0,"topic":"T"}:{"lastLockTimestamp":%s,"lastPullTimestamp":0,"droped":false}'
    raw = '{"properties":{"PROP_CONSUMER_START_TIMESTAMP":"1767657000000"},"subscriptionSet":[],"mqTable":{%s}}'
    return parse(kind="consumerRunningInfo", subject="g|c1", broker="b", raw=raw % (queue % last_lock))


@pytest.mark.parametrize(
    ("last_lock", "read"), [("123", None), ('"123"', None), ("0", None), ("1767657300000", 1_767_657_300_000)]
)
def test_a_queue_that_a_cpp_client_never_locked_is_read(last_lock, read):
    (row,) = rows(held_with(last_lock), "queue_ownership")
    assert row["last_lock_at"] == read


@pytest.mark.parametrize("last_lock", ["124", "-1", '"soon"'])
def test_an_answer_that_cannot_be_read_says_nothing_of_its_client(last_lock):
    (unread,) = rows(held_with(last_lock), "snapshot_capture")
    (told,) = reads_of([dict.fromkeys(NEEDED) | {"kind": "consumerRunningInfo"} | unread]).reads
    assert (told["client_id"], told["answered"], told["failure"]) == ("c1", False, NOTHING)

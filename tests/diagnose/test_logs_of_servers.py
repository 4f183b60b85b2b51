"""Logs of brokers, proxies and name servers: what they tell is told as theirs, and each is known for what it is."""

from __future__ import annotations

from datetime import UTC

import pytest

from hindsight.udfs.lines.bounded_lines import Line, read_lines
from hindsight.udfs.logs.broker_log_lines import broker_of, parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.conftest import GOLDEN
from tests.diagnose.test_diagnose_command import as_json, diagnose
from tests.diagnose.told_by_logs import told

CASES = GOLDEN / "field_cases"
HEAD = "2026-11-20 18:10:10 WARN AdminBrokerThread_0 - "
QUEUE = "MessageQueue [topic=seq_event, brokerName=broker-a, queueId={}]"


def in_short(path):
    return " ".join("\n".join(diagnose(path).stdout.splitlines()[:10]).split())


def parsed(parse, raw, file):
    lines = read_lines([raw.encode()], gzipped=False, max_line_bytes=1 << 20)
    return list(parse(lines, zone=UTC, file=file))


def test_c39_the_end_of_a_client_is_told_once_for_its_group():
    path = CASES / "c39/broker_log/proxy.log"
    (gone,) = as_json(path)["client_gone"]
    assert (gone["client_group"], gone["client_id"]) == ("g_pay", "NODE-7@10572@1@x8pkjaacj4")
    assert "NODE-7@10572@1@x8pkjaacj4 of g_pay is gone at 10:12:31.0" in in_short(path)


def test_c39b_who_holds_the_lock_that_another_asks_for():
    path = CASES / "c39b/broker_log/lock.log"
    (refused,) = as_json(path)["lock_refused"]
    assert (refused["client_id"], refused["held_by"], refused["queues"]) == ("10.1.2.4@7#12", "10.1.2.3@7#11", [0, 1])
    assert "g_seq: 6 times 10.1.2.4@7#12 was refused the lock of seq_event broker-a:0-1" in in_short(path)


@pytest.mark.parametrize(
    ("message", "kind", "held_by"),
    [
        ("tryLock, message queue locked by other client. Group: g OtherClientId: c@2 NewClientId: c@1 {}", 1, "c@2"),
        ("RebalanceLockManager#unlockBatch: mq not locked, group=g, clientId=c@1, mq={}", 1, None),
        ("RebalanceLockManager#tryLock: try to lock a expired message queue, group=g, mq={}, old client id=c@2, "
         "new client id=c@1", 0, "c@2"),
    ],
)  # fmt: skip
def test_locks_of_old_and_new_brokers_are_rows_of_the_queue_s_broker(message, kind, held_by):
    raw = HEAD + message.format(QUEUE.format(3))
    (one,) = parsed(parse_broker_log, raw, "node/rocketmqlogs/lock.log")
    row = one.records[0].row
    assert (row["broker_name"], row["queue_id"], row["client_id"]) == ("broker-a", 3, "c@1")
    assert row.get("held_by") == held_by
    assert len(told({"lock.log": raw.encode()}).by_brokers.locks) == kind


def test_c42_a_subscription_that_flips_is_of_two_members_and_a_new_version_is_none():
    path = CASES / "c42/broker_log/broker-a.log"
    (change,) = as_json(path)["subscription_changed"]
    assert (change["expressions"], change["count"], change["returns"]) == (["TagA", "TagB"], 10, 9)
    assert "g_flip: its subscription of pay_event at broker-a goes back and forth between TagA and TagB" in in_short(
        path
    )
    assert "subscription_changed" not in as_json(CASES / "c42b/broker_log/broker-a.log")


def changed(second, old, new):
    data = (
        "SubscriptionData [classFilterMode=false, topic=T, subString={}, tagsSet=[], codeSet=[], subVersion=7, "
        "expressionType=TAG]"
    )
    head = f"2026-11-20 18:10:{second:02} INFO HeartbeatThread_1 - "
    return f"{head}subscription changed, group: g OLD: {data.format(old)} NEW: {data.format(new)}\n"


@pytest.mark.parametrize(
    ("changes", "returns", "expressions"),
    [
        ([("A", "B")], 0, ("A", "B")),  # a release with another subscription
        ([("A", "B"), ("B", "C"), ("C", "A")], 1, ("A", "B", "C")),  # three members
        ([("A || B", "B||A"), ("B||A", "A || B")], None, None),  # the same tags in another order
    ],
)
def test_a_change_is_no_flip_until_it_goes_back(changes, returns, expressions):
    raw = "".join(changed(i, old, new) for i, (old, new) in enumerate(changes)).encode()
    found = told({"broker-a.log": raw}).by_brokers.subscriptions
    assert [(one.returns, one.expressions) for one in found] == ([(returns, expressions)] if expressions else [])


ISOLATED = "2026-11-20 18:10:10 INFO PublishMessageThread_1 - broker-a will be isolated for 30000 ms.\n"


@pytest.mark.parametrize("name", ["proxy.log", "broker_default.log", "broker_default.3.log.gz"])
def test_a_fault_table_in_a_server_s_log_is_the_proxy_s(name):
    one = told({name: ISOLATED.encode()})
    assert [(isolation.broker_name, isolation.state) for _, isolation in one.by_brokers.isolations] == [
        ("broker-a", "isolated")
    ]
    assert not any(troubles.isolations for troubles in one.troubles)


def test_a_fault_table_in_any_other_log_is_a_producer_s():
    one = told({"rocketmq_client.log": ISOLATED.encode()})
    assert one.by_brokers.isolations == [] and len(one.troubles[0].isolations) == 1


@pytest.mark.parametrize(
    "name", ["store.log", "pop.log", "namesrv.log", "controller.log", "watermark.1.log", "any.log"]
)
def test_no_log_of_rocketmq_is_called_none(tmp_path, name):
    (tmp_path / name).write_text("2026-11-20 18:10:10 INFO main - nothing of interest\n")
    said = " ".join(diagnose(tmp_path / name).stdout.split())
    assert "no log of RocketMQ" not in said
    assert ("a broker, proxy, name server or controller writes" in said) == (name != "any.log")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("lock.log", ""),
        ("broker-a/rocketmqlogs/lock.log", "broker-a"),
        ("cluster=c1/lock.log", ""),
        ("proxy.log", "proxy"),
        ("node7/otherdays/proxy.3.log.gz", "proxy@node7"),
        ("broker-a.log", "broker-a"),
    ],
)
def test_a_log_s_own_name_is_no_broker_s(file, name):
    assert broker_of(file) == name


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (f"doRebalance, g, add a new mq failed, {QUEUE.format(3)}, because lock failed", "lock_failed"),
        (f"the message queue locked OK, Group: g {QUEUE.format(3)}", "lock_acquired"),
        (f"lock fails of mq:{QUEUE.format(3)}", "lock_failed"),
    ],
)
def test_a_cpp_client_s_locks_are_read_in_its_own_words_and_in_java_s(message, kind):
    (one,) = parsed(parse_client_log, f"[2026-11-20 18:10:10.123] [warning] {message}", "a.log")
    assert (one.records[0].row["kind"], one.records[0].row["language"]) == (kind, "CPP")


IDENTITY = "BrokerIdentityInfo [clusterName=c, brokerAddr=10.1.0.11:10911]"
REQUEST = (
    "UnRegisterBrokerRequestHeader{brokerName='broker-a', brokerAddr='10.1.0.11:10911', clusterName='c', brokerId=0}"
)
AT_NAME_SERVER = [
    ("new broker registered, 10.1.0.11:10911 HAServer: 10.1.0.11:10912", "broker_registered", "broker {} came"),
    (f"new broker registered, {IDENTITY} HAService: 10.1.0.11:10912", "broker_registered", "broker {} came"),
    ("unregisterBroker, remove from brokerLiveTable OK, 10.1.0.11:10911", "broker_unregistered", "broker {} left"),
    (f"unregisterBroker, remove from brokerLiveTable OK, {IDENTITY}", "broker_unregistered", "broker {} left"),
    ("The broker channel expired, 10.1.0.11:10911 120000ms", "broker_expired", "broker {} was silent for too long"),
    (f"The broker channel expired, {IDENTITY} 120000ms", "broker_expired", "broker {} was silent for too long"),
    (
        "the broker's channel destroyed, 10.1.0.11:10911, clean it's data structure at once",
        "broker_channel_destroyed",
        "the connection of broker {} was closed",
    ),
    (
        f"the broker's channel destroyed, submit the unregister request at once, broker info: {REQUEST}, submit "
        "result: true",
        "broker_channel_destroyed",
        "the connection of broker {} was closed",
    ),
    (
        "remove topic[order_event] all queue, from topicQueueTable, because channel destroyed",
        "topic_unregistered",
        "no broker has topic order_event any more",
    ),
    (
        "removeTopicByBrokerName, remove the topic all queue order_event",
        "topic_unregistered",
        "no broker has topic order_event any more",
    ),
]


@pytest.mark.parametrize(("message", "kind", "told"), AT_NAME_SERVER)
def test_what_comes_and_goes_at_a_name_server_is_told_first(message, kind, told, tmp_path):
    """RouteInfoManager of 4.3.0, 4.7.1, 5.3.3 and 5.5.0."""
    text = f"2026-11-20 18:10:10 WARN NSScheduledThread1 - {message}"
    (one,) = parse_broker_log([Line(1, 0, len(text), text, None)], zone=UTC, file="namesrv.log")
    (record,) = one.records
    assert record.row["kind"] == kind
    assert record.row.get("broker_address") == (None if kind == "topic_unregistered" else "10.1.0.11:10911")
    (tmp_path / "namesrv.log").write_text(f"{text}\n")
    shown = " ".join("\n".join(diagnose(tmp_path / "namesrv.log").stdout.splitlines()[:10]).split())
    assert told.format("10.1.0.11:10911") in shown and "name server " in shown

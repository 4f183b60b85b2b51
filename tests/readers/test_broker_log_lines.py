from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from time import process_time

import pytest

from hindsight.schemas import MEMBERSHIP_EVENT
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.logs.broker_log_lines import TEMPLATES, broker_of, parse_broker_log
from tests.readers.line_checks import GOLDEN, check, check_bytes, counts, lines_of, raw_lines

REAL = sorted((GOLDEN / "captures/broker_logs").glob("*.gz"))
TABLES = FORMATS["broker_log"].tables
parse_file = partial(parse_broker_log, zone=UTC, file="broker-a/broker.log")

GREP = {
    "consumer_connected": rb"- new consumer connected",
    "consumer_unregistered": rb"- unregister a consumer\[",
    "consumer_group_removed": rb"- unregister consumer ok",
    "consumer_channel_closed": rb"NETTY EVENT: remove not active",
    "consumer_channel_expired": rb"remove expired channel from ConsumerManager",
    "subscription_added": rb"subscription changed, add new topic",
    "subscription_changed": rb"subscription changed.*OLD:",
    "subscription_removed": rb"subscription changed.*remove topic",
    "producer_connected": rb"- new producer connected",
    "producer_unregistered": rb"- unregister a producer\[",
    "producer_group_removed": rb"- unregister a producer group\[",
    "producer_channel_closed": rb"NETTY EVENT: remove channel",
    "producer_channel_expired": rb"#scanNotActiveChannel: remove expired",
    "group_not_known": rb"- getConsumerGroupInfo failed",
}
CHANNEL = (
    "ClientChannelInfo [channel=[id: 0xdd655462, L:/127.0.0.1:20911 - R:/127.0.0.1:53216], clientId=c@1#2, "
    "language=JAVA, version=479, lastUpdateTimestamp=1795252687013]"
)
SUBSCRIPTION = (
    "SubscriptionData [classFilterMode=false, topic=T, subString={}, tagsSet=[a, b], codeSet=[97], "
    "subVersion={}, expressionType=TAG]"
)


def parse(message):
    (parsed,) = check_bytes(parse_file, f"2026-11-21 17:18:07 INFO t_2 - {message}".encode(), TABLES)
    return parsed


def row(message):
    parsed = parse(message)
    assert parsed.refusal is None, parsed.refusal
    return parsed.records[0].row


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_every_kind_is_found_as_often_as_grep_finds_it(path):
    found = counts(check(parse_file, lines_of(path), TABLES))
    lines = raw_lines(path)
    grepped = {kind: sum(1 for line in lines if re.search(pattern, line)) for kind, pattern in GREP.items()}
    assert found == {f"membership_event {kind}": n for kind, n in grepped.items() if n}


def test_a_channel_tells_client_address_release_and_last_heartbeat():
    made = row(f"new consumer connected, group: g CONSUME_PASSIVELY CLUSTERING channel: {CHANNEL}")
    assert (made["kind"], made["client_group"], made["client_id"]) == ("consumer_connected", "g", "c@1#2")
    assert (made["address"], made["language"], made["client_version"]) == ("127.0.0.1:53216", "JAVA", 479)
    assert made["broker_address"] == "127.0.0.1:20911"
    assert (made["consume_type"], made["message_model"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert made["last_update_at"] == 1795252687013
    assert made["logged_at"] == datetime(2026, 11, 21, 9, 18, 7, tzinfo=UTC).timestamp() * 1000
    assert (made["resolution_ms"], made["thread"], made["broker_name"]) == (1000, "t_2", "broker-a")


@pytest.mark.parametrize(
    ("message", "kind", "told"),
    [
        (f"unregister a consumer[g] from consumerGroupInfo {CHANNEL}", "consumer_unregistered", {"client_group": "g"}),
        (
            f"NETTY EVENT: remove not active channel[{CHANNEL.replace(' - R', ' ! R')}] from ConsumerGroupInfo "
            "groupChannelTable, consumer group: g",
            "consumer_channel_closed",
            {"client_group": "g", "address": "127.0.0.1:53216"},
        ),
        (
            "SCAN: remove expired channel from ConsumerManager consumerTable. channel=h:1, consumerGroup=g",
            "consumer_channel_expired",
            {"client_group": "g", "address": "h:1"},
        ),
        (
            "SCAN: remove expired channel from ConsumerManager consumerTable, all clear, consumerGroup=g",
            "consumer_channel_expired",
            {"client_group": "g"},
        ),
        (
            f"[BUG] consumer channel exist in broker, but clientId not equal. GROUP: g OLD: {CHANNEL} NEW: {CHANNEL} ",
            "consumer_id_changed",
            {"client_group": "g", "client_id": "c@1#2"},
        ),
        (
            "ConsumerGroupInfo: consumer channel exists in broker, but clientId is not the same one, group=g, "
            f"old clientChannelInfo={CHANNEL}, new clientChannelInfo={CHANNEL}",
            "consumer_id_changed",
            {"client_group": "g", "client_id": "c@1#2"},
        ),
        (
            f"subscription changed, add new topic, group: g {SUBSCRIPTION.format('a || b', 7)}",
            "subscription_added",
            {"topic": "T", "sub_string": "a || b", "sub_version": 7},
        ),
        (
            f"subscription changed, group: g OLD: {SUBSCRIPTION.format('*', 1)} NEW: {SUBSCRIPTION.format('x', 2)}",
            "subscription_changed",
            {"topic": "T", "old_sub_string": "*", "sub_string": "x", "sub_version": 2},
        ),
        (
            f"subscription changed, group: g remove topic T {SUBSCRIPTION.format('*', 1)}",
            "subscription_removed",
            {"topic": "T", "client_group": "g"},
        ),
        (
            f"NETTY EVENT: remove channel[{CHANNEL}][127.0.0.1:53216] from ProducerManager groupChannelTable, "
            "producer group: pg",
            "producer_channel_closed",
            {"client_group": "pg", "client_id": "c@1#2"},
        ),
        (
            "SCAN: remove expired channel[h:1] from ProducerManager groupChannelTable, producer group name: pg",
            "producer_channel_expired",
            {"client_group": "pg", "address": "h:1"},
        ),
        ("getAllClientId failed, g h:1", "group_without_clients", {"client_group": "g", "address": "h:1"}),
        (
            "QueryLoad: no assignment for group[g] topic[T], get consumer id list failed",
            "assignment_failed",
            {"client_group": "g", "topic": "T"},
        ),
    ],
)
def test_each_message_of_the_templates_is_an_event(message, kind, told):
    made = row(message)
    assert made["kind"] == kind
    assert {name: made[name] for name in told} == told


@pytest.mark.parametrize(
    ("file", "broker"),
    [
        ("broker-a/broker.log", "broker-a"),
        ("x/broker-a/broker.log.2", "broker-a"),
        ("broker-a.log.gz", "broker-a"),
        ("again/broker-a.log", "broker-a"),
        ("broker-a/otherdays/broker.1.log.gz", "broker-a"),
        ("otherdays/broker.1.log.gz", ""),
        ("broker-a.log.2026-11-21", "broker-a"),
        ("broker.log", ""),
        ("broker.log.1", ""),
    ],
)
def test_the_broker_is_named_by_folder_or_file(file, broker):
    assert broker_of(file) == broker


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("new consumer connected, group: g CONSUME_PASSIVELY CLUS", "BAD_EVENT_LINE"),
        (
            f"unregister a producer[pg] from groupChannelTable {CHANNEL.replace('1795252687013', '17')}",
            "TIMESTAMP_OUT_OF_RANGE",
        ),
        (f"unregister a producer[pg] from groupChannelTable {CHANNEL.replace('479', '4790000000')}", "OUT_OF_RANGE"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused(message, code):
    assert parse(message).refusal.code == code


def test_other_lines_and_traces_are_ignored():
    parsed = check_bytes(
        parse_file, b"\tat a.B\n2026-11-21 17:18:07 INFO main - brokerName=a\nnew consumer connected\n", TABLES
    )
    assert all(p.records == () and p.refusal is None for p in parsed)


def test_every_kind_of_event_is_a_value_of_the_table():
    assert {one.kind for one in TEMPLATES} == set(MEMBERSHIP_EVENT.known("kind"))


@pytest.mark.parametrize(
    "hostile",
    [
        "subscription changed, group: g OLD: SubscriptionData [" + "] NEW: " * 100_000,
        "subscription changed, add new topic, group: g SubscriptionData [" + ", topic=" * 100_000,
        "subscription changed, add new topic, group: g SubscriptionData [" + "subString=, tagsSet=" * 50_000,
        "[BUG] consumer channel exist in broker, but clientId not equal. GROUP: g OLD: "
        + "NEW: ClientChannelInfo [channel=[" * 30_000,
        "new consumer connected, group: " + "g " * 500_000,
    ],
    ids=lambda text: text[:24] + text[-8:],
)
def test_time_is_linear_in_the_length_of_a_line(hostile):
    began = process_time()
    parse(hostile)
    assert process_time() - began < 1.0

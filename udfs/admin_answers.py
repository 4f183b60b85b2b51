"""An answer of the admin API, as fastjson wrote it, in; what it says of the one who gave it, and rows, out.

TopicRouteData, ConsumerConnection, ConsumerRunningInfo, ConsumeStats, ProducerConnection; the names of 4.x and of 5.x.
What a release leaves out, or writes as null, is null here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from udfs.allocation import java_string_key
from udfs.fastjson import FastjsonError, parse_fastjson
from udfs.group_round import OTHER_CLASS
from udfs.parsed_line import (
    Fields,
    RefusedLineError,
    instant,
    instant_or_never,
    int32,
    lag_between,
    optional_flag,
    optional_int32,
    optional_number,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)

_STRATEGY_PACKAGE = "org.apache.rocketmq.client.consumer.rebalance."


_STRATEGY_CLASSES = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
    "AllocateMessageQueueByConfig": "CONFIG",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
}


# What an answer says of the one who gave it, and the rows it brings.
Answer = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]


def raw_object(raw: str | None) -> Fields:
    """The object that the text of ``raw`` is, in fastjson's dialect; refused: MISSING_FIELD, BAD_RAW."""
    if raw is None:
        raise RefusedLineError("MISSING_FIELD", "the line has neither 'raw' nor 'error'")
    try:
        value = parse_fastjson(raw)
    except FastjsonError as error:
        raise RefusedLineError("BAD_RAW", f"'raw': {error}") from None
    if not isinstance(value, dict):
        raise RefusedLineError("BAD_RAW", f"'raw' is a JSON {type(value).__name__}, expected an object")
    return value


def _topic_route(raw: Fields, capture: Fields) -> Answer:
    addresses = {text_field(b, "brokerName"): _table(b, "brokerAddrs") for b in objects(raw, "brokerDatas")}
    rows = []
    for queue_data in objects(raw, "queueDatas"):
        name = text_field(queue_data, "brokerName")
        master = master_address(addresses.get(name, {}))
        rows.append(
            (
                "topic_route",
                {
                    "topic": capture["topic"],
                    "broker_name": name,
                    "read_queue_nums": int32(queue_data, "readQueueNums"),
                    "write_queue_nums": int32(queue_data, "writeQueueNums"),
                    "perm": int32(queue_data, "perm"),
                    "has_master": master is not None,
                    "master_address": master,
                    "order_topic_conf": optional_text(raw, "orderTopicConf"),
                    "is_static_topic": bool(raw.get("topicQueueMappingByBroker")),
                },
            )
        )
    return {}, rows


def master_address(addresses: Mapping[Any, Any]) -> str | None:
    """Broker id 0 is the master; its key is a bare integer, or a string where strict JSON was asked for."""
    master = addresses.get(0, addresses.get("0"))
    return text_field({"brokerAddrs[0]": master}, "brokerAddrs[0]") if isinstance(master, str) and master else None


def _consumer_connection(raw: Fields, capture: Fields) -> Answer:
    group = {
        "consume_type": optional_text(raw, "consumeType"),
        "message_model": optional_text(raw, "messageModel"),
    }
    extra = {"consume_from_where": optional_text(raw, "consumeFromWhere"), "consumer_group": capture["consumer_group"]}
    rows = [("consumer_heartbeat", group | extra | client) for client in _connections(raw)]
    table = _table(raw, "subscriptionTable")
    said = {**group, "subscriptions": read_subscriptions([s for s in table.values() if isinstance(s, dict)])}
    return said, rows


def _producer_connection(raw: Fields, capture: Fields) -> Answer:
    asked = {"producer_group": capture["producer_group"], "topic": capture["topic"]}
    return {}, [("producer_connection", asked | client) for client in _connections(raw)]


def _connections(raw: Fields) -> list[dict[str, Any]]:
    return [
        {
            "client_id": text_field(connection, "clientId"),
            "address": optional_text(connection, "clientAddr") or "",
            "language": optional_text(connection, "language"),
            "client_version": optional_int32(connection, "version"),
        }
        for connection in objects(raw, "connectionSet")
    ]


def _consumer_running_info(raw: Fields, capture: Fields) -> Answer:
    properties = _table(raw, "properties")
    said = {
        "client_version": optional_text(properties, "PROP_CLIENT_VERSION"),
        "consume_type": optional_text(properties, "PROP_CONSUME_TYPE"),
        "message_model": optional_text(properties, "messageModel"),
        "consume_from_where": optional_text(properties, "consumeFromWhere"),
        "consume_orderly": optional_flag(properties, "PROP_CONSUMEORDERLY"),
        "client_rebalance": optional_flag(properties, "clientRebalance"),
        "strategy": _strategy(optional_text(properties, "allocateMessageQueueStrategy")),
        "client_started_at": _start_timestamp(optional_text(properties, "PROP_CONSUMER_START_TIMESTAMP")),
        "subscriptions": read_subscriptions(objects(raw, "subscriptionSet")),
    }
    rows = []
    for queue, process_queue in _queue_table(raw, "mqTable"):
        row = {
            "consumer_group": capture["consumer_group"],
            "client_id": capture["client_id"],
            **queue,
            "locked": bool(optional_flag(process_queue, "locked")),
            "dropped": bool(optional_flag(process_queue, "droped")),
            "last_pull_at": instant_or_never(process_queue, "lastPullTimestamp"),
            "last_consume_at": instant_or_never(process_queue, "lastConsumeTimestamp"),
            "last_lock_at": instant_or_never(process_queue, "lastLockTimestamp"),
            "cached_messages": optional_number(process_queue, "cachedMsgCount"),
            "commit_offset": optional_number(process_queue, "commitOffset"),
        }
        rows.append(("queue_ownership", row))
    return said, rows + _pop_assignments(raw, capture)


def _pop_assignments(raw: Fields, capture: Fields) -> list[tuple[str, dict[str, Any]]]:
    """Queues consumed by POP (5.0 on), which members may share; id -1 is all queues of the broker."""
    rows = []
    for queue, process_queue in _queue_table(raw, "mqPopTable", lowest_id=-1):
        row = {
            "consumer_group": capture["consumer_group"],
            "client_id": capture["client_id"],
            **queue,
            "dropped": bool(optional_flag(process_queue, "droped")),
            "wait_ack_count": optional_number(process_queue, "waitAckCount"),
            "last_pop_at": instant_or_never(process_queue, "lastPopTimestamp"),
        }
        rows.append(("pop_assignment", row))
    return rows


def _consume_stats(raw: Fields, capture: Fields) -> Answer:
    rows = []
    for queue, offsets in _queue_table(raw, "offsetTable"):
        broker, consumer = whole_number(offsets, "brokerOffset"), whole_number(offsets, "consumerOffset")
        row = {
            "consumer_group": capture["consumer_group"],
            **queue,
            "broker_offset": broker,
            "consumer_offset": consumer,
            "lag": lag_between(broker, consumer),
            "pull_offset": optional_number(offsets, "pullOffset"),
            "last_timestamp": instant_or_never(offsets, "lastTimestamp"),
        }
        rows.append(("queue_progress", row))
    return {}, rows


ANSWERS: dict[str, Callable[[Fields, Fields], Answer]] = {
    "topicRoute": _topic_route,
    "consumerConnection": _consumer_connection,
    "consumerRunningInfo": _consumer_running_info,
    "consumeStats": _consume_stats,
    "producerConnection": _producer_connection,
}


def read_answer(kind: str, raw: Fields, asked: Fields) -> Answer:
    """What an answer of this kind says, and its rows; ``asked``: group, client or topic that it is about."""
    return ANSWERS[kind](raw, asked)


def objects(raw: Fields, name: str) -> list[Fields]:
    """A list of objects; absent or null is empty, as fastjson leaves out what is null."""
    values = raw.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no list of objects")
    return values


def _table(raw: Fields, name: str) -> Mapping[Any, Any]:
    value = raw.get(name) or {}
    if not isinstance(value, dict):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no object")
    return value


def _queue_table(raw: Fields, name: str, *, lowest_id: int = 0) -> list[tuple[dict[str, Any], Fields]]:
    """Entries of a map whose keys are MessageQueue objects."""
    entries: list[tuple[dict[str, Any], Fields]] = []
    for key, value in _table(raw, name).items():
        if not isinstance(key, tuple) or not isinstance(value, dict):
            raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' has an entry that is no message queue: {key!r:.80}")
        queue = dict(key)
        row = {
            "topic": text_field(queue, "topic"),
            "broker_name": text_field(queue, "brokerName"),
            "queue_id": queue_id(queue, lowest=lowest_id),
        }
        entries.append((row, value))
    return entries


def read_subscriptions(values: list[Fields]) -> list[dict[str, Any]]:
    """SubscriptionData objects as rows, by topic; an expressionType is there from 4.1.0 on."""
    rows = [
        {
            "topic": text_field(value, "topic"),
            "expression_type": optional_text(value, "expressionType"),
            "sub_string": optional_text(value, "subString"),
            "tags": sorted(_texts(value, "tagsSet"), key=java_string_key),
        }
        for value in values
    ]
    return rows if len(rows) < 2 else sorted(rows, key=lambda row: java_string_key(row["topic"]))


def _texts(raw: Fields, name: str) -> list[str]:
    """A list of strings; absent or null is empty."""
    values = raw.get(name) or []
    if not isinstance(values, list):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no list")
    return [text_field({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]


def _strategy(printed: str | None) -> str | None:
    """``AVG`` for ``...AllocateMessageQueueAveragely@1f2e``; a class that is not RocketMQ's stays a class name."""
    if printed is None:
        return None
    class_name = printed.partition("@")[0]
    own = class_name.removeprefix(_STRATEGY_PACKAGE)
    other = f"{OTHER_CLASS}{class_name}"
    return _STRATEGY_CLASSES.get(own, other) if own != class_name else other


def _start_timestamp(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 20
    return instant({"started": int(text or 0)}, "started") if is_number else None

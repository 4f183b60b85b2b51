"""An answer of the admin API, as fastjson wrote it, in; what it says of the one who gave it, and rows, out.

TopicRouteData, ConsumerConnection, ConsumerRunningInfo, ConsumeStats, ProducerConnection, GetConsumerListByGroup,
TopicStatsTable, TopicConfig, SubscriptionGroupConfig; the names of 4.x and of 5.x.
What a release leaves out, or writes as null, is null here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from udfs.allocation import java_string_key
from udfs.client_kinds import kind_of_running_info
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


def raw_list(raw: str) -> list[Any]:
    """The list that the text of ``raw`` is; refused: BAD_RAW."""
    try:
        value = parse_fastjson(raw)
    except FastjsonError as error:
        raise RefusedLineError("BAD_RAW", f"'raw': {error}") from None
    if not isinstance(value, list):
        raise RefusedLineError("BAD_RAW", f"'raw' is a JSON {type(value).__name__}, expected a list")
    return value


def _topic_route(raw: Fields, capture: Fields) -> Answer:
    addresses = {text_field(b, "brokerName"): _table(b, "brokerAddrs") for b in objects(raw, "brokerDatas")}
    mappings = _table(raw, "topicQueueMappingByBroker")
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
                    "is_static_topic": bool(mappings),
                    **_logical_queues(mappings.get(name)),
                },
            )
        )
    return {}, rows


def _logical_queues(mapping: Any) -> dict[str, Any]:
    """What a broker's mapping of a static topic says: TopicQueueMappingInfo, 5.0 on."""
    scope = mapping.get("scope") if isinstance(mapping, dict) else None
    if not isinstance(scope, str) or not scope:
        return {}
    held = _table(mapping, "currIdMap")
    return {
        # MixAll#LOGICAL_QUEUE_MOCK_BROKER_PREFIX; of the global scope the first two characters are left out.
        "logical_broker_name": f"__syslo__{scope[2:] if scope == '__global__' else scope}",
        "logical_queue_nums": int32(mapping, "totalQueues"),
        "logical_queues": [
            {"logical_id": _id(logical, "currIdMap"), "queue_id": _id(own, "currIdMap")}
            for logical, own in sorted(held.items(), key=lambda entry: str(entry[0]))
        ],
    }


def _id(value: Any, name: str) -> int:
    """A queue id that stands as a key or value of a map: a bare number, or text where strict JSON was asked for."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return queue_id({name: number}, name)


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
    pops = _pop_assignments(raw, capture)
    said = {
        "client_kind": kind_of_running_info(properties, pops),
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
    return said, rows + pops


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
            "broker_asked": capture.get("broker_name"),
        }
        rows.append(("queue_progress", row))
    return {}, rows


def _consumer_id_list(raw: Fields, capture: Fields) -> Answer:
    return {"member_ids": _texts(raw, "consumerIdList")}, []


def _topic_status(raw: Fields, capture: Fields) -> Answer:
    rows = []
    for queue, offsets in _queue_table(raw, "offsetTable"):
        row = {
            **queue,
            "broker_asked": capture.get("broker_name"),
            "min_offset": whole_number(offsets, "minOffset"),
            "max_offset": whole_number(offsets, "maxOffset"),
            "last_update_at": instant_or_never(offsets, "lastUpdateTimestamp"),
        }
        rows.append(("topic_status", row))
    return {}, rows


def _topic_config(raw: Fields, capture: Fields) -> Answer:
    row = {
        "topic": capture["topic"],
        "broker_name": capture.get("broker_name"),
        "read_queue_nums": int32(raw, "readQueueNums"),
        "write_queue_nums": int32(raw, "writeQueueNums"),
        "perm": int32(raw, "perm"),
        "ordered": optional_flag(raw, "order"),
        "hosted_queues": _hosted_queues(_table(raw, "mappingDetail")),
    }
    return {}, [("topic_config", row)]


def _hosted_queues(mapping: Fields) -> list[dict[str, Any]]:
    """Where the logical queues of a static topic lie and lay: LogicQueueMappingItem, 5.0 on; its last entry is now."""
    return [
        {
            "logical_id": _id(logical, "hostedQueues"),
            "broker_name": text_field(item, "bname"),
            "queue_id": queue_id(item),
            "logic_offset": whole_number(item, "logicOffset"),
            "start_offset": whole_number(item, "startOffset"),
        }
        for logical, items in _table(mapping, "hostedQueues").items()
        for item in objects({"hostedQueues": items}, "hostedQueues")
    ]


def _subscription_group_config(raw: Fields, capture: Fields) -> Answer:
    return {}, [("subscription_group", _group_config(raw, capture))]


def _subscription_groups(raw: Fields, capture: Fields) -> Answer:
    groups = objects({"groups": list(_table(raw, "subscriptionGroupTable").values())}, "groups")
    return {}, [("subscription_group", _group_config(group, capture)) for group in groups]


def _group_config(raw: Fields, capture: Fields) -> dict[str, Any]:
    return {
        "consumer_group": text_field(raw, "groupName"),
        "broker_name": capture.get("broker_name"),
        "consume_enable": optional_flag(raw, "consumeEnable"),
        "consume_broadcast_enable": optional_flag(raw, "consumeBroadcastEnable"),
        "consume_from_min_enable": optional_flag(raw, "consumeFromMinEnable"),
        "consume_message_orderly": optional_flag(raw, "consumeMessageOrderly"),
        "notify_consumer_ids_changed": optional_flag(raw, "notifyConsumerIdsChangedEnable"),
        "retry_queue_nums": optional_int32(raw, "retryQueueNums"),
        "retry_max_times": optional_int32(raw, "retryMaxTimes"),
    }


ANSWERS: dict[str, Callable[[Fields, Fields], Answer]] = {
    "topicRoute": _topic_route,
    "consumerConnection": _consumer_connection,
    "consumerRunningInfo": _consumer_running_info,
    "consumeStats": _consume_stats,
    "producerConnection": _producer_connection,
    "consumerIdList": _consumer_id_list,
    "topicStatus": _topic_status,
    "topicConfig": _topic_config,
    "subscriptionGroupConfig": _subscription_group_config,
    "subscriptionGroups": _subscription_groups,
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

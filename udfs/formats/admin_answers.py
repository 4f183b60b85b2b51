"""An answer of the admin API, as fastjson wrote it, in; what it says of the one who gave it, and rows, out.

ConsumerConnection, ConsumerRunningInfo, ConsumeStats, ProducerConnection, GetConsumerListByGroup,
TopicStatsTable, TopicConfig, SubscriptionGroupConfig, MessageRequestModeManager, and of BrokerConfig what says how
queues are handed out; the names of 4.x and of 5.x, and of the Go and C++ clients. What a release leaves out, or writes
as null, is null here; an object without the members that every answer of its kind has is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hindsight.udfs.allocation import java_string_key
from hindsight.udfs.clients.client_kinds import OTHER_CLASS, kind_of_running_info
from hindsight.udfs.formats.answer_parts import id_of, map_of, objects, queue_table, texts, topic_route
from hindsight.udfs.lines.parsed_line import (
    Fields,
    RefusedLineError,
    instant,
    instant_or_never,
    int32,
    is_instant,
    is_whole,
    java_number,
    known_value,
    lag_between,
    optional_flag,
    optional_int32,
    optional_number,
    optional_rate,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)

_MODES = ("PULL", "POP")
_SCHEDULE_OFFSET = re.compile(r"scheduleMessageOffset_(\d{1,10}+)=(-?\d{1,19}+),(-?\d{1,19}+)").fullmatch
# What an answer says of the one who gave it, and the rows it brings.
Answer = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]
_STRATEGY_PACKAGE = "org.apache.rocketmq.client.consumer.rebalance."


_STRATEGY_CLASSES = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
    "AllocateMessageQueueByConfig": "CONFIG",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
}


def _topic_status(raw: Fields, capture: Fields) -> Answer:
    """TopicStatsTable: rows of ``topic_status``."""
    rows = [
        {
            **queue,
            "broker_asked": capture.get("broker_name"),
            "min_offset": whole_number(offsets, "minOffset"),
            "max_offset": whole_number(offsets, "maxOffset"),
            "last_update_at": instant_or_never(offsets, "lastUpdateTimestamp"),
        }
        for queue, offsets in queue_table(raw, "offsetTable")
    ]
    return {}, [("topic_status", row) for row in rows]


def _topic_config(raw: Fields, capture: Fields) -> Answer:
    """TopicConfig, with the mapping of a static topic: the row of ``topic_config``."""
    row = {
        "topic": capture["topic"],
        "broker_name": capture.get("broker_name"),
        "read_queue_nums": int32(raw, "readQueueNums"),
        "write_queue_nums": int32(raw, "writeQueueNums"),
        "perm": int32(raw, "perm"),
        "ordered": optional_flag(raw, "order"),
        "hosted_queues": _hosted_queues(map_of(raw, "mappingDetail")),
    }
    return {}, [("topic_config", row)]


def _hosted_queues(mapping: Fields) -> list[dict[str, Any]]:
    """Where the logical queues of a static topic lie and lay: LogicQueueMappingItem, 5.0 on; its last entry is now."""
    return [
        {
            "logical_id": id_of(logical, "hostedQueues"),
            "broker_name": text_field(item, "bname"),
            "queue_id": queue_id(item),
            "logic_offset": whole_number(item, "logicOffset"),
            "start_offset": whole_number(item, "startOffset"),
        }
        for logical, items in map_of(mapping, "hostedQueues").items()
        for item in objects({"hostedQueues": items}, "hostedQueues")
    ]


def _subscription_groups(raw: Fields, capture: Fields) -> Answer:
    """SubscriptionGroupWrapper, all groups of a broker: rows of ``subscription_group``."""
    groups = objects({"groups": list(map_of(raw, "subscriptionGroupTable").values())}, "groups")
    return {}, [_subscription_group(group, capture) for group in groups]


def _subscription_group(raw: Fields, capture: Fields) -> tuple[str, dict[str, Any]]:
    """SubscriptionGroupConfig: the row of ``subscription_group``."""
    return "subscription_group", {
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


def _message_request_modes(raw: Fields, capture: Fields) -> Answer:
    """MessageRequestModeManager, 5.0 on: a row of ``message_request_mode`` for each topic and group that it names.

    One more, without both, says that nothing was set for all others.
    """
    set_modes = [
        (text_field({"topic": topic}, "topic"), text_field({"group": group}, "group"), mode)
        for topic, groups in map_of(raw, "messageRequestModeMap").items()
        for group, mode in map_of({"messageRequestModeMap": groups}, "messageRequestModeMap").items()
    ]
    rows = [
        _mode_row(capture, "messageRequestModes", map_of({"mode": mode}, "mode"), topic, group)
        for topic, group, mode in set_modes
    ]
    return {}, [*rows, _mode_row(capture, "messageRequestModes", {})]


def _broker_config(raw: Fields, capture: Fields) -> Answer:
    """BrokerConfig, as far as it says how queues are handed out (5.0 on): the row of ``message_request_mode``.

    A broker that does not say, as those before 5.0, has no row.
    """
    if "defaultMessageRequestMode" not in raw:
        return {}, []
    share = optional_text(raw, "defaultPopShareQueueNum")
    own = {
        "mode": raw["defaultMessageRequestMode"],
        "popShareQueueNum": None if share is None else java_number(share, 32),
        "balances": optional_flag(raw, "serverLoadBalancerEnable"),
    }
    return {}, [_mode_row(capture, "brokerConfig", own)]


def _runtime_info(raw: Fields, capture: Fields) -> Answer:
    """AdminBrokerProcessor#prepareRuntimeInfo: rows of ``schedule_progress``, and one of ``broker_status``.

    Timers are those of 5.0 on; a broker without a wheel says 0 of all.
    """
    table = map_of(raw, "table")
    told = {
        "booted_at": _number_in(table, "bootTimestamp", is_instant),
        "release": optional_text(dict(table), "brokerVersionDesc"),
        "log_end": _number_in(table, "commitLogMaxOffset"),
        "timer_behind_s": _number_in(table, "timerReadBehind"),
        "timer_not_taken": _number_in(table, "timerOffsetBehind"),
        "timer_waiting": _number_in(table, "timerCongestNum"),
    }
    own = [_status(capture, "brokerRuntimeInfo", told)] if any(value is not None for value in told.values()) else []
    return {}, [*_schedule_progress(table, capture), *own]


def _number_in(table: Mapping[Any, Any], name: str, is_one: Callable[[int], bool] = lambda _: True) -> int | None:
    """A number that a broker prints as text; None: it says none, or one that is no Java ``long``."""
    text = table.get(name)
    if not (isinstance(text, str) and is_whole(text)):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 and is_one(number) else None


def _ha_status(raw: Fields, capture: Fields) -> Answer:
    """HARuntimeInfo, 5.0 on: the row of ``broker_status`` that says how replicas follow, or whom the broker follows."""
    is_master = optional_flag(raw, "master")
    follows = map_of(raw, "haClientRuntimeInfo")
    replicas = [
        {
            "address": text_field(one, "addr"),
            "in_sync": bool(optional_flag(one, "inSync")),
            "behind_bytes": whole_number(one, "diff"),
        }
        for one in objects(raw, "haConnectionInfo")
    ]
    told = {
        "is_master": is_master,
        "in_sync_replicas": optional_int32(raw, "inSyncSlaveNums") if is_master else None,
        "replicas": replicas if is_master else None,
        "log_end": optional_number(raw, "masterCommitLogMaxOffset")
        if is_master
        else optional_number(dict(follows), "maxOffset"),
        "master_address": None if is_master else optional_text(dict(follows), "masterAddr"),
    }
    return {}, [_status(capture, "brokerHaStatus", told)]


def _status(capture: Fields, told_by: str, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "broker_status", {"broker_name": capture.get("broker_name"), "told_by": told_by, **told}


def _schedule_progress(table: Mapping[Any, Any], capture: Fields) -> list[tuple[str, dict[str, Any]]]:
    """ScheduleMessageService#buildRunningStats in a broker's runtime info: a row of ``schedule_progress`` a level.

    ``scheduleMessageOffset_<level>``: "delayOffset,maxOffset" of the level's queue of SCHEDULE_TOPIC_XXXX, 4.0.0 to
    5.3.3; levels that nobody used have none, nor have 5.x brokers that deliver by the timer wheel alone.
    """
    rows = []
    for name, value in table.items():
        found = _SCHEDULE_OFFSET(f"{name}={value}") if isinstance(value, str) else None
        if found is not None:
            level, delay_offset, max_offset = found.groups()
            row = {
                "broker_name": capture.get("broker_name"),
                "delay_level": java_number(level, 32),
                "delay_offset": java_number(delay_offset, 64),
                "max_offset": java_number(max_offset, 64),
            }
            rows.append(("schedule_progress", row))
    return rows


def _mode_row(
    capture: Fields, told_by: str, said: Mapping[Any, Any], topic: str | None = None, group: str | None = None
) -> tuple[str, dict[str, Any]]:
    mode = said.get("mode")
    if mode is not None:
        known_value(mode, "mode", _MODES)
    row = {
        "topic": topic,
        "consumer_group": group,
        "broker_name": capture.get("broker_name"),
        "told_by": told_by,
        "mode": mode,
        "pop_share_queue_num": optional_int32(dict(said), "popShareQueueNum"),
        "server_load_balancer": said.get("balances"),
    }
    return "message_request_mode", row


def _consumer_connection(raw: Fields, capture: Fields) -> Answer:
    group = {"consume_type": optional_text(raw, "consumeType"), "message_model": optional_text(raw, "messageModel")}
    extra = {"consume_from_where": optional_text(raw, "consumeFromWhere"), "consumer_group": capture["consumer_group"]}
    rows = [("consumer_heartbeat", group | extra | client) for client in _connections(raw)]
    table = map_of(raw, "subscriptionTable")
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
    properties = map_of(raw, "properties")
    pops = _pop_assignments(raw, capture)
    said = {
        "client_kind": kind_of_running_info(properties, pops),
        "client_version": optional_text(properties, "PROP_CLIENT_VERSION"),
        "consume_type": optional_text(properties, "PROP_CONSUME_TYPE"),
        "message_model": optional_text(properties, "messageModel"),
        "consume_from_where": optional_text(properties, "consumeFromWhere"),
        "consume_orderly": _is_orderly(properties),
        "client_rebalance": optional_flag(properties, "clientRebalance"),
        "strategy": _strategy(optional_text(properties, "allocateMessageQueueStrategy")),
        "client_started_at": _start_timestamp(optional_text(properties, "PROP_CONSUMER_START_TIMESTAMP")),
        "subscriptions": read_subscriptions(objects(raw, "subscriptionSet")),
    }
    rows = []
    for queue, process_queue in queue_table(raw, "mqTable"):
        row = {
            "consumer_group": capture["consumer_group"],
            "client_id": capture["client_id"],
            **queue,
            "locked": bool(optional_flag(process_queue, "locked")),
            "dropped": _is_dropped(process_queue),
            "last_pull_at": instant_or_never(process_queue, "lastPullTimestamp"),
            "last_consume_at": instant_or_never(process_queue, "lastConsumeTimestamp"),
            "last_lock_at": _locked_at(process_queue),
            "cached_messages": optional_number(process_queue, "cachedMsgCount"),
            "commit_offset": optional_number(process_queue, "commitOffset"),
        }
        rows.append(("queue_ownership", row))
    return said, rows + pops


def _is_orderly(properties: Fields) -> bool | None:
    """C++ clients through 1.2.3 write ``flase``. Source: DefaultMQPushConsumer.cpp."""
    name = "PROP_CONSUMEORDERLY"
    return False if properties.get(name) == "flase" else optional_flag(properties, name)


def _locked_at(process_queue: Fields) -> int | None:
    """C++ clients begin a queue with 123: never. Source: rocketmq-client-cpp, ProcessQueueInfo."""
    never = str(process_queue.get("lastLockTimestamp")) == "123"
    return None if never else instant_or_never(process_queue, "lastLockTimestamp")


def _is_dropped(process_queue: Fields) -> bool:
    """Java and C++ write ``droped``, Go ``dropped``."""
    return bool(optional_flag(process_queue, "droped") or optional_flag(process_queue, "dropped"))


def _pop_assignments(raw: Fields, capture: Fields) -> list[tuple[str, dict[str, Any]]]:
    """Queues consumed by POP (5.0 on), which members may share; id -1 is all queues of the broker."""
    rows = [
        {
            "consumer_group": capture["consumer_group"],
            "client_id": capture["client_id"],
            **queue,
            "dropped": _is_dropped(process_queue),
            "wait_ack_count": optional_number(process_queue, "waitAckCount"),
            "last_pop_at": instant_or_never(process_queue, "lastPopTimestamp"),
        }
        for queue, process_queue in queue_table(raw, "mqPopTable", lowest_id=-1)
    ]
    return [("pop_assignment", row) for row in rows]


def _consume_stats(raw: Fields, capture: Fields) -> Answer:
    rows, tps = [], optional_rate(raw, "consumeTps")
    for queue, offsets in queue_table(raw, "offsetTable"):
        broker, consumer = whole_number(offsets, "brokerOffset"), whole_number(offsets, "consumerOffset")
        row = {
            "consumer_group": capture["consumer_group"],
            **queue,
            "broker_offset": broker,
            "consumer_offset": consumer,
            "lag": lag_between(broker, consumer),
            "pull_offset": optional_number(offsets, "pullOffset"),
            "last_timestamp": instant_or_never(offsets, "lastTimestamp"),
            "consume_tps": tps,
            "broker_asked": capture.get("broker_name"),
        }
        rows.append(("queue_progress", row))
    return {}, rows


def _consumer_id_list(raw: Fields, capture: Fields) -> Answer:
    """A broker that knows of nobody says CODE 1 (ConsumerManageProcessor#getConsumerListByGroup): no list is empty."""
    ids = texts(raw, "consumerIdList")
    if not ids:
        raise RefusedLineError("BAD_RAW", "'consumerIdList' in 'raw' is empty, which no broker's is")
    return {"member_ids": ids}, []


# By the kind of question who reads an answer, and the members that every such answer has: these classes make the lists
# and tables themselves, so that no release leaves them out (4.0.0 to 5.5.0, Go, C++).
ANSWERS: dict[str, tuple[Callable[[Fields, Fields], Answer], tuple[str, ...]]] = {
    "topicRoute": (lambda raw, capture: ({}, topic_route(raw, capture)), ("brokerDatas", "queueDatas")),
    "consumerConnection": (_consumer_connection, ("connectionSet", "subscriptionTable")),
    "consumerRunningInfo": (_consumer_running_info, ("mqTable", "properties", "subscriptionSet")),
    "consumeStats": (_consume_stats, ("offsetTable",)),
    "producerConnection": (_producer_connection, ("connectionSet",)),
    "consumerIdList": (_consumer_id_list, ("consumerIdList",)),
    "topicStatus": (_topic_status, ("offsetTable",)),
    "topicConfig": (_topic_config, ("readQueueNums", "writeQueueNums", "perm")),
    "subscriptionGroupConfig": (lambda raw, capture: ({}, [_subscription_group(raw, capture)]), ("groupName",)),
    "subscriptionGroups": (_subscription_groups, ("subscriptionGroupTable",)),
    "messageRequestModes": (_message_request_modes, ("messageRequestModeMap",)),
    "brokerConfig": (_broker_config, ()),  # of many properties those that say how queues are handed out
    "brokerRuntimeInfo": (_runtime_info, ("table",)),
    "brokerHaStatus": (_ha_status, ("master",)),
}


def read_answer(kind: str, raw: Fields, asked: Fields) -> Answer:
    """What an answer of this kind says, and its rows; ``asked``: group, client or topic that it is about.

    Refused: BAD_RAW, for an object that lacks what every such answer has.
    """
    read, always_there = ANSWERS[kind]
    missing = [name for name in always_there if raw.get(name) is None]
    if missing:
        found = ", ".join(str(name) for name in list(raw)[:8]) or "nothing"
        raise RefusedLineError("BAD_RAW", f"no answer to {kind}: it lacks {', '.join(missing)}; it holds {found:.200}")
    return read(raw, asked)


def read_subscriptions(values: list[Fields]) -> list[dict[str, Any]]:
    """SubscriptionData objects as rows, by topic; an expressionType is there from 4.1.0 on."""
    rows = [
        {
            "topic": text_field(value, "topic"),
            "expression_type": optional_text(value, "expressionType"),
            "sub_string": optional_text(value, "subString"),
            "tags": sorted(texts(value, "tagsSet"), key=java_string_key),
        }
        for value in values
    ]
    return rows if len(rows) < 2 else sorted(rows, key=lambda row: java_string_key(row["topic"]))


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

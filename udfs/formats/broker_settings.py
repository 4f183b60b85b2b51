"""What a broker says of how topics and groups are set up in, rows of the tables of that out.

TopicStatsTable, TopicConfig, SubscriptionGroupConfig, MessageRequestModeManager, and of BrokerConfig what says how
queues are handed out; the names of 4.x and of 5.x.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hindsight.udfs.formats.answer_parts import id_of, map_of, objects, queue_table
from hindsight.udfs.lines.parsed_line import (
    Fields,
    RefusedLineError,
    instant_or_never,
    int32,
    java_number,
    optional_flag,
    optional_int32,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)

_MODES = ("PULL", "POP")
_SCHEDULE_OFFSET = re.compile(r"scheduleMessageOffset_(\d{1,10}+)=(-?\d{1,19}+),(-?\d{1,19}+)").fullmatch
# What an answer says of the one who gave it, and the rows it brings.
Answer = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]


def topic_status(raw: Fields, capture: Fields) -> Answer:
    """TopicStatsTable: rows of ``topic_status``."""
    rows = []
    for queue, offsets in queue_table(raw, "offsetTable"):
        row = {
            **queue,
            "broker_asked": capture.get("broker_name"),
            "min_offset": whole_number(offsets, "minOffset"),
            "max_offset": whole_number(offsets, "maxOffset"),
            "last_update_at": instant_or_never(offsets, "lastUpdateTimestamp"),
        }
        rows.append(("topic_status", row))
    return {}, rows


def topic_config(raw: Fields, capture: Fields) -> Answer:
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


def subscription_group_config(raw: Fields, capture: Fields) -> Answer:
    """SubscriptionGroupConfig: the row of ``subscription_group``."""
    return {}, [("subscription_group", _group_config(raw, capture))]


def subscription_groups(raw: Fields, capture: Fields) -> Answer:
    """SubscriptionGroupWrapper, all groups of a broker: rows of ``subscription_group``."""
    groups = objects({"groups": list(map_of(raw, "subscriptionGroupTable").values())}, "groups")
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


def message_request_modes(raw: Fields, capture: Fields) -> Answer:
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


def broker_config(raw: Fields, capture: Fields) -> Answer:
    """BrokerConfig, as far as it says how queues are handed out (5.0 on): the row of ``message_request_mode``.

    A broker that does not say, as those before 5.0, has no row.
    """
    if "defaultMessageRequestMode" not in raw:
        return {}, []
    own = {
        "mode": raw["defaultMessageRequestMode"],
        "popShareQueueNum": _whole(optional_text(raw, "defaultPopShareQueueNum")),
        "balances": optional_flag(raw, "serverLoadBalancerEnable"),
    }
    return {}, [_mode_row(capture, "brokerConfig", own)]


def schedule_progress(raw: Fields, capture: Fields) -> Answer:
    """ScheduleMessageService#buildRunningStats in a broker's runtime info: a row of ``schedule_progress`` a level.

    ``scheduleMessageOffset_<level>``: "delayOffset,maxOffset" of the level's queue of SCHEDULE_TOPIC_XXXX, 4.0.0 to
    5.3.3; levels that nobody used have none, nor have 5.x brokers that deliver by the timer wheel alone.
    """
    rows = []
    for name, value in map_of(raw, "table").items():
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
    return {}, rows


def _whole(text: str | None) -> int | None:
    return None if text is None else java_number(text, 32)


def _mode_row(
    capture: Fields, told_by: str, said: Mapping[Any, Any], topic: str | None = None, group: str | None = None
) -> tuple[str, dict[str, Any]]:
    mode = said.get("mode")
    if mode is not None and mode not in _MODES:
        raise RefusedLineError("UNKNOWN_VALUE", f"'mode' is {mode!r:.80} (known: {', '.join(_MODES)})")
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

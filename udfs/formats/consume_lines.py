"""Lines of a consume recorder in, rows of ``message_trace`` and ``consumer_recording`` out.

One JSON object a line: ``begin`` as a listener is called with a message and ``end`` as it has returned, joined by
``delivery``; ``start``, ``alive`` and ``stop`` say that the recorder is there. ``dropped`` says how many lines were
lost: it is refused, where it is seen, and ``consumer_recording`` has it too. Other types are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hindsight.udfs.lines.parsed_line import (
    Fields,
    Record,
    RefusedLineError,
    each_line,
    instant,
    int32,
    json_object,
    lines_lost,
    optional_flag,
    optional_int32,
    optional_number,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)
from hindsight.udfs.values.java_strings import java_string_key

Row = dict[str, Any]


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    kind = text_field(fields, "type")
    if kind in _DELIVERIES:
        at = instant(fields, "ts")
        row = {
            "born_at": at,
            "trace_msg_id": "",
            "traced_at": at,
            "client_group": text_field(fields, "group"),
            "client_id": text_field(fields, "clientId"),
            "request_id": text_field(fields, "delivery"),
            "msg_id": text_field(fields, "msgId"),
        }
        return (Record("message_trace", row | _DELIVERIES[kind](fields)),)
    if kind not in _SIGNS:
        return ()
    group, client_id, told_at = text_field(fields, "group"), text_field(fields, "clientId"), instant(fields, "ts")
    sign: Row = {"consumer_group": group, "client_id": client_id, "kind": kind, "told_at": told_at}
    record = Record("consumer_recording", sign | _SIGNS[kind](fields))
    if kind == "dropped":
        raise lines_lost(record, group)
    return (record,)


parse_consume_lines = each_line(_one)


def _begin(fields: Fields) -> Row:
    return {
        "kind": "sub_before",
        "topic": text_field(fields, "topic"),
        "stored_topic": optional_text(fields, "queueTopic") or text_field(fields, "topic"),
        "broker_name": text_field(fields, "broker"),
        "queue_id": queue_id(fields),
        "queue_offset": whole_number(fields, "queueOffset"),
        "offset_msg_id": optional_text(fields, "offsetMsgId"),
        "retry_times": int32(fields, "reconsumeTimes"),
        "message_tag": optional_text(fields, "tag"),
        "stored_at": instant(fields, "storedMs") if fields.get("storedMs") is not None else None,
    }


def _end(fields: Fields) -> Row:
    return {
        "kind": "sub_after",
        "cost_ms": whole_number(fields, "costMs"),
        "success": optional_flag(fields, "success"),
        "return_type": optional_text(fields, "result"),
    }


def _start(fields: Fields) -> Row:
    return {
        "client_version": optional_text(fields, "version"),
        "message_model": optional_text(fields, "messageModel"),
        "consume_from_where": optional_text(fields, "consumeFromWhere"),
        "consume_orderly": optional_flag(fields, "orderly"),
        "strategy": optional_text(fields, "strategy"),
        "max_reconsume_times": optional_int32(fields, "maxReconsumeTimes"),
    }


def _alive(fields: Fields) -> Row:
    """``subscriptions``: a line each, ``topic=expression``, or ``topic=TYPE expression`` of another type than TAG."""
    told = optional_text(fields, "subscriptions")
    return {"subscriptions": None if told is None else [_subscription(line) for line in told.split("\n")]}


def _subscription(line: str) -> Row:
    topic, _, expression = line.partition("=")
    if not topic or not expression:
        raise RefusedLineError("WRONG_TYPE", f"'subscriptions' has {line!r:.80}, expected topic=expression")
    if expression.startswith("SQL92 "):
        return {"topic": topic, "expression_type": "SQL92", "sub_string": expression[6:], "tags": []}
    tags = sorted({tag.strip() for tag in expression.split("||")} - {"", "*"}, key=java_string_key)
    return {"topic": topic, "expression_type": "TAG", "sub_string": expression, "tags": tags}


_DELIVERIES: Mapping[str, Callable[[Fields], Row]] = {"begin": _begin, "end": _end}
_SIGNS: Mapping[str, Callable[[Fields], Row]] = {
    "start": _start,
    "alive": _alive,
    "stop": lambda fields: {"shut_down": optional_flag(fields, "shutDown")},
    "dropped": lambda fields: {"lines": optional_number(fields, "lines")},
}

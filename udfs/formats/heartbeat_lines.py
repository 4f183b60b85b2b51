"""Heartbeats as a broker receives them in, rows of ``client_heartbeat`` out: one for each group of the client.

One JSON object a line: ``ts`` (when the broker received it, epoch ms), ``broker`` (its name), ``raw`` (HeartbeatData as
the client wrote it, JSON in a string or as an object), and, from the request's header and channel where known,
``address`` (client's ``ip:port``), ``language``, ``version`` (MQVersion ordinal). A client without groups is ignored.

A V2 heartbeat (5.1.3 on, ``withoutSub``) leaves its subscriptions out when they are those it sent before under the
same fingerprint: its rows hold null, and the view ``heartbeat_subscription`` finds them, across files and brokers.
Of Go and C++ clients the types of consumers are stored as Java names them, whatever they write.
Source: HeartbeatData, ConsumerData, SubscriptionData, 4.0.0 to 5.3.3; C++ 2.2.0, Go 2.0.0-alpha1 to 2.1.2.
"""

from __future__ import annotations

from typing import Any

from hindsight.udfs.formats.admin_answers import read_subscriptions
from hindsight.udfs.formats.answer_parts import objects, raw_object
from hindsight.udfs.lines.parsed_line import (
    Fields,
    Record,
    each_line,
    instant,
    json_object,
    optional_flag,
    optional_int32,
    optional_text,
    text_field,
)

_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
_GO_TYPES = {"PULL": "CONSUME_ACTIVELY", "PUSH": "CONSUME_PASSIVELY"}  # as Go's clients through 2.0.0-rc2 write them
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    raw = fields.get("raw")
    heartbeat = raw if isinstance(raw, dict) else raw_object(optional_text(fields, "raw"))
    without_sub = bool(optional_flag(heartbeat, "withoutSub"))
    of_client = {
        "received_at": instant(fields, "ts"),
        "broker_name": text_field(fields, "broker"),
        "client_id": text_field(heartbeat, "clientID"),
        "address": optional_text(fields, "address"),
        "language": optional_text(fields, "language"),
        "client_version": optional_int32(fields, "version"),
        "fingerprint": optional_int32(heartbeat, "heartbeatFingerprint") or 0,
        "without_sub": without_sub,
    }
    rows = [of_client | _consumer(data, without_sub) for data in objects(heartbeat, "consumerDataSet")]
    rows += [of_client | _producer(data) for data in objects(heartbeat, "producerDataSet")]
    return tuple(Record("client_heartbeat", row) for row in rows)


parse_heartbeats = each_line(_one)


def _consumer(data: Fields, without_sub: bool) -> dict[str, Any]:
    subscriptions = objects(data, "subscriptionDataSet")
    consume_type = _constant(data, "consumeType", _CONSUME_TYPES)
    return {
        "role": "consumer",
        "client_group": text_field(data, "groupName"),
        "consume_type": _GO_TYPES.get(consume_type or "", consume_type),
        "message_model": _constant(data, "messageModel", _MESSAGE_MODELS),
        "consume_from_where": _constant(data, "consumeFromWhere", _CONSUME_FROM_WHERE),
        "unit_mode": optional_flag(data, "unitMode"),
        "subscriptions": None if without_sub and not subscriptions else read_subscriptions(subscriptions),
    }


def _constant(data: Fields, name: str, constants: tuple[str, ...]) -> str | None:
    """The name of an enum's constant; a C++ client writes its number."""
    value = data.get(name)
    if type(value) is int and 0 <= value < len(constants):
        return constants[value]
    return optional_text(data, name)


def _producer(data: Fields) -> dict[str, Any]:
    return {"role": "producer", "client_group": text_field(data, "groupName")}

"""Collector lines in, rows of the consumer-side tables out.

One JSON object a line: ``round`` markers, and captures whose ``raw`` is the admin API's answer in fastjson's dialect:
those that ``admin_answers`` reads. ``broker`` or ``name_server`` of a line names the one that was asked; ``notAsked``
tells what it was not asked in a sweep.
rocketmq-dashboard's ``{"status":0,"data":...}`` around it is taken off. Kinds that feed no table are ignored.
A line with an ``error`` is a read that failed, whatever its ``raw`` holds; one with neither is refused, and so is a
``raw`` that is empty or no answer of its kind: nobody said that nobody is there. What was asked stays known: the
capture of a refused answer is stored as a read without one. So is that of a read whose answer a short line
(``short_lines``) repeats and which is nowhere.

Heartbeats as a broker receives them in, rows of ``client_heartbeat`` out: one for each group of the client.

One JSON object a line: ``ts`` (when the broker received it, epoch ms), ``broker`` (its name), ``raw`` (HeartbeatData as
the client wrote it, JSON in a string or as an object), and, from the request's header and channel where known,
``address`` (client's ``ip:port``), ``language``, ``version`` (MQVersion ordinal). A client without groups is ignored.

A V2 heartbeat (5.1.3 on, ``withoutSub``) leaves its subscriptions out when they are those it sent before under the
same fingerprint: its rows hold null, and the view ``heartbeat_subscription`` finds them, across files and brokers.
Of Go and C++ clients the types of consumers are stored as Java names them, whatever they write.
Source: HeartbeatData, ConsumerData, SubscriptionData, 4.0.0 to 5.3.3; C++ 2.2.0, Go 2.0.0-alpha1 to 2.1.2.
"""

from __future__ import annotations

import re
from typing import Any

from hindsight.udfs.formats.admin_answers import ANSWERS, Answer, read_answer, read_subscriptions
from hindsight.udfs.formats.answer_parts import UnansweredError, error_code, objects, raw_list, raw_object, unwrapped
from hindsight.udfs.lines.parsed_line import (
    ERROR_CHARS,
    NOT_ASKED,
    Fields,
    Record,
    RefusedLineError,
    asked_in_vain,
    each_line,
    instant,
    instant_or_never,
    json_object,
    optional_flag,
    optional_int32,
    optional_number,
    optional_text,
    text_field,
)

_OWN_GROUP = re.compile(r'"consumerGroup"\s*+:\s*+"([^"\\]++)"')
_OF_TOPICS = frozenset({"topicRoute", "topicStatus", "topicConfig"})
_OF_BROKERS = frozenset(
    {"subscriptionGroups", "messageRequestModes", "brokerConfig", "brokerRuntimeInfo", "brokerHaStatus"}
)
# Which column of its rows names the one that was asked.
_PLACES = {"topicRoute": "name_server", "consumerConnection": "broker_name"}
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
    kind = text_field(fields, "kind")
    collector = optional_text(fields, "collector") or ""
    if kind == "round":
        row = {"collector": collector, "round_at": instant(fields, "ts"), "kind": "marker"}
        return (Record("collection_round", row | {"round_number": optional_number(fields, "round")}),)
    if kind == NOT_ASKED:  # what a collector had no time to ask of a server: the kinds of questions, and why
        failed = _failed(text_field(fields, "error"), None)
        return (Record("snapshot_capture", _asked(fields, kind, collector) | failed),)
    if kind not in ANSWERS:
        return ()
    asked = _asked(fields, kind, collector)
    asked |= _asked_for(kind, asked["subject"], fields)
    place = {"collector": collector, "captured_at": asked["captured_at"]}
    try:
        said, rows = _answer(fields, kind, asked)
    except UnansweredError as unanswered:
        return (Record("snapshot_capture", asked | _failed(str(unanswered), error_code(str(unanswered)))),)
    except RefusedLineError as refused:
        raise refused.leaving(asked_in_vain([Record("snapshot_capture", asked)], refused.refusal.code)) from None
    if kind in _PLACES:
        place[_PLACES[kind]] = asked[_PLACES[kind]]
    capture = asked | {"answered": True, "error": None, "error_code": None} | said
    return Record("snapshot_capture", capture), *(Record(table, place | row) for table, row in rows)


def _asked(fields: Fields, kind: str, collector: str) -> dict[str, Any]:
    return {
        "collector": collector,
        "captured_at": instant(fields, "ts"),
        "kind": kind,
        "subject": _subject(fields, kind),
        "broker_name": optional_text(fields, "broker"),
        "name_server": optional_text(fields, "name_server"),
        "captured_end_at": instant_or_never(fields, "ts_end"),
    }


def _failed(error: str, code: int | None) -> dict[str, Any]:
    return {"answered": False, "error": error[:ERROR_CHARS], "error_code": code}


def _answer(fields: Fields, kind: str, asked: Fields) -> Answer:
    """What the line's answer says.

    Raises: UnansweredError: the read failed, as the line says, or as the answer itself does.
    """
    error = optional_text(fields, "error")
    if error is not None:
        raise UnansweredError(error)
    if isinstance(fields.get("raw"), dict) and "asBefore" in fields["raw"]:
        told = "the answer that it repeats is nowhere before it in its file, or was repeated too often"
        raise RefusedLineError("ANSWER_NOWHERE", told)
    # An empty text is text too, though no answer.
    raw = "" if fields.get("raw") == "" else optional_text(fields, "raw")
    if kind == "consumerIdList" and raw is not None and raw.lstrip().startswith("["):
        return read_answer(kind, {"consumerIdList": raw_list(raw)}, asked)  # rocketmq-tools hand out the bare list
    if kind == "subscriptionGroupConfig" and raw == "null":
        return {}, []  # what a broker answers that has no such group
    return read_answer(kind, unwrapped(raw_object(raw)), asked)


def _subject(fields: Fields, kind: str) -> str:
    """What was asked for; of what a broker says of all topics and groups nothing but the broker can be named."""
    if kind in _OF_BROKERS:
        return optional_text(fields, "subject") or optional_text(fields, "broker") or ""
    return text_field(fields, "subject")


parse_admin_snapshots = each_line(_one)


def _asked_for(kind: str, subject: str, fields: Fields) -> dict[str, Any]:
    if kind in _OF_TOPICS:
        return {"topic": subject}
    if kind in _OF_BROKERS:
        return {}
    if kind == "producerConnection":
        group, _, topic = subject.partition("@")  # no name may hold an '@'
        if not group:
            raise RefusedLineError("BAD_SUBJECT", f"'subject' is {subject!r:.120}, expected group@topic")
        return {"producer_group": group, "topic": topic or None}
    if kind != "consumerRunningInfo":
        return {"consumer_group": subject}
    # Both may hold '|'. What the client says of itself tells its group; else no '@' stands in a group, and behind that
    # of a client id anything may.
    host, at, instance = subject.partition("@")
    group, found, client_id = host.rpartition("|")
    if "|" in group and (own := _OWN_GROUP.search(str(fields.get("raw")))) and subject.startswith(f"{own[1]}|"):
        group, client_id, at, instance = own[1], subject.removeprefix(f"{own[1]}|"), "", ""
    client_id += at + instance
    if not (found and group and client_id):
        raise RefusedLineError("BAD_SUBJECT", f"'subject' is {subject!r:.120}, expected group|clientId")
    return {"consumer_group": group, "client_id": client_id}


def _one_heartbeat(text: str) -> tuple[Record, ...]:
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


parse_heartbeats = each_line(_one_heartbeat)


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

"""Parts of an admin API's answer in; the same checked, in plain types, out: lists, maps, queues, ids.

What is absent or null is empty, as fastjson leaves out what is null. Refused: BAD_RAW, for another type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hindsight.udfs.formats.fastjson import FastjsonError, parse_fastjson
from hindsight.udfs.lines.parsed_line import (
    Fields,
    RefusedLineError,
    int32,
    is_instant,
    is_whole,
    java_number,
    optional_text,
    queue_id,
    text_field,
)

_OF_PROCESS_QUEUE = frozenset({"lastLockTimestamp", "lastPullTimestamp", "lastConsumeTimestamp"})
# MessageQueue#toString: how Jackson, and with it the dashboard, writes the key of a map.
_QUEUE_TEXT = re.compile(r"MessageQueue \[topic=([^\[\],]++), brokerName=([^\[\],]++), queueId=(-?\d{1,10})\]")


def objects(raw: Fields, name: str) -> list[Fields]:
    """A list of objects; absent or null is empty, as fastjson leaves out what is null."""
    values = raw.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no list of objects")
    return values


def map_of(raw: Fields, name: str) -> Mapping[Any, Any]:
    """A map; its keys may be numbers or objects."""
    value = raw.get(name) or {}
    if not isinstance(value, dict):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no object")
    return value


def queue_table(raw: Fields, name: str, *, lowest_id: int = 0) -> list[tuple[dict[str, Any], Fields]]:
    """Entries of a map whose keys are MessageQueue objects, or what MessageQueue#toString makes of them."""
    entries: list[tuple[dict[str, Any], Fields]] = []
    for key, value in map_of(raw, name).items():
        queue = dict(key) if isinstance(key, tuple) else _printed_queue(key)
        if queue is None or not isinstance(value, dict):
            raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' has an entry that is no message queue: {key!r:.80}")
        row = {
            "topic": text_field(queue, "topic"),
            "broker_name": text_field(queue, "brokerName"),
            "queue_id": queue_id(queue, lowest=lowest_id),
        }
        entries.append((row, _with_numbers(value)))
    return entries


def _printed_queue(key: object) -> Fields | None:
    found = _QUEUE_TEXT.fullmatch(key) if isinstance(key, str) else None
    return {"topic": found[1], "brokerName": found[2], "queueId": int(found[3])} if found else None


def _with_numbers(value: Fields) -> Fields:
    """The members of a queue, numbers that a C++ client wrote as text read as such."""
    if not any(type(told) is str for told in value.values()):
        return value
    return {name: _number_of(name, told) if type(told) is str else told for name, told in value.items()}


def _number_of(name: str, told: str) -> int | str:
    """C++ writes what is less than 0 as a number without a sign; -1: no offset.

    Through 1.2.4 an instant that it has not set yet is whatever its memory held: never.
    Source: ProcessQueueInfo.h, PullRequest.cpp.
    """
    if not is_whole(told):
        return told
    number = int(told)
    if name in _OF_PROCESS_QUEUE and not is_instant(number):
        return 0
    return number - (1 << 64) if 1 << 63 <= number < 1 << 64 else java_number(told, 64)


def texts(raw: Fields, name: str) -> list[str]:
    """A list of strings; absent or null is empty."""
    values = raw.get(name) or []
    if not isinstance(values, list):
        raise RefusedLineError("BAD_RAW", f"{name!r} in 'raw' is no list")
    return [text_field({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]


def broker_id(key: Any) -> int:
    """A broker id, a long, that is a key of a map: a bare number, or text where strict JSON was asked for."""
    try:
        number = int(key)
    except ValueError:
        number = 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise RefusedLineError("BAD_RAW", f"broker id {key!r:.80} in 'raw' is no number of 64 bits")
    return number


def id_of(value: Any, name: str) -> int:
    """A queue id that stands as a key or value of a map: a bare number, or text where strict JSON was asked for."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return queue_id({name: number}, name)


_ERROR_CODE = re.compile(r"\bCODE: (-?\d{1,9})\b")
_JSTACK = re.compile(r',?\s*+"jstack"\s*+:\s*+"')


def error_code(error: str | None) -> int | None:
    """RocketMQ's response code in the text of an exception; None where it names none."""
    code = _ERROR_CODE.search(error) if error else None
    return int(code[1]) if code else None


def raw_object(raw: str | None) -> Fields:
    """The object that the text of ``raw`` is, in fastjson's dialect; refused: MISSING_FIELD, BAD_RAW."""
    if raw is None:
        raise RefusedLineError("MISSING_FIELD", "the line has neither 'raw' nor 'error'")
    found: Fields = _value_of(raw, _parsed, dict, "an object")
    return found


def raw_list(raw: str) -> list[Any]:
    """The list that the text of ``raw`` is; refused: BAD_RAW."""
    found: list[Any] = _value_of(raw, parse_fastjson, list, "a list")
    return found


def _value_of(raw: str, parse: Callable[[str], Any], kind: type, expected: str) -> Any:
    try:
        value = parse(raw)
    except FastjsonError as error:
        raise RefusedLineError("BAD_RAW", f"'raw': {error}; it begins with {raw[:40]!r}") from None
    if not isinstance(value, kind):
        found = "null" if value is None else f"a JSON {type(value).__name__}"
        raise RefusedLineError("BAD_RAW", f"'raw' is {found}, expected {expected}")
    return value


def _parsed(raw: str) -> Any:
    """The value; of running infos also what Go and C++ clients write against JSON's rules.

    Go ends with a ``jstack`` whose line ends and quotes it does not escape; C++ opens no empty ``mqTable``.
    """
    try:
        return parse_fastjson(raw)
    except FastjsonError as error:
        opened = raw.replace('"mqTable":}', '"mqTable":{}', 1)
        jstack = _JSTACK.search(opened)
        for mended in (opened, opened[: jstack.start()] + "}" if jstack else opened):
            with suppress(FastjsonError):
                return parse_fastjson(mended)
        raise error


class UnansweredError(ValueError):
    """Raised where a line, or the answer in it, says that the read failed; the text is why."""


def unwrapped(raw: Fields) -> Fields:
    """The admin API's object in rocketmq-dashboard's JsonResult, or the object as it is; refused: BAD_RAW.

    Raises: UnansweredError: the wrapper says that the dashboard's own read failed.
    """
    if "status" not in raw or not {"data", "errMsg"} & raw.keys() or not raw.keys() <= {"status", "data", "errMsg"}:
        return raw
    error = optional_text(raw, "errMsg")
    if error is not None or raw["status"] != 0:
        raise UnansweredError(error or f"status {raw['status']!r:.80}")
    if not isinstance(raw.get("data"), dict):
        raise RefusedLineError("BAD_RAW", f"'data' in 'raw' is a {type(raw.get('data')).__name__}, expected an object")
    data: Fields = raw["data"]
    return data


def topic_route(raw: Fields, capture: Fields) -> list[tuple[str, dict[str, Any]]]:
    """A row of ``topic_route`` for each broker of the route; refused: BAD_RAW and what the fields' readers refuse."""
    addresses = {text_field(b, "brokerName"): map_of(b, "brokerAddrs") for b in objects(raw, "brokerDatas")}
    mappings = map_of(raw, "topicQueueMappingByBroker")
    rows = []
    for place, queue_data in enumerate(objects(raw, "queueDatas")):
        name = text_field(queue_data, "brokerName")
        master = master_address(addresses.get(name, {}))
        row = {
            "topic": capture["topic"],
            "broker_name": name,
            "read_queue_nums": int32(queue_data, "readQueueNums"),
            "write_queue_nums": int32(queue_data, "writeQueueNums"),
            "perm": int32(queue_data, "perm"),
            "has_master": master is not None,
            "master_address": master,
            "slaves": slaves_of(addresses.get(name, {})),
            "order_topic_conf": optional_text(raw, "orderTopicConf"),
            "place_in_answer": place,
            "is_static_topic": bool(mappings),
            **_logical_queues(mappings.get(name)),
        }
        rows.append(("topic_route", row))
    return rows


def _logical_queues(mapping: Any) -> dict[str, Any]:
    """What a broker's mapping of a static topic says: TopicQueueMappingInfo, 5.0 on."""
    scope = mapping.get("scope") if isinstance(mapping, dict) else None
    if not isinstance(scope, str) or not scope:
        return {}
    held = map_of(mapping, "currIdMap")
    return {
        # MixAll#LOGICAL_QUEUE_MOCK_BROKER_PREFIX; of the global scope the first two characters are left out.
        "logical_broker_name": f"__syslo__{scope[2:] if scope == '__global__' else scope}",
        "logical_queue_nums": int32(mapping, "totalQueues"),
        "logical_queues": [
            {"logical_id": id_of(logical, "currIdMap"), "queue_id": id_of(own, "currIdMap")}
            for logical, own in sorted(held.items(), key=lambda entry: str(entry[0]))
        ],
    }


def master_address(addresses: Mapping[Any, Any]) -> str | None:
    """Broker id 0 is the master; its key is a bare integer, or a string where strict JSON was asked for."""
    master = addresses.get(0, addresses.get("0"))
    return text_field({"brokerAddrs[0]": master}, "brokerAddrs[0]") if isinstance(master, str) and master else None


def slaves_of(addresses: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The brokers with other ids than 0, in the order of these: BrokerData#brokerAddrs, 4.0.0 to 5.5.0."""
    told = {broker_id(key): value for key, value in addresses.items()}
    return [
        {"broker_id": number, "address": text_field({f"brokerAddrs[{number}]": address}, f"brokerAddrs[{number}]")}
        for number, address in sorted(told.items())
        if number != 0
    ]

"""Parts of an admin API's answer in; the same checked, in plain types, out: lists, maps, queues, ids.

What is absent or null is empty, as fastjson leaves out what is null. Refused: BAD_RAW, for another type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hindsight.udfs.lines.parsed_line import Fields, RefusedLineError, java_number, queue_id, text_field

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
    return {name: _number_of(told) if type(told) is str else told for name, told in value.items()}


def _number_of(told: str) -> int | str:
    return java_number(told, 64) if told.isascii() and told.removeprefix("-").isdigit() else told


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

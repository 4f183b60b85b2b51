r"""Messages of a trace topic in, rows of ``send_attempt`` and ``message_trace`` out.

One JSON object a line, a message of ``RMQ_SYS_TRACE_TOPIC`` (or of a topic of one's own) as a dump writes it:
``type`` ("message"; other types are ignored), ``msgId``, ``bornTimestamp``, ``body``. A body is text: fields parted by
U+0001, records ended by U+0002. Of a body all records are taken in, or the line is refused; kinds that a later
release may add are left out.

A Pub record exists only where a broker answered: exceptions and time-outs leave none, so the rows say
``exceptions_observable = false``. It names neither client nor queue, and the broker by its address. In place of the
client id stands ``process <hex>``: the part of the message id that names the sending process.

A Go client writes one record for a whole call, at its end: the time is that of all its attempts, of which the record
names the last. Its rows have the doubt WHOLE_CALL. A C++ client writes one for each attempt that was answered, as Java.
Source: TraceDataEncoder#encoderFromContextBean, 4.4.0 to 5.3.3; internal/trace.go of Go, 2.0.0-alpha3 to 2.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hindsight.udfs.lines.parsed_line import (
    Record,
    RefusedLineError,
    each_line,
    instant,
    is_instant,
    java_number,
    json_object,
    text_field,
)

_FIELD_END = "\x01"
_RECORD_END = "\x02"
_MESSAGE_TYPES = ("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg")
_RETURN_TYPES = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")
_ID_TAIL = 12  # hex digits of a message id that differ between messages of one process: time and counter
_GO_ID_LENGTH, _CLASS_LOADER = 32, slice(12, 20)
_SHORT_AFTER = 7  # fields of a SubAfter that ends before time and group
MOST_RECORDS = 10_000  # in one body; a client packs at most 128 KB or 100 into one message


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    if fields.get("type", "message") != "message":
        return ()
    place = {"trace_msg_id": text_field(fields, "msgId"), "born_at": instant(fields, "bornTimestamp")}
    records = []
    for parts in _records(text_field(fields, "body")):
        if parts[0] in _READERS:
            least, table, read = _READERS[parts[0]]
            if len(parts) < least:
                detail = f"a {parts[0]} record has {len(parts)} fields, expected {least} or more"
                raise RefusedLineError("BAD_TRACE", detail)
            row = read(parts)
            records.append(Record(table, row if table == "send_attempt" else place | row))
        if len(records) > MOST_RECORDS:
            raise RefusedLineError("BAD_TRACE", f"more than {MOST_RECORDS} records in one body")
    return tuple(records)


parse_trace_topic = each_line(_one)


def _records(body: str) -> Iterator[list[str]]:
    """Each record's fields. Bodies for AccessChannel.CLOUD lack U+0002 after a SubAfter (4.9.5-4.9.8, 5.1.4-5.3.0):
    it ends with a dangling U+0001, and the next record follows in the same run of fields."""
    for run in body.split(_RECORD_END):
        fields = run.split(_FIELD_END)
        start = 0
        while fields[start] == "SubAfter" and _ends_short(fields, start + _SHORT_AFTER):
            yield fields[start : start + _SHORT_AFTER]
            start += _SHORT_AFTER
        rest = fields[start:] if start else fields
        if any(rest):
            yield rest


def _ends_short(fields: list[str], end: int) -> bool:
    return len(fields) > end and (fields[end] in _READERS or (fields[end] == "" and len(fields) == end + 1))


def _pub(parts: list[str]) -> dict[str, Any]:
    msg_id = _text(parts, 5)
    told, cost = _instant(parts, 1), java_number(parts[10], 64)
    # Where Java's ids have the class loader's hash, Go's have zeros.
    by_go = len(msg_id) == _GO_ID_LENGTH and msg_id[_CLASS_LOADER] == "0" * 8
    begin, end = (_sum(told, -cost), told) if by_go else (told, _sum(told, cost))
    row: dict[str, Any] = {
        "producer_group": _text(parts, 3),
        "client_id": f"process {msg_id[:-_ID_TAIL] or msg_id}",
        "topic": _text(parts, 4),
        "broker_named_as": _text(parts, 8),
        "broker_address": _text(parts, 8),
        "begin_at": begin,
        "end_at": end,
        "latency_ms": cost,
        "outcome": "SEND_OK" if _flag(parts, 13 if len(parts) > 13 else 12) else "NOT_STORE_OK",
        "msg_id": msg_id,
        "offset_msg_id": _optional(parts, 12) if len(parts) > 13 else None,
        "message_tag": _optional(parts, 6),
        "message_key": _optional(parts, 7),
        "message_type": _of(_MESSAGE_TYPES, parts, 11),
        "body_length": java_number(parts[9], 32),
        "phase": "result",
        "exceptions_observable": False,
    }
    if by_go:
        row["doubts"] = ["WHOLE_CALL"]
    return row


def _of_group(parts: list[str], kind: str) -> dict[str, Any]:
    """What records of consumers and transactions begin with; only a SubAfter does not."""
    return {"kind": kind, "traced_at": _instant(parts, 1), "client_group": _text(parts, 3)}


def _sub_before(parts: list[str]) -> dict[str, Any]:
    return _of_group(parts, "sub_before") | {
        "request_id": _text(parts, 4),
        "msg_id": _text(parts, 5),
        "retry_times": java_number(parts[6], 32),
        "message_key": _optional(parts, 7),
        "client_host": _optional(parts, 8) if len(parts) > 8 else None,
    }


def _sub_after(parts: list[str]) -> dict[str, Any]:
    is_long = len(parts) > _SHORT_AFTER + 1
    return {
        "kind": "sub_after",
        "traced_at": _instant(parts, 7) if is_long else None,
        "client_group": _optional(parts, 8) if is_long else None,
        "request_id": _text(parts, 1),
        "msg_id": _text(parts, 2),
        "cost_ms": java_number(parts[3], 64),
        "success": _flag(parts, 4),
        "message_key": _optional(parts, 5),
        "return_type": _of(_RETURN_TYPES, parts, 6) if len(parts) >= _SHORT_AFTER else None,
    }


def _end_transaction(parts: list[str]) -> dict[str, Any]:
    return _of_group(parts, "end_transaction") | {
        "request_id": "",
        "topic": _text(parts, 4),
        "msg_id": _text(parts, 5),
        "message_key": _optional(parts, 7),
        "broker_address": _optional(parts, 8),
        "transaction_id": _optional(parts, 10),
        "transaction_state": _optional(parts, 11),
        "from_transaction_check": _flag(parts, 12),
    }


def _recall(parts: list[str]) -> dict[str, Any]:
    return _of_group(parts, "recall") | {
        "request_id": "",
        "topic": _text(parts, 4),
        "msg_id": _text(parts, 5),
        "success": _flag(parts, 6),
    }


# By the name of a record: how many fields it has at the least, the table of its row, and its reader.
_READERS: dict[str, tuple[int, str, Callable[[list[str]], dict[str, Any]]]] = {
    "Pub": (13, "send_attempt", _pub),  # 14 fields; 15 in 4.8.0; 13 without the offset message id
    "SubBefore": (8, "message_trace", _sub_before),  # 8; 9 in 4.8.0
    # 9; 7 in 4.4.0-4.7.1 and 4.9.1, and for AccessChannel.CLOUD; 6 of C++
    "SubAfter": (_SHORT_AFTER - 1, "message_trace", _sub_after),
    "EndTransaction": (13, "message_trace", _end_transaction),  # 13, 4.9.0 on
    "Recall": (7, "message_trace", _recall),  # 7, 5.3.2 on
}


def _text(parts: list[str], index: int) -> str:
    if not parts[index]:
        raise RefusedLineError("MISSING_FIELD", f"'{parts[0]}[{index}]' is missing")
    return parts[index]


def _optional(parts: list[str], index: int) -> str | None:
    """A text; null is written as the word."""
    return None if parts[index] in ("", "null") else _text(parts, index)


def _instant(parts: list[str], index: int) -> int:
    value = java_number(parts[index], 64)
    return value if is_instant(value) else instant({(name := f"{parts[0]}[{index}]"): value}, name)


def _sum(at: int, cost: int) -> int:
    value = at + cost
    return value if is_instant(value) else instant({"Pub[1] + Pub[10]": value}, "Pub[1] + Pub[10]")


def _flag(parts: list[str], index: int) -> bool:
    if parts[index] not in ("true", "false"):
        raise RefusedLineError("BAD_TRACE", f"{parts[0]}[{index}] is {parts[index]!r:.80}, expected true or false")
    return parts[index] == "true"


def _of(names: tuple[str, ...], parts: list[str], index: int) -> str | None:
    """A Java enum's constant by its ordinal; an ordinal of a later release stays a number."""
    if parts[index] in ("", "null"):
        return None
    ordinal = java_number(parts[index], 32)
    return names[ordinal] if 0 <= ordinal < len(names) else str(ordinal)

"""Producer hook lines in, rows of ``send_attempt`` and ``producer_instance`` out.

One JSON object a line, written by a ``SendMessageHook``: ``start`` when the producer starts, ``attempt`` when a send
attempt ends (ASYNC: once when handed over and once from the callback). ``dropped`` says how many such lines were lost:
it is refused, where it is seen, and ``lost_lines`` has it too, for the replay. Other types are ignored. A producer
that is no Java client says so in ``language`` of its ``start``.

Blocks of lines are read at once, to columns of ``send_attempt``: there only what surely is an attempt becomes a row,
and only what surely is of another kind is ignored; every other line is left to the reader of single lines.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.clients.client_kinds import JAVA, LANGUAGES, stated_release
from hindsight.udfs.formats.plain_rows import PlainFormat, PlainRows
from hindsight.udfs.limits.door import numbers
from hindsight.udfs.lines.parsed_line import (
    EARLIEST_MS,
    ERROR_CHARS,
    LATEST_MS,
    Fields,
    Record,
    RefusedLineError,
    each_line,
    instant,
    int32,
    json_object,
    optional_flag,
    optional_int32,
    optional_number,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)
from hindsight.udfs.values.row_hashes import BoolArray

MODES = ("SYNC", "ASYNC", "ONEWAY")
STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
OFFSETS_OF = ("topic", "half", "delay", "timer")
ANSWERED_BY_ANOTHER = "ANSWERED_BY_ANOTHER"  # the client's own ASYNC retries went on to another broker: it failed here
RESPONSE_CODE = re.compile(r"CODE: (-?\d{1,9})\b")
_TEXT, _WHOLE = pa.string(), pa.int64()
# The members that a line of an attempt is read by.
MEMBERS = pa.schema(
    [
        *((name, _TEXT) for name in ("type", "group", "clientId", "thread", "topic", "broker", "brokerAddr", "mode")),
        *((name, _WHOLE) for name in ("queueId", "times", "beginMs", "endMs", "bodyLength", "delayLevel")),
        ("queueOffset", _WHOLE),
        *((name, _TEXT) for name in ("lastBrokerName", "queueSelectedBy", "msgId", "offsetMsgId", "key", "version")),
        *((name, _TEXT) for name in ("status", "exception", "error", "answeredBy")),
        *((name, _TEXT) for name in ("queueOffsetOf", "batchMsgIds", "tag")),
        ("sendLatencyFaultEnable", pa.bool_()),
    ]
)
# Of a plain line's row, instants as epoch milliseconds.
COLUMNS = pa.schema(
    [
        *((name, _TEXT) for name in ("producer_group", "client_id", "thread", "topic", "broker_name")),
        *((name, _TEXT) for name in ("broker_address", "broker_named_as")),
        ("queue_id", pa.int32()),
        ("mode", _TEXT),
        ("attempt", pa.int32()),
        *((name, _TEXT) for name in ("last_broker_name", "queue_selected_by")),
        *((name, _WHOLE) for name in ("begin_at", "end_at", "latency_ms")),
        *((name, _TEXT) for name in ("outcome", "exception", "error")),
        ("response_code", pa.int32()),
        *((name, _TEXT) for name in ("msg_id", "offset_msg_id", "queue_offset_of", "message_tag", "message_key")),
        ("queue_offset", _WHOLE),
        *((name, pa.int32()) for name in ("body_length", "delay_level")),
        ("client_version", _TEXT),
        ("latency_fault_enabled", pa.bool_()),
        ("exceptions_observable", pa.bool_()),
        ("phase", _TEXT),
        *((name, _WHOLE) for name in ("submit_end_at", "callback_end_at")),
        ("callback_outcome", _TEXT),
    ]
)
_REQUIRED = ("group", "clientId", "topic", "broker", "msgId", "mode")
_LEFT_OVER = ("start", "dropped", "")  # of the types that are looked at, what the careful reader reads
_RESULT, _CALLBACK, _SUBMIT = range(3)
_PHASES = pa.array(["result", "callback", "submit"])
_RESPONSE_CODE = r"CODE: (?P<code>-?[0-9]{1,9})\b"
Members = dict[str, pa.Array]


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    kind = text_field(fields, "type")
    if kind == "attempt":
        return (Record("send_attempt", _attempt(fields)),)
    if kind == "start":
        return (Record("producer_instance", _start(fields)),)
    if kind == "dropped":
        raise _lost(fields)
    return ()


parse_hook_lines = each_line(_one)


def _lost(fields: Fields) -> RefusedLineError:
    group, client_id = text_field(fields, "group"), text_field(fields, "clientId")
    ts, lines = instant(fields, "ts"), whole_number(fields, "lines")
    row = {"producer_group": group, "client_id": client_id, "told_at": ts, "lines": lines}
    at = datetime.fromtimestamp(ts // 1000, UTC)
    told = f"{lines} lines of {client_id} ({group}) were not written before {at:%Y-%m-%d %H:%M:%S}"
    return RefusedLineError("LINES_LOST", told).leaving((Record("lost_lines", row),))


def _attempt(fields: Fields) -> dict[str, Any]:
    begin, end = instant(fields, "beginMs"), instant(fields, "endMs")
    mode = text_field(fields, "mode")
    if mode not in MODES:
        raise RefusedLineError("UNKNOWN_VALUE", f"'mode' is {mode!r:.80} (known: {', '.join(MODES)})")
    row: dict[str, Any] = {
        "producer_group": text_field(fields, "group"),
        "client_id": text_field(fields, "clientId"),
        "thread": optional_text(fields, "thread"),
        "topic": text_field(fields, "topic"),
        "broker_name": text_field(fields, "broker"),
        "broker_address": optional_text(fields, "brokerAddr"),
        "broker_named_as": text_field(fields, "broker"),
        "queue_id": queue_id(fields),
        "mode": mode,
        # In ASYNC lines `times` counts the thread's sends, not the attempts of one send.
        "attempt": None if mode == "ASYNC" or fields.get("times") is None else int32(fields, "times"),
        "last_broker_name": optional_text(fields, "lastBrokerName"),
        "queue_selected_by": optional_text(fields, "queueSelectedBy"),
        "begin_at": begin,
        "end_at": end,
        "latency_ms": end - begin,
        "msg_id": text_field(fields, "msgId"),
        "offset_msg_id": optional_text(fields, "offsetMsgId"),
        "queue_offset": optional_number(fields, "queueOffset"),
        "queue_offset_of": _queue_offset_of(fields),
        "batch_msg_ids": (optional_text(fields, "batchMsgIds") or "").split(",") if fields.get("batchMsgIds") else None,
        "message_tag": optional_text(fields, "tag"),
        "message_key": optional_text(fields, "key"),
        "body_length": optional_int32(fields, "bodyLength"),
        "delay_level": optional_int32(fields, "delayLevel"),
        "client_version": optional_text(fields, "version"),
        "latency_fault_enabled": optional_flag(fields, "sendLatencyFaultEnable"),
        "exceptions_observable": True,
    }
    row |= _result(fields, mode)
    row |= _half(mode, end, fields)
    if optional_text(fields, "answeredBy"):
        row["doubts"] = [ANSWERED_BY_ANOTHER]
    return row


def _result(fields: Fields, mode: str) -> dict[str, Any]:
    status, exception = optional_text(fields, "status"), optional_text(fields, "exception")
    if status is not None and status not in STATUSES:
        raise RefusedLineError("UNKNOWN_VALUE", f"'status' is {status!r:.80} (known: {', '.join(STATUSES)})")
    if mode == "SYNC" and status is None and exception is None:
        raise RefusedLineError("MISSING_FIELD", "a SYNC attempt has neither 'status' nor 'exception'")
    error = optional_text(fields, "error")
    code = RESPONSE_CODE.search(error) if error else None
    return {
        "outcome": "EXCEPTION" if exception else status or "SUBMITTED",
        "exception": exception,
        "error": error[:ERROR_CHARS] if error else None,
        "response_code": int(code.group(1)) if code else None,
    }


def _queue_offset_of(fields: Fields) -> str | None:
    """Whose offset the answer's is: of the topic's queue, unless the line says otherwise."""
    if fields.get("queueOffset") is None:
        return None
    told = optional_text(fields, "queueOffsetOf") or ("delay" if optional_int32(fields, "delayLevel") else "topic")
    if told not in OFFSETS_OF:
        raise RefusedLineError("UNKNOWN_VALUE", f"'queueOffsetOf' is {told!r:.80} (known: {', '.join(OFFSETS_OF)})")
    return told


def _half(mode: str, end: int, fields: Fields) -> dict[str, Any]:
    """Which half of an ASYNC attempt the line is: a callback brings a result, a submit does not."""
    if mode != "ASYNC":
        return {"phase": "result"}
    if fields.get("status") or fields.get("exception"):
        outcome = "EXCEPTION" if fields.get("exception") else fields["status"]
        return {"phase": "callback", "callback_end_at": end, "callback_outcome": outcome}
    return {"phase": "submit", "submit_end_at": end}


def _start(fields: Fields) -> dict[str, Any]:
    spec = fields.get("spec")
    spec = spec if isinstance(spec, dict) else None
    group = fields if fields.get("group") or spec is None else spec
    language = _language(fields)
    return {
        "producer_group": text_field(group, "group"),
        "client_id": text_field(fields, "clientId"),
        "started_at": instant(fields, "ts"),
        "language": language,
        "client_version": stated_release(language, optional_text(fields, "version")),
        "latency_fault_enabled": optional_flag(fields, "sendLatencyFaultEnable"),
        "detector_enabled": _switch(fields, "startDetectorEnable", spec, "detector"),
        "latency_max_ms": _ladder(fields, "latencyMax"),
        "not_available_ms": _ladder(fields, "notAvailableDuration"),
        "retry_times_sync": optional_int32(fields, "retryTimesWhenSendFailed"),
        "retry_times_async": optional_int32(fields, "retryTimesWhenSendAsyncFailed"),
        "retry_another_broker": _switch(fields, "retryAnotherBrokerWhenNotStoreOK", spec, "another"),
        "send_timeout_ms": optional_number(fields, "sendMsgTimeout"),
    }


def _language(fields: Fields) -> str:
    language = (optional_text(fields, "language") or JAVA).upper()
    if language not in LANGUAGES:
        raise RefusedLineError("UNKNOWN_VALUE", f"'language' is {language!r:.80} (known: {', '.join(LANGUAGES)})")
    return language


def _switch(fields: Fields, name: str, spec: Fields | None, spec_name: str) -> bool | None:
    """A switch by its own name, else from ``spec``, where "1" is on and absence is off."""
    if fields.get(name) is not None:
        return optional_flag(fields, name)
    return None if spec is None else spec.get(spec_name) == "1"


def _ladder(fields: Fields, name: str) -> list[int] | None:
    values = fields.get(name)
    if values is None:
        return None
    if not isinstance(values, list):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {values!r:.80}, expected a list of whole numbers")
    return [whole_number({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]


def read_hook_lines(table: pa.Table) -> PlainRows:
    """What is surely known of n lines, given the members ``MEMBERS`` of each."""
    members: Members = {name: table.column(name).combine_chunks() for name in table.column_names}
    kind = members["type"]
    is_ignored = _flags(pc.is_valid(kind)) & ~_flags(pc.is_in(kind, value_set=pa.array(("attempt", *_LEFT_OVER))))
    is_row = _flags(pc.equal(kind, "attempt"))
    for name in _REQUIRED:
        is_row &= numbers(pc.binary_length(members[name]), 0) > 0
    for name, column in members.items():
        if column.type == _TEXT:
            members[name] = _none_where_empty(column)
    is_row &= ~_flags(pc.is_valid(members["answeredBy"]))  # a doubt
    is_row &= ~_flags(pc.is_valid(members["batchMsgIds"]))
    is_row &= _flags(pc.is_in(members["queueOffsetOf"], value_set=pa.array(OFFSETS_OF))) | ~_flags(
        pc.is_valid(members["queueOffsetOf"])
    )
    is_row &= _has_plain_numbers(members) & _has_plain_result(members)
    return PlainRows(is_row, is_ignored, _columns(members))


HOOK_LINES = PlainFormat("send_attempt", MEMBERS, COLUMNS, read_hook_lines)


def _has_plain_numbers(members: Members) -> BoolArray:
    queue = numbers(members["queueId"], -1)
    found: BoolArray = (queue >= 0) & (queue < 2**31)
    for name in ("beginMs", "endMs"):
        instants = numbers(members[name], 0)
        found &= (instants >= EARLIEST_MS) & (instants < LATEST_MS)
    for name in ("times", "bodyLength", "delayLevel"):
        values = numbers(members[name], 0)
        found &= (values >= -(2**31)) & (values < 2**31)
    return found


def _has_plain_result(members: Members) -> BoolArray:
    """Its mode and status are known ones, it has a result if it must, and its error is easily looked through."""
    status, error = members["status"], members["error"]
    has_none = _flags(pc.and_(pc.is_null(status), pc.is_null(members["exception"])))
    found = _flags(pc.is_in(members["mode"], value_set=pa.array(MODES)))
    found &= _flags(pc.or_(pc.is_in(status, value_set=pa.array(STATUSES)), pc.is_null(status)))
    found &= ~(has_none & _flags(pc.equal(members["mode"], "SYNC")))
    if error.null_count < len(error):
        # What counts as a digit or a word in other texts is for one regular expression to say, not for two.
        found &= _flags(pc.string_is_ascii(error), instead=True)
        found &= numbers(pc.binary_length(error), 0) <= ERROR_CHARS
    return found


def _columns(members: Members) -> Members:
    begin, end = members["beginMs"], members["endMs"]
    exception, error = members["exception"], members["error"]
    is_async = pc.fill_null(pc.equal(members["mode"], "ASYNC"), False)
    given = pc.if_else(pc.is_valid(exception), pa.scalar("EXCEPTION"), members["status"])
    phase = np.where(_flags(is_async), np.where(_flags(pc.is_valid(given)), _CALLBACK, _SUBMIT), _RESULT)
    return {
        "producer_group": members["group"],
        "client_id": members["clientId"],
        "thread": members["thread"],
        "topic": members["topic"],
        "broker_name": members["broker"],
        "broker_address": members["brokerAddr"],
        "broker_named_as": members["broker"],
        "queue_id": _int32(members["queueId"]),
        "mode": members["mode"],
        "attempt": _where(pc.invert(is_async), _int32(members["times"])),
        "last_broker_name": members["lastBrokerName"],
        "queue_selected_by": members["queueSelectedBy"],
        "begin_at": begin,
        "end_at": end,
        "latency_ms": pc.subtract(end, begin),
        "outcome": pc.fill_null(given, "SUBMITTED"),
        "exception": exception,
        "error": error,
        "response_code": _response_code(error),
        "msg_id": members["msgId"],
        "offset_msg_id": members["offsetMsgId"],
        "queue_offset": members["queueOffset"],
        "queue_offset_of": _where(pc.is_valid(members["queueOffset"]), _offset_of(members)),
        "message_tag": members["tag"],
        "message_key": members["key"],
        "body_length": _int32(members["bodyLength"]),
        "delay_level": _int32(members["delayLevel"]),
        "client_version": members["version"],
        "latency_fault_enabled": members["sendLatencyFaultEnable"],
        "exceptions_observable": pa.repeat(True, len(begin)),
        "phase": _PHASES.take(pa.array(phase)),
        "submit_end_at": _where(pa.array(phase == _SUBMIT), end),
        "callback_end_at": _where(pa.array(phase == _CALLBACK), end),
        "callback_outcome": _where(pa.array(phase == _CALLBACK), given),
    }


def _offset_of(members: Members) -> pa.Array:
    is_delayed = pc.fill_null(pc.not_equal(members["delayLevel"], 0), False)
    return pc.coalesce(members["queueOffsetOf"], pc.if_else(is_delayed, "delay", "topic"))


def _response_code(error: pa.Array) -> pa.Array:
    if error.null_count == len(error):
        return pa.nulls(len(error), pa.int32())
    found = pc.struct_field(pc.extract_regex(error, _RESPONSE_CODE), "code")
    return found.cast(pa.int32())


def _none_where_empty(texts: pa.Array) -> pa.Array:
    is_empty = pc.equal(pc.binary_length(texts), 0)
    return _where(pc.invert(is_empty), texts) if pc.any(is_empty).as_py() else texts


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values where the condition holds, else null."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _int32(values: pa.Array) -> pa.Array:
    """Of a value that does not fit anything may come: its line is no row."""
    return values.cast(pa.int32(), safe=False)


def _flags(condition: pa.Array, *, instead: bool = False) -> BoolArray:
    found: BoolArray = pc.fill_null(condition, instead).to_numpy(zero_copy_only=False)
    return found

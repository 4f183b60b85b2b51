"""Blocks of producer hook lines in, columns of ``send_attempt`` out: ``hook_lines``, for many lines at once.

Only what surely is an attempt as ``hook_lines`` reads it becomes a row here, and only what surely is of another
kind is ignored; every other line is left to that reader.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.formats.hook_lines import MODES, OFFSETS_OF, STATUSES
from hindsight.udfs.formats.plain_rows import PlainFormat, PlainRows
from hindsight.udfs.limits.door import numbers
from hindsight.udfs.lines.parsed_line import EARLIEST_MS, ERROR_CHARS, LATEST_MS
from hindsight.udfs.values.arrays import BoolArray

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

"""Producer hook lines in, rows of ``send_attempt`` and ``producer_instance`` out.

One JSON object a line, written by a ``SendMessageHook``: ``start`` when the producer starts, ``attempt`` when a send
attempt ends (ASYNC: once when handed over and once from the callback). ``dropped`` says how many such lines were lost:
it is refused, where it is seen, and ``lost_lines`` has it too, for the replay. Other types are ignored. A producer
that is no Java client says so in ``language`` of its ``start``.

Blocks of lines are read at once, to columns of ``send_attempt``: there only what surely is an attempt becomes a row,
and only what surely is of another kind is ignored; every other line is left to the reader of single lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    json_object,
    known_value,
    lines_lost,
    one_of,
    optional_flag,
    optional_int32,
    optional_number,
    optional_text,
    queue_id,
    text_field,
    whole_number,
)
from hindsight.udfs.release_profiles import RESPONSE_CODE, STATUSES
from hindsight.udfs.values.columns import BoolArray, flags

MODES = ("SYNC", "ASYNC", "ONEWAY")
OFFSETS_OF = ("topic", "half", "delay", "timer")
ANSWERED_BY_ANOTHER = "ANSWERED_BY_ANOTHER"  # the client's own ASYNC retries went on to another broker: it failed here
_LEFT_OVER = ("start", "dropped", "")  # of the types that are looked at, what the careful reader reads
_RESULT, _CALLBACK, _SUBMIT = range(3)
_PHASES = pa.array(["result", "callback", "submit"])
_TEXT, _WHOLE, _INT = pa.string(), pa.int64(), pa.int32()
Members = dict[str, pa.Array]
_MODE = one_of(*MODES)


def _attempt_number(fields: Fields, name: str) -> int | None:
    """In ASYNC lines ``times`` counts the thread's sends, not the attempts of one send."""
    return None if fields["mode"] == "ASYNC" else optional_int32(fields, name)


def _queue_offset_of(fields: Fields, name: str) -> str | None:
    """Whose offset the answer's is: of the topic's queue, unless the line says otherwise."""
    if fields.get("queueOffset") is None:
        return None
    told = optional_text(fields, name) or ("delay" if optional_int32(fields, "delayLevel") else "topic")
    return known_value(told, name, OFFSETS_OF)


def _ids(fields: Fields, name: str) -> list[str] | None:
    return (optional_text(fields, name) or "").split(",") if fields.get(name) else None


class _Said(NamedTuple):
    """What a column of an attempt is in its line: the member, how one line's is read, and the column's type."""

    member: str
    read: Callable[[Fields, str], Any]
    type: pa.DataType


# The one mapping of both readers, in the order in which a line's members are looked at.
_SAID: dict[str, _Said] = {
    "begin_at": _Said("beginMs", instant, _WHOLE),
    "end_at": _Said("endMs", instant, _WHOLE),
    "mode": _Said("mode", _MODE, _TEXT),
    "producer_group": _Said("group", text_field, _TEXT),
    "client_id": _Said("clientId", text_field, _TEXT),
    "thread": _Said("thread", optional_text, _TEXT),
    "topic": _Said("topic", text_field, _TEXT),
    "broker_name": _Said("broker", text_field, _TEXT),
    "broker_address": _Said("brokerAddr", optional_text, _TEXT),
    "queue_id": _Said("queueId", queue_id, _INT),
    "attempt": _Said("times", _attempt_number, _INT),
    "last_broker_name": _Said("lastBrokerName", optional_text, _TEXT),
    "queue_selected_by": _Said("queueSelectedBy", optional_text, _TEXT),
    "msg_id": _Said("msgId", text_field, _TEXT),
    "offset_msg_id": _Said("offsetMsgId", optional_text, _TEXT),
    "queue_offset": _Said("queueOffset", optional_number, _WHOLE),
    "queue_offset_of": _Said("queueOffsetOf", _queue_offset_of, _TEXT),
    "batch_msg_ids": _Said("batchMsgIds", _ids, _TEXT),  # never in a block
    "message_tag": _Said("tag", optional_text, _TEXT),
    "message_key": _Said("key", optional_text, _TEXT),
    "body_length": _Said("bodyLength", optional_int32, _INT),
    "delay_level": _Said("delayLevel", optional_int32, _INT),
    "client_version": _Said("version", optional_text, _TEXT),
    "latency_fault_enabled": _Said("sendLatencyFaultEnable", optional_flag, pa.bool_()),
}
# The members that a line of an attempt is read by.
MEMBERS = pa.schema(
    [
        *((said.member, _WHOLE if said.type == _INT else said.type) for said in _SAID.values()),
        *((name, _TEXT) for name in ("type", "status", "exception", "error", "answeredBy")),
    ]
)
# Of a plain line's row, instants as epoch milliseconds.
COLUMNS = pa.schema(
    [
        *((name, said.type) for name, said in _SAID.items() if name != "batch_msg_ids"),
        *((name, _TEXT) for name in ("broker_named_as", "outcome", "exception", "error", "phase", "callback_outcome")),
        *((name, _WHOLE) for name in ("latency_ms", "submit_end_at", "callback_end_at")),
        ("response_code", _INT),
        ("exceptions_observable", pa.bool_()),
    ]
)


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    kind = text_field(fields, "type")
    if kind == "attempt":
        return (Record("send_attempt", _attempt(fields)),)
    if kind == "start":
        return (Record("producer_instance", _start(fields)),)
    if kind == "dropped":
        group, client_id = text_field(fields, "group"), text_field(fields, "clientId")
        row = {"producer_group": group, "client_id": client_id, "told_at": instant(fields, "ts")}
        raise lines_lost(Record("lost_lines", row | {"lines": whole_number(fields, "lines")}), group)
    return ()


parse_hook_lines = each_line(_one)


_NEEDED = (text_field, instant, queue_id, _MODE, _queue_offset_of)  # what reads an absent member too
_READ_OF_A_LINE = [(column, said.member, said.read, said.read in _NEEDED) for column, said in _SAID.items()]


def _attempt(fields: Fields) -> dict[str, Any]:
    row: dict[str, Any] = {
        column: read(fields, member) if is_needed or member in fields else None
        for column, member, read, is_needed in _READ_OF_A_LINE
    }
    row["broker_named_as"] = row["broker_name"]
    row["latency_ms"] = row["end_at"] - row["begin_at"]
    row["exceptions_observable"] = True
    row |= _result(fields, row["mode"])
    row |= _half(row["mode"], row["end_at"], fields)
    if optional_text(fields, "answeredBy"):
        row["doubts"] = [ANSWERED_BY_ANOTHER]
    return row


def _result(fields: Fields, mode: str) -> dict[str, Any]:
    status, exception = optional_text(fields, "status"), optional_text(fields, "exception")
    if status is not None:
        known_value(status, "status", STATUSES)
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
    language = known_value((optional_text(fields, "language") or JAVA).upper(), "language", LANGUAGES)
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


def _read_plain(table: pa.Table) -> PlainRows:
    """What is surely known of n lines, given the members ``MEMBERS`` of each."""
    members: Members = {name: table.column(name).combine_chunks() for name in table.column_names}
    kind = members["type"]
    is_ignored = flags(pc.is_valid(kind)) & ~flags(pc.is_in(kind, value_set=pa.array(("attempt", *_LEFT_OVER))))
    is_row = flags(pc.equal(kind, "attempt"))
    for said in _SAID.values():
        if said.read is text_field:
            is_row &= numbers(pc.binary_length(members[said.member]), 0) > 0
    for name, column in members.items():
        is_empty = pc.equal(pc.binary_length(column), 0) if column.type == _TEXT else None
        if is_empty is not None and pc.any(is_empty).as_py():
            members[name] = _where(pc.invert(is_empty), column)
    is_row &= ~flags(pc.is_valid(members["answeredBy"]))  # a doubt
    is_row &= ~flags(pc.is_valid(members["batchMsgIds"]))
    whose = members["queueOffsetOf"]
    is_row &= flags(pc.or_(pc.is_in(whose, value_set=pa.array(OFFSETS_OF)), pc.is_null(whose)))
    is_row &= _has_plain_numbers(members) & _has_plain_result(members)
    return PlainRows(is_row, is_ignored, _columns(members))


HOOK_LINES = PlainFormat("send_attempt", MEMBERS, COLUMNS, _read_plain)


def _has_plain_numbers(members: Members) -> BoolArray:
    found: BoolArray = numbers(members["queueId"], -1) >= 0
    for said in _SAID.values():
        if said.read is instant or said.type == _INT:
            least, beyond = (EARLIEST_MS, LATEST_MS) if said.read is instant else (-(2**31), 2**31)
            values = numbers(members[said.member], 0)
            found &= (values >= least) & (values < beyond)
    return found


def _has_plain_result(members: Members) -> BoolArray:
    """Its mode and status are known ones, it has a result if it must, and its error is easily looked through."""
    status, error = members["status"], members["error"]
    has_none = flags(pc.and_(pc.is_null(status), pc.is_null(members["exception"])))
    found = flags(pc.is_in(members["mode"], value_set=pa.array(MODES)))
    found &= flags(pc.or_(pc.is_in(status, value_set=pa.array(STATUSES)), pc.is_null(status)))
    found &= ~(has_none & flags(pc.equal(members["mode"], "SYNC")))
    if error.null_count < len(error):
        # What counts as a digit or a word in other texts is for one regular expression to say, not for two.
        found &= flags(pc.string_is_ascii(error), instead=True)
        found &= numbers(pc.binary_length(error), 0) <= ERROR_CHARS
    return found


def _columns(members: Members) -> Members:
    # Of a number that does not fit its column anything may come: its line is no row.
    columns = {column: members[said.member].cast(said.type, safe=False) for column, said in _SAID.items()}
    begin, end = columns["begin_at"], columns["end_at"]
    exception, error = members["exception"], members["error"]
    is_async = pc.fill_null(pc.equal(members["mode"], "ASYNC"), False)
    given = pc.if_else(pc.is_valid(exception), pa.scalar("EXCEPTION"), members["status"])
    is_delayed = pc.fill_null(pc.not_equal(members["delayLevel"], 0), False)
    offset_of = pc.coalesce(members["queueOffsetOf"], pc.if_else(is_delayed, "delay", "topic"))
    told = error.null_count < len(error)
    of_error = pc.extract_regex(error, r"CODE: (?P<code>-?[0-9]{1,9})\b") if told else None
    code = pa.nulls(len(error), _TEXT) if of_error is None else pc.struct_field(of_error, "code")
    phase = np.where(flags(is_async), np.where(flags(pc.is_valid(given)), _CALLBACK, _SUBMIT), _RESULT)
    return columns | {
        "broker_named_as": columns["broker_name"],
        "attempt": _where(pc.invert(is_async), columns["attempt"]),
        "latency_ms": pc.subtract(end, begin),
        "outcome": pc.fill_null(given, "SUBMITTED"),
        "exception": exception,
        "error": error,
        "response_code": code.cast(pa.int32()),
        "queue_offset_of": _where(pc.is_valid(columns["queue_offset"]), offset_of),
        "exceptions_observable": pa.repeat(True, len(begin)),
        "phase": _PHASES.take(pa.array(phase)),
        "submit_end_at": _where(pa.array(phase == _SUBMIT), end),
        "callback_end_at": _where(pa.array(phase == _CALLBACK), end),
        "callback_outcome": _where(pa.array(phase == _CALLBACK), given),
    }


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values where the condition holds, else null."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))

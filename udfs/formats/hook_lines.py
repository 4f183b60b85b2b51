"""Producer hook lines in, rows of ``send_attempt`` and ``producer_instance`` out.

One JSON object a line, written by a ``SendMessageHook``: ``start`` when the producer starts, ``attempt`` when a send
attempt ends (ASYNC: once when handed over and once from the callback). ``dropped`` says how many such lines were lost:
it is refused, where it is seen, and ``lost_lines`` has it too, for the replay. Other types are ignored. A producer
that is no Java client says so in ``language`` of its ``start``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hindsight.udfs.clients.client_kinds import JAVA, LANGUAGES, stated_release
from hindsight.udfs.lines.parsed_line import (
    ERROR_CHARS,
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

MODES = ("SYNC", "ASYNC", "ONEWAY")
STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
OFFSETS_OF = ("topic", "half", "delay", "timer")
ANSWERED_BY_ANOTHER = "ANSWERED_BY_ANOTHER"  # the client's own ASYNC retries went on to another broker: it failed here
RESPONSE_CODE = re.compile(r"CODE: (-?\d{1,9})\b")


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

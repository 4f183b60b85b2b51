"""Rows of hindsight's own contract in, the same checked out: for those who have such tables in a lake already.

One JSON object a line, its members the columns of ``send_attempt`` (format ``canonical_sends``) or of
``consumer_heartbeat``, ``queue_ownership``, ``topic_route`` (format ``canonical_snapshots``: one folder for each inside
the cluster's). Instants are epoch milliseconds or ISO 8601 with a zone. Columns that ingestion sets (cluster, date,
round, source) may be there and are passed over, so an export of the tables themselves can be taken in; any other
column is refused. Parquet files come as lines too: ``lines_of_rows``.

Of an ASYNC attempt one row says both halves (``submit_end_at``; ``callback_end_at`` and ``callback_outcome``).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from udfs.bounded_lines import Line
from udfs.parsed_line import (
    ERROR_CHARS,
    Fields,
    LandedFile,
    ParsedLine,
    Record,
    RefusedLineError,
    each_line,
    instant,
    int32,
    json_object,
    optional_flag,
    queue_id,
    text_field,
    whole_number,
)

COLLECTOR = "canonical"
MODES = ("SYNC", "ASYNC", "ONEWAY")
STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
OUTCOMES = (*STATUSES, "EXCEPTION", "SUBMITTED", "UNKNOWN", "NOT_STORE_OK")


class Column(NamedTuple):
    """How a column is read; ``required``: a row without it is refused."""

    read: Callable[[Fields, str], Any]
    required: bool = False


def _instant(fields: Fields, name: str) -> int:
    """Epoch ms, or ISO 8601 with a zone."""
    value = fields[name]
    if not isinstance(value, str):
        return instant(fields, name)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise RefusedLineError("BAD_TIMESTAMP", f"{name!r} is {value!r:.60}, no ISO 8601 time") from None
    if at.tzinfo is None:
        raise RefusedLineError("BAD_TIMESTAMP", f"{name!r} is {value!r:.60}, which names no zone")
    try:
        return instant({name: int(at.timestamp() * 1000)}, name)
    except (OverflowError, ValueError):
        raise RefusedLineError("TIMESTAMP_OUT_OF_RANGE", f"{name!r} is {value!r:.60}") from None


def _one_of(*values: str) -> Callable[[Fields, str], str]:
    def read(fields: Fields, name: str) -> str:
        value = text_field(fields, name)
        if value not in values:
            raise RefusedLineError("UNKNOWN_VALUE", f"{name!r} is {value!r:.80} (known: {', '.join(values)})")
        return value

    return read


def _flag(fields: Fields, name: str) -> bool:
    return bool(optional_flag(fields, name))


def _queue_id(fields: Fields, name: str) -> int:
    return queue_id(fields, name)


def _bounded(fields: Fields, name: str) -> str:
    return text_field(fields, name)[:ERROR_CHARS]


def _text_or_empty(fields: Fields, name: str) -> str:
    return "" if fields[name] == "" else text_field(fields, name)


def _subscriptions(fields: Fields, name: str) -> list[dict[str, Any]]:
    values = fields[name]
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is no list of objects")
    return [_checked(value, _SUBSCRIPTION) for value in values]


def _texts(fields: Fields, name: str) -> list[str]:
    values = fields[name]
    if not isinstance(values, list):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {values!r:.80}, expected a list of strings")
    return [text_field({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]


_SUBSCRIPTION = {
    "topic": Column(text_field, required=True),
    "expression_type": Column(text_field),
    "sub_string": Column(text_field),
    "tags": Column(_texts),
}
_CAPTURE = {
    "collector": Column(_text_or_empty),
    "captured_at": Column(_instant, required=True),
}
_QUEUE = {
    "topic": Column(text_field, required=True),
    "broker_name": Column(text_field, required=True),
    "queue_id": Column(_queue_id, required=True),
}
_CLIENT = {
    "consumer_group": Column(text_field, required=True),
    "client_id": Column(text_field, required=True),
}

CONTRACT: dict[str, dict[str, Column]] = {
    "send_attempt": {
        "producer_group": Column(text_field, required=True),
        "client_id": Column(text_field, required=True),
        "thread": Column(text_field),
        "topic": Column(text_field, required=True),
        "broker_name": Column(text_field, required=True),
        "broker_address": Column(text_field),
        "broker_named_as": Column(text_field),
        "queue_id": Column(_queue_id, required=True),
        "mode": Column(_one_of(*MODES), required=True),
        "attempt": Column(int32),
        "last_broker_name": Column(text_field),
        "queue_selected_by": Column(text_field),
        "begin_at": Column(_instant, required=True),
        "end_at": Column(_instant, required=True),
        "latency_ms": Column(whole_number),
        "outcome": Column(_one_of(*OUTCOMES), required=True),
        "exception": Column(text_field),
        "error": Column(_bounded),
        "response_code": Column(int32),
        "msg_id": Column(text_field, required=True),
        "offset_msg_id": Column(text_field),
        "message_key": Column(text_field),
        "message_type": Column(text_field),
        "body_length": Column(int32),
        "delay_level": Column(int32),
        "client_version": Column(text_field),
        "latency_fault_enabled": Column(_flag),
        "exceptions_observable": Column(_flag),
        "submit_end_at": Column(_instant),
        "callback_end_at": Column(_instant),
        "callback_outcome": Column(_one_of(*STATUSES, "EXCEPTION")),
    },
    "consumer_heartbeat": {
        **_CAPTURE,
        "broker_name": Column(text_field),
        **_CLIENT,
        "address": Column(_text_or_empty),
        "language": Column(text_field),
        "client_version": Column(int32),
        "consume_type": Column(text_field),
        "message_model": Column(text_field),
        "consume_from_where": Column(text_field),
        "subscriptions": Column(_subscriptions),
    },
    "queue_ownership": {
        **_CAPTURE,
        **_CLIENT,
        **_QUEUE,
        "locked": Column(_flag),
        "dropped": Column(_flag),
        "last_pull_at": Column(_instant),
        "last_consume_at": Column(_instant),
        "last_lock_at": Column(_instant),
        "cached_messages": Column(whole_number),
        "commit_offset": Column(whole_number),
    },
    "topic_route": {
        **_CAPTURE,
        "topic": Column(text_field, required=True),
        "broker_name": Column(text_field, required=True),
        "read_queue_nums": Column(int32, required=True),
        "write_queue_nums": Column(int32, required=True),
        "perm": Column(int32, required=True),
        "has_master": Column(_flag, required=True),
        "master_address": Column(text_field),
        "order_topic_conf": Column(text_field),
        "is_static_topic": Column(_flag),
    },
}
# What ingestion sets itself; also what an export of the tables holds besides.
_PASSED_OVER = frozenset(
    {
        "cluster",
        "event_date",
        "round_at",
        "phase",
        "submit_file",
        "submit_line",
        "callback_file",
        "callback_line",
        "source",
        "source_file",
        "source_line",
        "ingested_at",
        "run_id",
        "doubts",
    }
)


def parse_canonical_sends(lines: Iterable[Line]) -> Iterator[ParsedLine]:
    """Rows of ``send_attempt``."""
    return _parse_sends(lines)


def parse_canonical_snapshots(lines: Iterable[Line], *, file: LandedFile) -> Iterator[ParsedLine]:
    """Rows of the table that the file's folder is named for, and the captures they imply."""
    table = file.path.partition("/")[0]

    def parse_one(text: str) -> tuple[Record, ...]:
        if table not in _CAPTURES:
            known = ", ".join(sorted(_CAPTURES))
            raise RefusedLineError("UNKNOWN_TABLE", f"the file's folder is {table!r:.80}, expected one of {known}")
        return _snapshot(table, json_object(text))

    return each_line(parse_one)(lines)


def lines_of_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Line]:
    """Rows of a Parquet file as lines, numbered from 1, without byte ranges."""
    for number, row in enumerate(rows, 1):
        text = json.dumps({k: v for k, v in row.items() if v is not None}, default=_as_json, ensure_ascii=False)
        yield Line(number, 0, 0, text, None)


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _checked(fields: Fields, columns: Mapping[str, Column]) -> dict[str, Any]:
    """The columns of a row, those that are null left out."""
    for name in fields:
        if name not in columns and name not in _PASSED_OVER:
            near = difflib.get_close_matches(str(name)[:80], columns, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RefusedLineError("UNKNOWN_FIELD", f"no column {name!r:.80}{hint}")
    row = {}
    for name, column in columns.items():
        if fields.get(name) is not None:
            row[name] = column.read(fields, name)
        elif column.required:
            raise RefusedLineError("MISSING_FIELD", f"{name!r} is missing")
    return row


def _send(text: str) -> tuple[Record, ...]:
    row = _checked(json_object(text), CONTRACT["send_attempt"])
    submit, callback = row.pop("submit_end_at", None), row.pop("callback_end_at", None)
    outcome = row.pop("callback_outcome", None)
    row = {"broker_named_as": row["broker_name"], "exceptions_observable": True, **row}
    if row["outcome"] == "EXCEPTION" and "exception" not in row:
        raise RefusedLineError("MISSING_FIELD", "'exception' is missing where 'outcome' is EXCEPTION")
    if row["mode"] != "ASYNC":
        return (_attempt(row, "result", row["end_at"]),)
    halves = []
    if submit is not None or row["outcome"] == "SUBMITTED":
        of_submit = {name: value for name, value in row.items() if name not in _OF_RESULT}
        halves.append(
            _attempt(of_submit | {"outcome": "SUBMITTED"}, "submit", row["end_at"] if submit is None else submit)
        )
    if callback is not None or row["outcome"] != "SUBMITTED":
        end = row["end_at"] if callback is None else callback
        if outcome is None and row["outcome"] in (*STATUSES, "EXCEPTION"):
            outcome = row["outcome"]
        halves.append(_attempt(row | {"callback_outcome": outcome}, "callback", end))
    return tuple(halves)


_OF_RESULT = frozenset({"exception", "error", "response_code", "offset_msg_id", "latency_ms"})
_HALF_END = {"submit": "submit_end_at", "callback": "callback_end_at"}

_parse_sends = each_line(_send)


def _attempt(row: dict[str, Any], phase: str, end: int) -> Record:
    half = {_HALF_END[phase]: end} if phase in _HALF_END else {}
    latency = {"latency_ms": row.get("latency_ms", end - row["begin_at"])}
    return Record("send_attempt", row | latency | {"phase": phase, "end_at": end} | half)


# The admin call that would have brought a table's row, and what it asks for.
_CAPTURES: dict[str, tuple[str, Callable[[Fields], dict[str, str]]]] = {
    "consumer_heartbeat": ("consumerConnection", lambda row: {"consumer_group": row["consumer_group"]}),
    "queue_ownership": (
        "consumerRunningInfo",
        lambda row: {"consumer_group": row["consumer_group"], "client_id": row["client_id"]},
    ),
    "topic_route": ("topicRoute", lambda row: {"topic": row["topic"]}),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "consumer_heartbeat": {"address": ""},
    "queue_ownership": {"locked": False, "dropped": False},
    "topic_route": {"is_static_topic": False},
}


def _snapshot(table: str, fields: Fields) -> tuple[Record, ...]:
    row = {"collector": COLLECTOR, **_DEFAULTS[table], **_checked(fields, CONTRACT[table])}
    kind, asked_for = _CAPTURES[table]
    records = [Record(table, row), _capture(row, kind, asked_for(row))]
    if table == "consumer_heartbeat" and "subscriptions" in row:
        # They are known from the member's own running info only: it was read, though it may own no queue.
        kind, asked_for = _CAPTURES["queue_ownership"]
        records.append(_capture(row, kind, asked_for(row), *_OWN))
    return tuple(records)


# What a member's running info says of it, by columns of a connection's row.
_OWN = ("subscriptions", "consume_type", "message_model", "consume_from_where")


def _capture(row: dict[str, Any], kind: str, asked: dict[str, str], *own: str) -> Record:
    said = {name: row[name] for name in own if name in row}
    place = {"collector": row["collector"], "captured_at": row["captured_at"], "kind": kind, "answered": True}
    return Record("snapshot_capture", {**place, "subject": "|".join(asked.values()), **asked, **said})

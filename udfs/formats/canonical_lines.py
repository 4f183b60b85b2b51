"""Rows of hindsight's own contract in, the same checked out: for those who have such tables in a lake already.

One JSON object a line, its members the columns of ``send_attempt`` (format ``canonical_sends``) or of
``consumer_heartbeat``, ``queue_ownership``, ``pop_assignment``, ``topic_route``, ``message_request_mode``,
``queue_progress``, ``topic_status`` (format
``canonical_snapshots``: one folder for each inside the cluster's). Instants are epoch milliseconds or ISO 8601 with a
zone. Columns that ingestion sets (cluster, date, round, source) may be there and are passed over, so an export of the
tables themselves can be taken in; any other column is refused. Parquet files come as lines too: ``lines_of_rows``.

Of an ASYNC attempt one row says both halves (``submit_end_at``; ``callback_end_at`` and ``callback_outcome``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from hindsight.udfs.formats.canonical_contract import COLLECTOR, checked
from hindsight.udfs.formats.hook_lines import STATUSES
from hindsight.udfs.lines.bounded_lines import SAMPLE_CHARS, Line, Refusal
from hindsight.udfs.lines.parsed_line import (
    Fields,
    LandedFile,
    ParsedLine,
    Record,
    RefusedLineError,
    each_line,
    json_object,
    lag_between,
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


def lines_of_rows(rows: Iterable[Mapping[str, Any]], *, max_line_bytes: int) -> Iterator[Line]:
    """Rows of a Parquet file as lines, numbered from 1, without byte ranges; refused: LINE_TOO_LONG."""
    for number, row in enumerate(rows, 1):
        text = json.dumps({k: v for k, v in row.items() if v is not None}, default=_as_json, ensure_ascii=False)
        if len(text) > max_line_bytes:
            detail = f"a row of {len(text)} characters, more than {max_line_bytes}"
            yield Line(number, 0, 0, text[:SAMPLE_CHARS], Refusal("LINE_TOO_LONG", detail))
        else:
            yield Line(number, 0, 0, text, None)


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _send(text: str) -> tuple[Record, ...]:
    row = checked(json_object(text), "send_attempt")
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
    "pop_assignment": (
        "consumerRunningInfo",
        lambda row: {"consumer_group": row["consumer_group"], "client_id": row["client_id"]},
    ),
    "topic_route": ("topicRoute", lambda row: {"topic": row["topic"]}),
    "queue_progress": ("consumeStats", lambda row: {"consumer_group": row["consumer_group"]}),
    "topic_status": ("topicStatus", lambda row: {"topic": row["topic"]}),
    "message_request_mode": ("", lambda row: {}),  # its column ``told_by`` names the call
}


# Which columns of a row say whom that call asked.
_PLACES = {
    "consumerConnection": ("broker_name",),
    "consumerRunningInfo": (),
    "topicRoute": ("name_server",),
    "consumeStats": (),
    "topicStatus": (),
    "messageRequestModes": ("broker_name",),
    "brokerConfig": ("broker_name",),
}


_DEFAULTS: dict[str, dict[str, Any]] = {
    "consumer_heartbeat": {"address": ""},
    "queue_ownership": {"locked": False, "dropped": False},
    "pop_assignment": {"dropped": False},
    "topic_route": {"is_static_topic": False},
    "message_request_mode": {},
}


def _snapshot(table: str, fields: Fields) -> tuple[Record, ...]:
    row = {"collector": COLLECTOR, **_DEFAULTS.get(table, {}), **checked(fields, table)}
    if table == "queue_progress" and "lag" not in row:
        row["lag"] = lag_between(row["broker_offset"], row["consumer_offset"])
    kind, asked_for = _CAPTURES[table]
    records = [Record(table, row), _capture(row, kind or row["told_by"], asked_for(row))]
    if table == "consumer_heartbeat" and not {"subscriptions", "client_kind"}.isdisjoint(row):
        # They are known from the member's own running info only: it was read, though it may own no queue.
        kind, asked_for = _CAPTURES["queue_ownership"]
        records.append(_capture(row, kind, asked_for(row), *_OWN))
    return tuple(records)


# What a member's running info says of it, by columns of a connection's row.
_OWN = ("subscriptions", "client_kind", "consume_type", "message_model", "consume_from_where")


def _capture(row: dict[str, Any], kind: str, asked: dict[str, str], *own: str) -> Record:
    capture = {
        "collector": row["collector"],
        "captured_at": row["captured_at"],
        **{name: row[name] for name in _PLACES[kind] if name in row},
        "kind": kind,
        "answered": True,
        "subject": "|".join(asked.values()),
        **asked,
    }
    for name in own:
        if name in row:
            capture[name] = row[name]
    return Record("snapshot_capture", capture)

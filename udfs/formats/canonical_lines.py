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

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from hindsight.schemas import TABLES, Table
from hindsight.schemas.column_types import ArrayType, StructField, StructType
from hindsight.udfs.lines.bounded_lines import SAMPLE_CHARS, Line, Refusal
from hindsight.udfs.lines.parsed_line import (
    ERROR_CHARS,
    Fields,
    LandedFile,
    ParsedLine,
    Record,
    RefusedLineError,
    each_line,
    instant,
    int32,
    is_instant,
    json_object,
    lag_between,
    one_of,
    optional_flag,
    optional_rate,
    queue_id,
    text_field,
    whole_number,
)
from hindsight.udfs.release_profiles import STATUSES


def instant_or_text(fields: Fields, name: str) -> int:
    """Epoch ms, or ISO 8601 with a zone."""
    value = fields[name]
    if type(value) is int and is_instant(value):
        return value
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


def flag(fields: Fields, name: str) -> bool:
    """A flag, as JSON or as Parquet has it."""
    value = fields[name]
    return value if type(value) is bool else bool(optional_flag(fields, name))


def queue_or_all(fields: Fields, name: str) -> int:
    """A queue id, or -1: all queues of the broker."""
    return queue_id(fields, name, lowest=-1)


def bounded_text(fields: Fields, name: str) -> str:
    """A text, cut where an error's text is."""
    return text_field(fields, name)[:ERROR_CHARS]


def text_or_empty(fields: Fields, name: str) -> str:
    """A text that may be empty."""
    return "" if fields[name] == "" else text_field(fields, name)


def texts(fields: Fields, name: str) -> list[str]:
    """A list of texts."""
    values = fields[name]
    if not isinstance(values, list):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {values!r:.80}, expected a list of strings")
    return [text_field({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]


COLLECTOR = "canonical"


class Column(NamedTuple):
    """How a column is read; ``required``: a row without it is refused."""

    read: Callable[[Fields, str], Any]
    required: bool = False


def _nested(fields: Fields, name: str) -> list[dict[str, Any]]:
    values = fields[name]
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is no list of objects")
    found = [checked(value, _NESTED[name]) for value in values]
    return sorted(found, key=lambda slave: int(slave["broker_id"])) if name == "slaves" else found


# What ingestion sets itself; also what an export of the tables holds besides.
_PASSED_OVER = (
    "cluster event_date round_at phase submit_file submit_line callback_file callback_line source source_file "
    "source_line ingested_at run_id doubts"
)
# What a row says that leaves a column out.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "consumer_heartbeat": {"address": ""},
    "queue_ownership": {"locked": False, "dropped": False},
    "pop_assignment": {"dropped": False},
    "message_request_mode": {},
    "topic_route": {"is_static_topic": False},
    "queue_progress": {},
    "topic_status": {},
}
# By table, the columns without which a stored row is never but somebody else's may be; and the other way round.
_OPTIONAL = {
    "send_attempt": {"broker_named_as", "latency_ms", "exceptions_observable"},
    **{table: {"collector", *defaults} for table, defaults in _DEFAULTS.items()},
    "queue_progress": {"collector", "lag"},
}
_REQUIRED = {"send_attempt": {"broker_name", "queue_id", "mode"}, "message_request_mode": {"broker_name"}}
_NESTED = {"subscriptions": "subscription", "logical_queues": "logical_queue", "slaves": "slave"}
_BY_TYPE: Mapping[str, Callable[[Fields, str], Any]] = {
    "string": text_field,
    "bigint": whole_number,
    "int": int32,
    "double": optional_rate,
    "boolean": flag,
    "timestamp": instant_or_text,
    "array<string>": texts,
}
_BY_NAME: Mapping[str, Callable[[Fields, str], Any]] = {
    "collector": text_or_empty,
    "consumer_heartbeat.address": text_or_empty,
    "error": bounded_text,
    "queue_id": queue_id,
    "pop_assignment.queue_id": queue_or_all,
    "logical_id": queue_id,
    "callback_outcome": one_of(*STATUSES, "EXCEPTION"),
    **dict.fromkeys(_NESTED, _nested),
}


def _column(of: str, field: StructField, known: Mapping[str, Sequence[str]]) -> Column:
    read = _BY_NAME.get(f"{of}.{field.name}") or _BY_NAME.get(field.name)
    if read is None:
        read = one_of(*known[field.name]) if field.name in known else _BY_TYPE[field.dataType.simpleString()]
    stored = not field.nullable and field.name not in _OPTIONAL.get(of, ())
    return Column(read, required=stored or field.name in _REQUIRED.get(of, ()))


def _columns_of(table: Table) -> dict[str, Column]:
    fields = [field for field in table.schema if field.name not in _PASSED_OVER.split()]
    fields.sort(key=lambda field: field.name not in ("collector", "captured_at"))  # what these lack is said first
    return {field.name: _column(table.name, field, dict(table.values)) for field in fields}


def _parts_of(column: StructField) -> dict[str, Column]:
    kind = column.dataType
    assert isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)
    return {field.name: _column(_NESTED[column.name], field, {}) for field in kind.elementType}


CONTRACT = {name: _columns_of(TABLES[name]) for name in _OPTIONAL}
_COLUMNS = CONTRACT | {
    _NESTED[field.name]: _parts_of(field) for name in CONTRACT for field in TABLES[name].schema if field.name in _NESTED
}


def checked(fields: Fields, table: str) -> dict[str, Any]:
    """The columns of a table's row, or of a ``subscription`` in one, those that are null left out."""
    row = {}
    for name, read in _readers(table, tuple(fields)):
        if fields[name] is not None:
            row[name] = read(fields, name)
        elif _COLUMNS[table][name].required:
            raise RefusedLineError("MISSING_FIELD", f"{name!r} is missing")
    return row


@lru_cache(maxsize=1024)
def _readers(table: str, names: tuple[str, ...]) -> list[tuple[str, Callable[[Fields, str], Any]]]:
    """How to read a row that has these columns: the same for most rows of a file."""
    columns = _COLUMNS[table]
    if unknown := [name for name in names if name not in columns and name not in _PASSED_OVER.split()]:
        near = difflib.get_close_matches(str(unknown[0])[:80], columns, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RefusedLineError("UNKNOWN_FIELD", f"no column {unknown[0]!r:.80}{hint}")
    if missing := [name for name, column in columns.items() if column.required and name not in names]:
        raise RefusedLineError("MISSING_FIELD", f"{missing[0]!r} is missing")
    return [(name, column.read) for name, column in columns.items() if name in names]


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
        told = {name: value for name, value in row.items() if value is not None}
        text = json.dumps(told, default=_as_json, ensure_ascii=False)
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


parse_canonical_sends = each_line(_send)
_OF_RESULT = frozenset({"exception", "error", "response_code", "offset_msg_id", "latency_ms"})
_HALF_END = {"submit": "submit_end_at", "callback": "callback_end_at"}


def _attempt(row: dict[str, Any], phase: str, end: int) -> Record:
    half = {_HALF_END[phase]: end} if phase in _HALF_END else {}
    latency = {"latency_ms": row.get("latency_ms", end - row["begin_at"])}
    return Record("send_attempt", row | latency | {"phase": phase, "end_at": end} | half)


# The admin call that would have brought a table's row, and the columns that say what it asks for.
_MEMBER = ("consumer_group", "client_id")
_CAPTURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "consumer_heartbeat": ("consumerConnection", ("consumer_group",)),
    "queue_ownership": ("consumerRunningInfo", _MEMBER),
    "pop_assignment": ("consumerRunningInfo", _MEMBER),
    "topic_route": ("topicRoute", ("topic",)),
    "queue_progress": ("consumeStats", ("consumer_group",)),
    "topic_status": ("topicStatus", ("topic",)),
    "message_request_mode": ("", ()),  # its column ``told_by`` names the call
}
# Which column of a row says whom that call asked.
_PLACES = {
    "consumerConnection": "broker_name",
    "topicRoute": "name_server",
    "messageRequestModes": "broker_name",
    "brokerConfig": "broker_name",
}


def _snapshot(table: str, fields: Fields) -> tuple[Record, ...]:
    row = {"collector": COLLECTOR, **_DEFAULTS[table], **checked(fields, table)}
    if table == "queue_progress" and "lag" not in row:
        row["lag"] = lag_between(row["broker_offset"], row["consumer_offset"])
    kind, asked = _CAPTURES[table]
    records = [Record(table, row), _capture(row, kind or row["told_by"], asked)]
    if table == "consumer_heartbeat" and not {"subscriptions", "client_kind"}.isdisjoint(row):
        # They are known from the member's own running info only: it was read, though it may own no queue.
        records.append(_capture(row, "consumerRunningInfo", _MEMBER, *_OWN))
    return tuple(records)


# What a member's running info says of it, by columns of a connection's row.
_OWN = ("subscriptions", "client_kind", "consume_type", "message_model", "consume_from_where")


def _capture(row: dict[str, Any], kind: str, asked: tuple[str, ...], *own: str) -> Record:
    told = (_PLACES.get(kind), *own)
    capture = {
        "collector": row["collector"],
        "captured_at": row["captured_at"],
        "kind": kind,
        "answered": True,
        "subject": "|".join(row[name] for name in asked),
        **{name: row[name] for name in asked},
        **{name: row[name] for name in told if name in row},
    }
    return Record("snapshot_capture", capture)

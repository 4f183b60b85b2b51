"""The canonical contract: each column of a row that somebody else wrote, with what it must hold."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from hindsight.udfs.clients.client_kinds import CLIENT_KINDS
from hindsight.udfs.formats.canonical_values import (
    bounded_text,
    flag,
    instant_or_text,
    one_of,
    queue_or_all,
    text_or_empty,
    texts,
)
from hindsight.udfs.formats.hook_lines import MODES, STATUSES
from hindsight.udfs.lines.parsed_line import (
    Fields,
    RefusedLineError,
    int32,
    optional_rate,
    queue_id,
    text_field,
    whole_number,
)

COLLECTOR = "canonical"
OUTCOMES = (*STATUSES, "EXCEPTION", "SUBMITTED", "UNKNOWN", "NOT_STORE_OK")


class Column(NamedTuple):
    """How a column is read; ``required``: a row without it is refused."""

    read: Callable[[Fields, str], Any]
    required: bool = False


def _objects(fields: Fields, name: str, each: str) -> list[dict[str, Any]]:
    values = fields[name]
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is no list of objects")
    return [checked(value, each) for value in values]


def _subscriptions(fields: Fields, name: str) -> list[dict[str, Any]]:
    return _objects(fields, name, "subscription")


def _slaves(fields: Fields, name: str) -> list[dict[str, Any]]:
    return sorted(_objects(fields, name, "slave"), key=lambda slave: int(slave["broker_id"]))


def _logical_queues(fields: Fields, name: str) -> list[dict[str, Any]]:
    return _objects(fields, name, "logical_queue")


_LOGICAL_QUEUE = {"logical_id": Column(queue_id, required=True), "queue_id": Column(queue_id, required=True)}
_SLAVE = {"broker_id": Column(whole_number, required=True), "address": Column(text_field, required=True)}
_SUBSCRIPTION = {
    "topic": Column(text_field, required=True),
    "expression_type": Column(text_field),
    "sub_string": Column(text_field),
    "tags": Column(texts),
}


_CAPTURE = {
    "collector": Column(text_or_empty),
    "captured_at": Column(instant_or_text, required=True),
}


_QUEUE = {
    "topic": Column(text_field, required=True),
    "broker_name": Column(text_field, required=True),
    "queue_id": Column(queue_id, required=True),
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
        "queue_id": Column(queue_id, required=True),
        "mode": Column(one_of(*MODES), required=True),
        "attempt": Column(int32),
        "last_broker_name": Column(text_field),
        "queue_selected_by": Column(text_field),
        "begin_at": Column(instant_or_text, required=True),
        "end_at": Column(instant_or_text, required=True),
        "latency_ms": Column(whole_number),
        "outcome": Column(one_of(*OUTCOMES), required=True),
        "exception": Column(text_field),
        "error": Column(bounded_text),
        "response_code": Column(int32),
        "msg_id": Column(text_field, required=True),
        "offset_msg_id": Column(text_field),
        "message_key": Column(text_field),
        "message_type": Column(text_field),
        "body_length": Column(int32),
        "delay_level": Column(int32),
        "client_version": Column(text_field),
        "latency_fault_enabled": Column(flag),
        "exceptions_observable": Column(flag),
        "submit_end_at": Column(instant_or_text),
        "callback_end_at": Column(instant_or_text),
        "callback_outcome": Column(one_of(*STATUSES, "EXCEPTION")),
    },
    "consumer_heartbeat": {
        **_CAPTURE,
        "broker_name": Column(text_field),
        **_CLIENT,
        "address": Column(text_or_empty),
        "language": Column(text_field),
        "client_version": Column(int32),
        "client_kind": Column(one_of(*CLIENT_KINDS)),
        "consume_type": Column(text_field),
        "message_model": Column(text_field),
        "consume_from_where": Column(text_field),
        "subscriptions": Column(_subscriptions),
    },
    "queue_ownership": {
        **_CAPTURE,
        **_CLIENT,
        **_QUEUE,
        "locked": Column(flag),
        "dropped": Column(flag),
        "last_pull_at": Column(instant_or_text),
        "last_consume_at": Column(instant_or_text),
        "last_lock_at": Column(instant_or_text),
        "cached_messages": Column(whole_number),
        "commit_offset": Column(whole_number),
    },
    "pop_assignment": {
        **_CAPTURE,
        **_CLIENT,
        **_QUEUE,
        "queue_id": Column(queue_or_all, required=True),
        "dropped": Column(flag),
        "wait_ack_count": Column(whole_number),
        "last_pop_at": Column(instant_or_text),
    },
    "message_request_mode": {
        **_CAPTURE,
        "topic": Column(text_field),
        "consumer_group": Column(text_field),
        "broker_name": Column(text_field, required=True),
        "told_by": Column(one_of("messageRequestModes", "brokerConfig"), required=True),
        "mode": Column(one_of("PULL", "POP")),
        "pop_share_queue_num": Column(int32),
        "server_load_balancer": Column(flag),
    },
    "topic_route": {
        **_CAPTURE,
        "topic": Column(text_field, required=True),
        "broker_name": Column(text_field, required=True),
        "read_queue_nums": Column(int32, required=True),
        "write_queue_nums": Column(int32, required=True),
        "perm": Column(int32, required=True),
        "has_master": Column(flag, required=True),
        "master_address": Column(text_field),
        "slaves": Column(_slaves),
        "order_topic_conf": Column(text_field),
        "place_in_answer": Column(int32),
        "is_static_topic": Column(flag),
        "name_server": Column(text_field),
        "logical_broker_name": Column(text_field),
        "logical_queue_nums": Column(int32),
        "logical_queues": Column(_logical_queues),
    },
    "queue_progress": {
        **_CAPTURE,
        "consumer_group": Column(text_field, required=True),
        **_QUEUE,
        "broker_asked": Column(text_field),
        "broker_offset": Column(whole_number, required=True),
        "consumer_offset": Column(whole_number, required=True),
        "lag": Column(whole_number),
        "client_ip": Column(text_field),
        "pull_offset": Column(whole_number),
        "last_timestamp": Column(instant_or_text),
        "consume_tps": Column(optional_rate),
    },
    "topic_status": {
        **_CAPTURE,
        **_QUEUE,
        "broker_asked": Column(text_field),
        "min_offset": Column(whole_number, required=True),
        "max_offset": Column(whole_number, required=True),
        "last_update_at": Column(instant_or_text),
    },
}


_COLUMNS = CONTRACT | {"subscription": _SUBSCRIPTION, "logical_queue": _LOGICAL_QUEUE, "slave": _SLAVE}


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
    _refuse_unknown(names, columns)
    for name, column in columns.items():
        if column.required and name not in names:
            raise RefusedLineError("MISSING_FIELD", f"{name!r} is missing")
    return [(name, column.read) for name, column in columns.items() if name in names]


def _refuse_unknown(names: Iterable[str], columns: Mapping[str, Column]) -> None:
    for name in names:
        if name not in columns and name not in _PASSED_OVER:
            near = difflib.get_close_matches(str(name)[:80], columns, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RefusedLineError("UNKNOWN_FIELD", f"no column {name!r:.80}{hint}")

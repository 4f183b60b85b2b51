"""Collector lines in, rows of the consumer-side tables out.

One JSON object a line: ``round`` markers, and captures whose ``raw`` is the admin API's answer in fastjson's dialect:
those that ``admin_answers`` reads. What a release leaves out, or writes as null, is null here. ``broker`` or
``name_server`` of a line names the one that was asked. Kinds that feed no table are ignored.
"""

from __future__ import annotations

import re
from typing import Any

from udfs.admin_answers import ANSWERS, raw_list, raw_object, read_answer
from udfs.parsed_line import (
    ERROR_CHARS,
    Fields,
    Record,
    RefusedLineError,
    each_line,
    instant,
    instant_or_never,
    json_object,
    optional_number,
    optional_text,
    text_field,
)
from udfs.unread_answers import asked_in_vain

_OF_TOPICS = frozenset({"topicRoute", "topicStatus", "topicConfig"})
_ERROR_CODE = re.compile(r"CODE: (-?\d{1,9})\b")


def _one(text: str) -> tuple[Record, ...]:
    fields = json_object(text)
    kind = text_field(fields, "kind")
    collector = optional_text(fields, "collector") or ""
    if kind == "round":
        row = {"collector": collector, "round_at": instant(fields, "ts"), "kind": "marker"}
        return (Record("collection_round", row | {"round_number": optional_number(fields, "round")}),)
    if kind not in ANSWERS:
        return ()
    place = {"collector": collector, "captured_at": instant(fields, "ts")}
    error, raw = optional_text(fields, "error"), optional_text(fields, "raw")
    subject = _subject(fields, kind)
    capture = {
        **place,
        "kind": kind,
        "subject": subject,
        "broker_name": optional_text(fields, "broker"),
        "name_server": optional_text(fields, "name_server"),
        "captured_end_at": instant_or_never(fields, "ts_end"),
        "answered": error is None,
        "error": error[:ERROR_CHARS] if error else None,
        "error_code": _error_code(error),
        **_asked_for(kind, subject),
    }
    if error is not None:
        return (Record("snapshot_capture", capture),)
    try:
        said, rows = read_answer(kind, _object_of(kind, raw), capture)
    except RefusedLineError as refused:
        asked = asked_in_vain([Record("snapshot_capture", capture)], refused.refusal.code)
        raise refused.leaving(asked) from None
    if kind == "topicRoute":
        place |= {"name_server": capture["name_server"]}
    elif kind == "consumerConnection":
        place |= {"broker_name": capture["broker_name"]}
    table_rows = [Record(table, place | row) for table, row in rows]
    return (Record("snapshot_capture", capture | said), *table_rows)


def _object_of(kind: str, raw: str | None) -> Fields:
    """The answer's object; rocketmq-tools hands out the list of ids bare."""
    if kind == "consumerIdList" and raw is not None and raw.lstrip().startswith("["):
        return {"consumerIdList": raw_list(raw)}
    return raw_object(raw)


def _subject(fields: Fields, kind: str) -> str:
    """What was asked for; of a broker's groups nothing but the broker can be named."""
    if kind == "subscriptionGroups":
        return optional_text(fields, "subject") or optional_text(fields, "broker") or ""
    return text_field(fields, "subject")


parse_admin_snapshots = each_line(_one)


def _asked_for(kind: str, subject: str) -> dict[str, Any]:
    if kind in _OF_TOPICS:
        return {"topic": subject}
    if kind == "subscriptionGroups":
        return {}
    if kind == "producerConnection":
        group, _, topic = subject.partition("@")  # no name may hold an '@'
        if not group:
            raise RefusedLineError("BAD_SUBJECT", f"'subject' is {subject!r:.120}, expected group@topic")
        return {"producer_group": group, "topic": topic or None}
    if kind != "consumerRunningInfo":
        return {"consumer_group": subject}
    # A group name may hold '|', a client id hardly does.
    group, found, client_id = subject.rpartition("|")
    if not (found and group and client_id):
        raise RefusedLineError("BAD_SUBJECT", f"'subject' is {subject!r:.120}, expected group|clientId")
    return {"consumer_group": group, "client_id": client_id}


def _error_code(error: str | None) -> int | None:
    code = _ERROR_CODE.search(error) if error else None
    return int(code.group(1)) if code else None

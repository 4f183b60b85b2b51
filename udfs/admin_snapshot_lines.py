"""Collector lines in, rows of the consumer-side tables out.

One JSON object a line: ``round`` markers, and captures whose ``raw`` is the admin API's answer in fastjson's dialect:
TopicRouteData, ConsumerConnection, ConsumerRunningInfo, ConsumeStats, ProducerConnection; the names of 4.x and of 5.x.
rocketmq-dashboard's ``{"status":0,"data":...}`` around it is taken off. Kinds that feed no table are ignored.
A line with an ``error`` is a read that failed, whatever its ``raw`` holds; one with neither is refused, and so is a
``raw`` that is empty or no answer of its kind: nobody said that nobody is there.
"""

from __future__ import annotations

from typing import Any

from udfs.admin_answers import ANSWERS, read_answer
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
from udfs.raw_answers import UnansweredError, error_code, raw_object, unwrapped


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
    error = optional_text(fields, "error")
    answer: Fields = {}
    if error is None:
        try:
            answer = unwrapped(raw_object(_raw(fields)))
        except UnansweredError as unanswered:
            error = str(unanswered)
    capture = {
        **place,
        "kind": kind,
        "subject": text_field(fields, "subject"),
        "captured_end_at": instant_or_never(fields, "ts_end"),
        "answered": error is None,
        "error": error[:ERROR_CHARS] if error else None,
        "error_code": error_code(error),
        **_asked_for(kind, text_field(fields, "subject")),
    }
    if error is not None:
        return (Record("snapshot_capture", capture),)
    said, rows = read_answer(kind, answer, capture)
    table_rows = [Record(table, place | row) for table, row in rows]
    return (Record("snapshot_capture", capture | said), *table_rows)


parse_admin_snapshots = each_line(_one)


def _asked_for(kind: str, subject: str) -> dict[str, Any]:
    if kind == "topicRoute":
        return {"topic": subject}
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


def _raw(fields: Fields) -> str | None:
    """The text of the answer; an empty one is text too, though no answer."""
    return "" if fields.get("raw") == "" else optional_text(fields, "raw")

"""A date's attempts and routes in, rows of send_verdict on the choices of Go and C++ producers out.

Each of their attempts has a row. A process's attempts of a date are looked at together: whether one was out of its
turn, or others are not recorded, shows by those behind it. Nothing is handed on to the next date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.clients.client_kinds import names_each_attempt
from hindsight.udfs.producer.attempt_columns import ASYNC, ATTEMPTS, NEVER, Attempts, attempts_of
from hindsight.udfs.producer.family_choices import Attempt, Ended, Verdict, producer_families, verdicts_of
from hindsight.udfs.producer.family_choices import Producer as Sender
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.producer.producer_rows import VERDICT, told_rows
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.turns.turn_rules import Sent
from hindsight.udfs.values.row_hashes import BoolArray, IntArray

_TEXTS = ("topic", "thread", "msg_id", "mode", "broker_name", "last_broker_name", "outcome", "error")
_OK = "SEND_OK"


class Counted(NamedTuple):
    """Attempts of a date that are judged by turns: the rows, and the process of each."""

    attempts: Attempts
    process: IntArray


class Series(NamedTuple):
    """A process's attempts to a topic, in order of their begin, and the rows of ``Counted`` that they are."""

    process: int
    topic: str
    rows: list[int]
    attempts: list[Attempt]


def counted_of(tables: Iterable[pa.Table], day: Day) -> Counted:
    """The attempts begun on the date whose client chose their queue in its turn; all others are left out."""
    own = [ATTEMPTS.empty_table()]
    for table in tables:
        a = attempts_of(table, day.midnight_ms)
        own.append(table.filter(pa.array(_is_counted(a, day.process_of(a), day))).cast(ATTEMPTS))
    a = attempts_of(pa.concat_tables(own), day.midnight_ms)
    return Counted(a, day.process_of(a))


def _is_counted(a: Attempts, process: IntArray, day: Day) -> BoolArray:
    counts = a.on_date & (process >= 0) & ~a.pinned & a.flags("exceptions_observable")
    counts &= a.texts("broker_name").codes >= 0
    counts[counts] = day.by_turns[process[counts]]
    return counts


def series_of(counted: Counted, day: Day) -> Iterator[Series]:
    """The attempts by process and topic."""
    facts = _facts(counted, day.midnight_ms)
    by_series: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row, fact in enumerate(facts):
        by_series[int(counted.process[row]), fact["topic"]].append(row)
    for (process, topic), rows in sorted(by_series.items()):
        rows.sort(key=lambda row: [facts[row][name] for name in ("begin", "end", "msg_id", "at")])
        own_ids = names_each_attempt(day.processes[process].rules.settings.client_version)
        yield Series(process, topic, rows, _linked([facts[row] for row in rows], own_ids=own_ids))


def _facts(counted: Counted, midnight_ms: int) -> list[dict[str, Any]]:
    a = counted.attempts
    columns: dict[str, list[Any]] = {name: a.table[name].cast(pa.string()).to_pylist() for name in _TEXTS}
    columns |= {"queue_id": a.table["queue_id"].to_pylist(), "number": a.table["attempt"].to_pylist()}
    columns["at"] = a.attempt.tolist()
    # An ASYNC send chooses before it is handed over; a callback may come much later.
    submitted = np.where(a.submit_end == NEVER, a.begin, a.submit_end)
    chosen = np.where(a.texts("mode").are(ASYNC), submitted, a.end)
    for name, ms in (("begin", a.begin), ("chosen", np.maximum(chosen, a.begin)), ("end", a.end)):
        columns[name] = (ms + midnight_ms).tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _linked(facts: list[dict[str, Any]], *, own_ids: bool) -> list[Attempt]:
    """Each attempt with the one before it in its send: of the same message id.

    ``own_ids``: its client makes an id for each attempt: then it is the one before it on its thread, if that failed.
    """
    by_id: dict[str, dict[str, Any]] = {}
    by_thread: dict[str, dict[str, Any]] = {}
    found = []
    for fact in facts:
        before = by_id.get(fact["msg_id"])
        if before is None and own_ids:
            before = by_thread.get(fact["thread"])
            before = None if before is None or before["outcome"] == _OK else before
        is_before = before is not None and (before["at"] < fact["at"])
        found.append(_attempt(fact, before if is_before else None))
        by_id[fact["msg_id"]] = fact
        if fact["thread"] is not None:
            by_thread[fact["thread"]] = fact
    return found


def _attempt(fact: dict[str, Any], before: dict[str, Any] | None) -> Attempt:
    number = fact["number"]
    last_broker = fact["last_broker_name"] or (before["broker_name"] if before else None)
    follows = before is not None and before["number"] == number - 1
    sent = Sent(
        (fact["broker_name"], fact["queue_id"]),
        fact["begin"],
        fact["chosen"],
        fact["end"],
        fact["thread"],
        fact["mode"],
        fact["msg_id"],
        bool(number),
        last_broker,
        (before["broker_name"], before["queue_id"]) if before is not None else None,
        before is not None and not follows,
        fact["outcome"] not in (_OK, "SUBMITTED"),
    )
    return Attempt(sent, number, Ended(before["outcome"], before["error"]) if before is not None and follows else None)


# By producer and start, epoch ms: retryTimesWhenSendFailed.
Retries = Mapping[tuple[Producer, int], int | None]


def family_verdict_rows(
    day: Day,
    tables: Callable[[], Iterable[pa.Table]],
    routes: RecordedRoutes,
    retries: Retries,
    *,
    tolerance_ms: int,
) -> pa.Table:
    """The rows; ``tables`` gives the attempts with an instant on the date, and is asked where there is such a producer.

    Memory: the attempts of such producers.
    """
    if not day.by_turns.any():
        return VERDICT.empty_table()
    counted = counted_of(tables(), day)
    rows: list[int] = []
    told: list[Verdict] = []
    for series in series_of(counted, day):
        rows += series.rows
        sender = _sender(day, series.process, retries)
        told += verdicts_of(series.attempts, series.topic, sender, routes, tolerance_ms=tolerance_ms)
    columns = {name: [getattr(verdict, name) for verdict in told] for name in Verdict._fields}
    place = np.array(rows, np.int64)
    return told_rows(day, counted.process[place], counted.attempts.table.take(pa.array(place)), columns)


def _sender(day: Day, process: int, retries: Retries) -> Sender:
    known = day.processes[process]
    started = known.life.started_ms
    return Sender(
        producer_families(known.rules.settings.client_version),
        None if started is None else retries.get((known.producer, started)),
        started is not None and started >= day.midnight_ms,
    )

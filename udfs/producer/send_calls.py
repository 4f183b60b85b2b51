"""Attempts of a date and the producers' rules in, a row of each send whose story is more than one good answer out.

A send of one attempt that was answered SEND_OK, or handed over without a result to be seen, has no row: its attempt
tells it all. A send is of the date on which its first recorded attempt began, and has its later ones wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import ASYNC, ATTEMPTS, NEVER, ONEWAY, SYNC, Attempts, attempts_of
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.producer_rows import SEND_CALL
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.retry_rules import (
    PRODUCER_ENDS,
    RECORD_ENDS,
    Attempt,
    Judgement,
    Result,
    SendSettings,
    after,
    ends_async_send,
    judge,
    once_result,
    sync_result,
    twice_because,
    used_up_by,
)
from hindsight.udfs.producer.unseen_life import LOST_LINES
from hindsight.udfs.release_profiles import FaultProfile
from hindsight.udfs.values.columns import DAY_MS, BoolArray

# How far beyond a midnight attempts of one send are looked for; no time-out of a send is that long.
REACH_MS = 600_000
NO_LOSSES = pa.schema(
    {"producer_group": pa.string(), "client_id": pa.string(), "told_at": pa.timestamp("us", "UTC")}
).empty_table()
_PLAIN = ("SEND_OK", "SUBMITTED", "UNKNOWN")
_UNSEEN = "attempts_not_recorded"
_SEND = ("producer_group", "client_id", "topic", "msg_id", "mode")  # what attempts of one send share
_ENDED = ("broker_name", "queue_id", "outcome", "exception", "error", "response_code")


class Sent(NamedTuple):
    """An attempt with what its row tells beside it; instants in ms of the date.

    Attributes:
        send: the columns ``_SEND``.
        process: place of its producer's process; -1: none that is alive on the date.
        handed_over: a hook saw an ASYNC request leave.
        observable: its source tells of attempts that threw something.
        after: the broker of the attempt before it, as far as is recorded.
    """

    send: tuple[str | None, ...]
    attempt: Attempt
    process: int
    pinned: bool
    handed_over: bool
    observable: bool
    after: str | None = None


def striking(table: pa.Table) -> BoolArray:
    """Which attempts are of a send that has a row by themselves: failed ones, retries, answers other than SEND_OK."""
    plain = pc.is_in(table["outcome"].cast(pa.string()), pa.array(_PLAIN))
    is_retry = pc.fill_null(pc.greater(table["attempt"], 0), False)
    found: BoolArray = np.asarray(pc.or_(pc.invert(plain), is_retry))
    return found


def _unnumbered(table: pa.Table) -> BoolArray:
    """Which attempts say nothing of their place in a send that may have several."""
    of_one = pc.is_in(table["mode"].cast(pa.string()), pa.array([ASYNC, ONEWAY]))
    found: BoolArray = np.asarray(pc.and_(pc.is_null(table["attempt"]), pc.invert(of_one)))
    return found


def beside(a: Attempts) -> BoolArray:
    """Which attempts within ``REACH_MS`` before or after the date may belong to a send that has a row."""
    near = ((a.begin >= -REACH_MS) & (a.begin < 0)) | ((a.begin >= DAY_MS) & (a.begin < DAY_MS + REACH_MS))
    if near.any():
        near &= striking(a.table) | _unnumbered(a.table)
    return near


def told_of(own: pa.Table, after: pa.Table, midnight_ms: int) -> pa.Table:
    """Of the rows of lost_lines of a date and of the next one, those whose lines may be the date's own."""
    soon = pa.scalar((midnight_ms + DAY_MS + REACH_MS) * 1000).cast(pa.timestamp("us", "UTC"))
    told = [part.select(NO_LOSSES.column_names).cast(NO_LOSSES.schema) for part in (own, after)]
    return pa.concat_tables([told[0], told[1].filter(pc.less(told[1]["told_at"], soon))])


class SendParts:
    """The attempts of sends with a row, as they come part by part."""

    def __init__(self) -> None:
        self._kept = [ATTEMPTS.empty_table()]

    def add(self, table: pa.Table) -> None:
        """Take what matters of a part."""
        self._take(table, striking(table))

    def with_all(self, parts: Iterable[pa.Table]) -> pa.Table:
        """What was taken, with the plain attempts of the same sends among ``parts``, all that there are.

        They are told by their message id, where attempts have no number; elsewhere an attempt that is no retry begins
        a send, and is a striking one if another follows. ``parts`` is read only where there are such.
        """
        sends = pc.unique(self.unnumbered()["msg_id"])
        for table in parts if len(sends) else ():
            of_sends = np.asarray(pc.is_in(table["msg_id"].cast(pa.string()), sends))
            self._take(table, of_sends & _unnumbered(table) & ~striking(table))
        return pa.concat_tables(self._kept)

    def taken(self) -> pa.Table:
        """What was taken so far."""
        return pa.concat_tables(self._kept)

    def unnumbered(self) -> pa.Table:
        """Of these, those whose sends are told by others too."""
        kept = self.taken()
        return kept.filter(pa.array(_unnumbered(kept)))

    def _take(self, table: pa.Table, which: BoolArray) -> None:
        if which.any():
            self._kept.append(table.filter(pa.array(which)).select(ATTEMPTS.names).cast(ATTEMPTS))


def send_call_rows(day: Day, table: pa.Table, *, tolerance_ms: int, is_last: bool) -> pa.Table:
    """Rows of send_call.

    Args:
        table: attempts of the date and of ``REACH_MS`` around it: of each send that has a row all of them, in any
            order; one may come twice.
        is_last: no later date has records, so what a send lacks near the end may still come.
    """
    a = attempts_of(table, day.midnight_ms)
    sends = _sends(_sent(a, day.process_of(a)))
    begun = (send for send in sends if 0 <= send[0].attempt.begin_ms < DAY_MS and send[0].process >= 0)
    rows = [_row(day, send, tolerance_ms, is_last) for send in begun]
    return pa.Table.from_pylist(rows, schema=SEND_CALL)


def _sent(a: Attempts, process: Any) -> Iterator[Sent]:
    more = ("attempt", "exceptions_observable", "last_broker_name")
    instants = zip(a.begin.tolist(), a.end.tolist(), strict=True)
    flags = zip(process.tolist(), a.pinned.tolist(), (a.submit_end != NEVER).tolist(), strict=True)
    rows = a.table.select([*_SEND, *_ENDED, *more]).to_pylist()
    for row, (begin, end), (own, pinned, handed_over) in zip(rows, instants, flags, strict=True):
        send, ended = (tuple(row[name] for name in names) for names in (_SEND, _ENDED))
        attempt = Attempt(row["attempt"], begin, end, *ended)
        yield Sent(send, attempt, own, pinned, handed_over, row["exceptions_observable"], row["last_broker_name"])


def _sends(attempts: Iterable[Sent]) -> Iterator[list[Sent]]:
    """The attempts send by send: an application may send one message several times."""
    in_order = sorted({*attempts}, key=_order)
    for _, group in groupby(in_order, key=lambda sent: sent.send):
        send: list[Sent] = []
        for sent in group:
            if send and _begins_anew(send[-1], sent):
                yield send
                send = []
            send.append(sent)
        yield send


def _order(sent: Sent) -> tuple[Any, ...]:
    a = sent.attempt
    number = -1 if a.number is None else a.number
    return *(str(name) for name in sent.send), a.begin_ms, number, a.end_ms, str(a.broker_name), str(sent)


def _begins_anew(before: Sent, sent: Sent) -> bool:
    if sent.send[4] in (ASYNC, ONEWAY):
        return True  # a hook sees no retry of these
    number, earlier = sent.attempt.number, before.attempt.number
    return (number is None) != (earlier is None) or (number is not None and number <= (earlier or 0))


def _row(day: Day, send: Sequence[Sent], tolerance_ms: int, is_last: bool) -> dict[str, Any]:
    process = day.processes[send[0].process]
    attempts = [sent.attempt for sent in send]
    profile, known = process.rules.profile, process.rules.settings
    settings = SendSettings(*(getattr(known, name) for name in SendSettings._fields))
    mode = send[0].send[4]
    ends = _hidden(day, process, attempts) or _ends(day, process, attempts[-1], is_last)
    result, verdict, ends_once = _told(send, profile, settings, tolerance_ms, ends)
    is_followed = ends == LOST_LINES and result.kind == "unknown" and _goes_on(send, profile, settings)
    every = _with_lost(send, day.midnight_ms, is_followed=is_followed)
    twice = twice_because(attempts)
    hides_retries = verdict.reason == _UNSEEN
    midnight_ms = day.midnight_ms
    of_loop = profile is not None and not ends_once
    return {
        **day.key_of(send[0].process),
        **dict(zip(_SEND, send[0].send, strict=True)),
        "begin_at": _us(attempts[0].begin_ms, midnight_ms),
        "end_at": _us(max(a.end_ms for a in attempts), midnight_ms),
        "attempts": every,
        "brokers_sent": [a["broker_name"] for a in every if a["broker_name"] is not None],
        "timeout_ms": settings.timeout_ms,
        "cost_ms": attempts[-1].end_ms - attempts[0].begin_ms,
        "used_up_by": None if profile is None else used_up_by(attempts, profile, settings),
        "result": result.kind,
        "result_text": result.text,
        "retry_verdict": verdict.verdict,
        "retry_reason": verdict.reason,
        "stored_twice": "possible" if twice else "unknown" if hides_retries else "no",
        "stored_twice_reasons": list(twice),
        "assumed": list(settings.assumed(profile)) if of_loop and profile and mode not in (ASYNC, ONEWAY) else [],
        "profile": process.rules.family,
    }


def _hidden(day: Day, process: Process, attempts: Sequence[Attempt]) -> str | None:
    """Why an attempt of the send may be in no line though the process went on; None: each has one."""
    since, until = (ms + day.midnight_ms for ms in (attempts[0].begin_ms, attempts[-1].end_ms))
    lost = (gap for gap in process.gaps if gap.reason == LOST_LINES and gap.bears_on(since, until, 0))
    return LOST_LINES if any(lost) else None


def _goes_on(send: Sequence[Sent], profile: FaultProfile | None, settings: SendSettings) -> bool:
    """Whether the rules ask for another attempt after the last recorded one of a SYNC send."""
    plain = profile is not None and send[0].send[4] == SYNC and not send[0].pinned
    return plain and profile is not None and bool(after(send[-1].attempt, profile, settings).goes_on)


def _with_lost(send: Sequence[Sent], midnight_ms: int, *, is_followed: bool) -> list[dict[str, Any]]:
    """The recorded attempts, and in their places those that must have been made: by the numbers, or by the rules.

    Of an attempt that no line tells of its broker is known, as far as the attempt after it says.
    """
    every: list[dict[str, Any]] = []
    for sent in send:
        number = sent.attempt.number
        missing = 0 if number is None else number - len(every)
        every += [{"broker_name": sent.after if place == missing - 1 else None} for place in range(missing)]
        every.append(_as_struct(sent.attempt, midnight_ms))
    return [*every, {"broker_name": None}] if is_followed else every


def _us(ms: int, midnight_ms: int) -> int:
    return (ms + midnight_ms) * 1000


def _as_struct(a: Attempt, midnight_ms: int) -> dict[str, Any]:
    return {
        "begin_at": _us(a.begin_ms, midnight_ms),
        "end_at": _us(a.end_ms, midnight_ms),
        "broker_name": a.broker_name,
        "queue_id": a.queue_id,
        "outcome": a.outcome,
        "exception": a.exception,
        "response_code": a.code,
        "latency_ms": a.end_ms - a.begin_ms,
    }


def _ends(day: Day, process: Process, last: Attempt, is_last: bool) -> str | None:
    """Why another attempt may have followed the last one unseen."""
    if is_last and last.end_ms >= DAY_MS - REACH_MS:
        return RECORD_ENDS
    if last.end_ms >= process.last_attempt_ms - day.midnight_ms:
        return RECORD_ENDS if is_last else PRODUCER_ENDS
    return None


def _told(
    send: Sequence[Sent], profile: FaultProfile | None, settings: SendSettings, tolerance_ms: int, ends: str | None
) -> tuple[Result, Judgement, bool]:
    """What the caller got, what is said of the retries, and whether the send tries once whatever the settings say."""
    attempts, mode, topic = [sent.attempt for sent in send], send[0].send[4], str(send[0].send[2])
    if profile is None:
        return _as_recorded(attempts[-1]), Judgement("unknown", "release_not_known"), False
    if mode in (ASYNC, ONEWAY) or send[0].pinned:
        return _told_once(send, profile, settings, topic)
    if mode is None or not all(sent.observable for sent in send):
        return _as_recorded(attempts[-1]), Judgement("unknown", _UNSEEN), False
    result = sync_result(attempts, profile, settings, topic, tolerance_ms=tolerance_ms)
    return result, judge(attempts, profile, settings, tolerance_ms=tolerance_ms, ends=ends), False


def _told_once(
    send: Sequence[Sent], profile: FaultProfile, settings: SendSettings, topic: str
) -> tuple[Result, Judgement, bool]:
    last, mode = send[-1], send[0].send[4]
    if mode != ASYNC:
        result = once_result(last.attempt, topic, in_loop=not last.pinned)
        extra = Judgement("not_allowed", "attempt 1: the application chose the queue")
        return result, Judgement("right") if len(send) == 1 else extra, True
    in_loop = ends_async_send(last.attempt, profile, handed_over=last.handed_over)
    result = once_result(last.attempt, topic, in_loop=in_loop and not last.pinned)
    is_once = in_loop or settings.retry_times_async == 0
    return result, Judgement("right") if is_once else Judgement("unknown", _UNSEEN), is_once


def _as_recorded(last: Attempt) -> Result:
    """The result of a send of which nothing but its last recorded answer is known."""
    if last.exception is None and last.outcome not in ("SUBMITTED", "UNKNOWN"):
        return Result("ok" if last.outcome == "SEND_OK" else "not_ok", last.outcome)
    return Result("unknown", None)

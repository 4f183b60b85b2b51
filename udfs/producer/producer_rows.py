"""What the fold of a date gives in, rows of the derived tables out; and rows of closing items back in.

The tables that the producer fold gives, as Arrow schemas: the contracts' columns but for those of the run.

Windows carry two more, which the findings need: ``opened_at``, when the whole stretch opened, and ``last_attempt_at``
of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.schemas import TABLES
from hindsight.schemas.arrow_types import kernel_schema
from hindsight.udfs.producer.attempt_columns import NEVER, instants, timestamps
from hindsight.udfs.producer.choice_surroundings import NO_LAST
from hindsight.udfs.producer.fault_fold import (
    END_REASONS,
    EXPIRED,
    FAR,
    OPEN,
    Items,
    Stretches,
    joined,
    new_items,
    no_stretches,
    taken,
)
from hindsight.udfs.producer.producer_fold import Part, State
from hindsight.udfs.producer.producer_lives import Life, Process
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import Gap
from hindsight.udfs.producer.window_doubts import Doubts, base_reasons, weakened
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

INSTANT = pa.timestamp("us", "UTC")
REPLAY = kernel_schema(TABLES["producer_replay"])
WINDOW = kernel_schema(TABLES["broker_availability_window"], opened_at=INSTANT, last_attempt_at=INSTANT)
ITEM_STATE = kernel_schema(TABLES["fault_item_state"])
VERDICT = kernel_schema(TABLES["send_verdict"])
SEND_CALL = kernel_schema(TABLES["send_call"])
RELEASE = kernel_schema(TABLES["producer_release"])
FINDING = kernel_schema(TABLES["producer_finding"])
FLEET_MINUTE = kernel_schema(TABLES["fleet_minute"])
OF_ATTEMPT = ("topic", "thread", "msg_id", "mode", "attempt", "broker_name", "queue_id", "begin_at", "last_broker_name")


class Ends(NamedTuple):
    """How windows of a date end that outlast what is recorded.

    Attributes:
        is_last: no later date has records: a window that outlasts its producer's record is open.
        endless_too: stretches without end are told of, as they are not on dates after the last one with records.
    """

    is_last: bool
    endless_too: bool = True


def replay_rows(day: Day) -> pa.Table:
    """Rows of producer_replay."""
    rows = [day.key_of(place) | _replay_row(process) for place, process in enumerate(day.processes)]
    return pa.Table.from_pylist(rows, schema=REPLAY)


def _replay_row(process: Process) -> dict[str, Any]:
    known = process.rules.settings
    return {
        **known._asdict(),
        "detector_enabled": bool(known.detector_enabled),
        "profile": process.rules.family,
        "recorded": process.recorded._asdict(),
        "verdict": process.rules.verdict,
        "reasons": process.rules.reasons,
        "reason": " + ".join(process.doubts) or None,
        "unseen": [_unseen(gap) for gap in process.gaps],
        "certainty": process.certainty,
        "attempts": process.attempts,
        "sources": process.sources,
        "last_attempt_at": process.last_attempt_ms * 1000,
    }


def _unseen(gap: Gap) -> dict[str, Any]:
    since = None if gap.since_ms is None else gap.since_ms * 1000
    return {"since": since, "until": gap.until_ms * 1000, "reason": gap.reason}


def window_rows(day: Day, held: Stretches, down: Stretches, doubts: Doubts, ends: Ends) -> pa.Table:
    """Rows of broker_availability_window, cut at the date's end.

    ``doubts``: of ``held`` and then ``down``, by their places.
    """
    made = joined(held, down)
    reasons = np.zeros(len(made.item), np.int64)
    words: list[tuple[str, ...]] = [()]
    for place, own in doubts.reasons.items():
        words.append(own)
        reasons[place] = len(words) - 1
    is_held = np.arange(len(made.item)) < len(held.item)
    told = (made.until > made.since) & (ends.endless_too | (made.reason != OPEN))
    made, is_held, reasons = taken(made, told), is_held[told], reasons[told]
    process = made.item // max(len(day.brokers), 1)
    last_attempt = np.array([p.last_attempt_ms - day.midnight_ms for p in day.processes], np.int64)[process]
    reason = _end_reasons(made, last_attempt, ends)
    endless = (reason == OPEN) & (made.until == FAR)
    pairs, place_of = np.unique(np.stack([process, reasons]), axis=1, return_inverse=True)
    said = [_said(day.processes[place], words[own]) for place, own in pairs.T.tolist()]
    certainty, because = (pa.array([each[n] for each in said], pa.string()) for n in (0, 1))
    own_words = pa.array(place_of.ravel())
    columns = {
        **_who(day, process),
        "broker_name": _names(day, made.item),
        "state": _words(("unreachable", "unavailable"), is_held),
        "window_start": timestamps(made.since, day.midnight_ms),
        "window_end": timestamps(np.where(endless, NEVER, np.minimum(made.until, DAY_MS)), day.midnight_ms),
        "end_reason": _words(_SAID, reason),
        "continues_previous": made.opened < 0,
        "trigger_kind": _words(_KINDS, made.isolated),
        "trigger_latency_ms": made.latency,
        "not_available_ms": made.duration,
        "attempts": made.updates,
        "profile": _of_processes([p.rules.family for p in day.processes], process),
        "certainty": certainty.take(own_words),
        "reason": because.take(own_words),
        "opened_at": timestamps(made.opened, day.midnight_ms),
        "last_attempt_at": timestamps(last_attempt, day.midnight_ms),
    }
    return _table(columns, WINDOW)


def _said(process: Process, reasons: tuple[str, ...]) -> tuple[str, str | None]:
    """How certain a window of a process is, and why it is not more so."""
    every = dict.fromkeys((*base_reasons(process), *reasons))
    return weakened(process.certainty, reasons), " + ".join(every) or None


_KINDS = ("latency", "isolation")
_CUT = len(END_REASONS)
_SAID = (*END_REASONS, "cut_at_midnight")


def _end_reasons(made: Stretches, last_attempt: IntArray, ends: Ends) -> IntArray:
    """Places in ``_SAID``; what the next date's first instant does is that date's to tell."""
    lasts = (made.until > DAY_MS) | ((made.until == DAY_MS) & (made.reason != EXPIRED))
    reason = np.where(lasts & (made.reason != OPEN), _CUT, made.reason)
    if not ends.is_last:
        return np.where(reason == OPEN, _CUT, reason)
    return np.where((reason == EXPIRED) & (made.until > last_attempt), OPEN, reason)


def item_rows(day: Day, state: State, *, tolerance_ms: int) -> pa.Table:
    """Rows of fault_item_state: the items as the date closed, of processes that live on."""
    size = max(len(day.brokers), 1)
    lives_on = np.array([_lives_on(day, process) for process in day.processes], dtype=np.bool_)
    is_told = ~state.shown.absent & lives_on[state.shown.item // size]
    items, at_most = taken(state.shown, is_told), taken(state.longest, is_told).start
    doubted = items.doubted.copy()
    for place in np.flatnonzero((doubted == NEVER) & np.isin(items.item, list(state.doubted))).tolist():
        since = int(items.updated[place]) - tolerance_ms
        marks = [at for at in sorted(state.doubted[int(items.item[place])]) if at >= since]
        doubted[place] = marks[0] if marks else NEVER
    lasts, away = items.start > DAY_MS, ~items.reachable
    held, down, process = items.held, items.down, items.item // size
    columns = {
        **_who(day, process),
        "broker_name": _names(day, items.item),
        "current_latency_ms": items.latency,
        "start_at": timestamps(items.start, day.midnight_ms),
        "start_at_most": timestamps(np.where(at_most > items.start, at_most, NEVER), day.midnight_ms),
        "reachable": items.reachable,
        "last_update_at": timestamps(items.updated, day.midnight_ms),
        "opened_at": timestamps(np.where(lasts, held.opened, NEVER), day.midnight_ms),
        "trigger_kind": _where(lasts, _words(_KINDS, held.isolated)),
        "trigger_latency_ms": _where(lasts, pa.array(held.latency)),
        "not_available_ms": _where(lasts, pa.array(held.duration)),
        "unreachable_since": timestamps(np.where(away, down.opened, NEVER), day.midnight_ms),
        "unreachable_latency_ms": _where(away, pa.array(down.latency)),
        "forgotten_at": timestamps(doubted, day.midnight_ms),
        "profile": _of_processes([p.rules.family for p in day.processes], process),
    }
    return _table(columns, ITEM_STATE)


def _lives_on(day: Day, process: Process) -> bool:
    replayed = process.rules.verdict == "replayed"
    return replayed and (process.ends_ms is None or process.ends_ms >= day.midnight_ms + DAY_MS)


def items_of(rows: pa.Table, day: Day) -> tuple[Items, Items]:
    """The items of ``item_rows`` of an earlier date, as this date begins with them, and as they are at most.

    Dead processes have none left.
    """
    places = {(p.producer, p.life): n for n, p in enumerate(day.processes)}
    whose = zip(
        rows["producer_group"].to_pylist(), rows["client_id"].to_pylist(), _epoch_ms(rows["started_at"]), strict=True
    )
    process = np.array([places.get(((g, c), Life(at, at)), -1) for g, c, at in whose], dtype=np.int64)
    there = np.flatnonzero(process >= 0)
    there = there[day.replayed[process[there]]]
    rows = rows.take(pa.array(there))
    place = {name: n for n, name in enumerate(day.brokers)}
    broker = np.array([place[name] for name in rows["broker_name"].to_pylist()], dtype=np.int64)
    number = day.item_of(process[there], broker)
    at = {name: instants(rows[name], day.midnight_ms) for name in _ITEM_INSTANTS}
    reachable = _flags(rows["reachable"])
    start = at["start_at"]
    held, down = start > 0, ~reachable
    items = new_items(number)._replace(
        latency=_longs(rows["current_latency_ms"]),
        start=start,
        reachable=reachable,
        updated=at["last_update_at"],
        absent=np.zeros(len(number), np.bool_),
        doubted=at["forgotten_at"],
        held=no_stretches(number)._replace(
            since=np.where(held, 0, NEVER),
            until=np.where(held, start, NEVER),
            opened=at["opened_at"],
            isolated=np.array([kind == "isolation" for kind in rows["trigger_kind"].to_pylist()], dtype=np.bool_),
            latency=_longs(rows["trigger_latency_ms"]),
            duration=_longs(rows["not_available_ms"]),
        ),
        down=no_stretches(number)._replace(
            since=np.where(down, 0, NEVER),
            until=np.where(down, FAR, NEVER),
            reason=np.where(down, OPEN, EXPIRED),
            opened=at["unreachable_since"],
            isolated=down,
            latency=_longs(rows["unreachable_latency_ms"]),
        ),
    )
    order = np.argsort(number)
    items, most = taken(items, order), at["start_at_most"][order]
    return items, _at_most(items, most) if (most > 0).any() else items


def _at_most(items: Items, start: IntArray) -> Items:
    """The items, avoided until ``start`` where that is later."""
    longer = start > np.maximum(items.start, 0)
    held, new = items.held, longer & (items.held.since == NEVER)
    return items._replace(
        start=np.where(longer, start, items.start),
        held=held._replace(
            since=np.where(new, 0, held.since),
            until=np.where(longer, start, held.until),
            opened=np.where(new, items.updated, held.opened),
            latency=np.where(new, items.latency, held.latency),
        ),
    )


_ITEM_INSTANTS = ("start_at", "start_at_most", "last_update_at", "opened_at", "unreachable_since", "forgotten_at")


_OF_CHOICE = [*OF_ATTEMPT, "queue_selected_by"]


def verdict_rows(day: Day, part: Part) -> pa.Table:
    """Rows of send_verdict."""
    unknown, lacking = part.choices.unknown, part.choices.lacking
    rows = np.concatenate([[v.row for v in part.verdicts], unknown, lacking]).astype(np.int64)
    process = part.process[rows]
    of_rules = _of_processes(["; ".join(p.rules.reasons) for p in day.processes], part.process[unknown])
    reasons = [[v.reason for v in part.verdicts], of_rules, pa.repeat(pa.scalar(NO_LAST), len(lacking))]
    nothing = [None] * (len(unknown) + len(lacking))
    told = {
        "admissible": [*(v.admissible for v in part.verdicts), *nothing],
        "rule": [*(v.rule for v in part.verdicts), *nothing],
        "verdict": [*(v.verdict for v in part.verdicts), *("unknown" for _ in nothing)],
        "reason": pa.chunked_array([_array(each, pa.string()) for each in reasons]),
        "profile": _of_processes([p.rules.family for p in day.processes], process),
    }
    return told_rows(day, process, part.attempts.table.select(_OF_CHOICE).take(pa.array(rows)), told)


def told_rows(day: Day, process: IntArray, attempts: pa.Table, told: Mapping[str, Any]) -> pa.Table:
    """Rows of send_verdict on these attempts; ``told``: the columns from ``admissible`` on."""
    own = {name: attempts[name] for name in OF_ATTEMPT}
    assumed = {"choice_assumed": attempts["queue_selected_by"].is_null()}
    return _table({**_who(day, process), **own, **assumed, **told}, VERDICT)


def _who(day: Day, process: IntArray) -> dict[str, Any]:
    starts = [None if p.life.started_ms is None else p.life.started_ms * 1000 for p in day.processes]
    return {
        "cluster": pa.repeat(pa.scalar(day.cluster), len(process)),
        "event_date": pa.repeat(pa.scalar(day.midnight_ms // DAY_MS, pa.int32()), len(process)),
        "producer_group": _of_processes([p.producer[0] for p in day.processes], process),
        "client_id": _of_processes([p.producer[1] for p in day.processes], process),
        "started_at": pa.array(starts, pa.int64()).take(pa.array(process)),
    }


def _of_processes(texts: Sequence[str | None], process: IntArray) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(process))


def _names(day: Day, item: IntArray) -> pa.Array:
    return pa.array(day.brokers, pa.string()).take(pa.array(item % max(len(day.brokers), 1)))


def _words(words: Sequence[str], places: Any) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(places.astype(np.int64)))


def _where(there: BoolArray, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def _table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    return pa.table([_array(columns[field.name], field.type) for field in schema], schema=schema)


def _array(values: Any, kind: pa.DataType) -> Any:
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)


def _epoch_ms(column: Any) -> list[int | None]:
    return [None if us is None else us // 1000 for us in column.cast(INSTANT).cast(pa.int64()).to_pylist()]


def _longs(column: Any) -> IntArray:
    return np.asarray(column.fill_null(0)).astype(np.int64)


def _flags(column: Any) -> BoolArray:
    return np.asarray(column.fill_null(True)).astype(np.bool_)

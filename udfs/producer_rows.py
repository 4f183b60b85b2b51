"""What the fold of a date gives in, rows of the derived tables out; and rows of closing items back in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from udfs.attempt_columns import DAY_MS, NEVER, instants
from udfs.doubtful_choices import NO_LAST
from udfs.fault_fold import (
    END_REASONS,
    EXPIRED,
    FAR,
    OPEN,
    Items,
    Stretches,
    new_items,
    no_stretches,
    taken,
)
from udfs.not_available_duration import BoolArray, IntArray
from udfs.producer_fold import Part, State
from udfs.producer_lives import Life, Process
from udfs.producer_tables import INSTANT, ITEM_STATE, OF_ATTEMPT, REPLAY, VERDICT, WHO, WINDOW
from udfs.replayed_day import Day


class Ends(NamedTuple):
    """How windows of a date end that outlast what is recorded.

    Attributes:
        is_last: no later date has records: a window that outlasts its producer's record is open.
        endless_too: stretches without end are told of, as they are not on dates after the last one that is computed.
    """

    is_last: bool
    endless_too: bool = True


def replay_rows(day: Day) -> pa.Table:
    """Rows of producer_replay."""
    return _table([_replay_row(day, process) for process in day.processes], REPLAY)


def _replay_row(day: Day, process: Process) -> dict[str, Any]:
    known = process.rules.settings
    return {
        **_who(day, process),
        **known._asdict(),
        "detector_enabled": bool(known.detector_enabled),
        "profile": process.rules.family,
        "recorded": process.recorded._asdict(),
        "verdict": process.rules.verdict,
        "reasons": process.rules.reasons,
        "certainty": process.certainty,
        "attempts": process.attempts,
        "sources": process.sources,
        "last_attempt_at": process.last_attempt_ms * 1000,
    }


def window_rows(
    day: Day, held: Stretches, down: Stretches, doubted: Mapping[int, Sequence[int]], ends: Ends
) -> pa.Table:
    """Rows of broker_availability_window, cut at the date's end.

    ``doubted``: by item, when the fallback may have forgotten it; a window that this lies in is possible.
    """
    every = [_windows(day, made, state, ends) for state, made in (("unavailable", held), ("unreachable", down))]
    rows = [row for made in every for row in made]
    for item, row in rows:
        marks = doubted.get(item, ()) if row["state"] == "unavailable" and row["certainty"] == "certain" else ()
        since, until = row["window_start"], row["window_end"]
        instants_us = ((at + day.midnight_ms) * 1000 for at in marks)
        if any(since <= at and (until is None or at < until) for at in instants_us):
            row["certainty"] = "possible"
    return _table([row for _, row in rows], WINDOW)


def _windows(day: Day, made: Stretches, state: str, ends: Ends) -> Iterable[tuple[int, dict[str, Any]]]:
    made = taken(made, (made.until > made.since) & (ends.endless_too | (made.reason != OPEN)))
    for values in zip(*(column.tolist() for column in made), strict=True):
        stretch = dict(zip(Stretches._fields, values, strict=True))
        process = day.processes[stretch["item"] // len(day.brokers)]
        until = stretch["until"]
        reason = _end_reason(stretch["reason"], until, process.last_attempt_ms - day.midnight_ms, ends)
        row = {
            **_who(day, process),
            "broker_name": day.brokers[stretch["item"] % len(day.brokers)],
            "state": state,
            "window_start": _us(day, stretch["since"]),
            "window_end": None if reason == "open" and until == FAR else _us(day, min(until, DAY_MS)),
            "end_reason": reason,
            "continues_previous": stretch["opened"] < 0,
            "trigger_kind": _kind(stretch["isolated"]),
            "trigger_latency_ms": stretch["latency"],
            "not_available_ms": stretch["duration"],
            "attempts": stretch["updates"],
            "profile": process.rules.family,
            "certainty": process.certainty,
            "opened_at": _us(day, stretch["opened"]),
            "last_attempt_at": process.last_attempt_ms * 1000,
        }
        yield stretch["item"], row


def _end_reason(reason: int, until: int, last_attempt: int, ends: Ends) -> str:
    """What the next date's first instant does is that date's to tell."""
    if reason == OPEN:
        return "open" if ends.is_last else "cut_at_midnight"
    if until > DAY_MS or (until == DAY_MS and reason != EXPIRED):
        return "cut_at_midnight"
    if reason == EXPIRED and ends.is_last and until > last_attempt:
        return "open"
    return END_REASONS[reason]


def item_rows(day: Day, state: State, *, tolerance_ms: int) -> pa.Table:
    """Rows of fault_item_state: the items as the date closed, of processes that live on."""
    lives_on = np.array([_lives_on(day, process) for process in day.processes], dtype=np.bool_)
    items = taken(state.shown, ~state.shown.absent)
    items = taken(items, lives_on[items.item // max(len(day.brokers), 1)])
    rows = []
    for place, number in enumerate(items.item.tolist()):
        process = day.processes[number // len(day.brokers)]
        item, held, down = (_at(columns, place) for columns in (items, items.held, items.down))
        last_update = item["updated"]
        marks = [at for at in sorted(state.doubted.get(number, ())) if at >= last_update - tolerance_ms]
        row = {
            **_who(day, process),
            "broker_name": day.brokers[number % len(day.brokers)],
            "current_latency_ms": item["latency"],
            "start_at": _us(day, item["start"]),
            "reachable": item["reachable"],
            "last_update_at": _us(day, last_update),
            "forgotten_at": _us(day, item["doubted"] if item["doubted"] != NEVER else next(iter(marks), NEVER)),
            "profile": process.rules.family,
        }
        if item["start"] > DAY_MS:
            row |= {
                "opened_at": _us(day, held["opened"]),
                "trigger_kind": _kind(held["isolated"]),
                "trigger_latency_ms": held["latency"],
                "not_available_ms": held["duration"],
            }
        if not item["reachable"]:
            row |= {"unreachable_since": _us(day, down["opened"]), "unreachable_latency_ms": down["latency"]}
        rows.append(row)
    return _table(rows, ITEM_STATE)


def _lives_on(day: Day, process: Process) -> bool:
    replayed = process.rules.verdict == "replayed"
    return replayed and (process.ends_ms is None or process.ends_ms >= day.midnight_ms + DAY_MS)


def items_of(rows: pa.Table, day: Day) -> Items:
    """The items of ``item_rows`` of an earlier date, as this date begins with them; dead processes have none left."""
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
    return taken(items, np.argsort(number))


_ITEM_INSTANTS = ("start_at", "last_update_at", "opened_at", "unreachable_since", "forgotten_at")


def verdict_rows(day: Day, part: Part) -> pa.Table:
    """Rows of send_verdict."""
    unknown, lacking = part.choices.unknown, part.choices.lacking
    rows = np.concatenate([[v.row for v in part.verdicts], unknown, lacking]).astype(np.int64)
    processes = [day.processes[place] for place in part.process[rows].tolist()]
    reasons = [
        *(v.reason for v in part.verdicts),
        *("; ".join(p.rules.reasons) for p in processes[len(part.verdicts) :]),
    ]
    reasons[len(rows) - len(lacking) :] = [NO_LAST] * len(lacking)
    nothing = [None] * (len(unknown) + len(lacking))
    attempts = part.attempts.table.select([*OF_ATTEMPT, "queue_selected_by"]).take(pa.array(rows))
    columns = {
        **{name: [_who(day, p)[name] for p in processes] for name, _ in WHO},
        **{name: attempts[name] for name in OF_ATTEMPT},
        "choice_assumed": attempts["queue_selected_by"].is_null(),
        "admissible": [*(v.admissible for v in part.verdicts), *nothing],
        "rule": [*(v.rule for v in part.verdicts), *nothing],
        "verdict": [*(v.verdict for v in part.verdicts), *("unknown" for _ in nothing)],
        "reason": reasons,
        "profile": [p.rules.family for p in processes],
    }
    arrays = [_cast(columns[field.name], field.type) for field in VERDICT]
    return pa.table(arrays, schema=VERDICT)


def _cast(values: Any, kind: pa.DataType) -> Any:
    return values.cast(kind) if isinstance(values, pa.ChunkedArray) else pa.array(values, kind)


def _who(day: Day, process: Process) -> dict[str, Any]:
    started = process.life.started_ms
    return {
        "cluster": day.cluster,
        "event_date": day.midnight_ms // DAY_MS,
        "producer_group": process.producer[0],
        "client_id": process.producer[1],
        "started_at": None if started is None else started * 1000,
    }


def _at(columns: Any, place: int) -> dict[str, Any]:
    return {n: c[place].item() for n, c in zip(columns._fields, columns, strict=True) if not isinstance(c, tuple)}


def _us(day: Day, ms: int) -> int | None:
    return None if ms == NEVER else (ms + day.midnight_ms) * 1000


def _kind(isolated: bool) -> str:
    return "isolation" if isolated else "latency"


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def _epoch_ms(column: Any) -> list[int | None]:
    return [None if us is None else us // 1000 for us in column.cast(INSTANT).cast(pa.int64()).to_pylist()]


def _longs(column: Any) -> IntArray:
    return np.asarray(column.fill_null(0)).astype(np.int64)


def _flags(column: Any) -> BoolArray:
    return np.asarray(column.fill_null(True)).astype(np.bool_)

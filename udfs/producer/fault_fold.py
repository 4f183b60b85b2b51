"""Fault items and the updates that follow in; the stretches that they make out, and the items as they are then.

What an update does depends only on the item's updates before it, so all items are walked at once, as arrays:

- through 5.1.3 an update replaces the item: a stretch lasts until it expires or the next update ends it;
- from 5.1.4 on an update can only move the item's start forward: a stretch lasts to the farthest start so far;
- from 5.1.4 on the reachable flag is what the last update set.

An example. A send to a broker ends after 2.5 s, so the client avoids the broker for 120 s. A minute later a send to it
ends after 3 ms. Under 4.9.8 this update replaces the item, and the stretch ends there. Under 5.1.4 (``extend_only``) it
changes nothing, and the stretch lasts the whole 120 s:

>>> second = Updates(item=np.array([0, 0]), at=np.array([0, 60_000]), latency=np.array([2_500, 3]),
...                  isolation=np.array([False, False]), reachable=np.array([True, True]),
...                  duration=np.array([120_000, 0]), removed=np.array([False, False]))
>>> no_items = new_items(np.array([], np.int64))
>>> for extend_only in (False, True):
...     last = walk(no_items, second, np.array([extend_only] * 2)).items.held
...     print(last.since[0], last.until[0], END_REASONS[last.reason[0]])
0 60000 overwritten
0 120000 expired

No update is looked at twice, and one row per item goes to the next walk. So cutting the updates anywhere into two walks
gives the stretches and items of one: the last stretch of an item may go on, so it stays with the item (``items.held``)
until it is over. Source: LatencyFaultToleranceImpl, 4.2.0 to 5.5.0.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from hindsight.udfs.producer.attempt_columns import NEVER
from hindsight.udfs.values.columns import BoolArray, IntArray

FAR = 1 << 50  # no end is known
_LIFT_BITS = 36  # an instant of a date, and 366 days more, in ms, is less
EXPIRED, OVERWRITTEN, REMOVED, REACHABLE_AGAIN, OPEN, RESTARTED = range(6)
END_REASONS = ("expired", "overwritten", "removed", "reachable_again", "open", "restarted")

_Columns = TypeVar("_Columns", bound=tuple[Any, ...])


class Updates(NamedTuple):
    """m updates by item, and of each item in their total order; ``removed``: the fallback forgot the broker instead."""

    item: IntArray
    at: IntArray
    latency: IntArray
    isolation: BoolArray
    reachable: BoolArray
    duration: IntArray
    removed: BoolArray


class Stretches(NamedTuple):
    """k stretches in which brokers were held; of one item in their order.

    Attributes:
        since, until: ms; ``NEVER`` as ``since``: no stretch.
        reason: a place in ``END_REASONS``.
        updates: how many of the date opened or moved it.
        opened, isolated, latency, duration: the update that opened it: when, whether it isolated, its latency, ms, and
            for how long it held the broker, ms.
    """

    item: IntArray
    since: IntArray
    until: IntArray
    reason: IntArray
    updates: IntArray
    opened: IntArray
    isolated: BoolArray
    latency: IntArray
    duration: IntArray


class Items(NamedTuple):
    """k fault items, by ``item``.

    Attributes:
        latency, start, reachable: as FaultItem has them; ``NEVER`` as ``start``: never isolated.
        updated: when it was last updated.
        absent: it is not in the table: forgotten, or not made yet.
        doubted: from then on the fallback may have removed it unseen, as an earlier date says; ``NEVER``: it has not.
        held, down: the last stretch in which it was unavailable, and unreachable; it may still go on.
    """

    item: IntArray
    latency: IntArray
    start: IntArray
    reachable: BoolArray
    updated: IntArray
    absent: BoolArray
    doubted: IntArray
    held: Stretches
    down: Stretches


class Walked(NamedTuple):
    """What a walk gives.

    Attributes:
        start: of the item after each update, ``NEVER``: never isolated.
        items: the items after all updates.
        held, down: the stretches that are over; the last one of each item is with it.
    """

    start: IntArray
    items: Items
    held: Stretches
    down: Stretches


def taken(columns: _Columns, which: Any) -> _Columns:
    """The rows at these places of a tuple of columns, nested or not."""
    return type(columns)(*(taken(c, which) if isinstance(c, tuple) else c[which] for c in columns))


def joined(*parts: _Columns) -> _Columns:
    """Rows of several tuples of columns, one after the other."""
    columns = zip(*parts, strict=True)
    return type(parts[0])(*(joined(*c) if isinstance(c[0], tuple) else np.concatenate(c) for c in columns))


def within(since: IntArray, until: IntArray, at: IntArray) -> BoolArray:
    """Whether each instant lies in a stretch; ``since`` and ``until`` of these: both in order."""
    if not len(since):
        return np.zeros(len(at), np.bool_)
    place = np.searchsorted(since, at, side="right") - 1
    found: BoolArray = (place >= 0) & (at < until[np.maximum(place, 0)])
    return found


def no_stretches(item: IntArray) -> Stretches:
    """For each item: none."""

    def column(value: Any) -> Any:
        return np.full(len(item), value)

    return Stretches(item, *(column(value) for value in (NEVER, NEVER, 0, 0, NEVER, False, 0, 0)))


def new_items(item: IntArray) -> Items:
    """Items that are not in the table yet."""
    never, yes = np.full(len(item), NEVER), np.ones(len(item), np.bool_)
    none = no_stretches(item)
    return Items(item, np.zeros(len(item), np.int64), never, yes, never, yes, never, none, none)


def walk(items: Items, u: Updates, extend_only: BoolArray) -> Walked:
    """The updates applied to the items.

    Args:
        items: what the walk begins with; items of ``u`` that are not among them are new.
        u: what happens then; none is earlier than the last update of its item, nor than the date's midnight, 0.
        extend_only: for each update, whether its release only lengthens windows.
    """
    items = _with_new(items, u.item[_edges(u.item)[0]])
    of = np.searchsorted(items.item, u.item)  # the item of each update, by place
    first, last = _edges(of)
    start, held_until = _starts(items, u, of, first, extend_only)
    shuns = u.duration > 0
    # Stretches that adjoin are one; but of what midnight ends the next date knows nothing, and begins anew.
    opens = shuns & ((u.at > held_until) | ((u.at == held_until) & (u.at == 0)))
    moves = shuns & (~extend_only | (u.at + u.duration > held_until))
    goes = ~u.reachable & np.where(first, (items.reachable | items.absent)[of], _before(u.reachable, True))
    following = np.where(last, FAR, _after(u.at, FAR))
    ended_by = np.where(_after(u.removed, False), REMOVED, OVERWRITTEN)
    firsts = np.flatnonzero(first)
    first_at = _put(np.full(len(items.item), FAR), of[firsts], u.at[firsts])
    first_ended_by = _put(np.full(len(items.item), OVERWRITTEN), of[firsts[u.removed[firsts]]], REMOVED)
    clips = _put(np.zeros(len(items.item), np.bool_), of[firsts], ~extend_only[firsts])
    heads = _cut(items.held, first_at, first_ended_by, clips)
    rows = _cut(_each(u, u.at + u.duration, EXPIRED, u.duration), following, ended_by, ~extend_only)
    held, last_held = _gathered(items.item, heads, taken(rows, moves), opens[moves])
    heads = _cut(items.down, first_at, REACHABLE_AGAIN, first_at < FAR)
    rows = _cut(_each(u, np.full(len(of), FAR), OPEN, np.zeros_like(u.at)), following, REACHABLE_AGAIN, following < FAR)
    down, last_down = _gathered(items.item, heads, taken(rows, ~u.reachable), goes[~u.reachable])
    after = _updated(items, u, of[last], last, start)
    return Walked(start, after._replace(held=last_held, down=last_down), held, down)


def _with_new(items: Items, item: IntArray) -> Items:
    """The items, and new ones of ``item``, each of which comes once."""
    more = np.setdiff1d(item, items.item, assume_unique=True)
    if not len(more):
        return items
    every = joined(items, new_items(more))
    return taken(every, np.argsort(every.item))


def _edges(of: IntArray) -> tuple[BoolArray, BoolArray]:
    """Which update is the first, and which the last of its item."""
    differs = of[1:] != of[:-1]
    edge = np.ones(min(len(of), 1), np.bool_)
    return np.concatenate([edge, differs]), np.concatenate([differs, edge])


def _before(column: Any, otherwise: Any) -> Any:
    """The value of the row before; ``otherwise`` in the first row."""
    return np.concatenate([np.full(1, otherwise, column.dtype), column])[:-1]


def _after(column: Any, otherwise: Any) -> Any:
    return np.concatenate([column, np.full(1, otherwise, column.dtype)])[1:]


def _put(column: Any, places: IntArray, values: Any) -> Any:
    """``column`` with other values at these places; it is changed."""
    column[places] = values
    return column


def _starts(
    items: Items, u: Updates, of: IntArray, first: BoolArray, extend_only: BoolArray
) -> tuple[IntArray, IntArray]:
    """The item's start after each update, and until when the updates before it held the broker; ``NEVER``: not at all.

    Where windows are only lengthened that is a running maximum, which begins anew with each item: a number so big is
    added for each item that no instant of the one before reaches it.
    """
    until = np.where(u.duration > 0, u.at + u.duration, NEVER)
    own = items.start[of]
    replaced_until = np.where(own > items.updated[of], own, NEVER)
    reached = np.maximum(until, -1) + 1  # 0: none; what ended before midnight holds nothing
    reached = np.where(first, np.maximum(reached, np.maximum(own, -1) + 1), reached)
    lift = np.cumsum(first) << _LIFT_BITS
    farthest = np.maximum.accumulate(reached + lift) - lift - 1
    held_until = np.where(
        first,
        np.where(extend_only, own, replaced_until),
        np.where(extend_only, _before(farthest, NEVER), _before(until, NEVER)),
    )
    lengthened = np.where(farthest >= 0, farthest, own)
    return np.where(extend_only, lengthened, np.maximum(until, u.at)), held_until


def _each(u: Updates, until: IntArray, reason: int, duration: IntArray) -> Stretches:
    """Each update as the stretch that it alone would make."""
    count = len(u.at)
    return Stretches(
        u.item, u.at, until, np.full(count, reason), np.ones(count, np.int64), u.at, u.isolation, u.latency, duration
    )


def _cut(stretches: Stretches, at: IntArray, reason: Any, cuts: BoolArray) -> Stretches:
    """The stretches, those that last beyond ``at`` ended then where it ``cuts`` them."""
    ends = cuts & (at < stretches.until)
    return stretches._replace(
        until=np.where(ends, at, stretches.until), reason=np.where(ends, reason, stretches.reason)
    )


def _gathered(item: IntArray, heads: Stretches, rows: Stretches, opens: BoolArray) -> tuple[Stretches, Stretches]:
    """The stretches of updates (``rows``, by item and in order) that go on the ``heads`` or open new ones.

    Returns: those that another one of their item follows, and the last one of each ``item``.
    """
    there = heads.since != NEVER
    parts = joined(taken(heads, there), rows)
    order = np.argsort(parts.item, kind="stable")
    parts = taken(parts, order)
    begins = np.flatnonzero(np.concatenate([np.ones(there.sum(), np.bool_), opens])[order])
    if not len(begins):
        return parts, no_stretches(item)
    ends = np.append(begins[1:], len(order)) - 1
    whole = taken(parts, begins)._replace(
        until=parts.until[ends], reason=parts.reason[ends], updates=np.add.reduceat(parts.updates, begins)
    )
    _, is_last = _edges(whole.item)
    last, places = taken(whole, is_last), np.searchsorted(item, whole.item[is_last])
    return taken(whole, ~is_last), Stretches(
        *(_put(every, places, own) for every, own in zip(no_stretches(item), last, strict=True))
    )


def _updated(items: Items, u: Updates, places: IntArray, last: BoolArray, start: IntArray) -> Items:
    """The items with what their last updates left."""
    rows = {
        "latency": u.latency[last],
        "start": start[last],
        "reachable": u.reachable[last],
        "updated": u.at[last],
        "absent": u.removed[last],
        "doubted": NEVER,
    }
    return items._replace(**{name: _put(getattr(items, name).copy(), places, values) for name, values in rows.items()})

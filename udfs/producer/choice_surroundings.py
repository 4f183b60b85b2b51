"""Choices and what their part of a date records in; which are in doubt, and what each could have looked at, out.

A choice is beyond doubt when its broker was not held at the time and no rule of its release looks at the broker before
it: whatever else the table held, the client could take it. The others are few, and only they are judged one by one. For
all of them, and all brokers that their processes knew at once, numpy finds the item before each choice, the updates
near it and the broker's last and next use for the topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import NEVER, Attempts, order_of, spread
from hindsight.udfs.producer.choice_readings import ROUTE_POLL_MS, Other
from hindsight.udfs.producer.fault_fold import Items, Stretches, Updates, joined, taken
from hindsight.udfs.producer.replayed_day import LAST_BROKER_RULES, Day
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

SHIFT = 1 << 28  # more than a date, in ms
_NONE, _EQUALS = LAST_BROKER_RULES.index("none"), LAST_BROKER_RULES.index("equals")
NO_LAST = "last_broker_name of a retry is not recorded, and no one attempt before it tells it"


class Around(NamedTuple):
    """What is recorded around the choices of one part of a date.

    Attributes:
        attempts, process, broker, topic: the attempts of the part, and the codes of each.
        updates: those of the part, by item and in order; ``row`` and ``phase`` of each, ``start`` of its item after it.
        items: before all of these updates; ``others``: what they may have been otherwise, in ms of the date.
        uses: number and begin (``number * 2**28 + begin``) of each use of a broker in the part, in order.
        last_use: begin of the last use before the part, by place in ``Day.uses``; ``NEVER``: none.
    """

    attempts: Attempts
    process: IntArray
    broker: IntArray
    topic: IntArray
    updates: Updates
    row: IntArray
    phase: IntArray
    start: IntArray
    items: Items
    others: Mapping[int, Sequence[Other]]
    uses: IntArray
    last_use: IntArray


class Pairs(NamedTuple):
    """p pairs of a choice and a broker that its process knew; those of one choice stand together, by broker.

    Attributes:
        choice: its place among the doubtful ones; ``item``: the broker's.
        update: place of the last update before the tolerance; -1: the item is as it was before all updates.
        head: place among ``Around.items`` of such an item; -1: there is none.
        near: first and last place (exclusive) of the updates within the tolerance.
        used_before, used_after: ms; ``NEVER``: not used.
    """

    choice: IntArray
    item: IntArray
    update: IntArray
    head: IntArray
    near: tuple[IntArray, IntArray]
    used_before: IntArray
    used_after: IntArray


def pairs_of(rows: IntArray, around: Around, day: Day, *, tolerance_ms: int) -> Pairs:
    """The choices at these rows with every broker that they could have looked at."""
    a, size = around.attempts, len(day.brokers)
    process, begin = around.process[rows], a.begin[rows]
    since, until = (np.searchsorted(day.known, (process + more) * size) for more in (0, 1))
    choice, offset = spread(until - since)
    item = day.known[since[choice] + offset]
    now = begin[choice]
    keys = around.updates.item * SHIFT + around.updates.at
    low = np.searchsorted(keys, item * SHIFT + np.maximum(now - tolerance_ms, 0))
    high = np.searchsorted(keys, item * SHIFT + np.minimum(now + tolerance_ms, DAY_MS - 1), side="right")
    update = np.where(_is_at(around.updates.item, low - 1, item), low - 1, -1)
    head = np.searchsorted(around.items.item, item)
    there = _is_at(around.items.item, head, item)
    there[there] = ~around.items.absent[head[there]]
    number = day.use_of(process[choice], around.topic[rows][choice], item % size)
    return Pairs(choice, item, update, np.where(there, head, -1), (low, high), *_uses(number, now, around, day))


class PairItems(NamedTuple):
    """The item of each pair before the choice and the updates near it; values without a meaning where there is none.

    Attributes:
        start, updated: ms; ``start`` ``NEVER``: never isolated.
        doubted: from when on it may be gone, ms; ``NEVER``: it is there.
    """

    is_there: BoolArray
    latency: IntArray
    start: IntArray
    reachable: BoolArray
    updated: IntArray
    doubted: IntArray


def items_of(pairs: Pairs, around: Around) -> PairItems:
    """The items of the pairs."""
    u, heads = around.updates, around.items
    is_fresh = pairs.update >= 0
    is_there = is_fresh | (pairs.head >= 0)

    def column(of_update: Any, of_head: Any) -> Any:
        value = np.zeros(len(is_fresh), of_head.dtype)
        value[is_fresh] = of_update[pairs.update[is_fresh]]
        is_old = ~is_fresh & is_there
        value[is_old] = of_head[pairs.head[is_old]]
        return value

    return PairItems(
        is_there,
        column(u.latency, heads.latency),
        column(around.start, heads.start),
        column(u.reachable, heads.reachable),
        column(u.at, heads.updated),
        column(np.full(len(u.at), NEVER), heads.doubted),
    )


def is_in_use(pairs: Pairs, now: IntArray) -> BoolArray:
    """Where the broker was used for the topic shortly before and after the choice."""
    before, after = pairs.used_before, pairs.used_after
    found: BoolArray = (before != NEVER) & ((before == now) | ((after != NEVER) & (after - before < ROUTE_POLL_MS)))
    return found


def is_used_elsewhere(pairs: Pairs, items: PairItems, now: IntArray, day: Day) -> BoolArray:
    """Where the broker was used by then on the date of the choice, but never for the topic."""
    is_never = (pairs.used_before == NEVER) & (pairs.used_after == NEVER)
    found: BoolArray = is_never & items.is_there & (items.updated >= now - (now + day.midnight_ms) % DAY_MS)
    return found


def may_be_several(
    pairs: Pairs, items: PairItems, process: IntArray, now: IntArray, day: Day, *, tolerance_ms: int
) -> BoolArray:
    """Where ``item_readings`` may tell more than one thing of the item, apart from what choices of the date forgot."""
    is_edge = (items.start != NEVER) & (np.abs(items.start - now) <= tolerance_ms) & (items.start != items.updated)
    is_doubted: BoolArray = items.is_there & (is_edge | (items.doubted != NEVER))
    for place, (profile, detects) in enumerate(day.rules):
        own = items.is_there & (day.rule_of[process] == place)
        rungs = [(0, 0), *zip(profile.latency_max_ms, profile.not_available_ms, strict=False)]
        edges = [latency for (_, less), (latency, held) in pairwise(rungs) if held != less]
        reached = (np.searchsorted(edges, items.latency + ms, side="right") for ms in (0, tolerance_ms))
        is_doubted |= own & (detects | np.not_equal(*reached))
    is_doubted |= pairs.near[1] > pairs.near[0]
    return is_doubted


def _is_at(keys: IntArray, places: IntArray, wanted: IntArray) -> BoolArray:
    """Where the key at the place is the one wanted; nothing is before the first or behind the last place."""
    inside = (places >= 0) & (places < len(keys))
    found = np.zeros(len(places), np.bool_)
    found[inside] = keys[places[inside]] == wanted[inside]
    return found


def _uses(number: IntArray, now: IntArray, around: Around, day: Day) -> tuple[IntArray, IntArray]:
    """When each use was last made at or before ``now``, and when it was made next; ``NEVER``: it was not."""
    after = np.searchsorted(around.uses, number * SHIFT + now, side="right")
    numbers, begins = around.uses // SHIFT, around.uses % SHIFT
    place = np.searchsorted(day.uses, number)
    listed = _is_at(day.uses, place, number)
    earlier, latest = np.full(len(now), NEVER), np.full(len(now), NEVER)
    earlier[listed], latest[listed] = around.last_use[place[listed]], day.last_use[place[listed]]
    is_before, is_after = _is_at(numbers, after - 1, number), _is_at(numbers, after, number)
    before = np.where(is_before, begins[np.where(is_before, after - 1, 0)] if len(begins) else NEVER, earlier)
    # A use beyond the part is farther than any route poll: that there is one is all that counts.
    beyond = np.where(latest > now, latest, NEVER)
    return before, np.where(is_after, begins[np.where(is_after, after, 0)] if len(begins) else NEVER, beyond)


class Choices(NamedTuple):
    """Rows of attempts: those to be judged, in the order in which their clients chose, and those that cannot be.

    Attributes:
        unknown: of the second kind those whose processes' rules are not known, but for those that are judged otherwise
            (``family_choices``); ``lacking``: whose last broker is not.
    """

    doubtful: IntArray
    unknown: IntArray
    lacking: IntArray


def choices_of(
    a: Attempts, process: IntArray, broker: IntArray, day: Day, held: Stretches, chosen: BoolArray, *, tolerance_ms: int
) -> Choices:
    """The choices among the attempts ``chosen`` that are in doubt.

    Args:
        process, broker: of each attempt.
        held: the stretches of the date in which isAvailable was false, in any order (``not_available``).
        tolerance_ms: a broker was perhaps held so long before and after each, but not beyond the date's midnights.
    """
    rows = np.flatnonzero(chosen & (process >= 0) & a.on_date & a.flags("exceptions_observable") & (broker >= 0))
    whose = process[rows]
    known = day.replayed[whose] | day.off[whose]
    rule = np.where(day.off[whose], _NONE, day.last_broker_rule[whose])  # without the switch no release goes by it
    has_last = np.asarray(a.table["last_broker_name"].is_valid())[rows]
    looked_at = day.off[whose] | (rule != _NONE)
    lacks = known & (a.attempt[rows] > 0) & ~has_last & looked_at & ~a.pinned[rows]
    judged = known & ~lacks & ~a.pinned[rows]
    again = np.zeros(len(rows), np.bool_)
    back = np.flatnonzero(judged & has_last & looked_at)
    again[back] = _is_again(a, rows[back]) | (rule[back] == _EQUALS)
    held_then = _is_held(held, day.item_of(whose, broker[rows]), a.begin[rows], tolerance_ms)
    return Choices(_in_order(a, rows[judged & (again | held_then)]), rows[~known & ~day.by_turns[whose]], rows[lacks])


def not_available(held: Stretches, down: Stretches, day: Day) -> Stretches:
    """The stretches in which isAvailable was false: in 5.1.4 an unreachable broker is not available either."""
    return joined(held, taken(down, day.gated[down.item // len(day.brokers)])) if len(down.item) else held


def _is_again(a: Attempts, rows: IntArray) -> BoolArray:
    """Where an attempt went to the same broker as the one before it."""
    last, broker = a.strings(rows, "last_broker_name", "broker_name").values()
    return np.asarray(pc.fill_null(pc.equal(last, broker), False))


def _is_held(held: Stretches, item: IntArray, begin: IntArray, tolerance_ms: int) -> BoolArray:
    """Where an item was held when the attempt began, or nearly so.

    Of the stretches of the item that had begun by then the one that lasts farthest decides: a running maximum.
    """
    found = np.zeros(len(item), np.bool_)
    if not len(held.item):
        return found
    shift = 1 << 28  # more than a date and any tolerance, in ms
    since = held.item * shift + np.maximum(held.since - tolerance_ms, 0)
    until = held.item * shift + np.minimum(held.until, DAY_MS) + tolerance_ms
    order = np.argsort(since, kind="stable")
    since, until = since[order], np.maximum.accumulate(until[order])
    is_ever_held = np.zeros(int(held.item.max()) + 1, np.bool_)
    is_ever_held[held.item] = True
    maybe = np.flatnonzero((item < len(is_ever_held)) & is_ever_held[np.minimum(item, len(is_ever_held) - 1)])
    now = item[maybe] * shift + begin[maybe]
    place = np.searchsorted(since, now, side="right") - 1
    found[maybe] = (place >= 0) & (until[place] >= now)
    return found


def _in_order(a: Attempts, rows: IntArray) -> IntArray:
    """By begin; of one instant by thread, message and attempt."""
    texts = a.strings(rows, "thread", "msg_id")
    return rows[order_of({"begin": a.begin[rows], **texts, "attempt": a.attempt[rows]})]

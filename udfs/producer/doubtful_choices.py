"""Attempts and the stretches in which brokers were held in; which choices of a broker are in doubt, out.

A choice is beyond doubt when its broker was not held at the time and no rule of its release looks at the broker before
it: whatever else the table held, the client could take it. The others are few, and only they are judged one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import DAY_MS, Attempts
from hindsight.udfs.producer.fault_fold import Stretches, joined, taken
from hindsight.udfs.producer.replayed_day import LAST_BROKER_RULES, Day
from hindsight.udfs.values.row_hashes import BoolArray, IntArray

_NONE, _EQUALS = LAST_BROKER_RULES.index("none"), LAST_BROKER_RULES.index("equals")
NO_LAST = "last_broker_name of a retry is not recorded, and no one attempt before it tells it"


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
    pair = a.table.select(["last_broker_name", "broker_name"]).take(pa.array(rows))
    last, broker = (pair[name].cast(pa.string()) for name in pair.column_names)
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
    keys = a.table.select(["thread", "msg_id"]).take(pa.array(rows))
    columns = {
        "begin": pa.array(a.begin[rows]),
        **{name: keys[name].cast(pa.string()) for name in keys.column_names},
        "attempt": pa.array(a.attempt[rows]),
    }
    sorted_by = [(name, "ascending", "at_start") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=sorted_by)
    found: IntArray = rows[order.to_numpy()]
    return found

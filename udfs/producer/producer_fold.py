"""One date of some producers in, attempt by attempt in parts; their stretches, verdicts and closing items out.

A part contains the attempts whose first instant is before its end, and not before the end of the part before it. What a
part leaves open goes to the next part in ``State``, so the parts of a date give what the whole date gives, wherever it
is cut:

- the fault items, each with its last stretch, as of ``walked_until``;
- the begin of the last use of each broker by each process for each topic;
- the attempts with an instant that is still ahead: a choice is judged when it is known what its client did in the next
  route poll, and an update counts at its own instant.

An example: a part ends at 01:00:00.000, and the clock tolerance is 3 ms.

    choices that begin before 00:59:30.000   are judged: what their clients did 30 s (one route poll) later is known
    updates before            00:59:29.997   are applied for good: no choice still to come can look at what was before
    all other attempts                       go on in ``State.carried``, and the next part judges them

So a window from 00:58:00 to 01:03:00 opens in this part, stays with its item in ``State.recorded``, and the part that
sees its end returns it. Nothing shows where the date was cut.

Memory: a part, half a minute more, one row per item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import NEVER, Attempts, attempts_of, order_of
from hindsight.udfs.producer.attempt_updates import Calls, calls_of, judged
from hindsight.udfs.producer.choice_fold import ChoiceJudge, Verdict
from hindsight.udfs.producer.choice_readings import ROUTE_POLL_MS, Other
from hindsight.udfs.producer.choice_readings import Removal as Forgotten
from hindsight.udfs.producer.choice_surroundings import SHIFT, Around, Choices, choices_of, not_available
from hindsight.udfs.producer.fault_fold import FAR, RESTARTED, Items, Stretches, Updates, Walked, joined, taken, walk
from hindsight.udfs.producer.minute_counts import MinuteCounts, minute_counts
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import CLOCK_TOLERANCE, LADDER_EDGE
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

END = 1 << 40  # after every instant of a date


class Removal(NamedTuple):
    """The fallback forgot an item, ms of the date."""

    item: int
    at: int


class State(NamedTuple):
    """What one part hands on to the next.

    Attributes:
        carried: attempts with an instant that is ahead.
        judged_until, walked_until: choices before the first, and updates before the second, are done, ms of the date.
        recorded: the items as updates alone made them: by these the date's choices are judged.
        shown: the items of which some the fallback surely forgot: by these windows are told; the same where none was.
        longest: the same as if every send had reached the rung that the client's own measure may have reached; the
            very same where none may have.
        last_use: begin of the last use done, by place in ``Day.uses``.
        gone: sure removals ahead of ``walked_until``.
        doubted: by item, when the fallback may have forgotten it on the date.
        others: by item, what it may have been otherwise on the date than as the record's own order has it.
    """

    carried: pa.Table | None
    judged_until: int
    walked_until: int
    recorded: Items
    shown: Items
    longest: Items
    last_use: IntArray
    gone: tuple[Removal, ...]
    doubted: Mapping[int, Sequence[int]]
    others: Mapping[int, Sequence[Other]]


class Part(NamedTuple):
    """What follows from a part: the attempts that it looked at, verdicts on some, stretches that are over, and counts.

    With the last part every stretch is; one that lasts longer than the date does so in its ``until``. ``longest``: the
    stretches ``held`` as they are at most (``State.longest``).
    """

    attempts: Attempts
    process: IntArray
    choices: Choices
    verdicts: list[Verdict]
    held: Stretches
    down: Stretches
    longest: Stretches
    counts: MinuteCounts


def first_state(day: Day, items: Items, longest: Items | None = None) -> State:
    """With what a date begins; ``items``: as the date before handed them over, ``longest``: as they are at most."""
    most = items if longest is None else longest
    longer = np.flatnonzero(day.extends(items.item) & (most.start > items.start))
    starts = zip(items.item[longer].tolist(), most.start[longer].tolist(), strict=True)
    others = {item: (Other(0, None, start, LADDER_EDGE),) for item, start in starts}
    return State(None, 0, 0, items, items, most, np.full(len(day.uses), NEVER), (), {}, others)


def fold(
    day: Day, judge: ChoiceJudge, state: State, table: pa.Table, until: int, *, tolerance_ms: int, slow_ms: int
) -> tuple[Part, State]:
    """The next part of a date, and with what the one after it begins.

    Args:
        judge: of the date; it remembers what its choices made clients forget.
        table: the part's attempts (``ATTEMPTS``): their first instants are before ``until``, those of all later parts
            are not. ``END``: this is the last part.
        slow_ms: what takes so long is counted as slow.
    """
    every = table if state.carried is None else pa.concat_tables([state.carried, table])
    a = attempts_of(every, day.midnight_ms)
    process, broker, topic = day.codes_of(a)
    judge_until = END if until == END else max(until - ROUTE_POLL_MS, state.judged_until)
    walk_until = END if until == END else max(judge_until - tolerance_ms, state.walked_until)
    chosen = (a.begin >= state.judged_until) & (a.begin < judge_until)
    every_call = _updates(a, process, broker, day, state.walked_until - tolerance_ms, tolerance_ms)
    others = _with_others(state.others, a, *every_call, day, tolerance_ms)
    calls, updates, longest = _from(state.walked_until, *every_call)
    extend_only = day.extends(updates.item)
    ahead = walk(state.recorded, updates, extend_only)
    held = not_available(*lasting(day, ahead.held, ahead.down, ahead.items), day)
    choices = choices_of(a, process, broker, day, held, chosen, tolerance_ms=tolerance_ms)
    around = Around(
        attempts=a,
        process=process,
        broker=broker,
        topic=topic,
        updates=updates,
        row=calls.row,
        phase=calls.phase,
        start=ahead.start,
        items=state.recorded,
        others=others,
        uses=_uses(a, process, broker, topic, day, a.begin >= state.judged_until, of=process[choices.doubtful]),
        last_use=state.last_use,
    )
    verdicts, removals = judge.judged(choices.doubtful, around)
    gone, doubted = _with_removals(removals, day, state)
    done = updates.at < walk_until
    recorded = ahead if done.all() else walk(state.recorded, taken(updates, done), extend_only[done])
    now_gone = [r for r in gone if r.at < walk_until]
    differs = state.shown is not state.recorded or now_gone
    shown = _with_gone(state.shown, taken(updates, done), now_gone, day) if differs else recorded
    at_most = shown
    if state.longest is not state.shown or longest is not updates.duration:
        at_most = _with_gone(state.longest, taken(updates._replace(duration=longest), done), now_gone, day)
    done_uses = _uses(a, process, broker, topic, day, chosen if until < END else np.zeros_like(chosen), of=None)
    # An update just before those that are ahead may have come after the first of them.
    ahead_of_it = _is_ahead(a, every_call[0], judge_until, walk_until - tolerance_ms)
    counts = minute_counts(a, process, broker, chosen, day, slow_ms=slow_ms)
    over = _over(day, shown, until)
    most = over[0] if at_most is shown else _over(day, at_most, until)[0]
    return Part(a, process, choices, verdicts, *over, most, counts), State(
        every.filter(pa.array(ahead_of_it)),
        judge_until,
        walk_until,
        recorded.items,
        shown.items,
        at_most.items,
        _last_use(state.last_use, done_uses, day),
        tuple(removal for removal in gone if removal.at >= walk_until),
        doubted,
        others,
    )


def _with_others(
    known: Mapping[int, Sequence[Other]],
    a: Attempts,
    calls: Calls,
    updates: Updates,
    longest: IntArray,
    day: Day,
    tolerance_ms: int,
) -> dict[int, Sequence[Other]]:
    """What items may be otherwise: a rung that was just missed, two threads' updates in the other order."""
    found = {item: dict.fromkeys(own) for item, own in known.items()}
    extends, at = day.extends(updates.item), updates.at
    for place in np.flatnonzero(extends & (longest > updates.duration)).tolist():
        other = Other(int(at[place]), None, int(at[place] + longest[place]), LADDER_EDGE)
        found.setdefault(int(updates.item[place]), {})[other] = None
    for one, last in _close_by(updates, ~extends, tolerance_ms):
        if not _is_in_order(a, calls, one, last):
            until = int(at[last] + updates.duration[one])
            other = Other(int(at[last]), int(updates.latency[one]), until, CLOCK_TOLERANCE)
            found.setdefault(int(updates.item[one]), {})[other] = None
    return {item: tuple(own) for item, own in found.items()}


def _close_by(updates: Updates, which: BoolArray, tolerance_ms: int) -> Iterator[tuple[int, int]]:
    """Places of updates of an item so close together that either may be the last, where it makes a difference."""
    for step in range(1, len(updates.at)):
        near = (updates.item[step:] == updates.item[:-step]) & (updates.at[step:] - updates.at[:-step] <= tolerance_ms)
        if not near.any():
            return
        differ = near & which[step:] & (updates.duration[step:] != updates.duration[:-step])
        yield from ((place, place + step) for place in np.flatnonzero(differ).tolist())


def _is_in_order(a: Attempts, calls: Calls, one: int, last: int) -> bool:
    """Whether one thread made both calls, one after the other."""
    rows, phases = calls.row[[one, last]], calls.phase[[one, last]]
    threads = a.texts("thread").codes[rows]
    return bool(rows[0] == rows[1] or (threads[0] == threads[1] and threads[0] >= 0 and not phases.any()))


def _from(since: int, calls: Calls, updates: Updates, longest: IntArray) -> tuple[Calls, Updates, IntArray]:
    """Those from an instant on."""
    own = updates.at >= since
    if own.all():
        return calls, updates, longest
    later = taken(updates, own)
    return calls.taken(own), later, later.duration if longest is updates.duration else longest[own]


def _updates(
    a: Attempts, process: IntArray, broker: IntArray, day: Day, since: int, tolerance_ms: int
) -> tuple[Calls, Updates, IntArray]:
    """The updates of the date that are not done yet, by item and in their total order, and how long each is at most."""
    calls = calls_of(a)
    whose = process[calls.row]
    counts = (calls.at >= since) & (calls.at < DAY_MS) & (whose >= 0)
    counts[counts] = day.replayed[whose[counts]]
    calls = calls.taken(counts)
    whose = process[calls.row]
    told = judged(calls, calls.at - a.begin[calls.row], day.rule_of[whose], day.rules, tolerance_ms=tolerance_ms)
    item = day.item_of(whose, broker[calls.row])
    order = _total_order(a, calls, item)
    none = np.zeros(len(item), np.bool_)
    updates = taken(Updates(item, calls.at, told.latency, told.isolation, told.reachable, told.duration, none), order)
    longest = updates.duration if told.longest is told.duration else told.longest[order]
    return calls.taken(order), updates, longest


def _total_order(a: Attempts, calls: Calls, item: IntArray) -> IntArray:
    """Places of the calls by item, end, begin, thread, message, attempt and phase.

    By item and end first; the few that share both are sorted anew by all.
    """
    key = item * SHIFT + calls.at
    order = np.argsort(key)
    key = key[order]
    tied = np.flatnonzero(np.diff(key) == 0)
    if not len(tied):
        return order
    tied = np.union1d(tied, tied + 1)
    own = order[tied]
    rows = calls.row[own]
    by = {"key": key[tied], "begin": a.begin[rows], **a.strings(rows, "thread", "msg_id"), "attempt": a.attempt[rows]}
    order[tied] = own[order_of({**by, "phase": calls.phase[own], "row": rows})]
    return order


def _over(day: Day, walked: Walked, until: int) -> tuple[Stretches, Stretches]:
    """The stretches that are over with a part; with the last part every one is."""
    return lasting(day, walked.held, walked.down, walked.items if until == END else taken(walked.items, slice(0)))


def lasting(day: Day, held: Stretches, down: Stretches, items: Items) -> tuple[Stretches, Stretches]:
    """Stretches that are over and the last ones of the items, none longer than its process."""
    return _lasting(day, held, items.held), _lasting(day, down, items.down)


def _lasting(day: Day, over: Stretches, last: Stretches) -> Stretches:
    stretches = joined(over, taken(last, last.since != NEVER))
    if not len(stretches.item):
        return stretches
    ends = np.array([FAR if p.ends_ms is None else p.ends_ms - day.midnight_ms for p in day.processes])
    own = ends[stretches.item // len(day.brokers)]
    restarted = own < stretches.until
    made = stretches._replace(
        until=np.where(restarted, own, stretches.until), reason=np.where(restarted, RESTARTED, stretches.reason)
    )
    return taken(made, made.until >= made.since)


def _uses(
    a: Attempts,
    process: IntArray,
    broker: IntArray,
    topic: IntArray,
    day: Day,
    which: BoolArray,
    of: IntArray | None,
) -> IntArray:
    """Number and begin of each use among some attempts, in order; ``of``: of these processes alone."""
    counts = which & (process >= 0) & a.on_date & (broker >= 0)
    if of is not None:
        wanted = np.zeros(len(day.processes) + 1, np.bool_)
        wanted[of] = True
        counts &= wanted[process]
    counts &= a.flags("exceptions_observable")
    return np.sort(day.use_of(process[counts], topic[counts], broker[counts]) * SHIFT + a.begin[counts])


def _last_use(before: IntArray, uses: IntArray, day: Day) -> IntArray:
    if not len(uses):
        return before
    numbers, begins = uses // SHIFT, uses % SHIFT
    is_last = np.append(numbers[1:] != numbers[:-1], True)
    after = before.copy()
    after[np.searchsorted(day.uses, numbers[is_last])] = begins[is_last]
    return after


def _with_removals(
    removals: Sequence[tuple[int, Forgotten]], day: Day, state: State
) -> tuple[list[Removal], dict[int, list[int]]]:
    """The sure removals that are ahead, and when each item may have been forgotten on the date so far."""
    gone, doubted = list(state.gone), {item: list(instants) for item, instants in state.doubted.items()}
    for process, removal in removals:
        item = process * len(day.brokers) + day.brokers.index(removal.broker_name)
        at = removal.at_ms - day.midnight_ms
        if removal.surely:
            gone.append(Removal(item, at))
        else:
            doubted.setdefault(item, []).append(at)
    return gone, doubted


def _with_gone(items: Items, updates: Updates, gone: Sequence[Removal], day: Day) -> Walked:
    """The walk with what the fallback surely forgot."""
    item, at = (np.array([getattr(removal, name) for removal in sorted(gone)], np.int64) for name in Removal._fields)
    # In the total order a removal begins at its own instant, on no thread: after what ended then.
    places = np.searchsorted(updates.item * SHIFT + updates.at, item * SHIFT + at, side="right")
    none, no, count = np.zeros(len(gone), np.int64), np.zeros(len(gone), np.bool_), len(updates.at)
    order = np.insert(np.arange(count), places, np.arange(count, count + len(gone)))
    every = taken(joined(updates, Updates(item, at, none, no, ~no, none, ~no)), order)
    return walk(items, every, day.extends(every.item))


def _is_ahead(a: Attempts, calls: Calls, judge_until: int, walk_until: int) -> BoolArray:
    """Which attempts have an instant of the date that is not done."""
    is_ahead = a.on_date & (a.begin >= judge_until)
    is_ahead[calls.row[calls.at >= walk_until]] = True
    return is_ahead

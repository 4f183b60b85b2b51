"""Sends of one Go or C++ producer to one topic, in order, and its list of queues in; whose turn it was at each out.

A round-robin producer leaves no choice: each send takes the queue behind the last one's. What the record holds of it
may lack attempts, which moves all that follow, or show them in another order than they were chosen in. Of all ways to
explain the queues the cheapest one is told: an attempt out of its turn costs less than two gaps, a gap less than two
such attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from hindsight.udfs.turns.turn_rules import CppTurns, Rule, Sent, rule_of
from hindsight.udfs.values.message_queues import MessageQueue

Kind = Literal[
    "first", "in_turn", "concurrent", "active_mode", "gap", "out_of_turn", "uncounted", "out_of_send", "lost"
]

_GAP, _OUT, _DOUBT = 1.0, 1.4, 0.01
_OUT_OF_SERVICE_MS = 300_000 + 60_000  # TopicPublishInfo.h: five minutes, by a timer that looks once a minute


class Turn(NamedTuple):
    """What is said of one attempt; ``place``: of the queue whose turn it was, None: not known.

    - ``first``: nothing before it tells whose turn it was; ``lost``: what it follows is not recorded
    - ``in_turn``, or if this is so: ``concurrent``, sends that overlap chose in another order; ``active_mode``, queues
      that failed were left out (C++); ``gap``, attempts before it are not recorded
    - ``out_of_turn``, ``uncounted``: those behind it go on as if it had been in turn, or had not been at all;
      ``out_of_send``: a C++ retry that does not follow its own send
    """

    kind: Kind
    place: int | None


# Costs of a way to explain the sends so far, and what it says of those that are not told yet, the latest first.
_Chain = tuple[Turn, "_Chain"] | None
_States = dict[int, tuple[float, _Chain]]


def turns_of(
    sends: Sequence[Sent], queues: Sequence[MessageQueue], profile: str, *, is_whole: bool, tolerance_ms: int
) -> tuple[list[Turn], float]:
    """What is said of each of ``sends``, in order of their begin, and what it costs: the cheaper, the likelier.

    Args:
        queues: the list that the client held all the while; not empty.
        profile: id of the producer's family.
        is_whole: the first of them is the first that the producer ever sent to the topic.
        tolerance_ms: sends of different threads that are no farther apart may have chosen in either order.
    """
    rule = rule_of(queues, profile)
    walk = _Walk(rule, queues, Overlaps(sends, rule, len(queues), tolerance_ms))
    if is_whole:
        walk.states = {rule.start % len(queues): (0.0, None)}
    for number, sent in enumerate(sends):
        walk.take(number, sent)
    return walk.told, walk.settle()


class _Walk:
    """``told``: of the attempts that all likely ways agree on; the others are in the chains of ``states``."""

    def __init__(self, rule: Rule, queues: Sequence[MessageQueue], overlaps: Overlaps) -> None:
        self.rule, self.queues, self.overlaps = rule, queues, overlaps
        self.in_turn = [Turn("in_turn", place) for place in range(len(queues))]
        self.places = {(queue.broker_name, queue.queue_id): place for place, queue in enumerate(queues)}
        self.states: _States = {}
        self.told: list[Turn] = []
        self._failed_at: dict[tuple[str, int], int] = {}
        self._taken_while_out: set[tuple[str, int]] = set()
        self._cost = 0.0

    def take(self, number: int, sent: Sent) -> None:
        """The next attempt."""
        place, states = self.places.get(sent.queue), self.states
        expected = self.rule.turn(0, sent)[0] if sent.is_retry else 0
        if expected is None:
            self.settle()
            self.told.append(Turn("lost", None))
        elif len(states) == 1 and self._is_surely_in_turn(sent, place):
            pass
        elif not states and self.rule.follows_send(sent):
            self.told.append(Turn("in_turn" if place == expected else "out_of_send", expected))
        elif not states:
            self.told.append(Turn("first" if place is not None else "out_of_turn", None))
            self.states = {} if place is None else {(place + 1) % len(self.queues): (self._cost, None)}
        else:
            self._go_on(number, sent, place)
        if isinstance(self.rule, CppTurns):
            self._note(sent)

    def _is_surely_in_turn(self, sent: Sent, place: int | None) -> bool:
        """Whether no other explanation need be kept; if so, it is told. Most attempts end here."""
        ((state, (cost, chain)),) = self.states.items()
        expected, after = self.rule.turn(state, sent)
        if expected is None or place != expected or chain is not None or sent.queue in self._failed_at:
            return False
        self.told.append(self.in_turn[expected])
        self.states = {after: (cost, None)}
        return True

    def settle(self) -> float:
        """Tell the cheapest way; returns its cost."""
        if self.states:
            self._cost, chain = min(self.states.values(), key=lambda way: way[0])
            self.told += _unwound(chain)
            self.states = {}
        return self._cost

    def _note(self, sent: Sent) -> None:
        """What an active send leaves out later; one that took such a queue found no other in service."""
        if self._is_out(sent.queue, sent):
            self._taken_while_out.add(sent.queue)
        else:
            self._taken_while_out.discard(sent.queue)
        if sent.failed:
            self._failed_at[sent.queue] = sent.end_ms

    def _go_on(self, number: int, sent: Sent, place: int | None) -> None:
        found: _States = {}
        best = min(cost for cost, _ in self.states.values())
        for state, (cost, chain) in self.states.items():
            for turn, after, more in self._ways(state, number, sent, place):
                _keep(found, after, cost + more, (turn, chain))
            if cost == best and place is not None and not self.rule.follows_send(sent):
                expected, _ = self.rule.turn(state, sent)
                after = (place + 1) % len(self.queues)
                _keep(found, after, cost + _GAP, (Turn("gap", expected), chain))
        best = min(cost for cost, _ in found.values())
        self.states = {state: way for state, way in found.items() if way[0] <= best + _GAP}
        if len(self.states) == 1:
            ((state, (cost, chain)),) = self.states.items()
            self.told += _unwound(chain)
            self.states = {state: (cost, None)}

    def _ways(self, state: int, number: int, sent: Sent, place: int | None) -> Iterator[tuple[Turn, int, float]]:
        """What may be said of the attempt in this state, the state behind it and what it costs."""
        expected, after = self.rule.turn(state, sent)
        size = len(self.queues)
        if place == expected:
            yield Turn("in_turn", expected), after, 0.0
            if self._is_out(sent.queue, sent):  # an active send that found none in service has looked at all
                yield Turn("active_mode", expected), state, _DOUBT
            return
        own_send = self.rule.follows_send(sent)
        later = (place - (expected or 0)) % size if place is not None else size
        if place is not None and not own_send and self._is_within(number, expected or 0, later):
            yield Turn("concurrent", expected), after, _DOUBT
        elif place is not None and self._passes_over_failed(expected or 0, later, sent):
            yield Turn("active_mode", expected), (after + later) % size, _DOUBT
            if self._is_out(sent.queue, sent):
                yield Turn("active_mode", expected), state, _DOUBT
        else:
            yield Turn("out_of_send" if own_send else "out_of_turn", expected), after, _OUT
            yield Turn("out_of_send" if own_send else "uncounted", expected), state, _OUT + _DOUBT

    def _is_within(self, number: int, expected: int, later: int) -> bool:
        """Whether the attempt may have come so much out of order."""
        queue, window = self.queues[expected], self.overlaps.window(number)
        somebody_has_it = window.taken is None or (queue.broker_name, queue.queue_id) in window.taken
        return somebody_has_it and (later <= window.after or len(self.queues) - later <= window.before)

    def _passes_over_failed(self, expected: int, later: int, sent: Sent) -> bool:
        last = sent.last_queue[0] if sent.last_queue else None
        if not self._failed_at or (sent.queue[0] == last and any(q.broker_name != last for q in self.queues)):
            return False
        if sent.last_queue in self._taken_while_out:  # its send goes on from where it looked last
            return True
        passed = [self.queues[(expected + step) % len(self.queues)] for step in range(later)]
        return all(q.broker_name == last or self._is_out((q.broker_name, q.queue_id), sent) for q in passed)

    def _is_out(self, queue: tuple[str, int], sent: Sent) -> bool:
        """Whether an active send may leave the queue out: it failed not long ago."""
        failed_at = self._failed_at.get(queue)
        return failed_at is not None and sent.begin_ms - failed_at <= _OUT_OF_SERVICE_MS


def _keep(states: _States, state: int, cost: float, chain: _Chain) -> None:
    if state not in states or cost < states[state][0]:
        states[state] = cost, chain


def _unwound(chain: _Chain) -> list[Turn]:
    found = []
    while chain is not None:
        turn, chain = chain
        found.append(turn)
    return found[::-1]


class Window(NamedTuple):
    """The attempts that may have chosen against the order in which they began.

    Attributes:
        before, after: how many steps of the counter earlier, and later, than in its turn the attempt may have come.
        taken: the queues of those attempts, where all are of its thread and one millisecond: one of them then has the
            queue whose turn it was; None: they are not.
    """

    before: int
    after: int
    taken: set[tuple[str, int]] | None


class Overlaps:
    """Finds the window of an attempt; most are never asked for."""

    def __init__(self, sends: Sequence[Sent], rule: Rule, size: int, tolerance_ms: int) -> None:
        """``sends``: in order of their begin; ``size``: of the list."""
        self._sends, self._rule, self._size, self._tolerance_ms = sends, rule, size, tolerance_ms
        # Before a place, the latest instant until which any attempt chose: no farther back is one that overlaps.
        self._latest = list(accumulate((sent.chosen_ms for sent in sends), max))

    def window(self, place: int) -> Window:
        """The window of the attempt at this place."""
        sends, own, near = self._sends, self._sends[place], self._tolerance_ms
        before, after = list[Sent](), list[Sent]()
        for n in range(place - 1, -1, -1):
            if self._latest[n] + near < own.begin_ms:
                break
            if _may_swap(sends[n], own, near):
                before.append(sends[n])
        for n in range(place + 1, len(sends)):
            if own.chosen_ms + near < sends[n].begin_ms:
                break
            if _may_swap(own, sends[n], near):
                after.append(sends[n])
        others = [*before, *after]
        taken = {other.queue for other in others} if all(self._is_alike(other, own) for other in others) else None
        return Window(sum(map(self._steps, before)), sum(map(self._steps, after)), taken)

    def _steps(self, sent: Sent) -> int:
        return self._size if self._rule.looks_on(sent) else 1

    def _is_alike(self, other: Sent, own: Sent) -> bool:
        """Whether both are of one thread, and each takes one step."""
        counts_on = self._rule.looks_on(other) or self._rule.looks_on(own)
        return not counts_on and own.thread is not None and other.thread == own.thread


def _may_swap(first: Sent, second: Sent, tolerance_ms: int) -> bool:
    """Whether the second, which did not begin earlier, may have chosen earlier: they overlap, or nearly so."""
    if second.is_retry and first.send == second.send:
        return False
    threads_differ = None not in (first.thread, second.thread) and first.thread != second.thread
    near = threads_differ and first.chosen_ms + tolerance_ms >= second.begin_ms
    return near or first.chosen_ms > second.begin_ms or first.begin_ms == second.begin_ms

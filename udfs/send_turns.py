"""Sends of one Go or C++ producer to one topic, in order, and its list of queues in; whose turn it was at each out.

A round-robin producer leaves no choice: each send takes the queue behind the last one's. What the record holds of it may
lack attempts, which moves all that follow, or show them in another order than they were chosen in. Of all ways to
explain the queues the cheapest one is told: an attempt out of its turn costs less than two gaps, a gap less than two
such attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from udfs.client_families import CLIENT_FAMILIES
from udfs.cpp_publish import RESUMES_AFTER_MS
from udfs.message_queues import MessageQueue

Kind = Literal[
    "first", "in_turn", "concurrent", "active_mode", "gap", "out_of_turn", "uncounted", "out_of_send", "lost"
]

_GAP, _OUT, _DOUBT = 1.0, 1.4, 0.01
_OUT_OF_SERVICE_MS = RESUMES_AFTER_MS + 60_000  # the timer looks once a minute


class Sent(NamedTuple):
    """One attempt.

    Attributes:
        queue: broker and queue id.
        begin_ms, chosen_ms: between them the client chose.
        end_ms: when its result came.
        thread: None: not recorded.
        mode: SYNC, ASYNC or ONEWAY.
        send: id that attempts of one send share, if its client gives one.
        is_retry: another attempt of the same send was before it.
        last_broker_name: that attempt's broker.
        last_queue: that attempt's queue; None: not recorded.
        skips: attempts between the two are not recorded.
        failed: it ended otherwise than SEND_OK.
    """

    queue: tuple[str, int]
    begin_ms: int
    chosen_ms: int
    end_ms: int
    thread: str | None
    mode: str
    send: str = ""
    is_retry: bool = False
    last_broker_name: str | None = None
    last_queue: tuple[str, int] | None = None
    skips: bool = False
    failed: bool = False


class Turn(NamedTuple):
    """What is said of one attempt; ``place``: of the queue whose turn it was, None: not known.

    ``first``: nothing before it tells whose turn it was; ``concurrent``: in turn, if sends that overlap chose in another
    order; ``active_mode``: if queues that failed were left out (C++); ``gap``: if attempts before it are not recorded;
    ``out_of_turn``, ``uncounted``: and those behind it go on as if it had been in turn, or had not been; ``out_of_send``: a C++ retry that does not follow its own send; ``lost``: what it follows is not
    recorded.
    """

    kind: Kind
    place: int | None


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

    def widened(self, before: int, after: int, queue: tuple[str, int] | None) -> Window:
        """With one attempt more."""
        taken = None if queue is None or self.taken is None else {*self.taken, queue}
        return Window(self.before + before, self.after + after, taken)


class Rule(Protocol):
    """How a family counts; a state is the place whose turn is next."""

    start: int  # of a producer that has not sent

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """The place whose turn it is, and the state behind it; None: it depends on what is not recorded."""

    def follows_send(self, sent: Sent) -> bool:
        """Whether the attempt goes by the one before it in its send, and not by the state."""

    def looks_on(self, sent: Sent) -> bool:
        """Whether the attempt may count more than one queue."""


class GoTurns:
    """One counter for all attempts; source: ``RoundRobin``."""

    start = 1

    def __init__(self, queues: Sequence[MessageQueue], profile: str) -> None:
        """``queues``: not empty."""
        self._brokers = [queue.broker_name for queue in queues]
        self._avoids = CLIENT_FAMILIES[profile].avoids_last

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """A retry passes over queues of the broker that failed, where its release looks at it."""
        size, place = len(self._brokers), state
        if self.looks_on(sent):
            if sent.last_broker_name is None:
                return None, state
            steps = ((state + step) % size for step in range(size))
            place = next((p for p in steps if self._brokers[p] != sent.last_broker_name), state)
        return place, (place + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Never."""
        return False

    def looks_on(self, sent: Sent) -> bool:
        """Where it passes over a broker."""
        return sent.is_retry and sent.mode in self._avoids


class CppTurns:
    """The next send begins where the counter stands; its retries go on from its own queue; source: ``PublishTable``."""

    start = 0

    def __init__(self, queues: Sequence[MessageQueue], _profile: str) -> None:
        """``queues``: not empty."""
        self._queues = [(queue.broker_name, queue.queue_id) for queue in queues]

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """A retry takes another broker; where there is none it is used up, and the next takes the queue behind."""
        size = len(self._queues)
        if not sent.is_retry:
            return state, (state + 1) % size
        if sent.last_queue not in self._queues:
            return None, state
        last = self._queues.index(sent.last_queue)
        for looks in range(1, size + 1):
            place = (last + looks) % size
            if self._queues[place][0] != self._queues[last][0]:
                return (None, state) if sent.skips else (place, (state + looks) % size)
        return (last + 2) % size, (state + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Every retry does."""
        return sent.is_retry

    def looks_on(self, sent: Sent) -> bool:
        """Every retry may."""
        return sent.is_retry


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
    rule = CppTurns(queues, profile) if CLIENT_FAMILIES[profile].language == "CPP" else GoTurns(queues, profile)
    walk = _Walk(rule, queues)
    if is_whole:
        walk.states = {rule.start % len(queues): (0.0, None)}
    for sent, window in zip(sends, _windows(sends, rule, len(queues), tolerance_ms), strict=True):
        walk.take(sent, window)
    return walk.told, walk.settle()


class _Walk:
    """``told``: of the attempts that all likely ways agree on; the others are in the chains of ``states``."""

    def __init__(self, rule: Rule, queues: Sequence[MessageQueue]) -> None:
        self.rule, self.queues = rule, queues
        self.places = {(queue.broker_name, queue.queue_id): place for place, queue in enumerate(queues)}
        self.states: _States = {}
        self.told: list[Turn] = []
        self._failed_at: dict[tuple[str, int], int] = {}
        self._taken_while_out: set[tuple[str, int]] = set()
        self._cost = 0.0

    def take(self, sent: Sent, window: Window) -> None:
        """The next attempt."""
        place, states = self.places.get(sent.queue), self.states
        expected, _ = self.rule.turn(0, sent)
        if expected is None:
            self._begin_anew(Turn("lost", None))
        elif not states and self.rule.follows_send(sent):
            self.told.append(Turn("in_turn" if place == expected else "out_of_send", expected))
        elif not states:
            self.told.append(Turn("first" if place is not None else "out_of_turn", None))
            self.states = {} if place is None else {(place + 1) % len(self.queues): (self._cost, None)}
        else:
            self._go_on(sent, place, window)
        if isinstance(self.rule, CppTurns):
            self._note(sent)

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

    def _begin_anew(self, turn: Turn) -> None:
        self.settle()
        self.told.append(turn)

    def _go_on(self, sent: Sent, place: int | None, window: Window) -> None:
        found: _States = {}
        best = min(cost for cost, _ in self.states.values())
        for state, (cost, chain) in self.states.items():
            for turn, after, more in self._ways(state, sent, place, window):
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

    def _ways(self, state: int, sent: Sent, place: int | None, window: Window) -> Iterator[tuple[Turn, int, float]]:
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
        if place is not None and not own_send and self._is_within(window, expected or 0, later):
            yield Turn("concurrent", expected), after, _DOUBT
        elif place is not None and self._passes_over_failed(expected or 0, later, sent):
            yield Turn("active_mode", expected), (after + later) % size, _DOUBT
            if self._is_out(sent.queue, sent):
                yield Turn("active_mode", expected), state, _DOUBT
        else:
            yield Turn("out_of_send" if own_send else "out_of_turn", expected), after, _OUT
            yield Turn("out_of_send" if own_send else "uncounted", expected), state, _OUT + _DOUBT

    def _is_within(self, window: Window, expected: int, later: int) -> bool:
        queue = self.queues[expected]
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


def _windows(sends: Sequence[Sent], rule: Rule, size: int, tolerance_ms: int) -> list[Window]:
    windows = [Window(0, 0, set()) for _ in sends]
    steps = [size if rule.looks_on(sent) else 1 for sent in sends]
    running: list[int] = []
    for place, sent in enumerate(sends):
        running = [n for n in running if sends[n].chosen_ms + tolerance_ms >= sent.begin_ms]
        for n in running:
            if _may_swap(sends[n], sent, tolerance_ms):
                may_skip = steps[n] > 1 or steps[place] > 1 or not _is_one_thread(sends[n], sent)
                windows[place] = windows[place].widened(steps[n], 0, None if may_skip else sends[n].queue)
                windows[n] = windows[n].widened(0, steps[place], None if may_skip else sent.queue)
        running.append(place)
    return windows


def _is_one_thread(first: Sent, second: Sent) -> bool:
    return first.thread is not None and first.thread == second.thread


def _may_swap(first: Sent, second: Sent, tolerance_ms: int) -> bool:
    """Whether the second, which did not begin earlier, may have chosen earlier: they overlap, or nearly so."""
    if second.is_retry and first.send == second.send:
        return False
    threads_differ = None not in (first.thread, second.thread) and first.thread != second.thread
    near = threads_differ and first.chosen_ms + tolerance_ms >= second.begin_ms
    return near or first.chosen_ms > second.begin_ms or first.begin_ms == second.begin_ms

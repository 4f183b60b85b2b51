"""Members, their rules and the queues of a group in; a rollout member by member out: who reads what, and for how long
nobody does.

A step: a member stops, is away, and comes back by another rule, perhaps under another client id. The others hear of
both. Each shares by its own rule over the list that it knows, so rules that differ give queues to nobody, or to two.

What is not known lies between two bounds: when each member hears of a change (a broker tells it, or its timer runs),
and in ordered groups when a lock is free. Each of these moves the time in which a queue is read in one direction only,
so both bounds of a queue are reached at their ends. Times are ms; those that servers take to answer come on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple

from hindsight.udfs.allocation import MessageQueue, sort_client_ids
from hindsight.udfs.client_families import CLIENT_FAMILIES, GO
from hindsight.udfs.consumer.expected_allocation import MemberRule, claimants_of

# ClientRemotingProcessor#notifyConsumerIdsChanged wakes RebalanceService at once; from 5.2.0 on 1 s lies between two
# rounds (MIN_INTERVAL), and from 5.0.0 on a new queue is pulled 500 ms after it was taken.
_WOKEN_MS, _FIRST_PULL_MS = 1_000, 500
_JAVA_TIMER_MS = 20_000  # RebalanceService#waitInterval
# RebalanceLockManager: a lock lives 60 s, owners renew it each 20 s. Who gives up a queue that it still works on
# unlocks it 20 s later (RebalancePushImpl#unlockDelay).
_LOCK_LIVES_MS, _UNLOCKED_LATE_MS = (40_000, 60_000), (0, 20_000)
_SEES_ITSELF_LATE = ("G0", "G1")  # Go through 2.0.0-rc1: the first round comes before the first heartbeat
_KEEPS_LOCKS = ("G0", "G1", "G2", "G3", "G4")  # Go before 2.1.2.rc1 unlocks nothing when it ends
EXACT_UP_TO = 8  # members, of which every order is weighed
_LOOKED_AT = 3_000  # steps of longer rollouts that the search for an order weighs, about


class Bounds(NamedTuple):
    """Milliseconds, at least and at most."""

    least: int
    most: int


class Topic(NamedTuple):
    """A topic of the group: its queues in RocketMQ's order; ``parameters``: the strategy's, as JSON."""

    name: str
    queues: tuple[tuple[str, int], ...]
    strategy: str
    parameters: str = ""


class Change(NamedTuple):
    """What becomes of a member: its rule, with its client id, before and after."""

    before: MemberRule
    after: MemberRule


class Way(NamedTuple):
    """How members stop and come back.

    Attributes:
        stop: shutdown: it unregisters and unlocks; killed: brokers see its connection close, locks live on.
        away_ms: from its stop until it has started again; ``calm_ms``: from when all have heard until the next stops.
        notified: brokers tell members of changes (notifyConsumerIdsChangedEnable); else their timers alone do.
        ordered: the group consumes in order, so that a queue is read once its lock is had.
    """

    stop: Literal["shutdown", "killed"] = "shutdown"
    away_ms: int = 30_000
    calm_ms: int = 60_000
    notified: bool = True
    ordered: bool = False


class Share(NamedTuple):
    """A topic in a step. ``away``, ``after``: who reads each queue while the member is away, and once all have heard.

    ``moved``: queues whose readers are others than before the step; ``taken``: how often members took one in it.
    ``unread``: of all queues together, until the next step; ``longest``: of the one that is unread the longest.
    """

    topic: Topic
    away: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]
    moved: int
    taken: int
    unread: Bounds
    longest: Bounds


class Step(NamedTuple):
    """A member's turn. ``lasts_ms``: until all have heard, at most; the calm comes on top."""

    change: Change
    lasts_ms: int
    shares: tuple[Share, ...]

    @property
    def cost(self) -> tuple[int, int]:
        """By which orders are weighed: time unread at most, of all queues together; then how often one was taken."""
        return sum(share.unread.most for share in self.shares), sum(share.taken for share in self.shares)


class Order(NamedTuple):
    """An order of the members' turns, as places in the changes, with its cost; ``exact``: none was left out."""

    places: tuple[int, ...]
    cost: tuple[int, int]
    exact: bool


def rollout(topics: Sequence[Topic], changes: Sequence[Change], way: Way) -> list[Step]:
    """The steps of a rollout in the order given. Every member's rule is known, and has an answer for each topic."""
    step = _weigher(topics, changes, way)
    done = accumulate(range(len(changes)), lambda before, place: before | 1 << place, initial=0)
    return [step(before, place) for place, before in zip(range(len(changes)), done, strict=False)]


def best_and_worst(topics: Sequence[Topic], changes: Sequence[Change], way: Way) -> tuple[Order, Order]:
    """The orders that cost least and most.

    What a step costs depends on who has had a turn, not on the order of these turns. So each set of members is
    reached once, by its best way. Of long rollouts only the best sets of each size are kept (``Order.exact``).
    """
    step = _weigher(topics, changes, way)

    @cache
    def cost(before: int, place: int) -> tuple[int, int]:
        return step(before, place).cost

    return _searched(len(changes), cost, 1), _searched(len(changes), cost, -1)


def _searched(number: int, cost: Callable[[int, int], tuple[int, int]], sign: int) -> Order:
    kept = None if number <= EXACT_UP_TO else max(1, _LOOKED_AT // number**2)
    exact = True
    level: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {0: ((0, 0), ())}  # by set of members: cost, and order
    for _ in range(number):
        reached: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}
        for before, (so_far, places) in level.items():
            for place in range(number):
                if not before >> place & 1:
                    more = cost(before, place)
                    found = (so_far[0] + sign * more[0], so_far[1] + sign * more[1]), (*places, place)
                    reached[before | 1 << place] = min(reached.get(before | 1 << place, found), found)
        best = sorted(reached.items(), key=lambda item: item[1])[:kept]
        exact, level = exact and len(best) == len(reached), dict(best)
    ((total, order),) = level.values()
    return Order(order, (sign * total[0], sign * total[1]), exact)


def _weigher(topics: Sequence[Topic], changes: Sequence[Change], way: Way) -> Callable[[int, int], Step]:
    """What gives the step in which one more member (its place) has its turn; the first argument: who had (bits)."""
    mq_all = {topic: tuple(MessageQueue(topic.name, *queue) for queue in topic.queues) for topic in topics}

    @cache
    def readers(topic: Topic, rules: tuple[MemberRule, ...]) -> tuple[tuple[str, ...], ...]:
        view = tuple(sort_client_ids(rule.client_id for rule in rules))
        found = claimants_of(topic.strategy, topic.parameters, mq_all[topic], [view], rules) if rules else ()
        return found or ((),) * len(topic.queues)

    def step(before: int, place: int) -> Step:
        now = tuple(change.after if before >> at & 1 else change.before for at, change in enumerate(changes))
        others = now[:place] + now[place + 1 :]
        then = (*now[:place], changes[place].after, *now[place + 1 :])
        course = _Course(changes[place], others, way)
        shares = (
            _share(topic, course, readers(topic, now), readers(topic, others), readers(topic, then)) for topic in topics
        )
        return Step(changes[place], course.settled_ms, tuple(shares))

    return step


def _share(topic: Topic, course: _Course, *views: tuple[tuple[str, ...], ...]) -> Share:
    now, away, after = views
    unread = [course.unread(*queue) for queue in zip(now, away, after, strict=True)]
    # Under another id a member is still the same one.
    same = {course.change.before.client_id: course.change.after.client_id}
    moved = sum({same.get(one, one) for one in a} != set(b) for a, b in zip(now, after, strict=True))
    taken = sum(len(set(b) - set(a)) for pair in ((now, away), (away, after)) for a, b in zip(*pair, strict=True))
    least, most = [each.least for each in unread], [each.most for each in unread]
    longest = Bounds(max(least, default=0), max(most, default=0))
    return Share(topic, away, after, moved, taken, Bounds(sum(least), sum(most)), longest)


class _Course:
    """The instants of a step, from the member's stop on: when each member hears of its stop, and of its return."""

    def __init__(self, change: Change, others: Sequence[MemberRule], way: Way) -> None:
        self.change, self._way = change, way
        self._rules: Mapping[str, MemberRule] = {rule.client_id: rule for rule in others}
        self._hears = {rule.client_id: _hears_within(rule, way) for rule in others}
        late = _timer_ms(change.after) if change.after.profile in _SEES_ITSELF_LATE else 0
        self._back = Bounds(way.away_ms, way.away_ms + late + _FIRST_PULL_MS)
        waits = [self._back.most, *(way.away_ms + most for most in self._hears.values())]
        self.settled_ms = max(waits) + (_LOCK_LIVES_MS[1] + _JAVA_TIMER_MS if way.ordered else 0)

    def unread(self, now: tuple[str, ...], away: tuple[str, ...], after: tuple[str, ...]) -> Bounds:
        """For how long nobody reads a queue, by who takes it of each list of members."""
        spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
        freed = self._freed(now, away, after) if self._way.ordered else None
        for name in {*now, *away, *after} & self._rules.keys():
            claims = name in now, name in away, name in after
            for found, most_read in zip(spans, (True, False), strict=True):
                found += self._read(name, claims, freed, most_read=most_read)
        if self.change.after.client_id in after:
            for found, most_read in zip(spans, (True, False), strict=True):
                start = self._back.least if most_read else self._back.most
                if freed and not self._has_its_lock(now, away):
                    start = self._locked(start, freed[1], self.change.after, most_read=most_read)
                found.append((start, self._end))
        return Bounds(*(self._end - _covered(found, self._end) for found in spans))

    @property
    def _end(self) -> int:
        return self.settled_ms + self._way.calm_ms

    def _read(
        self, name: str, claims: tuple[bool, bool, bool], freed: tuple[Bounds, Bounds] | None, *, most_read: bool
    ) -> Iterator[tuple[int, int]]:
        """When a member that stays reads a queue, at the most or at the least."""
        now, away, after = claims
        hears, rule = self._hears[name], self._rules[name]
        is_late = (now if now != away else away) and not (away if now != away else after)
        left = hears if is_late == most_read else 0
        back = hears if (away and not after) == most_read else 0
        back = max(left, self._way.away_ms + back)
        if now:
            yield 0, left
        if away and left < back:
            start = self._locked(left, freed[0], rule, most_read=most_read) if freed and not now else left
            yield start, back
        if after:
            has_it = away if left < back else now
            start = self._locked(back, freed[1], rule, most_read=most_read) if freed and not has_it else back
            yield start, self._end

    def _freed(self, now: tuple[str, ...], away: tuple[str, ...], after: tuple[str, ...]) -> tuple[Bounds, Bounds]:
        """When the lock of a queue is free for who takes it in the member's absence, and after its return."""
        held = self.change.before.client_id in now and self._leaves_locks
        gone = Bounds(*(_LOCK_LIVES_MS if held else (0, 0)))
        first = self._given_up(set(now) - set(away), 0)
        second = self._given_up({*now, *away} - set(after), self._way.away_ms)
        first = Bounds(min(gone.least, first.least) if first.most else gone.least, max(gone.most, first.most))
        return first, Bounds(0 if second.most or not gone.most else gone.least, max(gone.most, second.most))

    def _given_up(self, names: Iterable[str], since: int) -> Bounds:
        found = [Bounds(0, 0)]
        for name in set(names) & self._rules.keys():
            delay = _LOCK_LIVES_MS if _language(self._rules[name]) == GO else _UNLOCKED_LATE_MS
            found.append(Bounds(0, since + self._hears[name] + delay[1]))
        return Bounds(0, max(each.most for each in found))

    def _has_its_lock(self, now: tuple[str, ...], away: tuple[str, ...]) -> bool:
        before, after = self.change
        nobody_else = not away or (self._leaves_locks and self._way.away_ms <= _LOCK_LIVES_MS[0])
        return before.client_id == after.client_id and before.client_id in now and nobody_else

    @property
    def _leaves_locks(self) -> bool:
        return self._way.stop == "killed" or self.change.before.profile in _KEEPS_LOCKS

    @staticmethod
    def _locked(start: int, freed: Bounds, rule: MemberRule, *, most_read: bool) -> int:
        """When a member that takes a queue has its lock: it tries when it hears, and then again and again."""
        if most_read or not freed.most:
            return max(start, freed.least)
        return max(start, freed.most + _tries_again_within(rule))


def _language(rule: MemberRule) -> str:
    family = CLIENT_FAMILIES.get((rule.profile or "").split("|")[0])
    return "JAVA" if family is None else family.language


def _timer_ms(rule: MemberRule) -> int:
    names = (rule.profile or "").split("|")
    return max(CLIENT_FAMILIES[n].rebalance_period_ms if n in CLIENT_FAMILIES else _JAVA_TIMER_MS for n in names)


def _hears_within(rule: MemberRule, way: Way) -> int:
    return _FIRST_PULL_MS + (_WOKEN_MS if way.notified else _timer_ms(rule))


def _tries_again_within(rule: MemberRule) -> int:
    """RebalanceImpl#updateProcessQueueTableInRebalance: 5.x tries again after 500 ms, others when their timer runs."""
    return _WOKEN_MS if (rule.profile or "").startswith("P5") else _timer_ms(rule)


def _covered(spans: Iterable[tuple[int, int]], end: int) -> int:
    """The length of the union of spans within 0 to ``end``."""
    total = reached = 0
    for start, stop in sorted(spans):
        total += max(0, min(stop, end) - max(start, reached))
        reached = max(reached, min(stop, end))
    return total

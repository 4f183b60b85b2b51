"""One send's choice of a broker in, whether its producer's client could have made it out.

What the record does not determine is a set of readings: an update close to the choice may have come before it or after
it, a broker may have been missing from the client's list. A choice is consistent if the record's own order admits it,
possible if another reading does, and impossible if none does.

An example, 4.9.8: the client avoids broker-a until 120_000 ms, and has no item of broker-b.

>>> from hindsight.udfs.release_profiles import PROFILES
>>> listed = (RouteReading(listed=True, write_queue_nums=4, writable=True),)
>>> slow, none = ItemReading(FaultItem(2_500, 120_000, True)), ItemReading(None)
>>> brokers = [KnownBroker("broker-a", (slow,), listed), KnownBroker("broker-b", (none,), listed)]
>>> judge(Choice("broker-a", None, now_ms=60_000), brokers, PROFILES["P498"], enabled=True).verdict
'impossible'
>>> judge(Choice("broker-a", None, now_ms=120_000), brokers, PROFILES["P498"], enabled=True).verdict
'consistent'

If the slow send ended in the very millisecond of the choice, the client may not have known of it yet:

>>> either = KnownBroker("broker-a", (slow, none._replace(reason=SAME_MILLISECOND)), listed)
>>> told = judge(Choice("broker-a", None, now_ms=60_000), [either, brokers[1]], PROFILES["P498"], enabled=True)
>>> told.verdict, told.reason, sorted(told.admissible)
('possible', 'same_millisecond', ['broker-a', 'broker-b'])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod
from operator import or_
from typing import Literal, NamedTuple

from hindsight.udfs.fault_tolerance import (
    FaultItem,
    FaultProfile,
    FaultTable,
    RouteBroker,
    brokers_with_write_queues,
    fallen_back,
    is_available,
)
from hindsight.udfs.values.numbered_sets import NumberedSets

Rule = Literal["available", "reachable", "best_half", "round_robin", "pinned"]
Verdict = Literal["consistent", "possible", "impossible"]

SAME_MILLISECOND = "same_millisecond"  # the one doubt that has no likelier side
NEAR_LATENCIES = "near_latencies"  # the fallback sorts by latencies, which the client measured a little longer

_MOST_READINGS = 1024
_NOTHING = ""  # no broker's name


class ItemReading(NamedTuple):
    """What a fault table may have held of a broker at the choice.

    Attributes:
        item: None: nothing.
        reason: why this is not what the record's own order gives; None: it is.
    """

    item: FaultItem | None
    reason: str | None = None


class RouteReading(NamedTuple):
    """What a topic's route may have been for a broker at the choice.

    Attributes:
        listed: the broker has a queue in the client's list.
        write_queue_nums: of the route's entry, whatever its permission; None: no entry.
        writable: the entry's write permission.
        reason: why this is not the likeliest; None: it is.
    """

    listed: bool
    write_queue_nums: int | None
    writable: bool
    reason: str | None = None


class KnownBroker(NamedTuple):
    """A broker as the producer may have known it; the first reading of each kind has no reason."""

    broker_name: str
    items: tuple[ItemReading, ...]
    routes: tuple[RouteReading, ...]


class Choice(NamedTuple):
    """The broker of a send attempt.

    Attributes:
        broker_name: the broker chosen.
        last_broker_name: broker of the attempt before it in the same send call; None: first attempt.
        now_ms: instant of the choice.
    """

    broker_name: str
    last_broker_name: str | None
    now_ms: int


class Judgement(NamedTuple):
    """What is said of a choice.

    Attributes:
        verdict: see the module.
        rule: the rule that decided, in the likeliest of the readings that admit the choice.
        reason: of a ``possible``: what has to be assumed.
        admissible: the brokers that some reading admits.
        removable: brokers of which the fallback forgot one, in some reading that admits the choice.
        surely_removed: of a ``consistent`` choice, the broker that it forgot in each of them.
    """

    verdict: Verdict
    rule: Rule
    reason: str | None
    admissible: frozenset[str]
    removable: frozenset[str]
    surely_removed: str | None


class _Said(NamedTuple):
    """What one reading says of a broker, or of all brokers together: sets as ``NumberedSets`` makes them.

    Attributes:
        preferred: brokers that the release's rule takes before all others.
        second: those that it takes where none is preferred (``filter``, 5.1.4 on).
        listed: those with a queue in the client's list.
        queued: those for which the fallback finds write queues in the topic's route.
        items: what the fault table holds, by broker name.
        reasons: what has to be assumed.
    """

    preferred: int
    second: int
    listed: int
    queued: int
    items: int
    reasons: int


_SAID_NOTHING = _Said(0, 0, 0, 0, 0, 0)


def judge(
    choice: Choice, brokers: Sequence[KnownBroker], profile: FaultProfile, *, enabled: bool, tolerance_ms: int = 0
) -> Judgement:
    """Whether selectOneMessageQueue could have returned the broker.

    Args:
        brokers: every broker with a queue in the client's list, an entry in the topic's route, or a fault item.
        enabled: sendLatencyFaultEnable.
        tolerance_ms: the client's own measure of a latency may be so much longer: the fallback's order of latencies
            that are no farther apart is not known.

    Source: MQFaultStrategy#selectOneMessageQueue and TopicPublishInfo, 4.2.0 to 5.5.0.
    """
    readings = _Readings(choice, brokers, profile, enabled, tolerance_ms)
    return readings.among_preferred() or readings.one_by_one()


class _Readings:
    """What the readings of one choice give."""

    def __init__(
        self, choice: Choice, brokers: Sequence[KnownBroker], profile: FaultProfile, enabled: bool, tolerance_ms: int
    ) -> None:
        self._choice, self._profile, self._enabled, self._tolerance_ms = choice, profile, enabled, tolerance_ms
        self._brokers = NumberedSets[str]()
        self._items = NumberedSets[tuple[str, FaultItem | None]]()
        self._reasons = NumberedSets[str]()
        self._either_way = self._reasons.bits([SAME_MILLISECOND])
        self._options = {broker.broker_name: self._said_of(broker) for broker in brokers}
        self._near = self._reasons.bits([NEAR_LATENCIES])
        self._picked: dict[tuple[int, bool], int] = {}
        self._falls_back = FaultTable(profile, enabled=enabled).falls_back()

    def _said_of(self, broker: KnownBroker) -> list[_Said]:
        """What each pair of the broker's readings says, the likeliest first."""
        said, own = [], self._brokers.bits([broker.broker_name])
        is_candidate = self._is_candidate(broker.broker_name)
        looks_further = self._enabled and self._profile.last_broker_rule == "filter"
        for item, doubt in broker.items:
            preferred = second = 0
            if is_candidate and (not self._enabled or is_available(item, self._choice.now_ms, self._profile)):
                preferred = own
            if is_candidate and looks_further and (item is None or item.reachable):
                second = own
            items = self._items.bits([(broker.broker_name, item)])
            assumed = self._reasons.bits([doubt]) if doubt else 0
            for route in broker.routes:
                listed = own if route.listed else 0
                queued = own if route.write_queue_nums is not None and self._has_write_queues(route) else 0
                reasons = assumed | (self._reasons.bits([route.reason]) if route.reason else 0)
                said.append(_Said(preferred & listed, second & listed, listed, queued, items, reasons))
        return said

    def _has_write_queues(self, route: RouteReading) -> bool:
        entry = RouteBroker("", route.write_queue_nums or 0, route.writable)
        return bool(brokers_with_write_queues([entry], self._profile))

    def _is_candidate(self, name: str) -> bool:
        """Whether the release's rule may prefer the broker after the attempt before."""
        last = self._choice.last_broker_name
        rule = self._profile.last_broker_rule if self._enabled else "not_equal"
        if rule == "none" or (rule == "equals" and last is None):
            return True
        return (name == last) == (rule == "equals")

    def among_preferred(self) -> Judgement | None:
        """The verdict where some broker is surely there to be preferred; None: there may be none.

        No reading looks further then, so each broker is judged by its own options: one is admissible if some option of
        it is preferred, and what the choice has to assume is what its own broker's likeliest such option does.
        """
        if not any(all(said.preferred for said in options) for options in self._options.values()):
            return None
        admissible = reduce(or_, (said.preferred for options in self._options.values() for said in options))
        own = self._options.get(self._choice.broker_name, [])
        admitting = [said for said in own if said.preferred]
        certain = all(said.preferred for said in own if self._is_first(said))
        return self._judgement(admissible, admitting, certain, "available" if self._enabled else "round_robin")

    def one_by_one(self) -> Judgement:
        """The verdict from what each combination of the brokers' options gives."""
        chosen, or_none = (self._brokers.bits([name]) for name in (self._choice.broker_name, _NOTHING))
        admissible, certain = 0, True
        admitting, removals = [], []
        readings = [each for said in self._readings() for each in self._either_order(said)]
        for said in readings:
            could, removable, kept = self._could(said)
            admissible |= could
            if chosen & could:
                admitting.append(said)
                # If the reading is right, the fallback forgot one of these; or none, if it can have kept its pick.
                removals.append(removable | or_none if removable and chosen & kept else removable)
            else:
                certain = certain and not self._is_first(said)
        likeliest = min(admitting, key=_doubts, default=readings[0])
        judgement = self._judgement(admissible, admitting, certain, self._rule(likeliest))
        removable = reduce(or_, removals, 0)
        forgotten = self._names(removable & ~or_none)
        is_sure = judgement.verdict == "consistent" and len(forgotten) == 1 and {*removals} == {removable & ~or_none}
        return judgement._replace(removable=forgotten, surely_removed=next(iter(forgotten)) if is_sure else None)

    def _judgement(self, admissible: int, admitting: Sequence[_Said], certain: bool, rule: Rule) -> Judgement:
        """The verdict by the readings that admit the choice; ``certain``: so does each one without a doubt."""
        names, none = self._names(admissible), frozenset[str]()
        if not admitting:
            return Judgement("impossible", rule, None, names, none, None)
        likeliest = min(admitting, key=_doubts)
        if certain and self._is_first(likeliest):
            return Judgement("consistent", rule, None, names, none, None)
        # What rests on a doubt is not sure, even where nothing else explains the choice.
        reason = " + ".join(sorted(self._reasons.members(likeliest.reasons))) or SAME_MILLISECOND
        return Judgement("possible", rule, reason, names, none, None)

    def _readings(self) -> list[_Said]:
        """What the combinations say; what is said twice counts once."""
        settled = reduce(_both, (options[0] for options in self._options.values() if len(options) == 1), _SAID_NOTHING)
        doubtful = [options for options in self._options.values() if len(options) > 1]
        if prod(map(len, doubtful)) > _MOST_READINGS:
            return list(dict.fromkeys(reduce(_both, each, settled) for each in _one_at_a_time(doubtful)))
        readings = [settled]
        for options in doubtful:
            # What begins the same goes on the same.
            readings = list(dict.fromkeys(_both(said, option) for said in readings for option in options))
        return readings

    def _either_order(self, said: _Said) -> list[_Said]:
        """The reading, and with its latencies in another order if the fallback is asked and may pick by that."""
        if said.preferred or said.second or not said.listed or not self._falls_back or not self._tolerance_ms:
            return [said]
        other = said._replace(reasons=said.reasons | self._near)
        return [said] if self._picks(said) == self._picks(other) else [said, other]

    def _could(self, said: _Said) -> tuple[int, int, int]:
        """The brokers that a reading admits; of the fallback's picks those that it may forget, and the others."""
        taken = said.preferred or said.second
        if taken or not said.listed or not self._falls_back:
            return taken or said.listed, 0, 0
        return fallen_back(said.listed, self._picks(said), said.queued)

    def _picks(self, said: _Said) -> int:
        """What the fallback may pick where the table holds the reading's items."""
        is_near = bool(said.reasons & self._near)
        key = said.items, is_near
        if key not in self._picked:
            within_ms = self._tolerance_ms if is_near else 0
            picks = self._table(said.items).pick_one_at_least(self._choice.now_ms, within_ms=within_ms)
            self._picked[key] = self._brokers.bits(picks)
        return self._picked[key]

    def _table(self, items: int) -> FaultTable:
        held = {name: item for name, item in self._items.members(items) if item is not None}
        return FaultTable(self._profile, enabled=self._enabled, items=held)

    def _rule(self, said: _Said) -> Rule:
        if not self._enabled:
            return "round_robin"
        if said.preferred:
            return "available"
        if said.second:
            return "reachable"
        chosen = self._brokers.bits([self._choice.broker_name])
        return "best_half" if self._falls_back and chosen & self._picks(said) else "round_robin"

    def _is_first(self, said: _Said) -> bool:
        return not said.reasons & ~self._either_way

    def _names(self, brokers: int) -> frozenset[str]:
        return frozenset(self._brokers.members(brokers))


def _doubts(said: _Said) -> int:
    return said.reasons.bit_count()


def _both(one: _Said, other: _Said) -> _Said:
    """What readings of several brokers say together."""
    preferred, second, listed, queued, items, reasons = one
    return _Said(
        preferred | other.preferred,
        second | other.second,
        listed | other.listed,
        queued | other.queued,
        items | other.items,
        reasons | other.reasons,
    )


def _one_at_a_time(options: list[list[_Said]]) -> Iterator[tuple[_Said, ...]]:
    """Of so many combinations that not each is tried: the likeliest, those of one broker at a time, and all at once."""
    likeliest = tuple(each[0] for each in options)
    yield likeliest
    for i, each in enumerate(options):
        for other in each[1:]:
            yield (*likeliest[:i], other, *likeliest[i + 1 :])
    yield tuple(each[-1] for each in options)

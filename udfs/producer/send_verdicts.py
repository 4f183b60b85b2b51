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

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache, reduce
from math import prod
from operator import or_
from typing import Generic, Literal, NamedTuple, TypeVar

from hindsight.udfs.fault_tolerance import (
    FaultItem,
    FaultProfile,
    FaultTable,
    better_half,
    fallen_back,
    is_available,
)

T = TypeVar("T", bound=Hashable)


class NumberedSets(Generic[T]):
    """Gives each member that it meets the next free bit."""

    def __init__(self) -> None:
        self._bits: dict[T, int] = {}

    def bits(self, members: Iterable[T]) -> int:
        """The set of these members."""
        found = 0
        for member in members:
            found |= self._bits.setdefault(member, 1 << len(self._bits))
        return found

    def members(self, bits: int) -> list[T]:
        """Who is in the set, in the order in which they were met."""
        return [member for member, bit in self._bits.items() if bit & bits]


Rule = Literal["available", "reachable", "best_half", "round_robin", "pinned"]
Verdict = Literal["consistent", "possible", "impossible"]

SAME_MILLISECOND = "same_millisecond"  # the one doubt that has no likelier side
NEAR_LATENCIES = "near_latencies"  # the fallback sorts by latencies, which the client measured a little longer

_MOST_READINGS = 1024


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
    """What one reading says of a broker, or of all brokers together, as sets: numbers with a bit for each member.

    Attributes:
        preferred: brokers that the release's rule takes before all others.
        second: those that it takes where none is preferred (``filter``, 5.1.4 on).
        listed: those with a queue in the client's list.
        queued: those for which the fallback finds write queues in the topic's route.
        items: what the fault table holds.
        reasons: what has to be assumed.
    """

    preferred: int
    second: int
    listed: int
    queued: int
    items: int
    reasons: int


# What an item reading says of its broker: a bit of the item's own (0: the table holds none), whether the rule takes the
# broker and whether it does where none is preferred, if it is listed, and the reading's reason.
_State = tuple[int, bool, bool, str | None]


class _Options(NamedTuple):
    """What each pair of a broker's readings says, the likeliest first.

    ``always``: it is preferred in each; ``ever``: its bit, where it is in some.
    """

    said: tuple[_Said, ...]
    always: bool
    ever: int


# Available first, then fast, then free early: FaultItem#compareTo.
Rank = tuple[bool, int, int]
# What the table may hold of a broker (None: nothing), whether it can be reached, and why it is not as recorded.
Ranked = tuple[Rank | None, bool, str | None]

_REASONS = NumberedSets[str]()
_EITHER_WAY, _NEAR = (_REASONS.bits([reason]) for reason in (SAME_MILLISECOND, NEAR_LATENCIES))
_NOBODY = 1  # the bit of no broker


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
    names = list(dict.fromkeys((choice.broker_name, *(broker.broker_name for broker in brokers))))
    bits = {name: bit_of(place) for place, name in enumerate(names)}
    board = Board(choice, bits[choice.broker_name], profile, enabled=enabled, tolerance_ms=tolerance_ms)
    for broker in brokers:
        board.add(bits[broker.broker_name], broker.broker_name, board.ranked(broker.items), broker.routes)
    return board.judgement(lambda found: names_of(found, names))


def bit_of(place: int) -> int:
    """The bit of the broker at a place."""
    return 2 << place


def names_of(found: int, names: Sequence[str]) -> frozenset[str]:
    """Who is in a set; ``names``: by place."""
    return frozenset(name for place, name in enumerate(names) if found & bit_of(place))


@lru_cache(maxsize=1 << 14)
def _options_of(
    own: int, states: tuple[_State, ...], routes: tuple[RouteReading, ...], checks_permission: bool
) -> _Options:
    """Of one broker. Few of a date's brokers are in a state of their own."""
    said = []
    for item, preferred, second, reason in states:
        for route in routes:
            listed = own if route.listed else 0
            # As ``brokers_with_write_queues`` has it.
            is_queued = (route.writable or not checks_permission) and (route.write_queue_nums or 0) > 0
            reasons = _REASONS.bits(each for each in (reason, route.reason) if each)
            taken = (listed if preferred else 0, listed if second else 0)
            said.append(_Said(*taken, listed, own if is_queued else 0, item, reasons))
    return _Options(
        tuple(said), all(each.preferred for each in said), own if any(each.preferred for each in said) else 0
    )


class Board:
    """The brokers of one choice as they may have been, each with a bit; judges it by what their readings give."""

    def __init__(self, choice: Choice, chosen: int, profile: FaultProfile, *, enabled: bool, tolerance_ms: int) -> None:
        """Args: chosen: the bit of the broker chosen; others as of ``judge``."""
        self._now_ms, self._chosen, self._profile, self._enabled = choice.now_ms, chosen, profile, enabled
        self._tolerance_ms = tolerance_ms
        self._last, rule = choice.last_broker_name, profile.last_broker_rule if enabled else "not_equal"
        # Whether the release's rule may prefer any broker after the attempt before, or else just its broker.
        self._takes_any = rule == "none" or (rule == "equals" and self._last is None)
        self._takes_last = rule == "equals"
        self._looks_further = enabled and rule == "filter"
        self._falls_back = FaultTable(profile, enabled=enabled).falls_back()
        self._options: list[_Options] = []
        self._own: _Options | None = None
        self._held: list[tuple[Rank, int, int]] = []
        self._picked: dict[int, tuple[int, ...]] = {}  # by items; with latencies in the other order last

    def ranked(self, readings: Iterable[ItemReading]) -> list[Ranked]:
        """Item readings as ``add`` takes them."""
        found: list[Ranked] = []
        for item, reason in readings:
            if item is None:
                found.append((None, True, reason))
            else:
                is_held = not is_available(item, self._now_ms, self._profile)
                found.append(((is_held, item.current_latency_ms, item.start_ms or 0), item.reachable, reason))
        return found

    def add(self, own: int, name: str, readings: Iterable[Ranked], routes: tuple[RouteReading, ...]) -> None:
        """A broker of which these are the readings."""
        is_candidate = self._takes_any or (name == self._last) == self._takes_last
        looks_further = is_candidate and self._looks_further
        states = []
        for rank, reachable, reason in readings:
            bit = 0
            if rank is not None:
                bit = 1 << len(self._held)
                self._held.append((rank, own, bit))
            is_open = rank is None or not rank[0] or not self._enabled
            states.append((bit, is_candidate and is_open, looks_further and reachable, reason))
        options = _options_of(own, tuple(states), routes, self._profile.fallback_needs_write_perm)
        self._options.append(options)
        if own == self._chosen:
            self._own = options

    def judgement(self, names: Callable[[int], frozenset[str]]) -> Judgement:
        """What is said of the choice; ``names``: who is in a set."""
        self._held.sort()
        return self._among_preferred(names) or self._one_by_one(names)

    def _among_preferred(self, names: Callable[[int], frozenset[str]]) -> Judgement | None:
        """The verdict where some broker is surely there to be preferred; None: there may be none.

        No reading looks further then, so each broker is judged by its own options: one is admissible if some option of
        it is preferred, and what the choice has to assume is what its own broker's likeliest such option does.
        """
        if not any(options.always for options in self._options):
            return None
        own = self._own.said if self._own else ()
        admitting = [said for said in own if said.preferred]
        certain = all(said.preferred for said in own if _is_first(said))
        admissible = names(reduce(or_, (options.ever for options in self._options)))
        return _judgement(admissible, admitting, certain, "available" if self._enabled else "round_robin")

    def _one_by_one(self, names: Callable[[int], frozenset[str]]) -> Judgement:
        """The verdict from what each combination of the brokers' options gives."""
        chosen = self._chosen
        # Each option is part of some combination, and where one is preferred, all that are preferred may be taken.
        admissible = reduce(or_, (options.ever for options in self._options), 0)
        certain = True
        admitting, removals = [], []
        readings = [each for said in self._readings() for each in self._either_order(said)]
        for said in readings:
            could, removable, kept = self._could(said)
            admissible |= could
            if chosen & could:
                admitting.append(said)
                # If the reading is right, the fallback forgot one of these; or none, if it can have kept its pick.
                removals.append(removable | _NOBODY if removable and chosen & kept else removable)
            else:
                certain = certain and not _is_first(said)
        likeliest = min(admitting, key=_doubts, default=readings[0])
        judgement = _judgement(names(admissible), admitting, certain, self._rule(likeliest))
        removable = reduce(or_, removals, 0)
        forgotten = names(removable & ~_NOBODY)
        is_sure = judgement.verdict == "consistent" and len(forgotten) == 1 and {*removals} == {removable & ~_NOBODY}
        return judgement._replace(removable=forgotten, surely_removed=next(iter(forgotten)) if is_sure else None)

    def _readings(self) -> list[_Said]:
        """What the combinations say, as far as it makes a difference; what is said twice counts once."""
        settled = _together(options.said[0] for options in self._options if len(options.said) == 1)
        doubtful = [options.said for options in self._options if len(options.said) > 1]
        if prod(map(len, doubtful)) > _MOST_READINGS:
            return self._one_at_a_time(settled, doubtful)
        readings = [self._shortened(settled)]
        for options in doubtful:
            # What begins the same goes on the same.
            readings = list(
                dict.fromkeys(self._shortened(_both(said, option)) for said in readings for option in options)
            )
        return readings

    def _shortened(self, said: _Said) -> _Said:
        """The same without what no longer matters: where one is preferred, only whether the chosen one is too."""
        if not said.preferred:
            return said
        return _Said(said.preferred & self._chosen | _NOBODY, 0, 0, 0, 0, said.reasons)

    def _one_at_a_time(self, settled: _Said, doubtful: list[tuple[_Said, ...]]) -> list[_Said]:
        """Of so many that not each is tried: the likeliest, those of one broker at a time, and all at once.

        As long as another one is preferred, what a broker's other options say of the choice is what the likeliest does.
        """
        likeliest = _together([settled, *(options[0] for options in doubtful)])
        found, own = [likeliest], self._own.said if self._own else ()
        for options in doubtful:
            first, *others = options
            if likeliest.preferred & ~first.preferred and options is not own:
                continue
            rest = _Said(*(all_of ^ own_of for all_of, own_of in zip(likeliest, first, strict=True)))  # bits of its own
            found += [_both(rest, other) for other in others]
        return [*found, _together([settled, *(options[-1] for options in doubtful)])]

    def _either_order(self, said: _Said) -> list[_Said]:
        """The reading, and with its latencies in another order if the fallback is asked and may pick by that."""
        if said.preferred or said.second or not said.listed or not self._falls_back or not self._tolerance_ms:
            return [said]
        other = said._replace(reasons=said.reasons | _NEAR)
        return [said] if self._picks(said) == self._picks(other) else [said, other]

    def _could(self, said: _Said) -> tuple[int, int, int]:
        """The brokers that a reading admits; of the fallback's picks those that it may forget, and the others."""
        taken = said.preferred or said.second
        if taken or not said.listed or not self._falls_back:
            return taken or said.listed, 0, 0
        return fallen_back(said.listed, self._picks(said), said.queued)

    def _picks(self, said: _Said) -> int:
        """What the fallback may pick where the table holds the reading's items."""
        if said.items not in self._picked:
            held = [(rank, own) for rank, own, item in self._held if item & said.items]
            picks = (better_half(held, within_ms) for within_ms in (0, self._tolerance_ms))
            self._picked[said.items] = tuple(reduce(or_, each, 0) for each in picks)
        return self._picked[said.items][bool(said.reasons & _NEAR)]

    def _rule(self, said: _Said) -> Rule:
        if not self._enabled:
            return "round_robin"
        if said.preferred:
            return "available"
        if said.second:
            return "reachable"
        return "best_half" if self._falls_back and self._chosen & self._picks(said) else "round_robin"


def _judgement(admissible: frozenset[str], admitting: Sequence[_Said], certain: bool, rule: Rule) -> Judgement:
    """The verdict by the readings that admit the choice; ``certain``: so does each one without a doubt."""
    none = frozenset[str]()
    if not admitting:
        return Judgement("impossible", rule, None, admissible, none, None)
    likeliest = min(admitting, key=_doubts)
    if certain and _is_first(likeliest):
        return Judgement("consistent", rule, None, admissible, none, None)
    # What rests on a doubt is not sure, even where nothing else explains the choice.
    reason = " + ".join(sorted(_REASONS.members(likeliest.reasons))) or SAME_MILLISECOND
    return Judgement("possible", rule, reason, admissible, none, None)


def _is_first(said: _Said) -> bool:
    return not said.reasons & ~_EITHER_WAY


def _doubts(said: _Said) -> int:
    return said.reasons.bit_count()


def _both(one: _Said, other: _Said) -> _Said:
    """What readings of several brokers say together."""
    return _Said(*map(or_, one, other))


def _together(each: Iterable[_Said]) -> _Said:
    return _Said(*(reduce(or_, column) for column in zip(_SAID_NOTHING, *each, strict=True)))


_SAID_NOTHING = _Said(0, 0, 0, 0, 0, 0)

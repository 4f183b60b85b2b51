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

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from math import prod
from operator import or_
from typing import Literal, NamedTuple

from hindsight.udfs.fault_tolerance import (
    FaultItem,
    FaultProfile,
    FaultTable,
    better_half,
    fallen_back,
    is_available,
)


class NumberedSets:
    """Gives each member that it meets the next free bit."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def bits(self, members: Iterable[str]) -> int:
        """The set of these members."""
        found = 0
        for member in members:
            found |= self._bits.setdefault(member, 1 << len(self._bits))
        return found

    def members(self, bits: int) -> list[str]:
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


# What one reading says of a broker, or of all brokers together: one number, six sets side by side. From the lowest bits
# up, with ``width`` bits each: the brokers that the release's rule takes before all others (preferred), those that it
# takes where none is preferred (``filter``, 5.1.4 on), those with a queue in the client's list, and those for which the
# fallback finds write queues in the topic's route; then what has to be assumed, and what items the fault table holds.
_Said = int
_SECOND, _LISTED, _QUEUED, _REASONED = range(1, 5)
_REASON_BITS = 64
# What an item reading says of its broker: a bit of the item's own (0: the table holds none), whether the rule takes the
# broker and whether it does where none is preferred, if it is listed, and the reading's reason.
_State = tuple[int, bool, bool, str | None]


class Options(NamedTuple):
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

_REASONS = NumberedSets()
_EITHER_WAY, _NEAR = (_REASONS.bits([reason]) for reason in (SAME_MILLISECOND, NEAR_LATENCIES))
_ALL_REASONS = (1 << _REASON_BITS) - 1
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
    chosen = bits[choice.broker_name]
    board = Board(choice, chosen, profile, enabled=enabled, tolerance_ms=tolerance_ms, brokers=len(names))
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
    own: int, states: tuple[_State, ...], routes: tuple[RouteReading, ...], checks_permission: bool, width: int
) -> Options:
    """Of one broker. Few of a date's brokers are in a state of their own."""
    said, preferring = [], []
    for item, preferred, second, reason in states:
        for route in routes:
            # As ``brokers_with_write_queues`` has it.
            is_queued = (route.writable or not checks_permission) and (route.write_queue_nums or 0) > 0
            is_in = (preferred and route.listed, second and route.listed, route.listed, is_queued)
            sets = sum(own << width * place for place, one in enumerate(is_in) if one)
            reasons = _REASONS.bits(each for each in (reason, route.reason) if each)
            said.append(sets | (reasons | item << _REASON_BITS) << width * _REASONED)
            preferring.append(is_in[0])
    return Options(tuple(said), all(preferring), own if any(preferring) else 0)


class Board:
    """The brokers of one choice as they may have been, each with a bit; judges it by what their readings give."""

    def __init__(
        self, choice: Choice, chosen: int, profile: FaultProfile, *, enabled: bool, tolerance_ms: int, brokers: int
    ) -> None:
        """Args: chosen: the bit of the broker chosen; brokers: how many there are at most; others as of ``judge``."""
        self._now_ms, self._chosen, self._profile, self._enabled = choice.now_ms, chosen, profile, enabled
        self._tolerance_ms = tolerance_ms
        self._last, rule = choice.last_broker_name, profile.last_broker_rule if enabled else "not_equal"
        # Whether the release's rule may prefer any broker after the attempt before, or else just its broker.
        self._takes_any = rule == "none" or (rule == "equals" and self._last is None)
        self._takes_last = rule == "equals"
        self._looks_further = enabled and rule == "filter"
        self._falls_back = FaultTable(profile, enabled=enabled).falls_back()
        self._width = brokers + 1
        self._checks_permission = profile.fallback_needs_write_perm
        # Boards that have this in common find the same options of a broker other than that of the attempt before.
        self.common = (
            enabled, self._takes_any, self._takes_last, self._looks_further, self._checks_permission, self._width,
        )  # fmt: skip
        self._all = (2 << brokers) - 1
        self._options: list[tuple[_Said, ...]] = []
        self._is_always = False  # some broker is preferred in each of its options
        self._ever = 0  # those preferred in some
        self._own: tuple[_Said, ...] = ()
        self._held: list[tuple[Rank, int, int]] = []
        self._picked: dict[int, tuple[int, int]] = {}  # by items

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

    def add(self, own: int, name: str, readings: Iterable[Ranked], routes: tuple[RouteReading, ...]) -> Options:
        """A broker of which these are the readings."""
        is_candidate = self._takes_any or (name == self._last) == self._takes_last
        looks_further = is_candidate and self._looks_further
        states: list[_State] = []
        for rank, reachable, reason in readings:
            bit = 0
            if rank is not None:
                bit = own << self._width * sum(bit > 0 for bit, *_ in states)
                self._held.append((rank, own, bit))
            is_open = rank is None or not rank[0] or not self._enabled
            states.append((bit, is_candidate and is_open, looks_further and reachable, reason))
        options = _options_of(own, tuple(states), routes, self._checks_permission, self._width)
        self._take(own, options)
        return options

    def add_again(self, own: int, rank: Rank | None, options: Options) -> None:
        """A broker with one item reading, this rank, of which another board found these options."""
        if rank is not None:
            self._held.append((rank, own, own))
        self._take(own, options)

    def _take(self, own: int, options: Options) -> None:
        said, is_always, ever = options
        self._options.append(said)
        self._is_always = self._is_always or is_always
        self._ever |= ever
        if own == self._chosen:
            self._own = said

    def judgement(self, names: Callable[[int], frozenset[str]]) -> Judgement:
        """What is said of the choice; ``names``: who is in a set."""
        self._held.sort()
        return self._among_preferred(names) or self._one_by_one(names)

    def _among_preferred(self, names: Callable[[int], frozenset[str]]) -> Judgement | None:
        """The verdict where some broker is surely there to be preferred; None: there may be none.

        No reading looks further then, so each broker is judged by its own options: one is admissible if some option of
        it is preferred, and what the choice has to assume is what its own broker's likeliest such option does.
        """
        if not self._is_always:
            return None
        admitting = [self._reasons(said) for said in self._own if said & self._all]
        certain = all(said & self._all for said in self._own if _is_first(self._reasons(said)))
        return _judgement(names(self._ever), admitting, certain, "available" if self._enabled else "round_robin")

    def _one_by_one(self, names: Callable[[int], frozenset[str]]) -> Judgement:
        """The verdict from what each combination of the brokers' options gives."""
        chosen, certain = self._chosen, True
        # Each option is part of some combination, and where one is preferred, all that are preferred may be taken.
        admissible, readings = self._ever, self._readings()
        admitting, removals = [], []
        for reading in readings:
            for said, could, removable, kept in self._outcomes(reading):
                admissible |= could
                if chosen & could:
                    admitting.append(said)
                    # If the reading is right, the fallback forgot one of these; or none, if it can have kept its pick.
                    removals.append(removable | _NOBODY if removable and chosen & kept else removable)
                else:
                    certain = certain and not _is_first(self._reasons(said))
        rule = self._rule(min(admitting, key=self._doubts, default=readings[0]))
        removable = reduce(or_, removals, 0)
        forgotten = names(removable & ~_NOBODY)
        is_sure = len(forgotten) == 1 and {*removals} == {removable & ~_NOBODY}
        reasons = [*map(self._reasons, admitting)]
        return _judgement(
            names(admissible), reasons, certain, rule, forgotten, next(iter(forgotten)) if is_sure else None
        )

    def _readings(self) -> list[_Said]:
        """What the combinations say, as far as it makes a difference; what is said twice counts once."""
        settled = reduce(or_, [options[0] for options in self._options if len(options) == 1], 0)
        doubtful = [options for options in self._options if len(options) > 1]
        if prod(map(len, doubtful)) > _MOST_READINGS:
            return self._one_at_a_time(settled, doubtful)
        readings = [self._shortened(settled)]
        for options in doubtful:
            # What begins the same goes on the same.
            readings = list(dict.fromkeys(self._shortened(said | option) for said in readings for option in options))
        return readings

    def _shortened(self, said: _Said) -> _Said:
        """The same without what no longer matters: where one is preferred, only whether the chosen one is too."""
        preferred = said & self._all
        if not preferred:
            return said
        return preferred & self._chosen | _NOBODY | self._reasons(said) << self._width * _REASONED

    def _one_at_a_time(self, settled: _Said, doubtful: list[tuple[_Said, ...]]) -> list[_Said]:
        """Of so many that not each is tried: the likeliest, those of one broker at a time, and all at once.

        As long as another one is preferred, what a broker's other options say of the choice is what the likeliest does.
        """
        likeliest = reduce(or_, [options[0] for options in doubtful], settled)
        found, preferred = [likeliest], likeliest & self._all
        for options in doubtful:
            if not preferred & ~options[0] or options is self._own:
                rest = likeliest ^ options[0]  # bits of its own
                found += [rest | other for other in options[1:]]
        return [*found, reduce(or_, [options[-1] for options in doubtful], settled)]

    def _outcomes(self, said: _Said) -> list[tuple[_Said, int, int, int]]:
        """What a reading admits, as ``fallen_back``; also with its latencies in another order, if that may pick others.

        Only the fallback, which is asked where none is preferred, picks by latencies.
        """
        taken = said & self._all or self._set(said, _SECOND)
        listed = self._set(said, _LISTED)
        if taken or not listed or not self._falls_back:
            return [(said, taken or listed, 0, 0)]
        queued = self._set(said, _QUEUED)
        picks, others = self._picks(said)
        found = [(said, *fallen_back(listed, picks, queued))]
        if picks != others:
            found.append((said | _NEAR << self._width * _REASONED, *fallen_back(listed, others, queued)))
        return found

    def _picks(self, said: _Said) -> tuple[int, int]:
        """What the fallback may pick of a reading's items; the same where latencies so near are in another order."""
        items = said >> self._width * _REASONED + _REASON_BITS
        if items not in self._picked:
            held = [(rank, own) for rank, own, item in self._held if item & items]
            picks = reduce(or_, better_half(held, 0), 0)
            others = reduce(or_, better_half(held, self._tolerance_ms), 0) if self._tolerance_ms else picks
            self._picked[items] = picks, others
        return self._picked[items]

    def _rule(self, said: _Said) -> Rule:
        if not self._enabled:
            return "round_robin"
        if said & self._all:
            return "available"
        if self._set(said, _SECOND):
            return "reachable"
        picks = self._picks(said)[bool(self._reasons(said) & _NEAR)] if self._falls_back else 0
        return "best_half" if self._chosen & picks else "round_robin"

    def _set(self, said: _Said, place: int) -> int:
        return said >> self._width * place & self._all

    def _reasons(self, said: _Said) -> int:
        return said >> self._width * _REASONED & _ALL_REASONS

    def _doubts(self, said: _Said) -> int:
        return self._reasons(said).bit_count()


def _judgement(
    admissible: frozenset[str],
    admitting: Sequence[int],
    certain: bool,
    rule: Rule,
    removable: frozenset[str] = frozenset(),
    surely_removed: str | None = None,
) -> Judgement:
    """The verdict by the reasons of readings that admit the choice; ``certain``: so does each one without a doubt."""
    if not admitting:
        return Judgement("impossible", rule, None, admissible, removable, None)
    likeliest = min(admitting, key=int.bit_count)
    if certain and _is_first(likeliest):
        return Judgement("consistent", rule, None, admissible, removable, surely_removed)
    # What rests on a doubt is not sure, even where nothing else explains the choice.
    reason = " + ".join(sorted(_REASONS.members(likeliest))) or SAME_MILLISECOND
    return Judgement("possible", rule, reason, admissible, removable, None)


def _is_first(reasons: int) -> bool:
    return not reasons & ~_EITHER_WAY

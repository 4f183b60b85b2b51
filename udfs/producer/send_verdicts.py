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
from itertools import product
from typing import Literal, NamedTuple

from hindsight.udfs.fault_tolerance import FaultItem, FaultProfile, FaultTable, RouteBroker, Selection, is_available

Rule = Literal["available", "reachable", "best_half", "round_robin", "pinned"]
Verdict = Literal["consistent", "possible", "impossible"]

SAME_MILLISECOND = "same_millisecond"  # the one doubt that has no likelier side

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


class _Option(NamedTuple):
    """What one reading of a broker gives to one of the table."""

    broker_name: str
    item: FaultItem | None
    listed: bool
    entry: RouteBroker | None
    reasons: tuple[str, ...]


class _Reading(NamedTuple):
    table: FaultTable
    queue_brokers: tuple[str, ...]
    route: tuple[RouteBroker, ...]
    reasons: tuple[str, ...]

    def is_first(self) -> bool:
        return _is_first(self.reasons)


def _is_first(reasons: tuple[str, ...]) -> bool:
    return all(reason == SAME_MILLISECOND for reason in reasons)


def judge(choice: Choice, brokers: Sequence[KnownBroker], profile: FaultProfile, *, enabled: bool) -> Judgement:
    """Whether selectOneMessageQueue could have returned the broker.

    Args:
        brokers: every broker with a queue in the client's list, an entry in the topic's route, or a fault item.
        enabled: sendLatencyFaultEnable.

    Source: MQFaultStrategy#selectOneMessageQueue and TopicPublishInfo, 4.2.0 to 5.5.0.
    """
    return _among_available(choice, brokers, profile, enabled) or judged_by_readings(choice, brokers, profile, enabled)


def _among_available(
    choice: Choice, brokers: Sequence[KnownBroker], profile: FaultProfile, enabled: bool
) -> Judgement | None:
    """What the readings give where some broker is surely there to be preferred; None: there may be none.

    No reading falls back then, so each broker is judged by its own options: one is admissible if some option of it is
    preferred, and what the choice has to assume is what its own broker's likeliest such option does.
    """
    options = {b.broker_name: [_option(b.broker_name, *pair) for pair in product(b.items, b.routes)] for b in brokers}

    def preferred(option: _Option) -> bool:
        return option.listed and (not enabled or is_available(option.item, choice.now_ms, profile))

    candidates = {name for name in options if _is_candidate(name, choice.last_broker_name, profile, enabled)}
    if not any(all(map(preferred, options[name])) for name in candidates):
        return None
    admissible = frozenset(name for name in candidates if any(map(preferred, options[name])))
    rule: Rule = "available" if enabled else "round_robin"
    if choice.broker_name not in admissible:
        return Judgement("impossible", rule, None, admissible, frozenset(), None)
    own = [(preferred(option), tuple(sorted({*option.reasons}))) for option in options[choice.broker_name]]
    likeliest = min((reasons for admits, reasons in own if admits), key=len)
    certain = all(admits for admits, reasons in own if _is_first(reasons))
    if certain and _is_first(likeliest):
        return Judgement("consistent", rule, None, admissible, frozenset(), None)
    return Judgement("possible", rule, " + ".join(likeliest) or SAME_MILLISECOND, admissible, frozenset(), None)


def _is_candidate(name: str, last: str | None, profile: FaultProfile, enabled: bool) -> bool:
    """Whether the release's rule may prefer the broker after an attempt to ``last``."""
    rule = profile.last_broker_rule if enabled else "not_equal"
    if rule == "none" or (rule == "equals" and last is None):
        return True
    return (name == last) == (rule == "equals")


def judged_by_readings(
    choice: Choice, brokers: Sequence[KnownBroker], profile: FaultProfile, enabled: bool
) -> Judgement:
    """``judge``, reading by reading: what each combination of the brokers' readings gives."""
    admissible = frozenset[str]()
    admitting: list[_Reading] = []
    removals: list[frozenset[str]] = []
    certain = True
    for reading in _readings(brokers, profile, enabled):
        could = reading.table.select(reading.queue_brokers, reading.route, choice.now_ms, choice.last_broker_name)
        admissible |= could.admissible
        if choice.broker_name in could.admissible:
            admitting.append(reading)
            removals.append(_removals(choice, could))
        elif reading.is_first():
            certain = False
    if not admitting:
        first = next(_readings(brokers, profile, enabled))
        return Judgement("impossible", _rule(choice, first, enabled), None, admissible, frozenset(), None)
    likeliest = min(admitting, key=lambda reading: len(reading.reasons))
    rule = _rule(choice, likeliest, enabled)
    removable = frozenset[str]().union(*removals) - {_NOTHING}
    surely = next(iter(removable)) if all(each == removable for each in removals) and len(removable) == 1 else None
    if certain and likeliest.is_first():
        return Judgement("consistent", rule, None, admissible, removable, surely)
    reason = " + ".join(likeliest.reasons) or SAME_MILLISECOND
    # What rests on a doubt is not sure, even where nothing else explains the choice.
    return Judgement("possible", rule, reason, admissible, removable, None)


def _readings(brokers: Sequence[KnownBroker], profile: FaultProfile, enabled: bool) -> Iterator[_Reading]:
    # Of each broker's options every combination takes one: what they give is made once, and what all share as well.
    options = [[_option(b.broker_name, *pair) for pair in product(b.items, b.routes)] for b in brokers]
    settled = [each[0] for each in options if len(each) == 1]
    items, listed, entries = _parts(settled)
    said = [reason for option in settled for reason in option.reasons]
    tables: dict[tuple[FaultItem | None, ...], _FixedTable] = {}
    for combination in _combinations([each for each in options if len(each) > 1]):
        more_items, more_listed, more_entries = _parts(combination)
        key = tuple([option.item for option in combination])
        if key not in tables:
            tables[key] = _FixedTable(profile, enabled=enabled, items=items | more_items)
        yield _Reading(
            tables[key],
            (*listed, *more_listed),
            (*entries, *more_entries),
            tuple(sorted({*said, *(reason for option in combination for reason in option.reasons)})),
        )


def _parts(options: Sequence[_Option]) -> tuple[dict[str, FaultItem], list[str], list[RouteBroker]]:
    return (
        {option.broker_name: option.item for option in options if option.item is not None},
        [option.broker_name for option in options if option.listed],
        [option.entry for option in options if option.entry is not None],
    )


class _FixedTable(FaultTable):
    """A table that nobody updates, asked at one instant: what its fallback picks from is found once."""

    _picks: frozenset[str] | None = None

    def pick_one_at_least(self, now_ms: int) -> frozenset[str]:
        if self._picks is None:
            self._picks = super().pick_one_at_least(now_ms)
        return self._picks


def _option(broker_name: str, item: ItemReading, route: RouteReading) -> _Option:
    queues = route.write_queue_nums
    entry = None if queues is None else RouteBroker(broker_name, queues, route.writable)
    reasons = tuple(told.reason for told in (item, route) if told.reason is not None)
    return _Option(broker_name, item.item, route.listed, entry, reasons)


def _combinations(options: list[list[_Option]]) -> Iterator[tuple[_Option, ...]]:
    count = 1
    for each in options:
        count *= len(each)
    if count <= _MOST_READINGS:
        yield from product(*options)
        return
    # With so many doubts not every combination is tried: those of one broker at a time are, and all at once.
    likeliest = tuple(each[0] for each in options)
    yield likeliest
    for i, each in enumerate(options):
        for other in each[1:]:
            yield (*likeliest[:i], other, *likeliest[i + 1 :])
    yield tuple(each[-1] for each in options)


def _removals(choice: Choice, could: Selection) -> frozenset[str]:
    """The brokers of which the fallback forgot one, if the reading is right; ``_NOTHING`` among them: or none."""
    if could.removable and choice.broker_name in could.kept_picks:
        return could.removable | {_NOTHING}
    return could.removable


def _rule(choice: Choice, reading: _Reading, enabled: bool) -> Rule:
    if not enabled:
        return "round_robin"
    table, now = reading.table, choice.now_ms
    preferred = table.preferred(frozenset(reading.queue_brokers), now, choice.last_broker_name)
    if any(table.is_available(name, now) for name in preferred):
        return "available"
    if preferred:
        return "reachable"
    if table.falls_back() and choice.broker_name in table.pick_one_at_least(now):
        return "best_half"
    return "round_robin"

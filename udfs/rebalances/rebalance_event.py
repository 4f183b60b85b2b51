"""A client's rebalance, as logs or rounds tell it, in; a row of ``rebalance_event`` out, with what set it off.

A client shares anew when the list of members, the queues of a topic or what it subscribes is another one, when a
broker gives it a lock that it was refused, or when it starts. It looks at its timer, or when a broker tells it to.
Source: RebalanceService#run (waitInterval 20 s, all releases; 5.2.0 on: minInterval 1 s after one that was not
balanced), ClientRemotingProcessor#notifyConsumerIdsChanged, MQClientInstance#start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from hindsight.udfs.consumer.group_rows import to_instant
from hindsight.udfs.consumer.round_facts import TopicQueue
from hindsight.udfs.drift.finding import clock, some
from hindsight.udfs.rebalances.share_ledger import HandOver

BY_LOG, BY_ROUNDS = "client_log", "running_info"
APPLIED, FAILED = "applied", "failed"
_MOST_EXCEPTIONS = 20
START = "start"
JOINED, LEFT, DIED, GONE = "member_joined", "member_left", "member_died", "member_gone"
ROUTE, SUBSCRIPTION = "route_changed", "subscription_changed"
LOCKED, EXPIRED, TIMER, UNKNOWN = "lock_acquired", "pull_expired", "timer", "unknown"
BY_NOTICE, BY_TIMER, BY_START = "notification", "timer", "start"
REACTS_WITHIN_MS = 25_000  # the timer's 20 s, and time to ask
FORGOTTEN_MS = 150_000  # a silent member expires after 120 s, a lock that was not given back after 60 s
TOLD_WITHIN_MS = 5_000  # from a change to the notification of it
SLACK_MS = 2_000  # of stamps of whole seconds, and between two clocks
WENT = (LEFT, DIED, GONE)


class Swallowed(NamedTuple):
    """An exception that a client logged and went on after. ``certain``: no other group of the log can have met it."""

    at: int
    kind: str
    exception: str | None
    error: str | None
    certain: bool


class Trigger(NamedTuple):
    """What set a rebalance off. ``at`` None: not known; ``after`` None: ``at`` is exact.

    ``also``: other kinds that match; where ``kind`` is UNKNOWN those that it may be.
    """

    kind: str
    subjects: tuple[str, ...] = ()
    at: int | None = None
    after: int | None = None
    also: tuple[str, ...] = ()


class Rebalance(NamedTuple):
    """One rebalance of a client. Instants are epoch ms; ``after`` None: ``at`` is exact.

    Attributes:
        began_at: its first result.
        results: lines that told it; 0: none did.
        held: how many queues it had then.
        held_twice_ms: for how long another client had had a queue that it gave up.
    """

    client_id: str
    after: int | None
    began_at: int
    at: int
    told_by: str
    outcome: str
    topics: tuple[str, ...]
    held: int
    ordered: bool | None
    evidence: tuple[str, ...]
    trigger: Trigger = Trigger(UNKNOWN)
    woken_by: str | None = None
    results: int = 0
    members: tuple[int | None, int | None] = (None, None)
    gained: tuple[HandOver, ...] = ()
    lost: tuple[TopicQueue, ...] = ()
    held_twice_ms: int = 0
    exceptions: tuple[Swallowed, ...] = ()


def event_row(place: Mapping[str, Any], made: Rebalance) -> dict[str, Any]:
    """The row; ``place``: cluster, date, collector and group."""
    trigger = made.trigger
    unread = [one.unread_ms for one in made.gained if one.unread_ms is not None]
    return {
        **place,
        "client_id": made.client_id,
        "changed_at": to_instant(made.at),
        "changed_after": to_instant(made.after),
        "told_by": made.told_by,
        "outcome": made.outcome,
        "trigger_kind": trigger.kind,
        "trigger_subjects": list(trigger.subjects),
        "trigger_at": to_instant(trigger.at),
        "trigger_after": to_instant(trigger.after),
        "also": list(trigger.also),
        "woken_by": made.woken_by,
        **took(made),
        **certainties(made),
        "results": made.results,
        "topics": list(made.topics),
        "members_before": made.members[0],
        "members_after": made.members[1],
        "queues_gained": len(made.gained),
        "queues_lost": len(made.lost),
        "queues_held": made.held,
        "hand_overs": [_hand_over(one) for one in made.gained],
        "longest_unread_ms": max(unread, default=None),
        "unread_ms": sum(unread) if unread else None,
        "unread_at_least_ms": sum(one.unread_at_least_ms for one in made.gained),
        "held_twice_ms": made.held_twice_ms,
        "lock_failures": sum(one.lock_failures for one in made.gained),
        "exceptions": [
            {**one._asdict(), "at": to_instant(one.at), "error": one.error and one.error[:300]}
            for one in made.exceptions[:_MOST_EXCEPTIONS]
        ],
        "exception_count": len(made.exceptions),
        "ordered": made.ordered,
        "evidence": list(made.evidence),
        "sentence": _sentence(str(place["consumer_group"]), made),
    }


def took(made: Rebalance) -> dict[str, int | None]:
    """From the trigger to the client's new queues, at most and at least."""
    if made.trigger.at is None or made.outcome == FAILED:
        return {"took_ms": None, "took_at_least_ms": None}
    first = made.trigger.at if made.trigger.after is None else made.trigger.after
    sure = made.at if made.after is None else made.after
    return {"took_ms": max(0, made.at - first), "took_at_least_ms": max(0, sure - made.trigger.at)}


def certainties(made: Rebalance) -> dict[str, str]:
    """What is certain of a rebalance: of all of it, of when it was, of what set it off, of how long it took."""
    trigger = made.trigger
    changed = "exact" if made.after is None else "interval"
    begun = "unknown" if trigger.at is None else "exact" if trigger.after is None else "interval"
    is_named = trigger.at is not None and (trigger.subjects or trigger.kind in (LOCKED, EXPIRED))
    named = "unknown" if trigger.kind in (UNKNOWN, TIMER) else begun if is_named else "counted"
    return {
        "certainty": "trigger_unknown" if "unknown" in (named, begun) else max(changed, begun),
        "changed_certainty": changed,
        "trigger_certainty": named,
        "took_certainty": "unknown" if made.outcome == FAILED else max(changed, begun),  # in order of the alphabet
    }


def _hand_over(one: HandOver) -> dict[str, Any]:
    queue = dict(zip(("topic", "broker_name", "queue_id"), one.queue, strict=True))
    told = {name: value for name, value in vars(one).items() if name != "queue"}
    return queue | told | {"released_at": to_instant(one.released_at)}


WHY = {
    START: "it started",
    JOINED: "a member joined",
    LEFT: "a member left",
    DIED: "a member's connection broke or expired",
    GONE: "a member went",
    ROUTE: "the queues of a topic changed",
    SUBSCRIPTION: "it subscribed to other topics",
    LOCKED: "it got a lock that had been refused",
    EXPIRED: "it had not pulled from a queue for 120 s",
    TIMER: "its timer ran, and nothing else is known",
}


def _sentence(consumer_group: str, made: Rebalance) -> str:
    why = WHY.get(made.trigger.kind) or _maybe(made.trigger)
    who = f" ({some(made.trigger.subjects)})" if made.trigger.subjects and made.trigger.kind != START else ""
    if made.outcome == FAILED:
        first = made.exceptions[0].exception or made.exceptions[0].kind.replace("_", " ")
        return f"{made.client_id} of {consumer_group} failed to rebalance at {clock(made.at)}: {first}."
    moved = f"+{len(made.gained)} and -{len(made.lost)} queues, {made.held} held"
    took_ms, is_exact = took(made)["took_ms"], certainties(made)["took_certainty"] == "exact"
    within = "" if took_ms is None else f", {'' if is_exact else 'at most '}{took_ms / 1000:.1f} s later"
    return f"{made.client_id} of {consumer_group} rebalanced at {clock(made.at)}: {why}{who}{within}; {moved}."


def _maybe(trigger: Trigger) -> str:
    told = "it was told that members changed" if trigger.at is not None else "nothing recorded says why"
    return f"{told}; perhaps {' or '.join(WHY[kind] for kind in trigger.also)}" if trigger.also else told


def tells(logged: Rebalance, shown: Rebalance) -> bool:
    """Whether a client's log tells of what rounds show. Clocks of collector and client may differ by a second."""
    since, until = (shown.at if shown.after is None else shown.after) - 1_000, shown.at + 1_000
    return logged.began_at <= until and logged.at >= since


def fill(logged: Rebalance, shown: Rebalance) -> None:
    """Where no log tells when a queue was given up, for how long nobody had it at most, as rounds show it."""
    bounds = {one.queue: one for one in shown.gained}
    for one in logged.gained:
        bound = bounds.get(one.queue)
        if one.unread_ms is None and bound is not None and bound.from_client_id == one.from_client_id:
            one.unread_ms, one.unread_at_least_ms = bound.unread_ms, bound.unread_at_least_ms
            one.released_at = bound.released_at


class Sign(NamedTuple):
    """Something that may set off a rebalance. ``after`` None: ``at`` is exact. ``subject``: a client or a topic."""

    at: int
    kind: str
    subject: str
    after: int | None = None

    @property
    def earliest(self) -> int:
        """From when on it may have been."""
        return self.at if self.after is None else self.after


class Signs:
    """The signs of a group, by time."""

    def __init__(self, signs: Iterable[Sign]) -> None:
        self._signs = sorted(set(signs), key=lambda sign: (sign.at, sign.kind, sign.subject, sign.earliest))
        self._at = [sign.at for sign in self._signs]
        self.of_brokers = any(sign.kind in (JOINED, DIED) and sign.after is None for sign in self._signs)

    def near(self, since: int, at: int) -> list[Sign]:
        """Those that may have been between two instants."""
        first = bisect_left(self._at, since)
        rest = (self._signs[place] for place in range(first, len(self._signs)))
        return [s for s in takewhile(lambda sign: sign.at <= at + FORGOTTEN_MS, rest) if s.earliest <= at]

    def __iter__(self) -> Iterator[Sign]:
        return iter(self._signs)


class Around(NamedTuple):
    """A client's rebalance: it had its new queues at ``at``; ``since``: what came before is none of its triggers.

    Attributes:
        started_at: when the client started, if that is why it shares.
        members: how many members it counted before and now; None: it does not tell.
        other_queues: topics that have more or fewer queues than it counted before.
        other_topics: topics that it had not, or has no more, though their routes stayed.
        refused_at: when a broker first refused the lock of a queue that it has now.
        expired_at: when it gave queues up which it had not pulled from.
        woken_at: when a broker told it.
        told_before: a broker had told it of another change already, of which it made nothing.
        likely_since: signs since the first of these explain it rather than those since the next.
        default: what it is if nothing else is known.
    """

    client_id: str
    at: int
    since: int
    started_at: int | None = None
    members: tuple[int, int] | None = None
    other_queues: Sequence[str] = ()
    other_topics: Sequence[str] = ()
    refused_at: int | None = None
    expired_at: int | None = None
    woken_at: int | None = None
    told_before: bool = False
    likely_since: tuple[int, ...] = (0,)
    default: str = UNKNOWN


def trigger_of(around: Around, signs: Signs) -> Trigger:
    """What set a rebalance off, by the signs of the group."""
    if around.started_at is not None:
        return Trigger(START, (around.client_id,), around.started_at)
    near = signs.near(around.since, around.at)
    found: list[Trigger] = [
        *_of_members(around, near, is_logged=signs.of_brokers),
        *_of_topics(around, near),
        *([Trigger(LOCKED, (), around.refused_at)] if around.refused_at is not None else ()),
        *([Trigger(EXPIRED, (), around.expired_at)] if around.expired_at is not None else ()),
    ]
    if not found:
        return _unnamed(around, near)
    found.sort(key=lambda one: one.at is None)
    kinds = tuple(dict.fromkeys(one.kind for one in found))
    if found[0].at is None and len(kinds) > 1:
        return Trigger(UNKNOWN, also=kinds)
    return found[0]._replace(also=kinds[1:])


def _unnamed(around: Around, near: Sequence[Sign]) -> Trigger:
    """No line names it: what it may have been, by signs of long before, or by a notification of no other change."""
    came_or_went = {sign.kind for sign in near if sign.kind == JOINED or sign.kind in WENT}
    counts = around.members
    if around.woken_at is not None or around.told_before or (counts is not None and counts[0] != counts[1]):
        came_or_went = came_or_went or {JOINED, GONE}
    elif counts is not None:
        came_or_went = set()
    kind = UNKNOWN if came_or_went else around.default
    return Trigger(kind, (), around.woken_at, also=tuple(sorted(came_or_went)))


def _of_members(around: Around, near: Sequence[Sign], *, is_logged: bool) -> list[Trigger]:
    """Who came or went, by the signs shortly before; where there are none, numbers tell that somebody did.

    A client that keeps its queues does not tell what it counted: if it was told of several changes, its numbers do not
    say which was the last. Where brokers' logs tell of members, numbers that they do not explain may be of a list that
    names some twice, or lacks some.
    """
    counts = around.members
    if counts is not None and counts[0] == counts[1] and around.woken_at is None:
        return []
    # It may itself be one that a broker had forgotten.
    came = [s for s in near if s.kind == JOINED and (counts is None or s.subject != around.client_id)]
    went = [s for s in near if s.kind in WENT and s.subject != around.client_id]
    likely = _likely((*came, *went), around)
    if counts is not None and counts[0] == counts[1]:  # then what woke it is right before the notification
        likely = [sign for sign in likely if sign.at >= (around.woken_at or 0) - TOLD_WITHIN_MS]
    if not likely and counts is not None:
        up = counts[0] < counts[1]
        own, others = (came, went) if up else (went, came)
        others = [sign for sign in others if sign.at > around.since + SLACK_MS]  # else it was counted before
        is_clear = own and not others if around.told_before else own or not is_logged
        return [_named(JOINED if up else None, own, around)] if is_clear and counts[0] != counts[1] else []
    likely = likely or [sign for sign in came if sign.subject == around.client_id]
    kinds = [(None, [s for s in went if s in likely]), (JOINED, [s for s in came if s in likely])]
    return sorted((_named(kind, of, around) for kind, of in kinds if of), key=lambda one: -(one.at or 0))


def _likely(signs: Sequence[Sign], around: Around) -> Sequence[Sign]:
    """Those that most likely explain it."""
    found = ([sign for sign in signs if sign.at >= since] for since in around.likely_since)
    return next((near for near in found if near), [])


def _how(went: Sequence[Sign]) -> str:
    """How members went; that lists lack them says least."""
    kinds = {sign.kind for sign in went}
    return next((kind for kind in (DIED, LEFT) if kind in kinds), GONE)


def _named(kind: str | None, signs: Sequence[Sign], around: Around) -> Trigger:
    """A trigger with whom it was; kind None: as the signs say that members went."""
    signs = _likely(signs, around) or signs
    kind = kind or _how(signs)
    if not signs:
        return Trigger(kind, (), around.woken_at)
    # Of what lists and logs tell of one member the log's is exact; a notification is nearer than two lists, and than
    # the whole second of a broker's stamp.
    first = min(signs, key=lambda sign: (sign.after is not None, sign.at))
    subjects = tuple(sorted({sign.subject for sign in signs}))
    if around.woken_at is not None and first.after is not None:
        return Trigger(kind, subjects, around.woken_at)
    is_of_second = first.at % 1000 == 0 and first.at <= (around.woken_at or 0) < first.at + 1100
    at = min(around.woken_at or 0, first.at + 999) if is_of_second else first.at
    return Trigger(kind, subjects, min(at, around.at), first.after)


def _of_topics(around: Around, near: Sequence[Sign]) -> list[Trigger]:
    """Topics with other queues, and topics that are new to the client; the route says of which they are."""
    changed = {s.subject for s in near if s.kind == ROUTE}
    routed = {*around.other_queues, *(t for t in around.other_topics if t in changed)}
    if around.members is None and not routed:
        routed = changed  # it does not say how many queues it shared
    found = []
    if routed:
        signs = [s for s in near if s.kind == ROUTE and s.subject in routed]
        first = min(_likely(signs, around) or signs[-1:], default=None)
        found.append(Trigger(ROUTE, tuple(sorted(routed)), first and first.at, first and first.after))
    subscribed = tuple(sorted(set(around.other_topics) - routed))
    return [*found, *([Trigger(SUBSCRIPTION, subscribed)] if subscribed else ())]

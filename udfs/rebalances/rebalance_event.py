"""A client's rebalance as logs or rounds tell it in, a row of ``rebalance_event`` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hindsight.udfs.consumer.group_rows import to_instant
from hindsight.udfs.consumer.round_facts import TopicQueue
from hindsight.udfs.drift.finding import clock, some
from hindsight.udfs.rebalances.rebalance_triggers import (
    DIED,
    EXPIRED,
    GONE,
    JOINED,
    LEFT,
    LOCKED,
    ROUTE,
    START,
    SUBSCRIPTION,
    TIMER,
    UNKNOWN,
    Trigger,
)
from hindsight.udfs.rebalances.share_ledger import HandOver

BY_LOG, BY_ROUNDS = "client_log", "running_info"
APPLIED, FAILED = "applied", "failed"
_MOST_EXCEPTIONS = 20


class Swallowed(NamedTuple):
    """An exception that a client logged and went on after. ``certain``: no other group of the log can have met it."""

    at: int
    kind: str
    exception: str | None
    error: str | None
    certain: bool


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
    trigger: Trigger
    woken_by: str | None
    topics: tuple[str, ...]
    held: int
    ordered: bool | None
    evidence: tuple[str, ...]
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
    topic, broker_name, queue_id = one.queue
    return {
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": queue_id,
        "from_client_id": one.from_client_id,
        "released_at": to_instant(one.released_at),
        "unread_ms": one.unread_ms,
        "unread_at_least_ms": one.unread_at_least_ms,
        "lock_failures": one.lock_failures,
    }


_WHY = {
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
    why = _WHY.get(made.trigger.kind) or _maybe(made.trigger)
    who = f" ({some(made.trigger.subjects)})" if made.trigger.subjects and made.trigger.kind != START else ""
    if made.outcome == FAILED:
        return f"{made.client_id} of {consumer_group} failed to rebalance at {clock(made.at)}: {_first_error(made)}."
    moved = f"+{len(made.gained)} and -{len(made.lost)} queues, {made.held} held"
    took_ms, is_exact = took(made)["took_ms"], certainties(made)["took_certainty"] == "exact"
    within = "" if took_ms is None else f", {'' if is_exact else 'at most '}{took_ms / 1000:.1f} s later"
    return f"{made.client_id} of {consumer_group} rebalanced at {clock(made.at)}: {why}{who}{within}; {moved}."


def _maybe(trigger: Trigger) -> str:
    told = "it was told that members changed" if trigger.at is not None else "nothing recorded says why"
    return f"{told}; perhaps {' or '.join(_WHY[kind] for kind in trigger.also)}" if trigger.also else told


def _first_error(made: Rebalance) -> str:
    first = made.exceptions[0]
    return first.exception or first.kind.replace("_", " ")


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

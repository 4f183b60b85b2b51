"""What changed in a group in; until when its drift is normal out, and how many queues a change moved, or had to.

A change of membership, route or subscription is followed by a stretch in which clients have not yet taken note.
Source: 20 s rebalance timer, 30 s heartbeat and route poll, 60 s broker lock of ordered consumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from hindsight.udfs.consumer.drift_timing import Maintenance, Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import RETRY_PREFIX, Queue, TopicQueue
from hindsight.udfs.values.kept_states import Kept

Owners = Mapping[TopicQueue, str | None]


class Disturbance(NamedTuple):
    """A change of what clients share by. ``at``: epoch milliseconds; ``topic`` None: it concerns all topics."""

    kind: str
    at: int
    subject: str
    topic: str | None = None


class Grace(NamedTuple):
    """Until when a finding is not yet drift, epoch milliseconds, and after what."""

    until: int
    disturbance: Disturbance


SUBSCRIPTION, ROLLOUT, MAINTENANCE = "subscription", "rollout", "maintenance"
AGREE = "views_agree"  # brokers that listed different members list the same again
_OF_SUBSCRIPTIONS = (SUBSCRIPTION, ROLLOUT)
_OF_MEMBERS = ("join", "start", "leave", AGREE)


# Seconds after each kind of disturbance, without the interval between rounds.
GRACE_S: dict[str, Callable[[Timing], float]] = {
    "join": lambda timing: timing.membership_grace_s,
    "start": lambda timing: timing.membership_grace_s,
    "leave": lambda timing: timing.membership_grace_s,
    AGREE: lambda timing: timing.membership_grace_s,
    "new_broker": lambda timing: timing.broker_grace_s,
    "route_change": lambda timing: timing.route_grace_s,
    "broker_gone": lambda timing: timing.route_grace_s + timing.broker_death_s,
    SUBSCRIPTION: lambda timing: timing.subscription_grace_s,
    ROLLOUT: lambda timing: timing.subscription_grace_s,  # a member joined with a subscription that is new
}


def interval_s(read_at: list[int], rounds: int) -> float:
    """Median of the last intervals between rounds in which the group was read, seconds; 0 before the second one."""
    recent = read_at[-(rounds + 1) :]
    return median(b - a for a, b in pairwise(recent)) / 1000 if len(recent) > 1 else 0.0


def grace_end(
    disturbance: Disturbance,
    *,
    ordered: bool,
    interval: float,
    timing: Timing,
    topic: str | None = None,
    is_critical: bool = False,
) -> int:
    """When the stretch after a disturbance is over, epoch milliseconds.

    A finding that is CRITICAL waits for a lock to run off only as far as it is told in time all the same.

    ``topic``: of the finding. A member's first heartbeat makes the group's retry topic: its start changes that route.
    """
    makes_route = disturbance.kind == "start" and (topic or "").startswith(RETRY_PREFIX)
    seconds = GRACE_S["route_change" if makes_route else disturbance.kind](timing)
    if disturbance.kind not in _OF_SUBSCRIPTIONS:
        seconds += interval
        left = timing.critical_grace_s - seconds if is_critical else timing.ordered_extra_s
        seconds += max(0, min(timing.ordered_extra_s, left)) if ordered else 0
    return disturbance.at + int(seconds * 1000)


def grace_of(
    code: str,
    topic: str | None,
    disturbances: Iterable[Disturbance],
    *,
    ordered: bool,
    interval: float,
    timing: Timing,
    maintenance: Iterable[Maintenance] = (),
    is_critical: bool = False,
) -> Grace | None:
    """The grace that ends last among those that mute a finding; None: there was no disturbance.

    ``is_critical``: the finding is. What members lack that join, queues are left unread for, is not waited for.
    Nor are members where there are none: GROUP_DOWN waits for standstill_s by itself.
    """
    if code == "DATA_GAP":
        return None
    ends = [
        Grace(grace_end(d, ordered=ordered, interval=interval, timing=timing, topic=topic, is_critical=is_critical), d)
        for d in disturbances
        if (d.kind not in _OF_SUBSCRIPTIONS or code == "SUBSCRIPTION_INCONSISTENT")
        and not (d.kind == ROLLOUT and is_critical)
        and not (d.kind in _OF_MEMBERS and code == "GROUP_DOWN")
        and (d.topic is None or topic in (None, d.topic))
    ]
    if code == "SUBSCRIPTION_INCONSISTENT":
        ends += [Grace(m.end, Disturbance(MAINTENANCE, m.begin, "settings")) for m in maintenance]
    return max(ends, key=lambda grace: (grace.until, grace.disturbance[:3]), default=None)


def membership_changes(before: Iterable[str] | None, group: GroupRound, starts: Mapping[str, int]) -> list[Disturbance]:
    """Members that came, went or started anew since the group was last listed (``before`` None: never).

    A broker's log tells of those, too, that no list shows because they came and went between two rounds.
    """
    changes = [Disturbance(*event) for event in group.events]
    if before is not None and group.listed:
        at, was, now = group.listed_at or group.at, set(before), set(group.members)
        changes += [Disturbance("join", at, client_id) for client_id in sorted(now - was - group.returned)]
        changes += [Disturbance("leave", at, client_id) for client_id in sorted(was - now)]
    for client_id, read in sorted(group.reads.items()):
        if read.started_at is not None and starts.get(client_id) != read.started_at:
            changes.append(Disturbance("start", read.started_at, client_id))
    return changes


def route_changes(topic: str, before: Iterable[Queue], now: Iterable[Queue], at: int) -> list[Disturbance]:
    """Brokers that came or went, and other changes of a topic's readable queues."""
    was, has = set(before), set(now)
    old, new = {broker for broker, _ in was}, {broker for broker, _ in has}
    changes = [Disturbance("new_broker", at, broker, topic) for broker in sorted(new - old)]
    changes += [Disturbance("broker_gone", at, broker, topic) for broker in sorted(old - new)]
    if not changes and was != has:
        changes.append(Disturbance("route_change", at, topic, topic))
    return changes


class Moves(NamedTuple):
    """Queues, of those there before and after. ``moved`` = ``necessary`` kept + ``excess`` in a settled group."""

    queues: int
    moved: int  # have another owner than before
    necessary: int  # the strategy gives to another owner than before
    excess: int  # moved although the strategy left them where they were
    unavoidable: int  # whose owner left: no strategy could have kept them


class Change(NamedTuple):
    """A membership change and what it moved; instants are epoch milliseconds."""

    topic: str
    changed_at: int
    settled_at: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    moves: Moves


def moves(before: Owners, after: Owners, expected_before: Owners, expected_after: Owners, left: set[str]) -> Moves:
    """Count over the queues that exist before and after; a queue without owner before or after moved if that differs.

    Example: 4 queues AVG, c3 leaves {c1: 0 1, c2: 2, c3: 3} -> {c1: 0 1, c2: 2 3}: 1 moved, 1 necessary, 1 unavoidable.
    """
    both = sorted(before.keys() & after.keys())
    moved = [queue for queue in both if before[queue] != after[queue]]
    necessary = {queue for queue in both if expected_before.get(queue) != expected_after.get(queue)}
    return Moves(
        len(both),
        len(moved),
        len(necessary),
        sum(queue not in necessary for queue in moved),
        sum(before[queue] in left for queue in both),
    )


@dataclass
class Churn(Kept):
    """The last settled owners of a group's topics, and the membership change that is not yet settled."""

    owners: dict[str, dict[TopicQueue, str | None]] = field(default_factory=dict)
    expected: dict[str, dict[TopicQueue, str | None]] = field(default_factory=dict)
    members: list[str] | None = None
    changed_at: int | None = None

    def take(self, group: GroupRound, *, in_grace: bool) -> list[Change]:
        """Take in a round; the changes that it settles: everybody answered, and the grace of the change is over."""
        if not group.listed or not group.reads:
            return []
        members = sorted(set(group.members))
        if self.members is not None and members != self.members and self.changed_at is None:
            self.changed_at = group.listed_at or group.at
        if not group.complete or group.loose or (self.changed_at is not None and in_grace):
            return []
        changes = [] if self.changed_at is None else self._settled(group, members)
        self.members, self.changed_at = members, None
        for topic in group.judged_topics():
            queues = [(topic.topic, *queue) for queue in topic.queues or ()]
            self.owners[topic.topic] = {q: _alone(topic.owners.get(q[1:], ())) for q in queues}
            self.expected[topic.topic] = {q: topic.expected.get(q[1:]) for q in queues}
        return changes

    def _settled(self, group: GroupRound, members: list[str]) -> list[Change]:
        joined = tuple(sorted(set(members) - set(self.members or ())))
        left = tuple(sorted(set(self.members or ()) - set(members)))
        changes = []
        for topic in group.judged_topics() if joined or left else ():
            if topic.topic not in self.owners or not topic.expects:
                continue
            queues = [(topic.topic, *queue) for queue in topic.queues or ()]
            after = {q: _alone(topic.owners.get(q[1:], ())) for q in queues}
            wanted = {q: topic.expected.get(q[1:]) for q in queues}
            made = moves(self.owners[topic.topic], after, self.expected[topic.topic], wanted, set(left))
            changes.append(Change(topic.topic, self.changed_at or group.at, group.at, joined, left, made))
        return changes


def _alone(owners: Any) -> str | None:
    """The owner, if there is exactly one."""
    return owners[0].client_id if len(owners) == 1 else None

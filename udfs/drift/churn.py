"""A group's owners before and after a membership change in; how many queues moved, and how many had to, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import TopicQueue

Owners = Mapping[TopicQueue, str | None]


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
class Churn:
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

    def to_state(self) -> dict[str, Any]:
        """The churn's memory as JSON values, in an order that equal ones share."""
        return {
            "owners": {topic: _rows(owners) for topic, owners in sorted(self.owners.items())},
            "expected": {topic: _rows(owners) for topic, owners in sorted(self.expected.items())},
            "members": self.members,
            "changed_at": self.changed_at,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Churn:
        """What ``to_state`` wrote."""
        owners, expected = (
            {topic: {(t, b, q): owner for t, b, q, owner in rows} for topic, rows in state[name].items()}
            for name in ("owners", "expected")
        )
        return cls(owners, expected, state["members"], state["changed_at"])


def _alone(owners: Any) -> str | None:
    """The owner, if there is exactly one."""
    return owners[0].client_id if len(owners) == 1 else None


def _rows(owners: Owners) -> list[list[Any]]:
    return [[*queue, owner] for queue, owner in sorted(owners.items())]

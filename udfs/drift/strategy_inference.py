"""Observed owners over a group's rounds in; the strategies, with their parameters, that would explain them all, out.

Only for groups whose strategy no record names. The answer is a set: several strategies may lead to the same owners,
and none may (mixed strategies, a strategy of the application's own). It is reported, never used to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import BROADCASTING, Queue, TopicRound
from hindsight.udfs.strategies.consistent_hash import kept_answers

# Ring sizes that are tried: RocketMQ's default, and what its users set instead.
VIRTUAL_NODES = (1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100)
# Beyond so many queues times members a ring is not built over and over to try its sizes.
_LARGEST_RING = 20_000


def reproducing(
    topic: str,
    queues: Sequence[Queue],
    members: Sequence[str],
    owners: Mapping[Queue, str | None],
    profile: str = "P533",
) -> frozenset[str]:
    """The candidates that give each queue to the owner seen, ``AVG`` or ``CONSISTENT_HASH(virtual_node_count=10)``.

    Args:
        queues: sorted as RocketMQ sorts them; members: likewise, distinct.
        owners: who shows each queue; None: nobody.
    """
    mq_all = tuple(MessageQueue(topic, *queue) for queue in queues)
    seen = tuple(owners.get(queue) for queue in queues)
    return frozenset(
        name
        for name, strategy, parameters in _candidates(queues, len(members))
        if _owners(strategy, mq_all, tuple(members), profile, parameters) == seen
    )


def _candidates(queues: Sequence[Queue], members: int) -> Iterator[tuple[str, str, tuple[tuple[str, Any], ...]]]:
    yield "AVG", "AVG", ()
    yield "AVG_BY_CIRCLE", "AVG_BY_CIRCLE", ()
    for count in VIRTUAL_NODES:
        if count * members + len(queues) <= _LARGEST_RING:
            yield f"CONSISTENT_HASH(virtual_node_count={count})", "CONSISTENT_HASH", (("virtual_node_count", count),)
    rooms = sorted({broker.split("@")[0] for broker, _ in queues if broker.count("@") == 1})
    # Each room alone and all of them: subsets between grow without bound.
    for chosen in dict.fromkeys([*((room,) for room in rooms), tuple(rooms)]):
        if chosen:
            yield f"MACHINE_ROOM(machine_rooms={','.join(chosen)})", "MACHINE_ROOM", (("machine_rooms", chosen),)


@kept_answers(1024)
def _owners(
    strategy: str,
    mq_all: tuple[MessageQueue, ...],
    cid_all: tuple[str, ...],
    profile: str,
    parameters: tuple[tuple[str, Any], ...],
) -> tuple[str | None, ...] | None:
    try:
        given = allocate(strategy, mq_all, cid_all, profile=profile, **dict(parameters))
    except AllocationError:
        return None
    owner = {queue: client_id for client_id, queues in given.items() for queue in queues or ()}
    return tuple(owner.get(queue) for queue in mq_all)


@dataclass
class Inference:
    """By topic: the candidates that explain every settled round so far, and in how many rounds that was asked."""

    surviving: dict[str, list[str]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)  # lists and owners of the last round, to ask each only once

    def take(self, group: GroupRound) -> dict[str, tuple[str, ...]]:
        """Take in a settled round; the candidates left for each topic whose strategy no record names."""
        if not group.complete or group.loose or group.shared or group.message_model == BROADCASTING or group.duplicates:
            return {}
        answer = {}
        for topic in group.judged_topics():
            if topic.strategy_source != "default" or not topic.queues or not group.subscribers(topic.topic):
                continue
            if any(len(owners) > 1 for owners in topic.owners.values()):
                self.surviving[topic.topic] = []
            else:
                self._narrow(group, topic)
            self.rounds[topic.topic] = self.rounds.get(topic.topic, 0) + 1
            answer[topic.topic] = tuple(self.surviving[topic.topic])
        return answer

    def _narrow(self, group: GroupRound, topic: TopicRound) -> None:
        queues = topic.queues or ()
        owners = {q: next((o.client_id for o in topic.owners.get(q, ())), None) for q in queues}
        asked = repr((group.members, sorted(owners.items())))
        if self.last.get(topic.topic) == asked:
            return
        self.last[topic.topic] = asked
        fits = reproducing(topic.topic, queues, group.members, owners)
        before = self.surviving.get(topic.topic)
        self.surviving[topic.topic] = sorted(fits if before is None else fits & set(before))

    def to_state(self) -> dict[str, Any]:
        """As JSON values."""
        return {"surviving": self.surviving, "rounds": self.rounds}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Inference:
        """What ``to_state`` wrote."""
        return cls({t: list(names) for t, names in state["surviving"].items()}, dict(state["rounds"]))

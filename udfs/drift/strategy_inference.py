"""Which strategies would explain what a group's members own; and per topic why rules of ownership do not apply to it.

Owners are observed over all rounds of a group of which no record names the strategy. The answer is a set, with
parameters: several strategies may lead to the same owners, and none may (mixed strategies, a strategy of the
application's own). It is reported, never used to judge. What a round cannot show is unknown, neither sick nor healthy:
consumers behind a proxy are not the brokers' to know, pull consumers do not show what they hold, POP consumers share
queues, and who assigns by hand follows no strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate
from hindsight.udfs.clients.client_kinds import POP
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import BROADCASTING, Queue, TopicRound
from hindsight.udfs.drift.finding import some
from hindsight.udfs.strategies.consistent_hash import kept_answers
from hindsight.udfs.values.kept_states import Kept

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
class Inference(Kept):
    """By topic: the candidates that explain every settled round so far, and in how many rounds that was asked."""

    surviving: dict[str, list[str]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    # Lists and owners of the last round, to ask each only once.
    last: dict[str, str] = field(default_factory=dict, init=False)

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

    def repeat(self, inferred: Iterable[str]) -> None:
        """Take in a round that shows what the last one showed, of which this was inferred for these topics."""
        for topic in inferred:
            self.rounds[topic] += 1

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


def scope_reasons(group: GroupRound) -> dict[str, str]:
    """By topic the first reason that holds; a topic to which the rules apply is not in it."""
    reasons = ((topic.topic, next(_reasons(group, topic), None)) for topic in group.topics)
    return {topic: reason for topic, reason in reasons if reason is not None}


def _reasons(group: GroupRound, topic: TopicRound) -> Iterator[str]:
    if topic.topic in group.lite_parents:  # 5.4 on: brokers hand their messages to clients
        yield f"the group consumes Lite topics of {topic.topic}: brokers hand them out, and no rule says whose one is"
    if group.through_proxy:  # it supports neither running infos nor offsets, and knows its own clients only
        yield "a proxy was asked: it does not say what its clients hold, nor who is connected to the brokers"
    if group.served_by_proxy:  # gRPC clients hold no queue; whether others count them depends on the proxy's mode
        served = some(group.served_by_proxy)
        yield f"{served} are gRPC clients: a proxy hands them messages, and no rule says whose a queue is"
    if group.listed and not group.members:  # CODE 206 says that nobody is connected there, down or behind a proxy
        asked = sorted({listing.broker_name for listing in group.listings if listing.broker_name})
        where = f"to {some(asked)}" if asked else "to the broker that was asked"
        yield f"nobody is connected {where}: consumers behind a proxy are not the brokers' to know"
    if group.is_unknown_here:  # where to ask for a group's members is found by its retry topic
        yield "the group has no retry topic: no consumer of it was ever connected to a broker itself"
    yield from _reasons_of_queues(group, topic)


def _reasons_of_queues(group: GroupRound, topic: TopicRound) -> Iterator[str]:
    if group.shared and topic.handed is None:  # POP: what each of several members is given must be known
        why = f"; {topic.not_handed}" if topic.not_handed else ""
        yield f"the broker assigns the queues: members may share them{why}"
    # DefaultMQPullConsumer, and DefaultLitePullConsumer before 5.1.1, leave mqTable empty.
    if opaque := tuple(c for c in group.opaque if topic.handed is None or group.kind_of(c) != POP):
        yield f"{some(opaque)} do not show which queues they hold"
    if group.by_hand:  # DefaultLitePullConsumer#assign: the application itself divides the queues
        yield f"{some(group.by_hand)} choose their queues by hand: no strategy says whose each is"
    # Clients before 5.0 share the real queues of a static topic, those since then its logical ones.
    if topic.is_logical and group.see_physical_queues:
        yield f"{some(group.see_physical_queues)} do not know the logical queues of a static topic"
    if topic.routes_differ:  # which queues there are depends on the name server that a client asks
        yield "the name servers tell different routes"

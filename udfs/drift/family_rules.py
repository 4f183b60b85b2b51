"""One round of a group in; what its members' families make of it out: findings, and whom a proxy serves."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.mixed_clients import Disagreement
from hindsight.udfs.consumer.round_facts import BROADCASTING, Queue, TopicRound
from hindsight.udfs.drift.finding import Finding, evidence, some
from hindsight.udfs.strategies.member_families import own_strategy, words


def mixed_clients(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Members of different client families cannot agree on a topic's queues, by rule and for ever."""
    del timing
    if group.message_model == BROADCASTING or group.shared or group.by_hand:
        return
    for topic in group.judged_topics():
        found = group.disagreements.get(topic.topic)
        if found is None:
            continue
        fits = _explains(topic)
        taken = () if fits else _assumed(group, found)
        yield Finding(
            "MIXED_CLIENTS",
            "HIGH" if fits else "MEDIUM",
            f"the members of {group.consumer_group} cannot agree on {topic.topic}: {found.rule}. "
            f"{found.first.client_id} is of {words(found.first.profile or '')}, {found.second.client_id} of "
            f"{words(found.second.profile or '')}{_cost(topic)}. What ends it: {found.cure}.",
            topic=topic.topic,
            trust="possible" if taken else "certain",
            evidence=evidence(group, topic, (found.first.client_id, found.second.client_id)) or group.evidence,
            captured_at=group.listed_at,
            assumptions=taken,
        )


def _explains(topic: TopicRound) -> bool:
    """The members' own rules lead to what is seen, and that is not a share of each queue to one owner."""
    shown = {queue: {owner.client_id for owner in topic.owners.get(queue, ())} for queue in topic.queues or ()}
    as_claimed = all(topic.claimants.get(queue, frozenset()) == owners for queue, owners in shown.items())
    return as_claimed and any(len(owners) != 1 for owners in shown.values())


def _cost(topic: TopicRound) -> str:
    """The queues that the members' own rules leave to nobody, and those that they give to two or more."""
    claims = {queue: len(topic.claimants.get(queue, ())) for queue in topic.queues or ()}
    nobody = [_name(queue) for queue, count in claims.items() if count == 0]
    several = [_name(queue) for queue, count in claims.items() if count > 1]
    left = f"; left without an owner: {some(nobody)}" if nobody else ""
    return left + (f"; with two or more: {some(several)}" if several else "")


def _name(queue: Queue) -> str:
    return f"{queue[0]}:{queue[1]}"


def _assumed(group: GroupRound, found: Disagreement) -> tuple[str, ...]:
    """What the disagreement takes for granted: no record tells a Go client's strategy, nor always its release."""
    rules = (found.first, found.second)
    strategies = [
        f"allocation strategy of {rule.client_id}: not known, {own_strategy(rule.profile, None)} assumed"
        for rule in rules
        if rule.client_id in group.unknown_strategies
    ]
    releases = [
        f"release of {rule.client_id}: one of {words(rule.profile or '')}"
        for rule in rules
        if "|" in (rule.profile or "")
    ]
    return (*strategies, *releases)

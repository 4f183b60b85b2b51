"""One round of a group in; findings about members that own nothing out. Each function's first line is its rule."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import BROADCASTING, RETRY_PREFIX, TopicRound
from hindsight.udfs.drift.finding import Finding, assumptions, evidence, read_at


def idle_consumer(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A live subscriber owns none of the queues that the group's rule gives it."""
    del timing
    for topic, client_id, due in _idle(group):
        if due:
            rest = f"; {topic.strategy} gives it {due}."
            yield _idle_finding("IDLE_CONSUMER", "MEDIUM", group, topic, client_id, rest, expected=(client_id,))


def idle_by_design(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A live subscriber owns nothing because the group has more consumers than the topic has queues.

    Retry topics, which have one queue a broker, have fewer than that in most groups: of them it is not said.
    """
    del timing
    for topic, client_id, due in _idle(group):
        if not due and not topic.topic.startswith(RETRY_PREFIX):
            rest = f", as {topic.strategy} has it: {len(topic.queues or ())} queues, {len(group.members)} members."
            yield _idle_finding("IDLE_BY_DESIGN", "INFO", group, topic, client_id, rest)


def _idle(group: GroupRound) -> Iterator[tuple[TopicRound, str, int]]:
    if group.message_model == BROADCASTING or not group.by_rule:
        return
    for topic in group.judged_topics():
        if not topic.expects or group.doubted or group.may_lag(topic.topic):
            continue
        for client_id in group.subscribers(topic.topic):
            if client_id not in topic.holders:
                yield topic, client_id, topic.shares.get(client_id, 0)


def _idle_finding(
    code: str,
    severity: str,
    group: GroupRound,
    topic: TopicRound,
    client_id: str,
    rest: str,
    expected: tuple[str, ...] = (),
) -> Finding:
    taken = assumptions(group, topic)
    return Finding(
        code,
        severity,
        f"{client_id} owns no queue of {topic.topic} in {group.consumer_group}{rest}",
        topic=topic.topic,
        client_id=client_id,
        trust="possible" if taken else "certain",
        expected=expected,
        evidence=evidence(group, topic, (client_id,)),
        captured_at=read_at(group, client_id),
        assumptions=taken,
    )

"""One round of a group in; findings about queues that are not read on, by what their owners told of them, out."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import BROADCASTING, Owner, Queue, TopicRound
from hindsight.udfs.drift.finding import Finding, clock, evidence, queue_name, read_at, rising


def lock_starved(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """An ordered consumer has held a queue without the broker's lock for too long (60 s)."""
    if not group.ordered or group.message_model == BROADCASTING:
        return
    for topic, queue, owner in _held(group):
        since = group.past.unlocked_since.get((owner.client_id, (topic.topic, *queue)))
        if not owner.locked and since is not None and group.at - since > timing.lock_starved_s * 1000:
            yield _stalled("LOCK_STARVED", group, topic, queue, owner, since, "has not had its lock")


def pull_idle(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A consumer has not pulled from a queue that it holds for too long (120 s)."""
    for topic, queue, owner in _held(group):
        asked = read_at(group, owner.client_id)
        if owner.last_pull_at and asked and asked - owner.last_pull_at > timing.pull_idle_s * 1000:
            yield _stalled("PULL_IDLE", group, topic, queue, owner, owner.last_pull_at, "has not been pulled from")


def consume_blocked(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A consumer holds messages of a queue and has not consumed any for too long (60 s)."""
    for topic, queue, owner in _held(group):
        asked, last = read_at(group, owner.client_id), owner.last_consume_at
        if (owner.cached_messages or 0) > 0 and last and asked and asked - last > timing.consume_blocked_s * 1000:
            what = f"has {owner.cached_messages} messages waiting in the client and none was consumed"
            yield _stalled("CONSUME_BLOCKED", group, topic, queue, owner, last, what)


def _held(group: GroupRound) -> Iterator[tuple[TopicRound, Queue, Owner]]:
    for topic in group.judged_topics():
        for queue, owners in sorted(topic.owners.items()):
            for owner in owners:
                yield topic, queue, owner


def _stalled(
    code: str, group: GroupRound, topic: TopicRound, queue: Queue, owner: Owner, since: int, what: str
) -> Finding:
    return Finding(
        code,
        "HIGH" if rising(group, topic.topic, (queue,)) else "LOW",
        f"{queue_name(topic.topic, queue)} {what} since {clock(since)} by its owner {owner.client_id} in "
        f"{group.consumer_group}.",
        topic=topic.topic,
        queue=queue,
        client_id=owner.client_id,
        observed=(owner,),
        evidence=evidence(group, topic, (owner.client_id,)),
        captured_at=read_at(group, owner.client_id),
        since=since,
    )

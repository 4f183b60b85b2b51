"""One round of a group in, findings out: each drift code is one pure function, registered at the bottom.

Each function's first line is the definition of its code. A missing input limits what may be said: while a listed
member has not answered, a queue that nobody shows may be its own. A finding is certain unless its input leaves room
for another reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from udfs.group_round import BROADCASTING, GroupRound, Owner, Queue, TopicRound

RETRY_PREFIX = "%RETRY%"
_SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")


class Finding(NamedTuple):
    """A drift code that holds for a group, a client or a queue."""

    code: str
    severity: str
    sentence: str
    topic: str | None = None
    queue: Queue | None = None
    client_id: str | None = None
    kind: str | None = None
    trust: str = "certain"
    expected: tuple[str, ...] = ()
    observed: tuple[Owner, ...] = ()
    evidence: tuple[str, ...] = ()
    captured_at: Any = None


def orphan_queue(group: GroupRound) -> Iterator[Finding]:
    """A readable queue of a subscribed topic has no owner although every listed member answered.

    BROADCASTING: every subscriber should read every queue, so each pair that lacks is one finding (kind BROADCAST).
    """
    if group.message_model == BROADCASTING:
        yield from _unread_broadcast_queues(group)
        return
    for topic in _judged_topics(group):
        if group.unanswered or not group.subscribers(topic.topic):
            continue
        for queue in topic.queues or ():
            if not topic.owners.get(queue):
                yield _orphan(group, topic, queue)


def _orphan(group: GroupRound, topic: TopicRound, queue: Queue) -> Finding:
    owner = topic.expected.get(queue)
    read = group.reads.get(owner or "")
    if owner is None:
        why = "no member is expected to take it"
    elif read is not None and topic.topic not in (read.topics or ()):
        why = f"its expected owner {owner} does not subscribe {topic.topic}"
    else:
        why = f"its expected owner {owner} does not hold it"
    now, before = topic.lag.get(queue, (None, None))
    rises = now is not None and before is not None and now > before
    lag = "" if now is None else f"; lag {now}" + (f", up from {before}" if rises else "")
    return Finding(
        "ORPHAN_QUEUE",
        "CRITICAL" if rises or group.ordered else "HIGH",
        f"{_name(topic.topic, queue)} has no owner in {group.consumer_group}: {why}{lag}.",
        topic=topic.topic,
        queue=queue,
        expected=(owner,) if owner else (),
        evidence=_evidence(group, topic, group.members),
        captured_at=group.listed_at,
    )


def _unread_broadcast_queues(group: GroupRound) -> Iterator[Finding]:
    for topic in _judged_topics(group):
        for client_id in group.subscribers(topic.topic):
            for queue in topic.queues or ():
                if client_id in {owner.client_id for owner in topic.owners.get(queue, ())}:
                    continue
                yield Finding(
                    "ORPHAN_QUEUE",
                    "HIGH",
                    f"{_name(topic.topic, queue)} is not read by {client_id}, which as a broadcasting consumer of "
                    f"{group.consumer_group} should read every queue.",
                    topic=topic.topic,
                    queue=queue,
                    client_id=client_id,
                    kind="BROADCAST",
                    expected=(client_id,),
                    observed=topic.owners.get(queue, ()),
                    evidence=_evidence(group, topic, (client_id,)),
                    captured_at=group.reads[client_id].captured_at,
                )


def double_owned(group: GroupRound) -> Iterator[Finding]:
    """Two or more clients hold a queue, not dropped. Certain whatever is missing; possible in a loose round."""
    if group.message_model == BROADCASTING:
        return
    for topic in _judged_topics(group):
        for queue, owners in sorted(topic.owners.items()):
            if len(owners) < 2:
                continue
            locked = group.ordered and all(owner.locked for owner in owners)
            names = " and ".join(owner.client_id for owner in owners)
            yield Finding(
                "DOUBLE_OWNED",
                "CRITICAL" if locked else "HIGH",
                f"{_name(topic.topic, queue)} is owned {_times(len(owners))} in {group.consumer_group}: by {names}.",
                topic=topic.topic,
                queue=queue,
                trust="possible" if group.loose else "certain",
                expected=_expected(topic, queue),
                observed=owners,
                evidence=_evidence(group, topic, [owner.client_id for owner in owners]),
                captured_at=max(group.reads[o.client_id].captured_at for o in owners if o.client_id in group.reads),
            )


def wrong_owner(group: GroupRound) -> Iterator[Finding]:
    """One client holds a queue that neither the group's rule nor anybody's own rule gives it, now or a round before."""
    if group.message_model == BROADCASTING:
        return
    for topic in _judged_topics(group):
        for queue, owners in sorted(topic.owners.items()):
            if not topic.expects or len(owners) != 1 or owners[0].client_id in topic.allowed.get(queue, frozenset()):
                continue
            owner = owners[0]
            expected = _expected(topic, queue)
            yield Finding(
                "WRONG_OWNER",
                "MEDIUM",
                f"{_name(topic.topic, queue)} is owned by {owner.client_id} in {group.consumer_group}; "
                f"{topic.strategy} gives it to {expected[0] if expected else 'nobody'}.",
                topic=topic.topic,
                queue=queue,
                client_id=owner.client_id,
                trust="possible" if group.loose else "certain",
                expected=expected,
                observed=owners,
                evidence=_evidence(group, topic, (owner.client_id,)),
                captured_at=_captured_at(group, owner.client_id),
            )


def idle_consumer(group: GroupRound) -> Iterator[Finding]:
    """A subscriber that answered owns nothing: of what it should (IDLE_CONSUMER), or because too few queues exist."""
    if group.message_model == BROADCASTING:
        return
    for topic in _judged_topics(group):
        if not topic.expects:
            continue
        busy = {owner.client_id for owners in topic.owners.values() for owner in owners}
        for client_id in group.subscribers(topic.topic):
            if client_id in busy:
                continue
            due = sum(owner == client_id for owner in topic.expected.values())
            counts = f"{len(topic.queues or ())} queues, {len(group.members)} members"
            what = f"owns no queue of {topic.topic} in {group.consumer_group}"
            yield Finding(
                "IDLE_CONSUMER" if due else "IDLE_BY_DESIGN",
                "MEDIUM" if due else "INFO",
                f"{client_id} {what}; {topic.strategy} gives it {due}."
                if due
                else f"{client_id} {what}, as {topic.strategy} has it: {counts}.",
                topic=topic.topic,
                client_id=client_id,
                expected=(client_id,) if due else (),
                evidence=_evidence(group, topic, (client_id,)),
                captured_at=_captured_at(group, client_id),
            )


def unreachable_client(group: GroupRound) -> Iterator[Finding]:
    """A listed client was asked for its running info and did not answer."""
    for client_id in dict.fromkeys(group.members):
        read = group.reads.get(client_id)
        if read is None or read.answered:
            continue
        yield Finding(
            "UNREACHABLE_CLIENT",
            "MEDIUM",
            f"{client_id} is listed in {group.consumer_group} and did not answer: {_short(read.error)}.",
            client_id=client_id,
            evidence=(read.evidence, *group.evidence),
            captured_at=read.captured_at,
        )


def mixed_strategy(group: GroupRound) -> Iterator[Finding]:
    """More than one strategy is in use among the listed members of a CLUSTERING group."""
    used: dict[str, list[str]] = {}
    for client_id in dict.fromkeys(group.members):
        if client_id in group.strategies:
            used.setdefault(group.strategies[client_id][0], []).append(client_id)
    if group.message_model == BROADCASTING or len(used) < 2:
        return
    damage = any(True for rule in (double_owned, orphan_queue) for _ in rule(group))
    shares = ", ".join(f"{name} by {', '.join(clients)}" for name, clients in sorted(used.items()))
    reads = [group.reads[c] for clients in used.values() for c in clients if c in group.reads]
    yield Finding(
        "MIXED_STRATEGY",
        "HIGH" if damage else "MEDIUM",
        f"the members of {group.consumer_group} share by different strategies: {shares}.",
        kind=" + ".join(sorted(used)),
        evidence=(*group.evidence, *(read.evidence for read in reads)),
        captured_at=group.listed_at,
    )


RULES: dict[str, Callable[[GroupRound], Iterator[Finding]]] = {
    "ORPHAN_QUEUE": orphan_queue,
    "DOUBLE_OWNED": double_owned,
    "WRONG_OWNER": wrong_owner,
    "IDLE_CONSUMER": idle_consumer,
    "UNREACHABLE_CLIENT": unreachable_client,
    "MIXED_STRATEGY": mixed_strategy,
}


def findings(group: GroupRound) -> list[Finding]:
    """All findings of a round; those about a retry topic one severity lower."""
    found = [finding for rule in RULES.values() for finding in rule(group)]
    return [f._replace(severity=_lower(f.severity)) if _is_retry(f.topic) else f for f in found]


def _judged_topics(group: GroupRound) -> Iterator[TopicRound]:
    return (topic for topic in group.topics if topic.queues is not None)


def _is_retry(topic: str | None) -> bool:
    return topic is not None and topic.startswith(RETRY_PREFIX)


def _lower(severity: str) -> str:
    return _SEVERITIES[min(_SEVERITIES.index(severity) + 1, len(_SEVERITIES) - 1)]


def _expected(topic: TopicRound, queue: Queue) -> tuple[str, ...]:
    owner = topic.expected.get(queue)
    return (owner,) if owner else ()


def _evidence(group: GroupRound, topic: TopicRound, client_ids: Any) -> tuple[str, ...]:
    reads = (group.reads[c].evidence for c in dict.fromkeys(client_ids) if c in group.reads)
    return tuple(dict.fromkeys((*reads, *group.evidence, *topic.evidence)))


def _captured_at(group: GroupRound, client_id: str) -> Any:
    return group.reads[client_id].captured_at if client_id in group.reads else group.listed_at


def _name(topic: str, queue: Queue) -> str:
    return f"queue {queue[1]} of {topic}@{queue[0]}"


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _short(error: str | None) -> str:
    text = (error or "no reason was recorded").rpartition("exception.")[2]
    return text if len(text) <= 120 else text[:117] + "..."

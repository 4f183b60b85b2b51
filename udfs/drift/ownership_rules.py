"""One round of a group in; findings about who owns which queue out. Each function's first line is its definition."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import BROADCASTING, RETRY_PREFIX, Progress, Queue, TopicRound
from hindsight.udfs.drift.finding import (
    Finding,
    assumptions,
    clock,
    evidence,
    expected_owner,
    progress_of,
    queue_name,
    read_at,
    rising,
    some,
    times,
)


def slow_handover(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """An ordered queue that somebody has taken had no owner for 40 s before, and is no ORPHAN_QUEUE; it is told once.

    Whoever goes without giving its locks back leaves them to the broker, which holds them for 60 s after it last
    renewed them. One that stood longer than an orphan's grace and age was an ORPHAN_QUEUE.
    Source: RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME; ConsumeMessageOrderlyService#start, every 20 s.
    """
    orphaned_s = timing.membership_grace_s + timing.ordered_extra_s + timing.opens["ORPHAN_QUEUE"].age_s
    for topic in group.judged_topics() if group.past.slow_hand_overs else ():
        for queue in topic.queues or ():
            since, until = group.past.slow_hand_overs.get((topic.topic, *queue), (0, 0))
            if not until or until - since > orphaned_s * 1000:
                continue
            owners = topic.owners.get(queue, ())
            yield Finding(
                "SLOW_HANDOVER",
                "MEDIUM",
                f"{queue_name(topic.topic, queue)} had no owner in {group.consumer_group}, an ordered group, for "
                f"{(until - since) // 1000} s from {clock(since)} on: its lock had not been given back.",
                topic=topic.topic,
                queue=queue,
                observed=owners,
                evidence=evidence(group, topic, [owner.client_id for owner in owners]),
                captured_at=group.at,
                since=since,
            )


_BY_DESIGN = ("MACHINE_ROOM", "CONFIG")


def orphan_queue(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A readable queue of a subscribed topic has no owner although every listed member answered.

    BROADCASTING: every subscriber should read every queue, so each pair that lacks is one finding (kind BROADCAST).
    """
    if group.message_model == BROADCASTING:
        yield from _unread_broadcast_queues(group)
        return
    if not group.complete or group.shared:
        return
    for topic in group.judged_topics():
        for queue in topic.queues or ():
            if topic.owners.get(queue) or left_out(group, topic, queue):
                continue
            if group.subscribers(topic.topic) or _is_given_up(group, topic, queue, timing):
                yield _orphan(group, topic, queue)


def unserved_queue(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Nobody shows the queue, a listed member has not answered, and the group's offset stands while messages come.

    Members that never show what they hold (pull, POP) hide an owner too: then other queues of the group must be read.
    """
    if group.message_model == BROADCASTING or not group.hidden or not group.listed:
        return
    if not group.was_read:
        yield from _unserved_unread(group, timing)
        return
    for topic in group.judged_topics():
        # A member that never answered may be the only one to subscribe the topic; a reading tells that it is consumed.
        for queue in topic.queues or ():
            progress = progress_of(group, topic.topic, queue)
            if topic.owners.get(queue) or progress is None or left_out(group, topic, queue):
                continue
            if not progress.stands(timing.standstill_s) or not (group.unanswered or _others_are_read(group, progress)):
                continue
            yield Finding(
                "UNSERVED_QUEUE",
                "HIGH",
                f"{queue_name(topic.topic, queue)} shows no owner in {group.consumer_group} and has not moved for "
                f"{(group.at - progress.standing_since) // 1000} s while {progress.accrued} messages came; "
                f"{_hiding(group, topic, queue)}.",
                topic=topic.topic,
                queue=queue,
                trust="possible",
                expected=expected_owner(topic, queue),
                evidence=evidence(group, topic, group.members),
                captured_at=progress.read_at,
                since=progress.standing_since,
            )


def _unserved_unread(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Where nobody asked the members what they hold: a queue that stands while another one of its topic is read."""
    for (topic, broker, number), progress in sorted(group.past.progress.items()):
        others = (of for (name, *_), of in group.past.progress.items() if name == topic)
        if topic.startswith(RETRY_PREFIX) or not progress.stands(timing.standstill_s):
            continue
        if any(other.standing_since > progress.standing_since for other in others):
            named = (broker, number)
            yield Finding(
                "UNSERVED_QUEUE",
                "HIGH",
                f"{queue_name(topic, named)} has not moved for {(group.at - progress.standing_since) // 1000} s in "
                f"{group.consumer_group} while {progress.accrued} messages came and others of the topic were read; no "
                "member was asked what it holds.",
                topic=topic,
                queue=named,
                trust="possible",
                evidence=group.evidence,
                captured_at=progress.read_at,
                since=progress.standing_since,
            )


def orphan_by_design(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """MACHINE_ROOM leaves the queue out, or CONFIG lists it nowhere, and nobody shows it."""
    for topic in group.judged_topics():
        for queue in topic.queues or ():
            if topic.owners.get(queue) or not left_out(group, topic, queue):
                continue
            yield Finding(
                "ORPHAN_BY_DESIGN",
                "HIGH" if rising(group, topic.topic, (queue,)) else "INFO",
                f"{queue_name(topic.topic, queue)} is given to nobody in {group.consumer_group}: "
                f"{topic.strategy} leaves it out{_lag(group, topic, queue)}.",
                topic=topic.topic,
                queue=queue,
                evidence=evidence(group, topic, group.members),
                captured_at=group.listed_at,
            )


def double_owned(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Two or more live processes hold a queue, not dropped. Certain whatever is missing; possible in a loose round.

    Two processes under one client id hold what that id holds: both compute the same share. Only one of them was read.
    """
    if group.message_model == BROADCASTING or group.shared:
        return
    channels = {c: max(2, group.members.count(c)) for c in group.duplicates}
    for topic in group.judged_topics():
        for queue, owners in sorted(topic.owners.items()):
            processes = sum(channels.get(owner.client_id, 1) for owner in owners) if channels else len(owners)
            if processes < 2:
                continue
            ids = [owner.client_id for owner in owners]
            names = " and ".join(f"{c} ({channels[c]} processes)" if c in channels else c for c in ids)
            unread = tuple(
                f"running info of the other processes of {c}: one answer for all" for c in ids if c in channels
            )
            by_id = unread if len(ids) < 2 else ()
            yield Finding(
                "DOUBLE_OWNED",
                "CRITICAL" if group.ordered and all(owner.locked for owner in owners) else "HIGH",
                f"{queue_name(topic.topic, queue)} is owned {times(processes)} in {group.consumer_group}: by {names}.",
                topic=topic.topic,
                queue=queue,
                trust="possible" if group.loose or by_id else "certain",
                expected=expected_owner(topic, queue),
                observed=owners,
                evidence=evidence(group, topic, ids),
                captured_at=max((group.reads[c].captured_at for c in ids if c in group.reads), default=group.listed_at),
                assumptions=by_id,
            )


def wrong_owner(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """One client holds a queue that neither the group's rule nor anybody's own rule gives it, now or a round before."""
    if group.message_model == BROADCASTING or not group.by_rule:
        return
    for topic in group.judged_topics():
        if not topic.expects or group.doubted or group.may_lag(topic.topic):
            continue
        taken = assumptions(group, topic)
        for queue, owners in sorted(topic.owners.items()):
            if len(owners) != 1 or owners[0].client_id in topic.allowed.get(queue, frozenset()):
                continue
            owner = owners[0]
            expected = expected_owner(topic, queue)
            yield Finding(
                "WRONG_OWNER",
                "MEDIUM",
                f"{queue_name(topic.topic, queue)} is owned by {owner.client_id} in {group.consumer_group}; "
                f"{topic.strategy} gives it to {expected[0] if expected else 'nobody'}.",
                topic=topic.topic,
                queue=queue,
                client_id=owner.client_id,
                # While a member has not answered, it may hold the queue too: then it is owned twice.
                trust="possible" if group.loose or taken or group.hidden else "certain",
                expected=expected,
                observed=owners,
                evidence=evidence(group, topic, (owner.client_id,)),
                captured_at=read_at(group, owner.client_id),
                assumptions=taken,
            )


def rebalance_flap(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A queue changed its owner 3 times in 10 min, without another list of members that would call for it."""
    for topic in group.judged_topics():
        for queue in topic.queues or ():
            changes = group.past.owner_changes.get((topic.topic, *queue), ())
            if len(changes) >= timing.owner_changes:
                yield Finding(
                    "REBALANCE_FLAP",
                    "MEDIUM",
                    f"{queue_name(topic.topic, queue)} changed its owner {times(len(changes))} in "
                    f"{group.consumer_group} since {clock(changes[0])}.",
                    topic=topic.topic,
                    queue=queue,
                    observed=topic.owners.get(queue, ()),
                    evidence=evidence(group, topic, [o.client_id for o in topic.owners.get(queue, ())]),
                    captured_at=group.at,
                    since=changes[0],
                )


def left_out(group: GroupRound, topic: TopicRound, queue: Queue) -> bool:
    """The group's strategy itself gives the queue to nobody."""
    by_design = group.by_rule and topic.expects and (topic.strategy or "") in _BY_DESIGN
    return by_design and topic.expected.get(queue) is None and not topic.claimants.get(queue)


def suspect(group: GroupRound, topic: TopicRound, queue: Queue) -> str | None:
    """The unanswered member that likely holds a queue: by its last answer, its rule, the group's, or the first."""
    last = group.past.lapsed.get((topic.topic, *queue))
    claims = topic.claimants.get(queue, frozenset())
    ranked = [c for c in group.unanswered if c == last] + [c for c in group.unanswered if c in claims]
    ranked += [c for c in group.unanswered if c == topic.expected.get(queue)]
    return next(iter(ranked or group.unanswered), None)


def _is_given_up(group: GroupRound, topic: TopicRound, queue: Queue, timing: Timing) -> bool:
    """Members that choose their queues by hand have the group's offset stand still, where it had moved before."""
    progress = progress_of(group, topic.topic, queue)
    return (
        bool(group.by_hand)
        and progress is not None
        and progress.consumer_offset > 0
        and progress.stands(timing.standstill_s)
    )


def _others_are_read(group: GroupRound, standing: Progress) -> bool:
    """Another queue of the group has moved since this one stands."""
    return any(other.standing_since > standing.standing_since for other in group.past.progress.values())


def _orphan(group: GroupRound, topic: TopicRound, queue: Queue) -> Finding:
    since = group.past.ownerless_since.get((topic.topic, *queue))
    age_s = 0 if since is None else (group.at - since) // 1000
    has_had = f"has had no owner for {age_s} s" if age_s > 0 else "has no owner"
    return Finding(
        "ORPHAN_QUEUE",
        "CRITICAL" if rising(group, topic.topic, (queue,)) or group.ordered else "HIGH",
        f"{queue_name(topic.topic, queue)} {has_had} in {group.consumer_group}: "
        f"{_why(group, topic, queue)}{_lag(group, topic, queue)}.",
        topic=topic.topic,
        queue=queue,
        expected=expected_owner(topic, queue),
        evidence=evidence(group, topic, group.members),
        captured_at=group.listed_at,
        since=since,
    )


def _why(group: GroupRound, topic: TopicRound, queue: Queue) -> str:
    owner = topic.expected.get(queue)
    if not group.subscribers(topic.topic):
        return "nobody chose it, and the group's offset stands while messages come"
    if owner is None:
        return "no member is expected to take it"
    read = group.reads.get(owner)
    if read is not None and topic.topic not in (read.topics or ()):
        return f"its expected owner {owner} does not subscribe {topic.topic}"
    return f"its expected owner {owner} does not own it"


def _hiding(group: GroupRound, topic: TopicRound, queue: Queue) -> str:
    """Whoever may hold a queue without showing it."""
    client_id = suspect(group, topic, queue)
    if client_id is None:
        return f"its owner is not known, as {some(group.opaque)} do not show what they hold"
    since, read = group.past.silent_since.get(client_id), group.reads.get(client_id)
    if since is None and read is not None and read.failure is not None:
        return f"what {client_id} holds could not be read"
    return f"{client_id} has not answered" + ("" if since is None else f" since {clock(since)}")


def _lag(group: GroupRound, topic: TopicRound, queue: Queue) -> str:
    progress = progress_of(group, topic.topic, queue)
    if progress is None:
        return ""
    return f"; lag {progress.lag}" + (f", up from {progress.lag_before}" if progress.rises else "")


def _unread_broadcast_queues(group: GroupRound) -> Iterator[Finding]:
    for topic in group.judged_topics():
        for client_id in group.subscribers(topic.topic):
            for queue in topic.queues or ():
                if client_id in {owner.client_id for owner in topic.owners.get(queue, ())}:
                    continue
                yield Finding(
                    "ORPHAN_QUEUE",
                    "HIGH",
                    f"{queue_name(topic.topic, queue)} is not read by {client_id}, which as a broadcasting consumer of "
                    f"{group.consumer_group} should read every queue.",
                    topic=topic.topic,
                    queue=queue,
                    client_id=client_id,
                    kind="BROADCAST",
                    expected=(client_id,),
                    observed=topic.owners.get(queue, ()),
                    evidence=evidence(group, topic, (client_id,)),
                    captured_at=group.reads[client_id].captured_at,
                )

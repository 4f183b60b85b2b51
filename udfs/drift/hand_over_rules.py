"""One round of an ordered group in, queues that changed hands only after a lock had run off out."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.drift.finding import Finding, clock, evidence, queue_name


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

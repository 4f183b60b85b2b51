"""One round of a group in; findings about what brokers hand out and take back by POP, out.

Each function's first line is its definition.
"""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import Share, TopicRound
from hindsight.udfs.drift.finding import Finding, evidence, read_at, some
from hindsight.udfs.values.system_names import REVIVE_GROUP

_POP = "POP"


def pop_assignment_differs(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The brokers assign the queues, and a member takes others than any of them may have handed out to it."""
    del timing
    if not group.shared:
        return
    for topic in group.topics:
        if topic.handed is None or group.doubted or group.may_lag(topic.topic):
            continue
        for client_id in group.subscribers(topic.topic):
            allowed = topic.handed.get(client_id)
            taken = topic.taken.get(client_id, frozenset())
            if not allowed or taken in allowed:
                continue
            nearest = min(allowed, key=lambda share: (len(share ^ taken), sorted(share)))
            yield Finding(
                "POP_ASSIGNMENT_DIFFERS",
                "HIGH" if not taken else "MEDIUM",
                f"{client_id} takes {_said(taken)} of {topic.topic} in {group.consumer_group}; the brokers hand out "
                f"{_said(nearest)} to it.",
                topic=topic.topic,
                client_id=client_id,
                trust="possible" if group.loose or group.unheard else "certain",
                evidence=evidence(group, topic, (client_id,)),
                captured_at=read_at(group, client_id),
            )


def revive_lag(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A broker's revive queue stands for longer than any message is hidden, while messages go on being popped.

    Messages that nobody acknowledged come back by it alone. Its offset rests on the last message that it took back, and
    acknowledgements may follow that: so what came in the first ``revive_lag_s`` says nothing, what came later does once
    it is as old.
    """
    if group.consumer_group != REVIVE_GROUP:
        return
    limit = int(timing.revive_lag_s * 1000)
    for (topic, broker_name, queue_id), progress in sorted(group.past.progress.items()):
        late = progress.came_late_at
        if late is None or progress.lag <= 0 or progress.read_at - late < limit:
            continue
        yield Finding(
            "REVIVE_LAG",
            "HIGH",
            f"Revive queue {queue_id} of {broker_name} has not moved for {progress.stood_ms() // 1000} s while "
            f"{progress.accrued} messages came: what consumers popped and did not acknowledge does not come back.",
            topic=topic,
            queue=(broker_name, queue_id),
            evidence=_reads_of(group, broker_name),
            captured_at=progress.read_at,
            since=progress.standing_since,
        )


def _reads_of(group: GroupRound, broker_name: str) -> tuple[str, ...]:
    """The reads of a broker's offsets; of all brokers, where the round has none of it: its last one still counts."""
    own = tuple(line for broker, line in group.offset_reads if broker in (None, broker_name))
    return own or tuple(line for _, line in group.offset_reads)


def assignment_told(topic: TopicRound | None, client_id: str | None) -> bool:
    """The brokers told what they hand out to the client."""
    return topic is not None and topic.handed is not None and bool(topic.handed.get(client_id or ""))


def _said(share: Share) -> str:
    """A share in words: ``all queues of broker-a and broker-b by POP``."""
    if not share:
        return "no queue"
    parts = []
    for mode in sorted({mode for mode, _, _ in share}):
        whole = sorted(broker for own, broker, queue_id in share if own == mode and queue_id < 0)
        single = [f"{broker}:{queue_id}" for own, broker, queue_id in sorted(share) if own == mode and queue_id >= 0]
        names = [f"all queues of {some(whole)}"] if whole else []
        names += [some(single, 8)] if single else []
        parts.append(f"{' and '.join(names)} by {mode if mode == _POP else 'pull'}")
    return " and ".join(parts)

"""One round of a group in; topics that it as a whole does not consume, or not as fast as messages come, out.

Each function's first line is its definition. Offsets tell that; what its members show of their queues tells why, and
what brokers hand out and take back by POP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.offset_marks import Mark, Point
from hindsight.udfs.consumer.round_facts import BROADCASTING, RETRY_PREFIX, Owner, Progress, Queue, Share, TopicRound
from hindsight.udfs.drift.finding import Finding, clock, evidence, read_at, some
from hindsight.udfs.values.message_queues import REVIVE_GROUP

BLOCKED, NOT_PULLED, GETS_NOTHING, NOT_TOLD = "BLOCKED", "NOT_PULLED", "GETS_NOTHING", "NOT_TOLD"
_WHY = {
    BLOCKED: "messages wait in its clients, and no thread of their listeners comes to an end",
    NOT_PULLED: "its clients do not pull",
    GETS_NOTHING: "its clients ask for messages and take none: consumption is suspended (suspend()), or the broker "
    "refuses it (consumeEnable of the group, the broker's permission)",
    NOT_TOLD: "what its clients show does not tell why",
}
_POP = "POP"


def consumes_nothing(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Members are there and answer, messages of a topic have waited for 60 s, and no offset of it moved meanwhile.

    The kind says why, where the members' own words tell it. One queue among several is QUEUE_LAGS_ALONE, one that
    nobody shows another finding: who pulls by himself may do so when he likes.
    """
    if group.message_model == BROADCASTING or not group.members or group.unanswered or not group.past.stuck:
        return
    least = timing.standstill_s * 1000
    for topic in _consumed_topics(group):
        read = _progress(group, topic)
        if any(progress.stood_ms() < least for progress in read.values()):
            continue
        waits = {q: p for q, p in read.items() if p.accrued > 0 and (topic.topic, *q) in group.past.stuck}
        if not waits or (len(waits) == 1 and len(topic.queues or ()) > 2):
            continue
        owners = [owner for queue in waits for owner in topic.owners.get(queue, ())]
        kind = _why(group, owners, timing)
        since = max(progress.standing_since for progress in waits.values())
        yield Finding(
            "CONSUMES_NOTHING",
            "HIGH",
            f"{group.consumer_group} has consumed nothing of {topic.topic} since {clock(since)}, while "
            f"{sum(p.accrued for p in waits.values())} messages came and {len(group.client_ids)} members answered: "
            f"{_WHY[kind]}.",
            topic=topic.topic,
            kind=kind,
            observed=tuple(owners),
            evidence=evidence(group, topic, (owner.client_id for owner in owners)),
            captured_at=max(progress.read_at for progress in waits.values()),
            since=since,
        )


def consume_disabled(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A broker that has queues of the group's topics does not let it consume (``consumeEnable``), by its own setting.

    HIGH where messages wait there, as far as offsets were read.
    """
    for broker, place in sorted(group.past.held_back.items()):
        topics = [one.topic for one in group.judged_topics() if any(name == broker for name, _ in one.queues or ())]
        if not topics or not group.members:
            continue
        lag = sum(p.lag for (_, name, _), p in group.past.progress.items() if name == broker and p.lag > 0)
        yield Finding(
            "CONSUME_DISABLED",
            "HIGH" if lag else "MEDIUM",
            f"consumeEnable of the group is false at {broker}: {group.consumer_group} cannot consume there, nobody "
            f"reads that broker's queues of {', '.join(topics)}" + (f", and {lag} messages wait." if lag else "."),
            kind=broker,
            evidence=(place, *group.evidence),
            captured_at=group.at,
        )


def falls_behind(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Messages come faster than they are consumed, in most queues of a topic that have owners, for a minute or more.

    They are behind for longer than ``offset_slack_s``; or ever more waits in them for ``standstill_s``, and what waits
    is what came in ``falling_s``: it is told before the first message has waited so long. Where a member shows no
    queues, all may have owners, and those have that are consumed. If no offset has moved for ``falling_s``, it does not
    fall behind, it stands: that is CONSUMES_NOTHING in half a minute more.
    """
    if group.message_model == BROADCASTING:
        return
    for topic in _consumed_topics(group):
        marks = _marks(group, topic)
        late = [queue for queue in marks if (topic.topic, *queue) in group.past.offsets.behind.get(topic.topic, ())]
        half = max(len(marks), len(topic.queues or ()) if group.hidden else 0) / 2
        is_late = len(late) > half
        growing = () if is_late else _growing(group, topic, marks, timing)
        growing = growing if len(growing) > half else ()
        pace = _pace((mark.grows_since, mark.last) for mark in growing) or _pace(_spans(marks.values()))
        if not (is_late or growing) or pace is None or pace.consumed <= 0 or pace.came <= pace.consumed:
            continue
        lag = _lag(marks.values())
        behind_s = max(marks[queue].behind_s for queue in late) if is_late else int(_lag(growing) / pace.came)
        if (not is_late and behind_s < timing.falling_s) or not _moves(group, topic, marks, timing):
            continue
        yield Finding(
            "FALLS_BEHIND",
            "HIGH",
            f"{group.consumer_group} falls behind in {topic.topic}: {pace.came:.1f} messages a second come, and "
            f"{pace.consumed:.1f} are consumed; {lag} wait, the first for {'' if is_late else 'about '}{behind_s} s"
            f"{' at least' if is_late else ''}. {_until_lost(marks)}",
            topic=topic.topic,
            evidence=evidence(group, topic, group.reads),
            captured_at=max(mark.last.read_at for mark in marks.values()),
        )


def _consumed_topics(group: GroupRound) -> Iterator[TopicRound]:
    return (topic for topic in group.judged_topics() if not topic.topic.startswith(RETRY_PREFIX))


def _progress(group: GroupRound, topic: TopicRound) -> dict[Queue, Progress]:
    """The queues of a topic with valid readings."""
    found = ((queue, group.past.progress.get((topic.topic, *queue))) for queue in topic.queues or ())
    return {queue: progress for queue, progress in found if progress is not None}


def _why(group: GroupRound, owners: list[Owner], timing: Timing) -> str:
    """What all who hold the queues show of them."""
    told = [owner for owner in owners if owner.last_pull_at]
    if not told:
        return NOT_TOLD

    def is_old(owner: Owner, instant: int | None) -> bool:
        asked = read_at(group, owner.client_id) or group.at
        return bool(instant) and asked - (instant or 0) >= timing.standstill_s * 1000

    if all((owner.cached_messages or 0) > 0 and is_old(owner, owner.last_consume_at) for owner in told):
        return BLOCKED
    if all(is_old(owner, owner.last_pull_at) for owner in told):
        return NOT_PULLED
    if not any(owner.cached_messages or is_old(owner, owner.last_pull_at) for owner in told):
        return GETS_NOTHING
    return NOT_TOLD


class _Pace(NamedTuple):
    """Messages a second."""

    came: float
    consumed: float


def _marks(group: GroupRound, topic: TopicRound) -> dict[Queue, Mark]:
    """The marks of a topic's queues that have owners and valid readings, and were not set back."""
    names = {queue: (topic.topic, *queue) for queue in topic.queues or ()}
    marks = group.past.offsets.marks
    return {
        queue: marks[name]
        for queue, name in names.items()
        if name in marks and name in group.past.progress and marks[name].back is None
        if topic.owners.get(queue) or (group.hidden and _is_consumed(marks[name]))
    }


def _moves(group: GroupRound, topic: TopicRound, marks: dict[Queue, Mark], timing: Timing) -> bool:
    """The offset of one of these queues has moved a moment ago."""
    read = _progress(group, topic)
    return any(read[queue].stood_ms() < timing.falling_s * 1000 for queue in marks)


def _is_consumed(mark: Mark) -> bool:
    return mark.before is not None and mark.last.consumer_offset > mark.before.consumer_offset


def _growing(group: GroupRound, topic: TopicRound, marks: dict[Queue, Mark], timing: Timing) -> tuple[Mark, ...]:
    """The marks of a topic's queues in which ever more has waited for a minute."""
    names = group.past.offsets.growing.get(topic.topic, ())
    return tuple(
        mark
        for queue, mark in marks.items()
        if (topic.topic, *queue) in names
        and mark.grows_since is not None
        and mark.last.read_at - mark.grows_since.read_at >= timing.standstill_s * 1000
    )


def _lag(marks: Iterable[Mark]) -> int:
    return sum(mark.last.broker_offset - mark.last.consumer_offset for mark in marks)


def _spans(marks: Iterable[Mark]) -> Iterator[tuple[Point | None, Point]]:
    """From the minute or two before to the last readings."""
    return ((mark.before, mark.last) for mark in marks)


def _pace(spans: Iterable[tuple[Point | None, Point]]) -> _Pace | None:
    """Of all queues together; None: there are none."""
    came = consumed = 0.0
    found = False
    for before, last in spans:
        if before is None or last.read_at <= before.read_at:
            continue
        seconds, found = (last.read_at - before.read_at) / 1000, True
        came += (last.broker_offset - before.broker_offset) / seconds
        consumed += (last.consumer_offset - before.consumer_offset) / seconds
    return _Pace(came, consumed) if found else None


def _until_lost(marks: dict[Queue, Mark]) -> str:
    """How long until retention takes messages that wait, if all goes on as it does.

    A broker that has deleted something keeps about as many messages as it does now. One that has not (a new queue,
    whose first message is still there) tells nothing of how many it will keep.
    """
    floors = {queue: mark.deleting.min_offset for queue, mark in marks.items() if mark.deleting is not None}
    left = []
    for queue, floor in floors.items():
        pace = _pace(_spans([marks[queue]]))
        if floor > 0 and pace is not None and pace.came > pace.consumed:
            left.append(max(marks[queue].last.consumer_offset - floor, 0) / (pace.came - pace.consumed))
    if left:
        return f"As it goes, retention takes messages that wait in about {_long(min(left))}."
    why = "no topicStatus was read"
    if floors:
        is_whole = not any(floors.values())
        why = "nothing of the queues was deleted so far"
        if not is_whole:
            why = "no queue that it deletes of falls behind alone"
    return f"When retention takes them is not told: {why}."


def _long(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def pop_assignment_differs(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The brokers assign the queues, and a member takes others than any of them may have handed out to it."""
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

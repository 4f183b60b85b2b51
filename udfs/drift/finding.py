"""What a drift rule says of a round, and the words and values that rules share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hindsight.udfs.consumer.expected_allocation import computable
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import Owner, Progress, Queue, TopicRound

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")


class Finding(NamedTuple):
    """A drift code that holds for a group, a client or a queue. ``captured_at``, ``since``: epoch milliseconds."""

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
    captured_at: int | None = None
    since: int | None = None  # from when the condition is known to hold, where that is before this round
    assumptions: tuple[str, ...] = ()  # why it is `possible` only
    difference: str | None = None  # who subscribes what


class Subject(NamedTuple):
    """What a finding is about, over the rounds: the same subject is the same finding, later."""

    family: str
    topic: str | None
    broker_name: str | None
    queue_id: int | None
    client_id: str | None
    kind: str | None

    @property
    def queue(self) -> Queue | None:
        """The queue, if the finding is about one."""
        return None if self.broker_name is None or self.queue_id is None else (self.broker_name, self.queue_id)


NO_OWNER = "NO_OWNER"
# A queue that nobody shows stays the same finding, whatever the members' answers make of it.
_FAMILIES = {"ORPHAN_QUEUE": NO_OWNER, "UNSERVED_QUEUE": NO_OWNER}


def subject_of(finding: Finding) -> Subject:
    """The subject of a finding."""
    broker_name, queue_id = finding.queue or (None, None)
    family = _FAMILIES.get(finding.code, finding.code)
    # The strategies in use may change while they are mixed, and what clients show of why they consume nothing.
    kind = None if finding.code in ("MIXED_STRATEGY", "CONSUMES_NOTHING") else finding.kind
    return Subject(family, finding.topic, broker_name, queue_id, finding.client_id, kind)


def progress_of(group: GroupRound, topic: str | None, queue: Queue | None) -> Progress | None:
    """The queue's progress; None without a valid reading, or where what is found is of no queue."""
    return None if topic is None or queue is None else group.past.progress.get((topic, *queue))


def rising(group: GroupRound, topic: str, queues: Iterable[Queue]) -> bool:
    """The lag of one of the queues grew between the last two readings."""
    return any(p.rises for p in (progress_of(group, topic, queue) for queue in queues) if p is not None)


def evidence(group: GroupRound, topic: TopicRound | None, client_ids: Iterable[str]) -> tuple[str, ...]:
    """The reads of these clients, the consumer list and the route: files and lines."""
    reads = (group.reads[c].evidence for c in dict.fromkeys(client_ids) if c in group.reads)
    return tuple(dict.fromkeys((*reads, *group.evidence, *(topic.evidence if topic else ()))))


def read_at(group: GroupRound, client_id: str) -> int | None:
    """When the client was asked in this round; when the members were listed, if it was not."""
    return group.reads[client_id].captured_at if client_id in group.reads else group.listed_at


def expected_owner(topic: TopicRound, queue: Queue) -> tuple[str, ...]:
    """The owner by the group's rule, if there is one."""
    owner = topic.expected.get(queue)
    return (owner,) if owner else ()


def assumptions(group: GroupRound, topic: TopicRound) -> tuple[str, ...]:
    """What the expectation takes for granted that no record says; empty: nothing."""
    taken = []
    if topic.strategy_source == "default":
        taken.append(f"allocation strategy of {group.consumer_group}: not known, {topic.strategy} assumed")
    if group.unknown_strategies:
        taken.append(f"allocation strategy of {', '.join(group.unknown_strategies)}: not known")
    others = {name: members for name, members in group.by_strategy.items() if name != topic.strategy}
    for name, members in others.items():
        if not computable(name):
            taken.append(f"queues of {', '.join(members)}: {name} depends on what no record holds")
    own_nodes = "CONSISTENT_HASH" in (topic.strategy or "") and not topic.strategy_parameters
    if own_nodes or "CONSISTENT_HASH" in others:
        taken.append("virtual nodes of CONSISTENT_HASH: not recorded, 10 assumed")
    return tuple(taken)


def queue_name(topic: str, queue: Queue) -> str:
    """A queue as RocketMQ users say it."""
    return f"queue {queue[1]} of {topic}@{queue[0]}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few of the names, and how many there are besides."""
    rest = len(names) - most
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:most])} and {rest} more"


def times(count: int) -> str:
    """How often, in words."""
    return "twice" if count == 2 else f"{count} times"


def begun(sentence: str, names: Iterable[str | None]) -> str:
    """A sentence as one begins; a name with which it begins stays as it is."""
    is_name = any(name and sentence.startswith(name) and not sentence[len(name) :][:1].isalnum() for name in names)
    return sentence if is_name else sentence[:1].upper() + sentence[1:]


def clock(at: int) -> str:
    """The UTC time of day."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S")


def short(error: str | None) -> str:
    """The gist of a recorded error."""
    text = (error or "no reason was recorded").rpartition("exception.")[2]
    return text if len(text) <= 120 else text[:117] + "..."


def lower(severity: str) -> str:
    """The next severity below."""
    return SEVERITIES[min(SEVERITIES.index(severity) + 1, len(SEVERITIES) - 1)]

"""Results of one client that follow each other closely in; whether it had just started, and what was other, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hindsight.udfs.consumer.round_facts import RETRY_PREFIX, TopicQueue
from hindsight.udfs.rebalances.client_lines import Line
from hindsight.udfs.rebalances.rebalance_triggers import REACTS_WITHIN_MS
from hindsight.udfs.rebalances.share_ledger import HandOver

_RETRY_WITHIN_MS = 60_000  # from a client's start to its retry topic, whose route it polls every 30 s


class Shared(NamedTuple):
    """By what a client shared a topic last."""

    queues: int | None


@dataclass
class Burst:
    """Results of one client that belong together."""

    lines: list[Line] = field(default_factory=list)
    gained: dict[TopicQueue, HandOver] = field(default_factory=dict)
    lost: set[TopicQueue] = field(default_factory=set)
    held_twice_ms: int = 0
    before: dict[str, Shared | None] = field(default_factory=dict)


def begun(burst: Burst, started: Sequence[int], first_at: int) -> int | None:
    """When the client was created, if these are its first results of their topics, shortly after."""
    since = max((s for s in started if s <= first_at), default=None)
    if since is None or any(was is not None for was in burst.before.values()):
        return None
    of_retries = all(topic.startswith(RETRY_PREFIX) for topic in burst.before)
    return since if first_at - since <= (_RETRY_WITHIN_MS if of_retries else REACTS_WITHIN_MS) else None


def last_of(burst: Burst, topic: str) -> Line:
    """The last result of a topic."""
    return next(line for line in reversed(burst.lines) if line.topic == topic)


def is_other_route(was: Shared | None, now: Line) -> bool:
    """Whether a topic has more or fewer queues than the client shared before."""
    return was is not None and None not in (was.queues, now.queue_count) and was.queues != now.queue_count

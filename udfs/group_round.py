"""One round of one group, as the drift rules look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

BROADCASTING = "BROADCASTING"

Queue = tuple[str, int]  # broker name, queue id


class Owner(NamedTuple):
    """A client that showed a queue as its own in this round, and what it said of it."""

    client_id: str
    locked: bool
    last_pull_at: Any
    last_consume_at: Any


class Read(NamedTuple):
    """One running info that was asked for."""

    client_id: str
    answered: bool
    error: str | None
    topics: frozenset[str] | None  # subscribed by the client itself; None: not answered
    captured_at: Any
    evidence: str


@dataclass(frozen=True)
class TopicRound:
    """One topic of the group in this round; ``queues`` None: its route was not read."""

    topic: str
    queues: tuple[Queue, ...] | None
    expected: Mapping[Queue, str | None]
    allowed: Mapping[Queue, frozenset[str]]
    owners: Mapping[Queue, tuple[Owner, ...]]
    lag: Mapping[Queue, tuple[int, int | None]]
    strategy: str | None
    strategy_source: str | None
    strategy_parameters: str
    queue_list_hash: str | None
    expects: bool  # an expectation exists: the strategy is known and did not refuse
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class GroupRound:
    """What one round shows of one group."""

    consumer_group: str
    message_model: str | None
    members: tuple[str, ...]
    reads: Mapping[str, Read]
    strategies: Mapping[str, tuple[str, str]]  # client id -> strategy, source
    ordered: bool | None
    loose: bool
    missing_inputs: tuple[str, ...]
    topics: tuple[TopicRound, ...]
    evidence: tuple[str, ...]
    listed_at: Any = None
    unanswered: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        silent = (c for c in dict.fromkeys(self.members) if c not in self.reads or not self.reads[c].answered)
        object.__setattr__(self, "unanswered", tuple(silent))

    def subscribers(self, topic: str) -> list[str]:
        """Members that answered and subscribe the topic themselves."""
        return [c for c in dict.fromkeys(self.members) if c in self.reads and topic in (self.reads[c].topics or ())]

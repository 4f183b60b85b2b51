"""One round of one group, as the drift rules look at it. Instants are epoch milliseconds, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

BROADCASTING = "BROADCASTING"
OTHER_CLASS = "class:"  # stands before the name of a strategy's class that is none of RocketMQ's own
CONSUMER_LIST = "consumer list"  # the input that says who the members are
RETRY_PREFIX = "%RETRY%"

Queue = tuple[str, int]  # broker name, queue id
TopicQueue = tuple[str, str, int]  # topic, broker name, queue id


class Owner(NamedTuple):
    """A client that showed a queue as its own in this round, and what it said of it."""

    client_id: str
    locked: bool
    last_pull_at: int | None = None
    last_consume_at: int | None = None
    last_lock_at: int | None = None
    cached_messages: int | None = None


class Subscription(NamedTuple):
    """One topic as a member subscribes it; ``tags`` sorted, empty for all."""

    topic: str
    expression_type: str | None
    sub_string: str | None
    tags: tuple[str, ...]


class Read(NamedTuple):
    """One running info that was asked for."""

    client_id: str
    answered: bool
    error: str | None
    topics: frozenset[str] | None  # subscribed by the client itself; None: it did not tell
    captured_at: int
    evidence: str
    subscriptions: tuple[Subscription, ...] = ()
    started_at: int | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class Connection(NamedTuple):
    """One channel in a consumer list; ``broker_name`` None: the broker that answered is not recorded."""

    broker_name: str | None
    client_id: str
    address: str


class MemberEvent(NamedTuple):
    """A broker's log says that a member came (``join``) or went (``leave``); ``subject``: its id, else its address."""

    kind: str
    at: int
    subject: str


class Progress(NamedTuple):
    """What the last valid progress readings say of a queue; offsets in messages."""

    read_at: int
    lag: int
    lag_before: int | None  # at the reading before
    standing_since: int  # first reading that shows the group's offset where it still is
    accrued: int  # messages that the broker took since then
    broker_offset: int = 0

    @property
    def rises(self) -> bool:
        """The lag grew between the last two readings."""
        return self.lag_before is not None and self.lag > self.lag_before


@dataclass(frozen=True)
class TopicRound:
    """One topic of the group in this round; ``queues`` None: its route was not read."""

    topic: str
    queues: tuple[Queue, ...] | None
    expected: Mapping[Queue, str | None]
    allowed: Mapping[Queue, frozenset[str]]
    owners: Mapping[Queue, tuple[Owner, ...]]
    strategy: str | None
    strategy_source: str | None
    strategy_parameters: str
    queue_list_hash: str | None
    expects: bool  # an expectation exists: the strategy is known and did not refuse
    evidence: tuple[str, ...]
    claimants: Mapping[Queue, frozenset[str]] = field(default_factory=dict)  # by each member's own rule and view
    missing_inputs: tuple[str, ...] = ()

    @cached_property
    def all_claimants(self) -> frozenset[str]:
        """Who takes any queue of the topic by its own rule."""
        return frozenset().union(*self.claimants.values())


@dataclass(frozen=True)
class Past:
    """What the rounds before say about this one: the walk over a group's rounds keeps it up to date."""

    progress: Mapping[TopicQueue, Progress] = field(default_factory=dict)
    ownerless_since: Mapping[TopicQueue, int] = field(default_factory=dict)
    owner_changes: Mapping[TopicQueue, tuple[int, ...]] = field(default_factory=dict)  # within the flap window
    unlocked_since: Mapping[tuple[str, TopicQueue], int] = field(default_factory=dict)
    silent_since: Mapping[str, int] = field(default_factory=dict)  # a listed client's first unanswered read
    missing_since: Mapping[str, int] = field(default_factory=dict)  # an input that was due and did not come
    new_queues: Mapping[TopicQueue, int] = field(default_factory=dict)  # not yet long in the route


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
    listed_at: int | None = None
    listed: bool = True  # a broker told who the members are
    connections: tuple[Connection, ...] = ()
    shared: bool = False  # the broker assigns the queues: several owners are legal
    at: int = 0  # when the group's last capture of this round was taken
    events: tuple[MemberEvent, ...] = ()  # since the round before
    past: Past = field(default_factory=Past)

    @cached_property
    def client_ids(self) -> Mapping[str, None]:
        """The members, each once, in their order."""
        return dict.fromkeys(self.members)

    @cached_property
    def unknown_strategies(self) -> tuple[str, ...]:
        """Members whose strategy nobody has seen."""
        return tuple(c for c in self.client_ids if c not in self.strategies)

    @cached_property
    def by_strategy(self) -> Mapping[str, list[str]]:
        """The members by what they decide by, as far as that is known."""
        used: dict[str, list[str]] = {}
        for client_id in self.client_ids:
            if client_id in self.strategies:
                used.setdefault(self.strategies[client_id][0], []).append(client_id)
        return used

    @cached_property
    def message_models(self) -> frozenset[str]:
        """The message models that clients said they consume by."""
        return frozenset(read.message_model for read in self.reads.values() if read.message_model)

    @cached_property
    def unanswered(self) -> tuple[str, ...]:
        """Members that were not asked, or did not answer."""
        return tuple(c for c in self.client_ids if c not in self.reads or not self.reads[c].answered)

    @cached_property
    def complete(self) -> bool:
        """The members are known and every one of them answered."""
        return self.listed and not self.unanswered

    @property
    def list_failed(self) -> bool:
        """A broker was asked who the members are, and did not tell."""
        return self.listed_at is not None and not self.listed

    @property
    def was_read(self) -> bool:
        """Running infos were asked for, or there is nobody to ask."""
        return bool(self.reads) or (self.listed and not self.members)

    @cached_property
    def duplicates(self) -> tuple[str, ...]:
        """Client ids with two channels on one broker, or with channels from two hosts."""
        twice = {client_id for client_id, count in Counter(self.members).items() if count > 1}
        hosts: dict[str, set[str]] = {}
        for connection in self.connections:
            host = connection.address.rpartition(":")[0] or connection.address
            hosts.setdefault(connection.client_id, set()).add(host)
        return tuple(sorted(twice | {client_id for client_id, seen in hosts.items() if len(seen) > 1}))

    @cached_property
    def views(self) -> dict[str | None, tuple[str, ...]]:
        """Member list by the broker that gave it; empty where no connections are recorded."""
        lists: dict[str | None, list[str]] = {}
        for connection in self.connections:
            lists.setdefault(connection.broker_name, []).append(connection.client_id)
        return {broker: tuple(sorted(ids)) for broker, ids in lists.items()}

    @cached_property
    def named_views(self) -> dict[str, tuple[str, ...]]:
        """The ``views`` of brokers that are known by name."""
        return {broker: listed for broker, listed in self.views.items() if broker is not None}

    @cached_property
    def views_differ(self) -> bool:
        """Brokers that are known by name list different members."""
        return len(set(self.named_views.values())) > 1

    def subscribers(self, topic: str) -> Mapping[str, None]:
        """Members that answered and subscribe the topic themselves, in their order."""
        return self._subscribers.get(topic, {})

    @cached_property
    def _subscribers(self) -> dict[str, dict[str, None]]:
        lists: dict[str, dict[str, None]] = {}
        for client_id in self.client_ids:
            for topic in self.reads[client_id].topics or () if client_id in self.reads else ():
                lists.setdefault(topic, {})[client_id] = None
        return lists

    def topic(self, name: str | None) -> TopicRound | None:
        """The topic of this name, if the group has it in this round."""
        return next((topic for topic in self.topics if topic.topic == name), None)

    def judged_topics(self) -> list[TopicRound]:
        """Topics whose queues are known."""
        return self._judged_topics

    @cached_property
    def _judged_topics(self) -> list[TopicRound]:
        return [topic for topic in self.topics if topic.queues is not None]

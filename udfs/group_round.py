"""One round of one group, as the drift rules look at it. Instants are epoch milliseconds, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from udfs.client_kinds import OTHER, knows_logical_queues, pulls, shows_queues

BROADCASTING = "BROADCASTING"
NOT_SUPPORTED, TOPIC_NOT_EXIST = 3, 17  # ResponseCode
_NOT_FOR_HERE = frozenset({NOT_SUPPORTED, TOPIC_NOT_EXIST})
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
    error_code: int | None = None  # RocketMQ's, in the error
    kind: str | None = None  # of client, see ``client_kinds``; None: it did not tell
    client_version: str | None = None

    @property
    def is_not_online(self) -> bool:
        """The broker that was asked does not know the client: another one may."""
        return not self.answered and "not online" in (self.error or "")


class Listing(NamedTuple):
    """One place that was asked who the members are; ``told``: it said, be it that it knows of nobody."""

    broker_name: str | None
    captured_at: int
    told: bool
    error_code: int | None
    evidence: str


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

    @property
    def consumer_offset(self) -> int:
        """Next offset that the group will consume; -1: none was committed."""
        return self.broker_offset - self.lag

    def stood_ms(self) -> int:
        """How long the group's offset has been what it is, by the readings."""
        return self.read_at - self.standing_since

    def stands(self, standstill_s: float) -> bool:
        """The group's offset has not moved for so long, while messages came."""
        return self.accrued > 0 and self.stood_ms() >= standstill_s * 1000


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
    is_logical: bool = False  # a static topic: these are its logical queues
    brokers: tuple[str, ...] = ()  # real ones, of which a client asks one who the members are; empty: not known
    routes_differ: bool = False  # name servers tell different routes
    name_servers: int = 1  # that told the route

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
    started_lately: bool = False  # a member has, and not every one has polled routes since


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
    listings: tuple[Listing, ...] = ()
    lists: Mapping[str | None, tuple[str, ...]] | None = None  # members by broker; None: as the connections say
    kinds: Mapping[str, str] = field(default_factory=dict)  # of members by their connections, see ``client_kinds``
    through_proxy: bool = False  # what was asked is a proxy
    doubted: tuple[str, ...] = ()  # members that this list lacks, and that other brokers most likely list
    missed: tuple[str, ...] = ()  # no members, but a short while ago they were in a list
    returned: frozenset[str] = frozenset()  # members that the list before lacked, by lot
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
    def opaque(self) -> tuple[str, ...]:
        """Members that answered, and are of a kind that does not show which queues it holds."""
        answered = (self.reads[c] for c in self.client_ids if c in self.reads and self.reads[c].answered)
        return tuple(r.client_id for r in answered if not shows_queues(self.kind_of(r.client_id), r.client_version))

    @cached_property
    def by_hand(self) -> tuple[str, ...]:
        """Members whose application chooses the queues itself: they pull, and subscribe nothing."""
        answered = (self.reads[c] for c in self.client_ids if c in self.reads and self.reads[c].answered)
        return tuple(r.client_id for r in answered if r.topics == frozenset() and pulls(self.kind_of(r.client_id)))

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Members that may hold queues which nobody shows."""
        return (*self.unanswered, *self.opaque)

    @cached_property
    def unheard(self) -> tuple[str, ...]:
        """Brokers that a client of the group may ask, and that told no list where others did: they may list more."""
        told = {broker for broker in self.views if broker is not None}
        failed = {listing.broker_name for listing in self.listings if listing.broker_name and not listing.told}
        return tuple(sorted((self._brokers | failed) - told)) if told else ()

    @cached_property
    def complete(self) -> bool:
        """The members are known, and every one of them answered and shows what it holds."""
        return self.listed and not self.hidden and not self.unheard

    @cached_property
    def by_rule(self) -> bool:
        """All members are known, share by a strategy, and show what they hold: what is seen can be held against it."""
        return not (self.shared or self.opaque or self.by_hand or self.unheard)

    @cached_property
    def _brokers(self) -> frozenset[str]:
        return frozenset(broker for topic in self.topics for broker in topic.brokers)

    def was_asked_elsewhere(self, read: Read) -> bool:
        """Whoever was asked for a client's running info cannot know it: a proxy, or a broker that does not list it.

        rocketmq-tools ask the first broker of the route; which one that was is not recorded.
        """
        unlisted = any(read.client_id not in listed for listed in self.named_views.values())
        return read.error_code == NOT_SUPPORTED or (read.is_not_online and unlisted)

    def kind_of(self, client_id: str) -> str | None:
        """The kind of client that a member is; None: not known."""
        read = self.reads.get(client_id)
        return (read.kind if read is not None else None) or self.kinds.get(client_id)

    @property
    def list_failed(self) -> bool:
        """A broker was asked who the members are, and did not tell; that there is no such group is told."""
        failed = [listing.error_code for listing in self.listings if not listing.told]
        return self.listed_at is not None and not self.listed and not set(failed) & _NOT_FOR_HERE

    @property
    def is_unknown_here(self) -> bool:
        """The group has no retry topic: rocketmq-tools find no broker to ask for it."""
        return not self.listed and any(listing.error_code == TOPIC_NOT_EXIST for listing in self.listings)

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
    def views(self) -> Mapping[str | None, tuple[str, ...]]:
        """Member list by the broker that gave it; empty where none is recorded."""
        if self.lists is not None:
            return self.lists
        lists: dict[str | None, list[str]] = {}
        for connection in self.connections:
            lists.setdefault(connection.broker_name, []).append(connection.client_id)
        return {broker: tuple(sorted(ids)) for broker, ids in lists.items()}

    @cached_property
    def named_views(self) -> dict[str, tuple[str, ...]]:
        """The ``views`` of brokers that are known by name, and that a client of the group may ask."""
        named = {broker: listed for broker, listed in self.views.items() if broker is not None}
        return {broker: listed for broker, listed in named.items() if not self._brokers or broker in self._brokers}

    @cached_property
    def views_differ(self) -> bool:
        """Brokers that are known by name list different members."""
        return len(set(self.named_views.values())) > 1

    @cached_property
    def is_drawn_by_lot(self) -> bool:
        """The members are those that one of several brokers lists, and nobody recorded which."""
        by_name = any(broker is not None for broker in self.views)
        return self.listed and not by_name and not self.through_proxy and len(self._brokers) != 1

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

    def may_lag(self, topic: str) -> bool:
        """Members may share an older route than the one that was read: of a retry topic, while members are new.

        A broker makes the retry topic when the first heartbeat comes; clients learn of it by their next poll of routes.
        """
        return self.past.started_lately and topic.startswith(RETRY_PREFIX)

    def topic(self, name: str | None) -> TopicRound | None:
        """The topic of this name, if the group has it in this round."""
        return next((topic for topic in self.topics if topic.topic == name), None)

    def judged_topics(self) -> list[TopicRound]:
        """Topics whose queues are known, as the members know them."""
        return self._judged_topics

    @cached_property
    def _judged_topics(self) -> list[TopicRound]:
        return [t for t in self.topics if t.queues is not None and not (t.is_logical and self.see_physical_queues)]

    @cached_property
    def see_physical_queues(self) -> tuple[str, ...]:
        """Members that answered, and share a static topic's real queues: clients before 5.0, and of other languages."""
        answered = [client_id for client_id, read in self.reads.items() if read.answered]
        return tuple(
            c for c in answered if self.kind_of(c) == OTHER or not knows_logical_queues(self.reads[c].client_version)
        )

"""What a round shows of a group, piece by piece: reads, lists, owners, topics, offsets. Instants are epoch ms, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from hindsight.udfs.consumer.offset_marks import OffsetMarks

T = TypeVar("T")
BROADCASTING = "BROADCASTING"
NOT_SUPPORTED, TOPIC_NOT_EXIST = 3, 17  # ResponseCode
CONSUMER_LIST = "consumer list"  # the input that says who the members are
RETRY_PREFIX = "%RETRY%"

Queue = tuple[str, int]  # broker name, queue id
TopicQueue = tuple[str, str, int]  # topic, broker name, queue id
# What a broker hands out to a member: how it is consumed, PULL or POP; broker; queue id, -1 for all of that broker.
Share = frozenset[tuple[str, str, int]]


class Owner(NamedTuple):
    """A client that showed a queue as its own in this round, and what it said of it."""

    client_id: str
    locked: bool
    last_pull_at: int | None = None
    last_consume_at: int | None = None
    last_lock_at: int | None = None
    cached_messages: int | None = None


# By topic and queue, those who showed it, by client id.
OwnersByTopic = Mapping[str, Mapping[Queue, tuple[Owner, ...]]]


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
    failure: str | None = None  # why one that was not answered says nothing of the client, see ``failed_reads``

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


class DeadLetters(NamedTuple):
    """What brokers said last of a group's dead letter queue: how many it holds, and when the last one was stored."""

    stored_at: int
    messages: int


class Progress(NamedTuple):
    """What the last valid progress readings say of a queue; offsets in messages."""

    read_at: int
    lag: int
    lag_before: int | None  # at the reading before
    standing_since: int  # first reading that shows the group's offset where it still is
    accrued: int  # messages that the broker took since then
    broker_offset: int = 0
    came_late_at: int | None = None  # when messages were first seen to come ``revive_lag_s`` after it began to stand
    waiting_since: int | None = None  # first reading that shows messages waiting while the group's offset stands

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

    def waited_ms(self) -> int:
        """How long messages have been waiting at least, while the group's offset was what it is."""
        return self.read_at - (self.standing_since if self.waiting_since is None else self.waiting_since)

    def stands(self, standstill_s: float) -> bool:
        """The group's offset has not moved for so long, while messages came."""
        return self.accrued > 0 and self.stood_ms() >= standstill_s * 1000


def with_own(shown: T, **own: Any) -> T:
    """The same with attributes of its own; what was worked out of the others stays."""
    made = object.__new__(type(shown))
    made.__dict__.update(shown.__dict__, **own)
    return made


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
    # Where brokers assign: by member each share that it may have been given, now or a round before; None: not known.
    handed: Mapping[str, frozenset[Share]] | None = None
    not_handed: str | None = None  # why it is not
    taken: Mapping[str, Share] = field(default_factory=dict)  # what members show that they pull and pop

    @cached_property
    def holders(self) -> frozenset[str]:
        """Who shows any queue of the topic as its own."""
        return frozenset(owner.client_id for owners in self.owners.values() for owner in owners)

    @cached_property
    def shares(self) -> Mapping[str, int]:
        """How many queues the group's rule gives to each member that it gives any."""
        return Counter(owner for owner in self.expected.values() if owner is not None)

    @cached_property
    def all_claimants(self) -> frozenset[str]:
        """Who takes any queue of the topic by its own rule."""
        return frozenset().union(*self.claimants.values())


class Flip(NamedTuple):
    """A subscription that went back and forth at a broker: two members subscribe differently. ``since``: epoch ms."""

    topic: str
    broker_name: str
    expressions: tuple[str, ...]
    changes: int
    since: int
    evidence: tuple[str, ...]


class Loosely(NamedTuple):
    """What a round shows of doubles and wrong owners whose reads lie so far apart that queues may move between them.

    ``shown``: by what each is about, who held the queue and who should. ``complete``: everybody answered.
    """

    shown: Mapping[tuple[Any, ...], tuple[str, ...]]
    complete: bool


@dataclass(frozen=True)
class Past:
    """What the rounds before say about this one: the walk over a group's rounds keeps it up to date."""

    progress: Mapping[TopicQueue, Progress] = field(default_factory=dict)
    ownerless_since: Mapping[TopicQueue, int] = field(default_factory=dict)
    owner_changes: Mapping[TopicQueue, tuple[int, ...]] = field(default_factory=dict)  # within the flap window
    # Queues of ordered groups that somebody has again: since when nobody had, and until when.
    slow_hand_overs: Mapping[TopicQueue, tuple[int, int]] = field(default_factory=dict)
    unlocked_since: Mapping[tuple[str, TopicQueue], int] = field(default_factory=dict)
    silent_since: Mapping[str, int] = field(default_factory=dict)  # a listed client's first read that tells its silence
    unheard_since: Mapping[str, int] = field(default_factory=dict)  # no answer since, where answers are lost
    lapsed: Mapping[TopicQueue, str] = field(default_factory=dict)  # who showed it alone, and was not heard of since
    loses_answers: bool = False  # the collector lately lost answers of brokers that answered
    both_answered: frozenset[str] = frozenset()  # ids of which two processes answered
    # Ids of two processes, as is known since then: two answered, or no broker would keep two connections so long.
    two_since: Mapping[str, int] = field(default_factory=dict)
    missing_since: Mapping[str, int] = field(default_factory=dict)  # an input that was due and did not come
    new_queues: Mapping[TopicQueue, int] = field(default_factory=dict)  # not yet long in the route
    offsets: OffsetMarks = field(default_factory=OffsetMarks)
    # Of which messages have waited for ``standstill_s`` at one client, and none was consumed.
    stuck: frozenset[TopicQueue] = frozenset()
    shown_since: Mapping[TopicQueue, int] = field(default_factory=dict)  # since when the same client alone shows it
    remade: Mapping[str, int] = field(default_factory=dict)  # topics that were in no route for a while, until then
    read_lately: bool = False  # running infos were, within ``data_gap_s``
    peopled_at: int = 0  # when a member was listed last, or nobody told who is
    empty_since: int = 0  # when first nobody was listed any more; 0: somebody is
    started_lately: bool = False  # a member has, and not every one has polled routes since
    flips: tuple[Flip, ...] = ()  # subscriptions that went back and forth at a broker, by its log
    loosely: Loosely | None = None  # the last round that was read, if it was loose
    held_back: Mapping[str, str] = field(default_factory=dict)  # brokers that do not let the group consume; the line

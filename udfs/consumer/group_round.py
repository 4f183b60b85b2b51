"""One round of a group, as the drift rules look at it. Instants are epoch milliseconds, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hindsight.udfs.clients.client_kinds import GRPC, OTHER, knows_logical_queues, pulls, shows_queues
from hindsight.udfs.consumer.expected_allocation import MemberRule
from hindsight.udfs.consumer.mixed_clients import Disagreement, Lists, disagreement
from hindsight.udfs.consumer.round_facts import (
    NOT_SUPPORTED,
    RETRY_PREFIX,
    TOPIC_NOT_EXIST,
    Connection,
    DeadLetters,
    Listing,
    MemberEvent,
    Past,
    Read,
    TopicRound,
    with_own,
)
from hindsight.udfs.consumer.round_reads import LEFT_OUT
from hindsight.udfs.strategies.member_families import is_of_other_language
from hindsight.udfs.values.message_queues import lite_parent

_NOT_FOR_HERE = frozenset({NOT_SUPPORTED, TOPIC_NOT_EXIST})


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
    chose_by_hand: Mapping[str, bool] = field(default_factory=dict)  # members that told it in earlier rounds
    events: tuple[MemberEvent, ...] = ()  # since the round before
    offset_reads: tuple[tuple[str | None, str], ...] = ()  # of the group's offsets: broker asked, and the line
    loses_answers: bool = False  # a broker that answered gave no answer to another question
    rules: tuple[MemberRule, ...] = ()  # each distinct member's own, with its family
    dead_letters: DeadLetters | None = None
    past: Past = field(default_factory=Past)

    def with_past(self, past: Past, *, ordered: bool | None) -> GroupRound:
        """The round with what is known of earlier ones; what was worked out of its own facts stays."""
        return with_own(self, past=past, ordered=ordered)

    def seen_again(self, **own: Any) -> GroupRound:
        """The round with instants, lines and owners of another that shows the same (``round_again``)."""
        made = with_own(self, **own)
        for name in ("_judged_topics", "see_physical_queues"):  # they hold what is another's, and in its order
            made.__dict__.pop(name, None)
        return made

    @cached_property
    def brokers(self) -> frozenset[str]:
        """The brokers that hold its queues, or are asked about it."""
        asked = {listing.broker_name for listing in self.listings if listing.broker_name}
        return frozenset(asked | {name for topic in self.topics for name in topic.brokers})

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
    def disagreements(self) -> Mapping[str, Disagreement]:
        """By topic, two members whose client families share its queues differently."""
        if not any(is_of_other_language(rule.profile) for rule in self.rules):
            return {}
        found = {topic.topic: disagreement(self._lists(topic), self.rules) for topic in self.judged_topics()}
        return {topic: differing for topic, differing in found.items() if differing is not None}

    def _lists(self, topic: TopicRound) -> Lists:
        strategy = topic.strategy or "AVG"
        return Lists(topic.topic, topic.queues or (), self.members, strategy, topic.strategy_parameters)

    @cached_property
    def served_by_proxy(self) -> tuple[str, ...]:
        """Members that are gRPC clients: a proxy hands them messages, whatever the list of members says."""
        by_rule = {rule.client_id for rule in self.rules if rule.profile == "R"}
        return tuple(c for c in self.client_ids if c in by_rule or self.kinds.get(c) == GRPC)

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
        return tuple(c for c in self.client_ids if self._chooses_by_hand(c))

    def _chooses_by_hand(self, client_id: str) -> bool | None:
        """As it says now, or said before; None: it never did."""
        read = self.reads.get(client_id)
        if read is None or not read.answered or read.topics is None:
            return self.chose_by_hand.get(client_id)
        return not read.topics and pulls(self.kind_of(client_id))

    @cached_property
    def may_choose_by_hand(self) -> bool:
        """A member never said whether it goes by the lists of brokers."""
        return any(self._chooses_by_hand(client_id) is None for client_id in self.client_ids)

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Members that may hold queues which nobody shows."""
        return tuple(dict.fromkeys((*self.unanswered, *self.opaque, *self.served_by_proxy)))

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
        return not (self.shared or self.opaque or self.by_hand or self.unheard or self.served_by_proxy)

    @cached_property
    def _brokers(self) -> frozenset[str]:
        return frozenset(broker for topic in self.topics for broker in topic.brokers)

    def was_asked_elsewhere(self, read: Read) -> bool:
        """Whoever was asked for a client's running info cannot know it: a proxy, or a broker that does not list it.

        rocketmq-tools ask the first broker of the route; which one that was is not recorded.
        """
        unlisted = any(read.client_id not in listed for listed in self.named_views.values())
        return read.error_code == NOT_SUPPORTED or (read.is_not_online and unlisted)

    def is_silent(self, read: Read) -> bool:
        """The client was asked, by whom could know it, and did not answer; not so what is lost now and then."""
        if read.answered or self.was_asked_elsewhere(read) or read.client_id in self.served_by_proxy:
            return False
        known = read.client_id in self.past.silent_since
        if read.failure == LEFT_OUT:
            return known
        return read.failure is None and (known or not self.past.loses_answers)

    def kind_of(self, client_id: str) -> str | None:
        """The kind of client that a member is; None: not known."""
        read = self.reads.get(client_id)
        return (read.kind if read is not None else None) or self.kinds.get(client_id)

    @cached_property
    def lite_parents(self) -> tuple[str, ...]:
        """The topics whose Lite topics the group consumes, as its offsets show."""
        parents = {lite_parent(topic) for topic, *_ in self.past.progress}
        return tuple(sorted(parent for parent in parents if parent is not None))

    @property
    def list_failed(self) -> bool:
        """A broker was asked who the members are, and did not tell; that there is no such group is told."""
        failed = [listing.error_code for listing in self.listings if not listing.told]
        return self.listed_at is not None and not self.listed and not set(failed) & _NOT_FOR_HERE

    @property
    def may_have_members(self) -> bool:
        """Not every place said that nobody is connected, as one was not asked, say, or what was asked is a proxy."""
        all_told = self.listed and all(listing.told for listing in self.listings)
        return not all_told or bool(self.members or self.unheard) or self.through_proxy

    @property
    def is_unknown_here(self) -> bool:
        """The group has no retry topic: rocketmq-tools find no broker to ask for it."""
        return not self.listed and any(listing.error_code == TOPIC_NOT_EXIST for listing in self.listings)

    @property
    def was_read(self) -> bool:
        """Running infos were asked for, or there is nobody to ask."""
        return bool(self.reads) or (self.listed and not self.members)

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Ids of two processes: with two channels on each broker that lists them, or with channels from two hosts.

        Where one broker lists twice what another lists once, it keeps a connection that the client left: until both
        have lasted longer than a broker keeps such a one.
        """
        return tuple(c for c in self.listed_twice if c not in self._once_elsewhere or c in self.past.two_since)

    @cached_property
    def _once_elsewhere(self) -> frozenset[str]:
        """Ids from one host that a broker known by name lists once."""
        hosts = self._hosts
        views = [Counter(listed) for listed in self.named_views.values()]
        return frozenset(c for c in self.listed_twice if len(hosts.get(c, ())) < 2 and any(v[c] == 1 for v in views))

    @cached_property
    def listed_twice(self) -> tuple[str, ...]:
        """Client ids with two channels on one broker, or with channels from two hosts."""
        twice = {client_id for client_id, count in Counter(self.members).items() if count > 1}
        return tuple(sorted(twice | {client_id for client_id, seen in self._hosts.items() if len(seen) > 1}))

    @cached_property
    def _hosts(self) -> dict[str, set[str]]:
        """By client id, the hosts that its channels come from."""
        hosts: dict[str, set[str]] = {}
        for connection in self.connections:
            host = connection.address.rpartition(":")[0] or connection.address
            hosts.setdefault(connection.client_id, set()).add(host)
        return hosts

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
    def differing(self) -> tuple[str, ...]:
        """The members that not all brokers known by name list."""
        views = [set(listed) for listed in self.named_views.values()] or [set()]
        return tuple(sorted(views[0].union(*views) - views[0].intersection(*views)))

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

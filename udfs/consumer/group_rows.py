"""Rows of a group's round in, the round as the rules see it out.

Rows hold instants as datetimes, UTC, or as epoch microseconds; the kernels as epoch milliseconds.

A group's round in that shows what the one before showed, with what it has of its own; the round as rules see it out.

Its own are instants, lines, and what owners said of when they pulled and consumed. All else is the round's before, and
so is what was worked out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from hindsight.udfs.consumer.broker_assignment import taken_by
from hindsight.udfs.consumer.expected_allocation import MemberRule, Shares, claimants_of
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.listed_members import ID_LIST, INFO, LISTING, views_asked
from hindsight.udfs.consumer.member_rules import is_known
from hindsight.udfs.consumer.mixed_clients import Lists, resolved
from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import (
    Connection,
    DeadLetters,
    Listing,
    MemberEvent,
    Owner,
    OwnersByTopic,
    Queue,
    Read,
    Subscription,
    TopicQueue,
    TopicRound,
    with_own,
)
from hindsight.udfs.consumer.round_reads import NEEDED_AGAIN
from hindsight.udfs.strategies.member_families import alternatives
from hindsight.udfs.values.columns import DAY_MS, EPOCH

Row = Mapping[str, Any]
# By topic: the logical queue that a broker's own queue holds.
Hosts = Mapping[str, Mapping[Queue, TopicQueue]]


def to_ms(at: datetime | int | None) -> int | None:
    """An instant as epoch milliseconds; whole numbers are epoch microseconds, naive instants UTC."""
    if at is None:
        return None
    if isinstance(at, int):
        return at // 1000
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH
    return since.days * DAY_MS + since.seconds * 1000 + since.microseconds // 1000


def to_instant(at_ms: int | None) -> datetime | None:
    """Epoch milliseconds as an instant."""
    return None if at_ms is None else EPOCH + timedelta(milliseconds=at_ms)


def group_round(row: Row) -> GroupRound:
    """What the rules look at, from the row that was brought together."""
    reads = _reads(row["reads"])
    listings = tuple(_listing(listing) for listing in row["listings"] or ())
    connections = row["connections"] or ()
    judged = [topic for topic in row["topics"] if not topic["not_asked"]]
    rules = rules_of(row)
    narrowed = narrowed_rules(row, rules)
    return GroupRound(
        consumer_group=row["consumer_group"],
        message_model=row["message_model"],
        members=tuple(row["members"]),
        reads=reads,
        strategies={
            r["client_id"]: (r["strategy"], r["source"])
            for r in row["member_rules"]
            if r["strategy"] and is_known(r["strategy"])
        },
        ordered=row["ordered"],
        loose=row["loose"],
        missing_inputs=tuple(dict.fromkeys(m for topic in judged for m in topic["missing_inputs"])),
        topics=tuple(_topic(topic, row, narrowed) for topic in judged),
        evidence=tuple(listing.evidence for listing in listings),
        listed_at=max((listing.captured_at for listing in listings), default=None),
        listed=any(listing.told for listing in listings),
        connections=tuple(Connection(c["broker_name"], c["client_id"], c["address"]) for c in connections),
        shared=row["shared"],
        listings=listings,
        lists={view["broker_name"]: tuple(view["members"]) for view in row["broker_views"] or ()},
        kinds={c["client_id"]: c["kind"] for c in connections if c["kind"]},
        through_proxy=row["through_proxy"],
        at=to_ms(row["at"]) or 0,
        rules=rules,
        dead_letters=DeadLetters(*row["dead_letters"]) if row.get("dead_letters") else None,
        offset_reads=tuple(row.get("offset_reads") or ()),
        loses_answers=bool(row.get("loses_answers")),
        events=tuple(MemberEvent(e["kind"], to_ms(e["at"]) or 0, e["subject"]) for e in row["member_events"] or ()),
    )


def by_logical_queues(told: Readings, hosts: Hosts) -> Readings:
    """A progress reading; what single brokers say of static topics, by their logical queues.

    Where rocketmq-tools asked all brokers they told of the logical queues themselves: that counts.
    """
    if not hosts:
        return told
    rows = [Reading(*row) for row in zip(*told, strict=True)]
    in_whole = {row.queue[0] for row in rows if row.broker_asked is None}
    hosted: list[Reading] = []
    for row in rows:
        topic = row.queue[0]
        if row.broker_asked is None or topic not in hosts:
            hosted.append(row)
        elif topic not in in_whole and (queue := hosts[topic].get((row.queue[1], row.queue[2]))) is not None:
            hosted.append(row._replace(queue=queue))
    return Readings.of(hosted)


def hosts_of(row: Row) -> Hosts:
    """Of the static topics of a group's round: which logical queue lies in which queue of which broker."""
    return {
        topic["topic"]: {
            (host["broker_name"], held["queue_id"]): (topic["topic"], host["logical_broker_name"], held["logical_id"])
            for host in topic["hosts"]
            for held in host["logical_queues"] or ()
        }
        for topic in row["topics"]
        if topic["hosts"]
    }


def _listing(row: Row) -> Listing:
    return Listing(row["broker_name"], to_ms(row["captured_at"]) or 0, row["told"], row["error_code"], row["evidence"])


def _reads(rows: Sequence[Row]) -> dict[str, Read]:
    """Each client's last read; what that one does not tell of the client itself is as the one before told it."""
    reads: dict[str, Read] = {}
    for row in sorted(rows, key=lambda r: r["captured_at"]):
        read, before = _read(row), reads.get(row["client_id"])
        if read.answered and read.topics is None and before is not None:
            read = before._replace(captured_at=read.captured_at, evidence=read.evidence, answered=True, error=None)
        reads[read.client_id] = read
    return reads


def _read(read: Row) -> Read:
    own = read["subscriptions"] if read["answered"] else None
    subscriptions = tuple(
        Subscription(s["topic"], s["expression_type"], s["sub_string"], tuple(s["tags"] or ())) for s in own or ()
    )
    return Read(
        read["client_id"],
        read["answered"],
        read["error"],
        None if own is None else frozenset(s.topic for s in subscriptions),
        to_ms(read["captured_at"]) or 0,
        read["evidence"],
        subscriptions,
        to_ms(read["client_started_at"]),
        read["message_model"],
        read["consume_from_where"],
        read["error_code"],
        read["client_kind"],
        read["client_version"],
        read.get("failure"),
    )


def _topic(topic: Row, row: Row, narrowed: Sequence[MemberRule]) -> TopicRound:
    shares = topic["shares"]
    return TopicRound(
        topic=topic["topic"],
        queues=topic["queues"],
        expected={} if shares is None else shares.owners,
        allowed=_allowed(shares, topic["shares_before"]),
        owners=row["owners"].get(topic["topic"], {}),
        strategy=topic["strategy"],
        strategy_source=topic["strategy_source"],
        strategy_parameters=topic["strategy_parameters"],
        queue_list_hash=topic["queue_list_hash"],
        expects=shares is not None,
        evidence=(topic["evidence"],) if topic["evidence"] else (),
        claimants=claimants(topic, row, narrowed),
        missing_inputs=tuple(topic["missing_inputs"]),
        is_logical=topic["queue_kind"] == "logical",
        brokers=tuple(topic["route_brokers"] or ()),
        routes_differ=bool(topic["routes_differ"]),
        name_servers=topic["name_servers"] or 0,
        handed=topic.get("handed"),
        not_handed=topic.get("not_handed"),
        taken=taken_by(topic["topic"], row["owners"].get(topic["topic"], {}), row.get("pops") or ())
        if row["shared"]
        else {},
    )


def _allowed(shares: Shares | None, before: Shares | None) -> Mapping[Queue, frozenset[str]]:
    """Who may take each queue: as is expected now, or was before."""
    if shares is None or before is None or shares is before:
        told = shares or before
        return told.takers if told is not None else {}
    queues = {**shares.takers, **before.takers}
    nobody: frozenset[str] = frozenset()
    return {q: shares.takers.get(q, nobody) | before.takers.get(q, nobody) for q in queues}


def rules_of(row: Row) -> tuple[MemberRule, ...]:
    """By which rule each member decides; of families that records cannot tell apart the one that fits what it holds."""
    rules = [MemberRule(rule["client_id"], rule["strategy"], rule["profile"]) for rule in row["member_rules"]]
    if not any(_is_open(rule) for rule in rules):
        return tuple(rules)
    lists = [_lists(topic, row) for topic in row["topics"] if topic["shares"] is not None]
    held = _held(row["owners"])
    return tuple(resolved(lists, rule, held.get(rule.client_id, {})) if _is_open(rule) else rule for rule in rules)


def narrowed_rules(row: Row, rules: Sequence[MemberRule]) -> list[MemberRule]:
    """Those of ``rules_of`` that say more of the member's family than the records do."""
    told = {rule["client_id"]: rule["profile"] for rule in row["member_rules"]}
    return [rule for rule in rules if rule.profile != told.get(rule.client_id)]


def claimants(topic: Row, row: Row, narrowed: Sequence[MemberRule]) -> Mapping[Queue, frozenset[str]]:
    """Who takes which queue by its own rule: the expectation's claimants, but for members whose family is narrower."""
    given = topic["shares"].claimants if topic["shares"] is not None else {}
    if not narrowed or not given:
        return given
    lists, views = _lists(topic, row), views_asked(row["broker_views"] or (), topic["route_brokers"] or None)
    views = views if len(views) > 1 else [lists.members]
    taken = claimants_of(lists.strategy, lists.parameters, lists.mq_all, views, narrowed)
    own, names = dict(zip(lists.queues, taken, strict=True)), frozenset(rule.client_id for rule in narrowed)
    return {queue: (claims - names) | frozenset(own[queue]) for queue, claims in given.items()}


def _is_open(rule: MemberRule) -> bool:
    return rule.profile is not None and len(alternatives(rule.profile)) > 1


def _lists(topic: Row, row: Row) -> Lists:
    queues, members = topic["shares"].queues, tuple(row["members"])
    return Lists(topic["topic"], queues, members, topic["strategy"] or "AVG", topic["strategy_parameters"] or "")


def _held(owners: OwnersByTopic) -> dict[str, dict[str, frozenset[Queue]]]:
    """By member and topic, the queues that it shows."""
    held: dict[str, dict[str, frozenset[Queue]]] = {}
    for topic, of_topic in owners.items():
        for queue, owner in ((queue, owner) for queue, owners_of in of_topic.items() for owner in owners_of):
            of_member = held.setdefault(owner.client_id, {})
            of_member[topic] = of_member.get(topic, frozenset()) | {queue}
    return held


class _OwnersOf(Mapping[Queue, tuple[Owner, ...]]):
    """The owners of a topic's queues, read when a rule asks for them."""

    def __init__(self, topic: str, owners: Callable[[], OwnersByTopic]) -> None:
        self._topic, self._read = topic, owners

    @cached_property
    def _owners(self) -> Mapping[Queue, tuple[Owner, ...]]:
        return self._read().get(self._topic, {})

    def __getitem__(self, queue: Queue) -> tuple[Owner, ...]:
        return self._owners[queue]

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)


def again(
    group: GroupRound,
    at: int,
    captures: pa.RecordBatch,
    routes: Mapping[str, str | None],
    owners: Callable[[], OwnersByTopic],
) -> GroupRound:
    """The round ``group`` as it is seen again: with instants, lines and owners of its own.

    Args:
        at: when the group's last capture of this round was taken, epoch ms.
        captures: of this round, in the order of their instants, epoch us.
        routes: by topic the line of its route; None: nobody asked.
        owners: gives the owners; few rules ask for them.
    """
    reads: dict[str, Read] = {}
    lists: dict[str | None, tuple[int, str]] = {}  # by the place that was asked
    columns = (captures[name].to_pylist() for name in NEEDED_AGAIN)
    for kind, broker_name, _, client_id, captured_at, line in zip(*columns, strict=True):
        if kind == INFO:
            read = group.reads[client_id]
            reads[client_id] = Read._make((*read[:4], captured_at // 1000, line, *read[6:]))
        elif kind in (LISTING, ID_LIST):
            place, said = broker_name or None, (captured_at, line)
            lists[place] = max(said, lists.get(place, said))
    listings = []
    for listing in group.listings:
        captured_at, line = lists[listing.broker_name]
        listings.append(listing._replace(captured_at=captured_at // 1000, evidence=line))
    topics = []
    for topic in group.topics:
        route = routes[topic.topic]
        topics.append(with_own(topic, evidence=(route,) if route else (), owners=_OwnersOf(topic.topic, owners)))
    return group.seen_again(
        at=at,
        reads=reads,
        listings=tuple(listings),
        evidence=tuple(listing.evidence for listing in listings),
        listed_at=max((listing.captured_at for listing in listings), default=None),
        topics=tuple(topics),
    )

"""A group's round in that shows what the one before showed, with what it has of its own; the round as rules see it out.

Its own are instants, lines, and what owners said of when they pulled and consumed. All else is the round's before, and
so is what was worked out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.listed_members import ID_LIST, INFO, LISTING
from hindsight.udfs.consumer.round_facts import Owner, OwnersByTopic, Queue, Read, TopicRound
from hindsight.udfs.consumer.round_reads import NEEDED_AGAIN

Said = tuple[int, str]  # an instant, epoch ms, and the line that says so


class Again(NamedTuple):
    """What such a round has of its own.

    Attributes:
        at: when the group's last capture of this round was taken, epoch ms.
        reads: by client, in the order of their instants.
        lists: by the place that was asked for the list of members.
        routes: by topic the line of its route; None: nobody asked.
        owners: gives the owners; few rules ask for them.
    """

    at: int
    reads: Mapping[str, Said]
    lists: Mapping[str | None, Said]
    routes: Mapping[str, str | None]
    owners: Callable[[], OwnersByTopic]


def said_again(captures: pa.RecordBatch) -> tuple[dict[str, Said], dict[str | None, Said]]:
    """The reads and lists of such a round, from its captures, whose instants are epoch us, in order."""
    reads: dict[str, Said] = {}
    lists: dict[str | None, Said] = {}
    columns = (captures[name].to_pylist() for name in NEEDED_AGAIN)
    for kind, broker_name, _, client_id, at, line in zip(*columns, strict=True):
        if kind == INFO:
            reads[client_id] = at // 1000, line
        elif kind in (LISTING, ID_LIST):
            lists[broker_name or None] = max((at, line), lists.get(broker_name or None, (at, line)))
    return reads, {place: (at // 1000, line) for place, (at, line) in lists.items()}


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


def again(group: GroupRound, own: Again) -> GroupRound:
    """The round ``group`` as it is seen again: with instants, lines and owners of its own."""
    reads = {}
    for client_id, (captured_at, line) in own.reads.items():
        read = group.reads[client_id]
        reads[client_id] = Read._make((*read[:4], captured_at, line, *read[6:]))
    listings = []
    for listing in group.listings:
        captured_at, line = own.lists[listing.broker_name]
        listings.append(listing._replace(captured_at=captured_at, evidence=line))
    return group.seen_again(
        at=own.at,
        reads=reads,
        listings=tuple(listings),
        evidence=tuple(listing.evidence for listing in listings),
        listed_at=max((listing.captured_at for listing in listings), default=None),
        topics=tuple(_topic(topic, own) for topic in group.topics),
    )


def _topic(topic: TopicRound, own: Again) -> TopicRound:
    line = own.routes[topic.topic]
    return topic.seen_again(evidence=(line,) if line else (), owners=_OwnersOf(topic.topic, own.owners))

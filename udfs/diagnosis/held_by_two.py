"""Stretches of ownership in, the queues that two clients held at once out, as both of them say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hindsight.udfs.diagnosis.logged_ownership import OWNED, Consumes, Ownership, Queues

_BROADCASTING = "BROADCASTING"
_STAMPS_ERR_MS = 2_000  # two stamps of whole seconds


class HeldByTwo(NamedTuple):
    """Queues that several clients held at once, as they say themselves, epoch milliseconds."""

    consumer_group: str
    topic: str
    client_ids: tuple[str, ...]
    queues: Queues
    since: int
    until: int


class _Hold(NamedTuple):
    since: int
    until: int
    client_id: str


def held_by_two(known: Iterable[Ownership], consumes: Consumes) -> list[HeldByTwo]:
    """Where two clients of a group that shares its queues held one at once, for longer than stamps may err."""
    found: dict[tuple[int, int, str, str, tuple[str, str]], list[tuple[str, int]]] = {}
    for (group, topic, queue), holds in _by_queue(known, consumes).items():
        for since, until, clients in _pairs_at_once(holds):
            found.setdefault((since, until, group, topic, clients), []).append(queue)
    return [
        HeldByTwo(group, topic, clients, tuple(sorted(queues)), since, until)
        for (since, until, group, topic, clients), queues in sorted(found.items())
    ]


def _by_queue(
    known: Iterable[Ownership], consumes: Consumes
) -> dict[tuple[str, str, tuple[str, int]], dict[str, list[_Hold]]]:
    """Who held a queue when, each client's stretches that touch joined."""
    found: dict[tuple[str, str, tuple[str, int]], dict[str, list[_Hold]]] = {}
    for one in sorted(known, key=lambda one: one.since):
        group, topic, client_id = one.key
        if one.state != OWNED or client_id is None or one.until is None:
            continue
        if consumes.get((client_id, group), ("", ""))[1] == _BROADCASTING:
            continue
        for queue in one.queues:
            holds = found.setdefault((group, topic, queue), {}).setdefault(client_id, [])
            if holds and holds[-1].until == one.since:
                holds[-1] = holds[-1]._replace(until=one.until)
            else:
                holds.append(_Hold(one.since, one.until, client_id))
    return found


def _pairs_at_once(holds: dict[str, list[_Hold]]) -> Iterator[tuple[int, int, tuple[str, str]]]:
    """Stretches of two clients that overlap, each pair once, with when."""
    running: list[_Hold] = []
    for one in sorted(hold for of_client in holds.values() for hold in of_client):
        running = [other for other in running if other.until - one.since > _STAMPS_ERR_MS]
        for other in running:
            until = min(one.until, other.until)
            if until - one.since > _STAMPS_ERR_MS and other.client_id != one.client_id:
                first, second = sorted((one.client_id, other.client_id))
                yield one.since, until, (first, second)
        running.append(one)

"""Who showed which queue, and who claims it as recorded and as supposed, in; who would show it, out.

Every client decides by itself. So one that did what its own rule says, would do what that says then: a client that
held just what it claimed holds what it would claim. Where a client held a queue that it does not claim, or did not hold
one that it claims, something was amiss, and stays so: no premise heals what is not of its making. A queue that its
claimant answered without is held by nobody as long as that client is there, whoever would claim it.

An example: three members share nine queues by AVG, and c, which was frozen, still shows 8, which is b's by now.

    recorded    a: 0-2    b: 3-5     c: 6-8          expected: a 0-4, b 5-8 (c is not listed)
    supposed    d joins: a 0-2, b 3-5, d 6-8         c still shows what it showed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hindsight.udfs.consumer.round_facts import Owner, OwnersByTopic, Queue
from hindsight.udfs.consumer.shares import Shares

_NOBODY: frozenset[str] = frozenset()


class Claims(NamedTuple):
    """What is expected of a topic as recorded, and as supposed; None: nothing can be."""

    recorded: Shares | None
    supposed: Shares | None


class Present(NamedTuple):
    """Who is there under the premises.

    Attributes:
        answering: clients that answer what they hold; others show nothing that they did not show.
        left: members that are none any more; ``ordered``: they consume in order.
    """

    answering: Collection[str]
    left: Collection[str]
    ordered: bool


def moved_owners(owners: OwnersByTopic, claims: Mapping[str, Claims], present: Present) -> OwnersByTopic:
    """The owners of each topic's queues under the premises; of topics and queues where nothing differs, as they were.

    Args:
        claims: by topic of the round.
    """
    found: dict[str, Mapping[Queue, tuple[Owner, ...]]] = {}
    for topic in dict.fromkeys([*owners, *claims]):
        of_topic = _of_topic(owners.get(topic, {}), claims.get(topic, Claims(None, None)), present)
        if of_topic:
            found[topic] = of_topic
    return found


def _of_topic(
    held: Mapping[Queue, tuple[Owner, ...]], claims: Claims, present: Present
) -> Mapping[Queue, tuple[Owner, ...]]:
    recorded, supposed = claims
    if recorded is None or supposed is None:
        kept = {queue: tuple(o for o in own if o.client_id not in present.left) for queue, own in held.items()}
        return {queue: own for queue, own in kept.items() if own}
    found: dict[Queue, tuple[Owner, ...]] = {}
    for queue in dict.fromkeys([*held, *supposed.queues]):
        own = held.get(queue, ())
        if queue not in supposed.claimants:
            # A queue that is no more is nobody's; one that no route ever told of is as it was.
            moved = () if queue in recorded.claimants else own
        else:
            moved = _of_queue(own, recorded.claimants.get(queue, _NOBODY), supposed.claimants[queue], present)
        if moved:
            found[queue] = moved
    return found


def _of_queue(
    own: tuple[Owner, ...], recorded: Collection[str], supposed: Collection[str], present: Present
) -> tuple[Owner, ...]:
    if not own and any(client_id in present.answering for client_id in recorded):
        return own
    showed = {owner.client_id: owner for owner in own}
    holds = set()
    for client_id in {*showed, *recorded, *supposed} - {*present.left}:
        obeyed = (client_id in showed) == (client_id in recorded)
        if client_id in (supposed if obeyed else showed) and (client_id in showed or client_id in present.answering):
            holds.add(client_id)
    if holds == showed.keys():
        return own
    model = own[0] if own else Owner("", present.ordered)
    return tuple(showed.get(client_id, model._replace(client_id=client_id)) for client_id in sorted(holds))

"""A group's queues, members and rules in; the expected owner and the claimants of each queue out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hindsight.udfs.allocation import (
    NEARBY_PREFIX,
    STRATEGIES,
    AllocationError,
    MessageQueue,
    UnknownStrategyError,
    allocate,
    allocate_for,
)
from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.consumer.client_balance import sorted_as
from hindsight.udfs.consumer.round_facts import BROADCASTING, Queue
from hindsight.udfs.strategies.allocation_strategies import profiles_that_differ
from hindsight.udfs.strategies.consistent_hash import kept_answers
from hindsight.udfs.strategies.member_families import alternatives, own_strategy

# Strategies whose result no log tells, by the beginning of their name, and the parameters that settings must give. What
# computes the rooms of MACHINE_ROOM_NEARBY is the application's own code: settings name them, by shell patterns.
_NEEDS = {
    "CONFIG": ("configured_queues",),
    NEARBY_PREFIX: ("broker_rooms", "client_rooms"),
    "MACHINE_ROOM": ("machine_rooms",),
}


class MemberRule(NamedTuple):
    """The rule by which a member decides: strategy and release family; None where not known.

    ``profile`` may name several families (``G1|G2``), where records cannot tell them apart.
    """

    client_id: str
    strategy: str | None
    profile: str | None


class Expectation(NamedTuple):
    """Owner and claimants of each queue, in the queues' order; or why nothing can be expected."""

    owners: tuple[str | None, ...] = ()
    claimants: tuple[tuple[str, ...], ...] = ()
    refusal: str | None = None


def expected_allocation(
    message_model: str | None,
    strategy: str,
    profile: str | None,
    topic: str,
    queues: Sequence[tuple[str, int]],
    members: Sequence[str],
    rules: Sequence[MemberRule],
    *,
    parameters: str = "",
    views: Sequence[Sequence[str]] = (),
) -> Expectation:
    """Who should own each queue, were everybody under ``strategy``, and who takes it under its own rule and view.

    Args:
        queues: broker name and queue id, sorted as RocketMQ sorts them.
        members: listed client ids, sorted as RocketMQ sorts them, duplicates kept as the broker returned them.
        profile: of the group's releases; None: not known, and what they do differently is not expected. Of families
            that cannot be told apart the newest counts.
        rules: each distinct member's own; a member without a known one claims nothing, one of a release that is not
            known what any release would.
        parameters: the strategy's own, as JSON; '' for the defaults. Members under another strategy have defaults.
        views: the brokers' member lists where they differ. A client may have asked any of those that list it.
    Source: RebalanceImpl#rebalanceByTopic: a BROADCASTING client takes every queue, without a strategy.
    """
    if message_model == BROADCASTING:
        return Expectation((None,) * len(queues), (tuple(dict.fromkeys(members)),) * len(queues))
    mq_all = tuple(MessageQueue(topic, broker_name, queue_id) for broker_name, queue_id in queues)
    profiles = (alternatives(profile)[-1],) if profile else profiles_that_differ(strategy)
    first, *others = [_answer(strategy, p, mq_all, tuple(members), parameters) for p in profiles]
    answer = first if all(other == first for other in others) else f"{strategy} depends on releases that are not known"
    if isinstance(answer, str):
        return Expectation(refusal=answer)
    owners: list[str | None] = [None] * len(mq_all)
    for client_id, places in answer.items():
        for place in places:
            owners[place] = client_id
    given_views = [tuple(view) for view in views] if len(views) > 1 else [tuple(members)]
    return Expectation(tuple(owners), claimants_of(strategy, parameters, mq_all, given_views, rules))


def claimants_of(
    strategy: str,
    parameters: str,
    mq_all: tuple[MessageQueue, ...],
    views: Sequence[tuple[str, ...]],
    rules: Sequence[MemberRule],
) -> tuple[tuple[str, ...], ...]:
    """By queue of ``mq_all``, the members that take it under their own rule, over any of the member lists ``views``."""
    claimants: list[list[str]] = [[] for _ in mq_all]
    by_rule: dict[tuple[str | None, str | None], list[Mapping[str, tuple[int, ...]]]] = {}
    for client_id, told, own_profile in rules:
        if (told, own_profile) not in by_rule:
            name = own_strategy(own_profile, told) or ""
            own = parameters if name == strategy else ""
            profiles = alternatives(own_profile) if own_profile else profiles_that_differ(name)
            answers = [_answer(name, p, mq_all, view, own) for view in views if name for p in profiles]
            by_rule[told, own_profile] = [given for given in answers if not isinstance(given, str)]
        for place in {place for given in by_rule[told, own_profile] for place in given.get(client_id, ())}:
            claimants[place].append(client_id)
    return tuple(map(tuple, claimants))


def computable(strategy: str) -> bool:
    """Whether the name of a strategy is enough to tell what its members take: no settings of the application's own."""
    return strategy in STRATEGIES and not strategy.startswith(tuple(_NEEDS))


@kept_answers(512)
def _answer(
    strategy: str,
    profile: str,
    mq_all: tuple[MessageQueue, ...],
    cid_all: tuple[str, ...],
    parameters: str,
) -> Mapping[str, tuple[int, ...]] | str:
    """Each member's queues under one rule, as places in ``mq_all``, or why that rule gives no answer."""
    if profile in CLIENT_FAMILIES:
        strategy = own_strategy(profile, strategy) or strategy
    given = json.loads(parameters) if parameters else {}
    if not _is_given(strategy, given):
        return f"{strategy} depends on parameters that no record holds"
    configured = given.pop("configured_queues", {})
    rooms = {name: given.pop(name, ()) for name in _NEEDS[NEARBY_PREFIX]}
    if strategy.startswith(NEARBY_PREFIX):
        nowhere = _roomless(rooms, mq_all, cid_all)
        if nowhere:
            return f"{strategy}: settings name no room of {nowhere}"
        given |= _room_functions(rooms)
    try:
        if strategy == "CONFIG":
            return _places(mq_all, {c: _configured(c, mq_all, cid_all, configured) for c in dict.fromkeys(cid_all)})
        answers = _allocated(strategy, profile, mq_all, cid_all, given)
    except AllocationError as error:
        return f"{strategy} refuses: {error}"
    except UnknownStrategyError:
        return f"{strategy} has no kernel"
    return _places(mq_all, answers)


def _is_given(strategy: str, given: Mapping[str, Any]) -> bool:
    """Whether there is every parameter that a strategy, and one inside it, depends on."""
    prefix = next((prefix for prefix in _NEEDS if strategy.startswith(prefix)), None)
    if prefix is None:
        return True
    if not all(name in given for name in _NEEDS[prefix]):
        return False
    inner = strategy.removeprefix(NEARBY_PREFIX)
    # CONFIG inside another one has one list for all clients, which nothing tells.
    return _is_given(inner, given) and inner != "CONFIG" if prefix == NEARBY_PREFIX else strategy == prefix


def _room(of: Sequence[Sequence[str]], name: str) -> str | None:
    """The room of the first pattern that a name matches."""
    return next((room for pattern, room in of if fnmatchcase(name, pattern)), None)


def _roomless(
    rooms: Mapping[str, Sequence[Sequence[str]]], mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
) -> str | None:
    """The first broker or client of which settings name no room."""
    brokers = dict.fromkeys(queue.broker_name for queue in mq_all)
    nowhere = (name for name in brokers if _room(rooms["broker_rooms"], name) is None)
    return next(iter([*nowhere, *(c for c in cid_all if _room(rooms["client_rooms"], c) is None)]), None)


def _room_functions(rooms: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    return {
        "room_of_queue": lambda queue: _room(rooms["broker_rooms"], queue.broker_name),
        "room_of_client": lambda client_id: _room(rooms["client_rooms"], client_id),
    }


def _allocated(
    strategy: str,
    profile: str,
    mq_all: tuple[MessageQueue, ...],
    cid_all: tuple[str, ...],
    given: Mapping[str, Any],
) -> Mapping[str, Sequence[MessageQueue] | None]:
    """Everybody's answer over the lists as clients of the profile sort them; a Go client that panics holds nothing."""
    if profile not in CLIENT_FAMILIES:
        return allocate(strategy, mq_all, cid_all, profile=profile, **given)
    queues, ids = sorted_as(profile)(mq_all, cid_all)
    answers: dict[str, Sequence[MessageQueue] | None] = {}
    try:
        return allocate(strategy, queues, ids, profile=profile, **given)
    except AllocationError as error:
        if error.java_exception != "panic":
            raise
    for client_id in dict.fromkeys(ids):
        try:
            answers[client_id] = allocate_for(strategy, client_id, queues, ids, profile=profile, **given)
        except AllocationError:
            answers[client_id] = None
    return answers


def _places(
    mq_all: tuple[MessageQueue, ...], answers: Mapping[str, Sequence[MessageQueue] | None]
) -> dict[str, tuple[int, ...]]:
    place = {queue: number for number, queue in enumerate(mq_all)}
    return {client_id: tuple(place[queue] for queue in queues or ()) for client_id, queues in answers.items()}


def _configured(
    client_id: str, mq_all: tuple[MessageQueue, ...], cid_all: tuple[str, ...], configured: Mapping[str, Sequence[str]]
) -> tuple[MessageQueue, ...]:
    """What CONFIG gives a client: the list of the first pattern that its id matches, ``broker:queue`` each."""
    named = next((names for pattern, names in configured.items() if fnmatchcase(client_id, pattern)), None)
    places = [name.rpartition(":") for name in named or ()]
    queues = [MessageQueue(mq_all[0].topic, broker, int(queue_id)) for broker, _, queue_id in places]
    own = allocate_for("CONFIG", client_id, mq_all, cid_all, configured_queues=None if named is None else queues)
    return tuple(queue for queue in own or () if queue in mq_all)


class Shares:
    """What is expected of a topic's queues; rounds that expect the same share it.

    Attributes:
        queues: in RocketMQ's order.
        owners: whose each is by the group's rule.
        claimants: who takes it by its own rule.
        takers: all of these.
    """

    def __init__(self, queues: Sequence[Queue], made: Expectation) -> None:
        self.queues = tuple(queues)
        self.owners = dict(zip(self.queues, made.owners, strict=True))
        self.claimants = dict(zip(self.queues, map(frozenset, made.claimants), strict=True))
        self.takers = {queue: self._takers(queue) for queue in self.queues}

    def _takers(self, queue: Queue) -> frozenset[str]:
        owner, claims = self.owners[queue], self.claimants[queue]
        return claims if not owner or owner in claims else claims | {owner}

"""A group's queues and client ids in, the queues each client must own out: RocketMQ's rebalance, release by release.

Each client allocates for itself, over the lists it was given, without asking the others. Where lists, releases or
strategies differ between members, answers overlap or leave queues to nobody: ``allocate_for`` gives one client's own
answer, ``allocate`` that of every client over the same lists.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.strategies.allocation_strategies import (
    AllocationError,
    AllocationParameters,
    AllocationRequest,
    Answer,
    Strategy,
    average,
    average_by_circle,
    configured,
    machine_room,
    machine_room_nearby,
)
from hindsight.udfs.strategies.consistent_hash import consistent_hash
from hindsight.udfs.strategies.family_strategies import FAMILY_STRATEGIES
from hindsight.udfs.values.java_strings import java_string_key, utf8_key
from hindsight.udfs.values.message_queues import MessageQueue, sort_client_ids, sort_queues

__all__ = [
    "STRATEGIES",
    "AllocationError",
    "AllocationParameters",
    "MessageQueue",
    "Strategy",
    "UnknownStrategyError",
    "allocate",
    "allocate_for",
    "java_string_key",
    "resolve_strategy",
    "sort_client_ids",
    "sort_queues",
    "utf8_key",
]

NEARBY_PREFIX = "MACHINE_ROOM_NEARBY-"

# Keys are getName() of the Java classes, as clients write them to their logs; ties among a group's go by their order.
STRATEGIES: Mapping[str, Strategy] = {
    "AVG": average,
    "AVG_BY_CIRCLE": average_by_circle,
    "CONSISTENT_HASH": consistent_hash,
    "MACHINE_ROOM": machine_room,
    "CONFIG": configured,
}


class UnknownStrategyError(ValueError):
    """Raised when a strategy's name has no kernel: a client may bring a strategy of its own."""


def allocate_for(
    strategy: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    *,
    profile: str = "P533",
    **parameters: Unpack[AllocationParameters],
) -> list[MessageQueue] | None:
    """One client's own answer over the lists as given.

    Args:
        strategy: name of the strategy, as in ``STRATEGIES`` or ``MACHINE_ROOM_NEARBY-<inner>``.
        current_cid: the client that asks; not in ``cid_all``: it gets nothing.
        mq_all: q queues, in the client's order; never sorted here (``sort_queues`` does).
        cid_all: c client ids, in the client's order; never sorted here (``sort_client_ids`` does).
        profile: id of the client's release in ``PROFILES``, or of its family in ``CLIENT_FAMILIES``: Go's clients
            have the bare name MACHINE_ROOM_NEARBY, and ``machine_rooms`` of theirs is a list that may repeat.
        parameters: what the strategy was built with (``AllocationParameters``); those of other strategies are ignored.
    Returns: the queues in RocketMQ's order; None from CONFIG without a list, and where a Go client has nil: the
        client then drops all.
    Raises:
        AllocationError: where the client would throw or panic, with its message; for a gRPC client, which does not
            allocate.
        UnknownStrategyError, ValueError: for a name, profile, charset or parameter that cannot be replayed.
    Source: AllocateMessageQueueStrategy#allocate, 4.0.0 to 5.3.3; consumer/strategy.go of the Go client,
    2.0.0-alpha1 to 2.1.2; AllocateMQStrategy.h of the C++ client, 1.2.0 to 2.2.0.
    """
    return _answer_of(strategy, mq_all, cid_all, profile, parameters)(current_cid)


def allocate(
    strategy: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    *,
    profile: str = "P533",
    **parameters: Unpack[AllocationParameters],
) -> dict[str, list[MessageQueue] | None]:
    """The answer of every distinct id of ``cid_all``, in order of appearance; no ids give an empty dict.

    The same as ``allocate_for`` for each id, but what they share (hash ring, rooms) is built once. With distinct ids
    the answers of AVG, AVG_BY_CIRCLE and CONSISTENT_HASH are a partition of ``mq_all``; with repeated ids they need
    not be. Arguments, refusals and source as for ``allocate_for``; raises as soon as one id's answer does.
    """
    answer = _answer_of(strategy, mq_all, cid_all, profile, parameters)
    return {cid: answer(cid) for cid in dict.fromkeys(cid_all)}


def resolve_strategy(name: str, profile: str = "P533") -> Strategy:
    """The strategy that clients of this profile know by this name.

    Java's ``MACHINE_ROOM_NEARBY-<inner>`` is built around its inner one, to any depth.

    Raises: UnknownStrategyError: naming what is known; AllocationError: for gRPC clients, which have none.
    Source: AllocateMessageQueueStrategy#getName, 4.0.0 to 5.3.3.
    """
    if profile in CLIENT_FAMILIES:
        return _family_strategy(name, profile)
    inner = name.removeprefix(NEARBY_PREFIX)
    if inner != name:
        return machine_room_nearby(resolve_strategy(inner))
    if name not in STRATEGIES:
        raise UnknownStrategyError(
            f"allocation strategy {name!r} has no kernel (known: {', '.join(STRATEGIES)}, and any of them after "
            f"{NEARBY_PREFIX!r}). Add it to STRATEGIES in udfs/allocation.py, or report the expectation as unknown."
        )
    return STRATEGIES[name]


def _family_strategy(name: str, profile: str) -> Strategy:
    known = FAMILY_STRATEGIES[CLIENT_FAMILIES[profile].strategies]
    if not known:
        raise AllocationError(profile, "clients of this family do not allocate: the proxy answers each of them")
    if name not in known:
        raise UnknownStrategyError(
            f"clients of family {profile} have no allocation strategy {name!r} (they have: {', '.join(known)}). "
            "Declare the strategy that they use, or report the expectation as unknown."
        )
    return known[name]


def _answer_of(
    strategy: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    profile: str,
    parameters: AllocationParameters,
) -> Answer:
    unknown = set(parameters) - set(AllocationParameters.__annotations__)
    if unknown:
        raise ValueError(
            f"allocation was given parameters {sorted(unknown)}, which no strategy reads "
            f"(known: {', '.join(AllocationParameters.__annotations__)}). Correct the name."
        )
    request = AllocationRequest(tuple(mq_all), tuple(cid_all), profile, **parameters)
    return resolve_strategy(strategy, profile)(request)

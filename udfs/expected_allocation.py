"""A group's queues, members and rules in; the expected owner and the claimants of each queue out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from udfs.allocation import AllocationError, MessageQueue, UnknownStrategyError, allocate
from udfs.group_round import BROADCASTING

# Strategies whose result no log tells without parameters that only the client's code knows.
_NEEDS_PARAMETERS = ("CONFIG", "MACHINE_ROOM")
_OLDEST_PROFILE = "P40"


class MemberRule(NamedTuple):
    """The rule by which a member decides: strategy and release family; None where not known."""

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
) -> Expectation:
    """Who should own each queue, were everybody under ``strategy``, and who takes it under its own rule.

    Args:
        queues: broker name and queue id, sorted as RocketMQ sorts them.
        members: listed client ids, sorted as RocketMQ sorts them, duplicates kept as the broker returned them.
        rules: each distinct member's own; a member without a known one claims nothing.
    Source: RebalanceImpl#rebalanceByTopic: a BROADCASTING client takes every queue, without a strategy.
    """
    if message_model == BROADCASTING:
        return Expectation((None,) * len(queues), (tuple(dict.fromkeys(members)),) * len(queues))
    mq_all = tuple(MessageQueue(topic, broker_name, queue_id) for broker_name, queue_id in queues)
    answer = _answer(strategy, profile, mq_all, tuple(members))
    if isinstance(answer, str):
        return Expectation(refusal=answer)
    owner = {queue: client_id for client_id, taken in answer.items() for queue in taken}
    claimants: dict[MessageQueue, list[str]] = {queue: [] for queue in mq_all}
    for rule in rules:
        own = _answer(rule.strategy, rule.profile, mq_all, tuple(members)) if rule.strategy else {}
        for queue in () if isinstance(own, str) else own.get(rule.client_id, ()):
            if queue in claimants:
                claimants[queue].append(rule.client_id)
    return Expectation(tuple(owner.get(q) for q in mq_all), tuple(tuple(claimants[q]) for q in mq_all))


@lru_cache(maxsize=512)
def _answer(
    strategy: str, profile: str | None, mq_all: tuple[MessageQueue, ...], cid_all: tuple[str, ...]
) -> Mapping[str, tuple[MessageQueue, ...]] | str:
    """Each member's queues under one rule, or why that rule gives no answer."""
    if strategy.startswith(_NEEDS_PARAMETERS):
        return f"{strategy} depends on parameters that no record holds"
    try:
        given = allocate(strategy, mq_all, cid_all, profile=profile or _OLDEST_PROFILE)
    except AllocationError as error:
        return f"{strategy} refuses: {error}"
    except UnknownStrategyError:
        return f"{strategy} has no kernel"
    return {client_id: tuple(queues or ()) for client_id, queues in given.items()}


def expectation_of_row(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One ``expected_allocation`` row of a distinct set of inputs of a group and topic."""
    rules = [MemberRule(rule["client_id"], rule["strategy"], rule["profile"]) for rule in row["member_rules"]]
    queues = [(queue["broker_name"], queue["queue_id"]) for queue in row["queues"]]
    made = expected_allocation(
        row["message_model"], row["strategy"], row["profile"], row["topic"], queues, row["members"], rules
    )
    allocation = None
    if made.refusal is None:
        allocation = [
            {"broker_name": broker_name, "queue_id": queue_id, "owner": owner, "claimants": list(claimants)}
            for (broker_name, queue_id), owner, claimants in zip(queues, made.owners, made.claimants, strict=True)
        ]
    return [{**row, "allocation": allocation, "refusal": made.refusal}]

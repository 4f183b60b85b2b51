"""A group's round as rows in; each member's rule, narrowed to the family that what it holds tells, and claims, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hindsight.udfs.consumer.expected_allocation import MemberRule, claimants_of
from hindsight.udfs.consumer.mixed_clients import Lists, resolved
from hindsight.udfs.consumer.round_facts import OwnersByTopic, Queue
from hindsight.udfs.strategies.member_families import alternatives

Row = Mapping[str, Any]


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
    lists = _lists(topic, row)
    taken = claimants_of(lists.strategy, lists.parameters, lists.mq_all, _views(topic, row), narrowed)
    own, names = dict(zip(lists.queues, taken, strict=True)), frozenset(rule.client_id for rule in narrowed)
    return {queue: (claims - names) | frozenset(own[queue]) for queue, claims in given.items()}


def _is_open(rule: MemberRule) -> bool:
    return rule.profile is not None and len(alternatives(rule.profile)) > 1


def _lists(topic: Row, row: Row) -> Lists:
    queues, members = topic["shares"].queues, tuple(row["members"])
    return Lists(topic["topic"], queues, members, topic["strategy"] or "AVG", topic["strategy_parameters"] or "")


def _views(topic: Row, row: Row) -> list[tuple[str, ...]]:
    """The member lists of the brokers that the topic's clients may ask, where they differ."""
    views = {
        tuple(view["members"])
        for view in row["broker_views"] or ()
        if view["members"] and (not topic["route_brokers"] or view["broker_name"] in (None, *topic["route_brokers"]))
    }
    return sorted(views) if len(views) > 1 else [tuple(row["members"])]


def _held(owners: OwnersByTopic) -> dict[str, dict[str, frozenset[Queue]]]:
    """By member and topic, the queues that it shows."""
    held: dict[str, dict[str, frozenset[Queue]]] = {}
    for topic, of_topic in owners.items():
        for queue, owner in ((queue, owner) for queue, owners_of in of_topic.items() for owner in owners_of):
            of_member = held.setdefault(owner.client_id, {})
            of_member[topic] = of_member.get(topic, frozenset()) | {queue}
    return held

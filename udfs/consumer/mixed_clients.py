"""A topic's lists and its members' rules in; what keeps members of different families from agreeing, out.

Every client computes alone. Two members agree where each would give everybody the same queues; where they do not, the
lists of a calm group leave queues to nobody and give others to two, until somebody changes something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.consumer.client_balance import sorted_as
from hindsight.udfs.consumer.expected_allocation import MemberRule, claimants_of
from hindsight.udfs.consumer.round_facts import Queue
from hindsight.udfs.strategies.member_families import alternatives, has_no_choice, is_of_other_language, own_strategy
from hindsight.udfs.values.message_queues import MessageQueue

_GRPC = "R"
_NEARBY = "MACHINE_ROOM_NEARBY"
_LOGICAL = "__syslo__"  # MixAll#LOGICAL_QUEUE_MOCK_BROKER_PREFIX


class Disagreement(NamedTuple):
    """Two members that cannot agree: who they are, the rule that differs, and what ends it."""

    first: MemberRule
    second: MemberRule
    rule: str
    cure: str


class Lists(NamedTuple):
    """What the members of a group share on one topic, and the parameters of the group's strategy."""

    topic: str
    queues: tuple[Queue, ...]
    members: tuple[str, ...]
    strategy: str
    parameters: str

    @property
    def mq_all(self) -> tuple[MessageQueue, ...]:
        """The queues with their topic."""
        return tuple(MessageQueue(self.topic, *queue) for queue in self.queues)


def disagreement(lists: Lists, rules: Sequence[MemberRule]) -> Disagreement | None:
    """The first two rules of different families that lead to different shares of the topic; None: there are none.

    Java's families among each other are not looked at. Members that chose different strategies are another matter;
    one whose family has no choice is looked at here.
    """
    distinct = {(rule.strategy, rule.profile): rule for rule in reversed(rules) if rule.profile}
    for first, second in combinations(reversed(distinct.values()), 2):
        if first.profile == second.profile or not (_is_other(first) or _is_other(second)):
            continue
        found = _differing(lists, first, second)
        if found is not None:
            return Disagreement(first, second, *found)
    return None


def resolved(lists: Sequence[Lists], rule: MemberRule, held: Mapping[str, frozenset[Queue]]) -> MemberRule:
    """The rule, of families that records cannot tell apart the one that explains what the member holds, if one does.

    ``held``: by topic, what the member shows.
    """
    families = alternatives(rule.profile) if rule.profile else ()
    if len(families) < 2:
        return rule
    fit = [name for name in families if all(_own(one, rule, name) == held.get(one.topic, frozenset()) for one in lists)]
    return rule._replace(profile=fit[0]) if len(fit) == 1 else rule


def _is_other(rule: MemberRule) -> bool:
    return is_of_other_language(rule.profile)


def _own(lists: Lists, rule: MemberRule, profile: str) -> frozenset[Queue]:
    """What the member takes of the topic as one of this family."""
    taken = claimants_of(
        lists.strategy, lists.parameters, lists.mq_all, [lists.members], [rule._replace(profile=profile)]
    )
    return frozenset(queue for queue, claimants in zip(lists.queues, taken, strict=True) if claimants)


def _differing(lists: Lists, first: MemberRule, second: MemberRule) -> tuple[str, str] | None:
    if _GRPC in (first.profile, second.profile):
        return (
            "a proxy hands messages to gRPC clients, while the others count them among the members that share the "
            "queues",
            "a consumer group of its own for gRPC clients",
        )
    if _is_other(first) != _is_other(second) and any(name.startswith(_LOGICAL) for name, _ in lists.queues):
        return (
            "Java's clients since 5.0.0 share a static topic's logical queues, Go's and C++'s those of its brokers",
            "Java clients of 5.0 on for all members",
        )
    used = own_strategy(first.profile, first.strategy), own_strategy(second.profile, second.strategy)
    if None in used or (used[0] != used[1] and not (_is_bound(first) or _is_bound(second))):
        return None
    return None if _shares(lists, first) == _shares(lists, second) else _why_shares_differ(lists, first, second)


def _shares(lists: Lists, rule: MemberRule) -> tuple[tuple[str, ...], ...]:
    """Who would take which queue, if everybody went by this rule."""
    everybody = [rule._replace(client_id=client_id) for client_id in dict.fromkeys(lists.members)]
    return claimants_of(lists.strategy, lists.parameters, lists.mq_all, [lists.members], everybody)


def _is_bound(rule: MemberRule) -> bool:
    """It goes by AVG though another strategy was asked for, or is asked for by others of the group."""
    asked_nearby = (rule.strategy or "").startswith(_NEARBY)
    return _is_other(rule) and (has_no_choice(rule.profile) or asked_nearby)


def _why_shares_differ(lists: Lists, first: MemberRule, second: MemberRule) -> tuple[str, str]:
    """The rule that differs, and what ends it."""
    strategy = own_strategy(first.profile, first.strategy)
    if strategy != own_strategy(second.profile, second.strategy):
        return (
            "C++ clients, and Go's before 2.0.0-alpha3, know no strategy but AVG, and MACHINE_ROOM_NEARBY is AVG in Go",
            "AVG for all members",
        )
    if strategy == "CONSISTENT_HASH":
        return (
            "Go's CONSISTENT_HASH is a ring of CRC-32 sums, Java's one of MD5 sums",
            "AVG or AVG_BY_CIRCLE for all members",
        )
    if _descends(first) != _descends(second) and len({broker for broker, _ in lists.queues}) > 1:
        return (
            "Go's clients through 2.0.0-rc1 share brokers from the last to the first, all others from the first to the "
            "last",
            "an upgrade of the Go clients to 2.0.0 or later",
        )
    if strategy == "MACHINE_ROOM":
        return (
            "Go's MACHINE_ROOM counts the queues of its rooms and takes them from the whole list, Java's since 4.8.0 "
            "from its rooms only",
            "AVG for all members",
        )
    if _sorted(lists, first) != _sorted(lists, second):
        return (
            "Java sorts names by UTF-16 code units, Go and C++ by bytes of UTF-8",
            "client ids and broker names without characters from U+E000 on",
        )
    return (
        "Go's clients before 2.0.0-alpha3 panic where there are more members than queues",
        "an upgrade of the Go clients",
    )


def _newest(rule: MemberRule) -> str:
    return alternatives(rule.profile or "")[-1]


def _descends(rule: MemberRule) -> bool:
    family = CLIENT_FAMILIES.get(_newest(rule))
    return family is not None and family.brokers_descending


def _sorted(lists: Lists, rule: MemberRule) -> tuple[list[MessageQueue], list[str]]:
    return sorted_as(_newest(rule))(lists.mq_all, lists.members)

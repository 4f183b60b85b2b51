"""A group's rounds as recorded and as supposed in; the rounds as supposed, judged, out: ``GroupFold`` under premises.

Both are brought together round by round: what is expected as recorded tells which owners did what their rules say, and
so what these would hold (``moved_owners``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from hindsight.udfs.consumer.expected_allocation import Shares
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.consumer.owned_queues import NOTHING_POPPED, Owned, OwnedQueues, PoppedQueues
from hindsight.udfs.consumer.round_facts import Owner, OwnersByTopic, Queue
from hindsight.udfs.consumer.topic_facts import GroupFacts
from hindsight.udfs.groups.group_fold import GroupFold, Round
from hindsight.udfs.scenarios.supposed_rows import GroupPremise
from hindsight.udfs.strategies.member_families import has_no_choice

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


_HASH, _DEFAULT_NODES = "CONSISTENT_HASH", 10


class SupposedFold(GroupFold):
    """The rounds of a group under premises."""

    def __init__(self, recorded: GroupFold, premises: Sequence[GroupPremise], *of_group: Any) -> None:
        """``recorded``: the fold of the same group without premises, of which no round was walked;
        ``of_group``: as ``GroupFold`` takes it, with the rows as they are supposed."""
        super().__init__(*of_group)
        self._of_record, self._premises = recorded, premises
        self._record_place = dict(recorded.rounds)
        self._at = 0
        self._rules_by_number: dict[tuple[int, int], tuple[int, Rules]] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._numbers = count(1)

    def together(self, at: int, place: int, owned: OwnedQueues, popped: PoppedQueues = NOTHING_POPPED) -> Round:
        """The round as supposed."""
        self._at = at
        brought = super().together(at, place, owned, popped)
        was = self._of_record.together(at, self._record_place[at], owned, popped)
        key = (was.owned.shows, was.facts.number, brought.facts.number, _numbers(was), _numbers(brought))
        number = self._seen.setdefault(key, next(self._numbers))
        owners = partial(_moved, was, brought)
        return brought._replace(owned=Owned((-1, number), was.owned.oldest, owners, lambda: list(owners())))

    def _rules_of(self, facts: GroupFacts, read_until: int) -> tuple[int, Rules]:
        number, rules = super()._rules_of(facts, read_until)
        holding = [p for p in self._premises if self._at >= p.since]
        key = number, len(holding)
        if key not in self._rules_by_number:
            made = rules
            for premise in holding:
                made = supposed_rules(made, premise)
            self._rules_by_number[key] = (number, rules) if made == rules else (-next(self._numbers), made)
        return self._rules_by_number[key]


def supposed_rules(rules: Rules, premise: GroupPremise) -> Rules:
    """The rules of a round under a premise.

    Members that know one strategy only keep it. One that joins shares as the group does, unless it says otherwise.
    """
    members = [
        _as_group(rule, rules.strategy) if rule["client_id"] in premise.joins else rule for rule in rules.members
    ]
    strategy = premise.strategy
    free = [rule for rule in members if not has_no_choice(rule["profile"])]
    if strategy is not None and free:
        members = [_with_strategy(rule, strategy) if rule in free else rule for rule in members]
        if strategy != rules.strategy:
            rules = rules._replace(strategy=strategy, source="settings", parameters="")
    nodes = premise.virtual_node_count
    if nodes is not None and rules.strategy == _HASH:
        given = json.loads(rules.parameters) if rules.parameters else {}
        if nodes != given.get("virtual_node_count", _DEFAULT_NODES):
            rules = rules._replace(parameters=json.dumps(given | {"virtual_node_count": nodes}, sort_keys=True))
    return rules._replace(members=members)


def _as_group(rule: Mapping[str, str | None], strategy: str | None) -> Mapping[str, str | None]:
    return rule if rule["strategy"] is not None or strategy is None else _with_strategy(rule, strategy)


def _with_strategy(rule: Mapping[str, str | None], strategy: str) -> Mapping[str, str | None]:
    return rule if rule["strategy"] == strategy else {**rule, "strategy": strategy, "source": "settings"}


def _numbers(of: Round) -> tuple[int, ...]:
    return tuple(topic.number for topic, _ in of.topics)


def _moved(was: Round, brought: Round) -> OwnersByTopic:
    """The owners of a round under the premises."""
    if brought.facts.shared:
        return was.owned.by_topic()  # the broker hands the queues out: no rule of clients says who would hold them
    before = {topic.topic: topic.expected.shares for topic, _ in was.topics if topic.expected}
    claims = {
        topic.topic: Claims(before.get(topic.topic), topic.expected.shares if topic.expected else None)
        for topic, _ in brought.topics
    }
    answering = {row["client_id"] for row in brought.facts.reads.reads if row["answered"]}
    left = {*was.facts.members} - {*brought.facts.members}
    return moved_owners(was.owned.by_topic(), claims, Present(answering, left, bool(brought.facts.reads.ordered)))

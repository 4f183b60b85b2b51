"""Groups as somebody supposes them: their rows and rules under premises in, ``GroupFold`` of rounds as supposed out.

Both are brought together round by round: what is expected as recorded tells which owners did what their rules say, and
so what these would hold (``moved_owners``).

Of the rows that such a fold takes in: a member that joins says what the first one that answered says. One that leaves
is listed no more. A round in which it already is so stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.allocation import java_string_key
from hindsight.udfs.consumer.expected_allocation import Shares
from hindsight.udfs.consumer.listed_members import ID_LIST, INFO
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.consumer.owned_queues import NOTHING_POPPED, Owned, OwnedQueues, PoppedQueues
from hindsight.udfs.consumer.round_facts import Owner, OwnersByTopic, Queue
from hindsight.udfs.consumer.topic_facts import GroupFacts
from hindsight.udfs.groups.group_fold import GroupFold, Round
from hindsight.udfs.release_profiles import stated_number
from hindsight.udfs.scenarios.premises import ALWAYS, GroupPremise, TopicPremise
from hindsight.udfs.strategies.member_families import has_no_choice
from hindsight.udfs.values.columns import BoolArray, IntArray, microseconds
from hindsight.udfs.values.message_queues import is_like

SUPPOSED = "what-if"  # the file from which the row of a member that joins comes
_ROUND = ("consumer_group", "collector", "round_at")
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


def supposed_captures(rows: pa.Table, premises: Sequence[GroupPremise]) -> pa.Table:
    """Rows of ``snapshot_capture``: running infos, and lists of ids."""
    for premise in premises:
        where = _meant(rows, premise)
        if premise.client_version is not None:
            stated = pa.scalar(f"V{premise.client_version.replace('.', '_')}", pa.string())
            is_java = pc.starts_with(pc.fill_null(rows["client_version"], ""), "V")
            rows = _with(rows, "client_version", where & np.asarray(is_java), stated)
        rows = _with_ids(rows, where, premise)
        is_info = _is(rows, "kind", INFO)
        gone = where & is_info & np.asarray(pc.is_in(rows["client_id"], pa.array(premise.leaves, pa.string())))
        rows, where, is_info = rows.filter(pa.array(~gone)), where[~gone], is_info[~gone]
        answered = where & is_info & np.asarray(pc.fill_null(rows["answered"], False))
        rows = _joined(rows, answered, where & is_info, _ROUND, premise, _as_read)
    return rows


def supposed_connections(rows: pa.Table, premises: Sequence[GroupPremise]) -> pa.Table:
    """Rows of ``consumer_heartbeat``: the connections that lists of members name."""
    for premise in premises:
        where = _meant(rows, premise)
        if premise.client_version is not None:
            number = pa.scalar(stated_number(premise.client_version), rows.schema.field("client_version").type)
            is_java = np.asarray(pc.equal(pc.fill_null(rows["language"], "JAVA"), "JAVA"))
            rows = _with(rows, "client_version", where & is_java, number)
        gone = where & np.asarray(pc.is_in(rows["client_id"], pa.array(premise.leaves, pa.string())))
        rows, where = rows.filter(pa.array(~gone)), where[~gone]
        rows = _joined(rows, where, where, (*_ROUND, "captured_at", "broker_name"), premise, _as_connected)
    return rows


def supposed_routes(rows: pa.Table, premises: Sequence[TopicPremise]) -> pa.Table:
    """Rows of ``topic_route``."""
    for premise in premises:
        where = _is_like(rows, "topic", premise.topic) & _is_like(rows, "broker_name", premise.broker_name)
        where &= _since(rows, premise.since) & np.asarray(pc.is_null(rows["logical_broker_name"]))
        where &= np.asarray(pc.greater(pc.fill_null(rows["read_queue_nums"], 0), 0))
        rows = _with(
            rows, "read_queue_nums", where, pa.scalar(premise.queues, rows.schema.field("read_queue_nums").type)
        )
    return rows


def _meant(rows: pa.Table, premise: GroupPremise) -> BoolArray:
    return _is_like(rows, "consumer_group", premise.consumer_group) & _since(rows, premise.since)


def _is_like(rows: pa.Table, name: str, pattern: str) -> BoolArray:
    named = [each for each in pc.unique(rows[name]).to_pylist() if each is not None and is_like(each, pattern)]
    found: BoolArray = np.asarray(pc.is_in(rows[name], pa.array(named, pa.string())))
    return found


def _is(rows: pa.Table, name: str, value: str) -> BoolArray:
    found: BoolArray = np.asarray(pc.fill_null(pc.equal(rows[name], value), False))
    return found


def _since(rows: pa.Table, since: int) -> BoolArray:
    found: BoolArray = microseconds(rows, "round_at") >= since if since > ALWAYS else np.ones(rows.num_rows, np.bool_)
    return found


def _with(rows: pa.Table, name: str, where: BoolArray, value: pa.Scalar) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(name), pc.if_else(pa.array(where), value, rows[name]))


def _with_ids(rows: pa.Table, where: BoolArray, premise: GroupPremise) -> pa.Table:
    """The lists of ids with those that join, without those that leave."""
    changed = np.flatnonzero(where & _is(rows, "kind", ID_LIST) & np.asarray(pc.is_valid(rows["member_ids"])))
    if not len(changed) or not (premise.joins or premise.leaves):
        return rows
    lists = rows["member_ids"].to_pylist()
    for place in changed.tolist():
        kept = [client_id for client_id in lists[place] if client_id not in premise.leaves]
        lists[place] = sorted([*kept, *(c for c in premise.joins if c not in kept)], key=java_string_key)
    field = rows.schema.field("member_ids")
    return rows.set_column(rows.schema.get_field_index("member_ids"), field, pa.array(lists, field.type))


def _joined(
    rows: pa.Table,
    models: BoolArray,
    there: BoolArray,
    of: Sequence[str],
    premise: GroupPremise,
    made: Callable[[pa.Table, str, GroupPremise], pa.Table],
) -> pa.Table:
    """The rows with one more of each that joins, where ``models`` has one of its kind by the columns ``of``.

    Args:
        there: rows that say that a client is there already.
    """
    if not premise.joins or not models.any():
        return rows
    first = _first_of(rows, models, of)
    more = []
    for client_id in premise.joins:
        has = rows.filter(pa.array(there & _is(rows, "client_id", client_id))).select(list(of))
        known = {tuple(row.values()) for row in has.to_pylist()}
        models_of = rows.take(pa.array(first))
        lacks = [tuple(row.values()) not in known for row in models_of.select(list(of)).to_pylist()]
        more.append(made(models_of.filter(pa.array(lacks, pa.bool_())), client_id, premise))
    return pa.concat_tables([rows, *more])


def _first_of(rows: pa.Table, models: BoolArray, of: Sequence[str]) -> IntArray:
    """Of each set of rows that are equal in ``of``, the model with the smallest client id."""
    numbered = rows.select([*of, "client_id"]).append_column("place", pa.array(np.arange(rows.num_rows)))
    own = numbered.filter(pa.array(models)).sort_by([("client_id", "ascending"), ("place", "ascending")])
    firsts: IntArray = (
        own.group_by(list(of), use_threads=False).aggregate([("place", "first")])["place_first"].to_numpy()
    )
    return firsts


def _as_read(models: pa.Table, client_id: str, premise: GroupPremise) -> pa.Table:
    """Running infos of a client that joins."""
    said = {"client_id": client_id, "source_file": SUPPOSED, "source_line": 0}
    if premise.since > ALWAYS:
        said["client_started_at"] = premise.since
    return _said(models, said)


def _as_connected(models: pa.Table, client_id: str, premise: GroupPremise) -> pa.Table:
    """Connections of a client that joins, from the host that its id names."""
    return _said(models, {"client_id": client_id, "address": f"{client_id.partition('@')[0]}:0"})


def _said(models: pa.Table, said: dict[str, object]) -> pa.Table:
    for name, value in said.items():
        field = models.schema.field(name)
        values = pa.repeat(pa.scalar(value, field.type), models.num_rows)
        models = models.set_column(models.schema.get_field_index(name), field, values)
    return models

"""Rows of the consumers' derived tables in, as the kernels have them; Arrow tables of their contracts out.

Lists that many rows share are written once and taken: a queue list is as long as all queue rows of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import pyarrow as pa

import hindsight.schemas as schemas
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import kernel_schema
from hindsight.udfs.consumer.broker_assignment import ASSIGNMENT
from hindsight.udfs.consumer.topic_facts import Expected, JudgedTopic, TopicFacts
from hindsight.udfs.consumer.topic_routes import Queues
from hindsight.udfs.groups.group_walk import CHANGE, DRIFT, INCIDENT, STATE

T = TypeVar("T")
OF_KIND: Mapping[str, Table] = {
    ASSIGNMENT: schemas.BROKER_ASSIGNMENT,
    DRIFT: schemas.ALLOCATION_DRIFT,
    INCIDENT: schemas.DRIFT_INCIDENT,
    CHANGE: schemas.MEMBERSHIP_CHANGE,
    STATE: schemas.GROUP_DRIFT_STATE,
}


def plain_rows(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table as they are."""
    return pa.Table.from_pylist(list(rows), schema=kernel_schema(table))


def group_round_rows(place: Mapping[str, Any], judged: Sequence[tuple[tuple[str, str, str], JudgedTopic]]) -> pa.Table:
    """Rows of ``group_round``, by cluster, collector and group; ``place``: columns that all of them have."""
    schema, rounds = kernel_schema(schemas.GROUP_ROUND), [one for _, one in judged]
    of_topics, which = _distinct([one.facts for one in rounds])
    columns: dict[str, Any] = {name: pa.repeat(pa.scalar(value), len(rounds)) for name, value in place.items()}
    columns |= {name: column.take(which) for name, column in _topic_columns(of_topics, schema).items()}
    columns |= {
        "collector": pa.array([key[1] for key, _ in judged], pa.string()),
        "consumer_group": pa.array([key[2] for key, _ in judged], pa.string()),
        "round_at": pa.array([one.round_us for one in rounds], pa.int64()).cast(schema.field("round_at").type),
        "member_heartbeats": pa.array([one.heartbeats for one in rounds], schema.field("member_heartbeats").type),
        "spread_ms": pa.array([one.spread_ms for one in rounds], pa.int64()),
        "loose": pa.array([one.loose for one in rounds], pa.bool_()),
        "scope_reason": pa.array([one.scope_reason for one in rounds], pa.string()),
        "verdict": pa.array([one.verdict for one in rounds], pa.string()),
        "inferred_strategies": pa.array([one.inferred for one in rounds], schema.field("inferred_strategies").type),
        "findings": pa.array([one.findings for one in rounds], pa.int32()),
    }
    return pa.table([_cast(columns[field.name], field.type) for field in schema], schema=schema)


def _topic_columns(topics: Sequence[TopicFacts], schema: pa.Schema) -> dict[str, pa.Array]:
    def shared(name: str, value: Callable[[TopicFacts], Any], identity: Callable[[TopicFacts], Any]) -> pa.Array:
        """A column of few values."""
        values, which = _distinct([identity(topic) for topic in topics])
        first = {id(identity(topic)): topic for topic in topics}
        return pa.array([value(first[id(one)]) for one in values], schema.field(name).type).take(which)

    plain: dict[str, list[Any]] = {
        "topic": [topic.topic for topic in topics],
        "message_model": [topic.facts.model for topic in topics],
        "queue_kind": [topic.route and topic.route.queue_kind for topic in topics],
        "member_list_hash": [topic.facts.list_hash for topic in topics],
        "queue_list_hash": [None if topic.queues is None else topic.queues.list_hash for topic in topics],
        "claims_hash": [topic.claims_hash for topic in topics],
        "strategy": [topic.rules.strategy for topic in topics],
        "strategy_parameters": [topic.rules.parameters for topic in topics],
        "profile": [topic.rules.profile for topic in topics],
        "strategy_source": [topic.rules.source for topic in topics],
        "missing_inputs": [topic.missing_inputs for topic in topics],
        "informative": [not topic.missing_inputs for topic in topics],
    }
    columns = {name: pa.array(values, schema.field(name).type) for name, values in plain.items()}
    columns["members"] = shared("members", lambda topic: topic.facts.members, lambda topic: topic.facts)
    columns["member_rules"] = shared("member_rules", lambda topic: topic.rules.members, lambda topic: topic.rules)
    queues, which = _distinct([topic.queues for topic in topics])
    columns["queues"] = _queue_lists(queues).take(which)
    return columns


def _distinct(values: Sequence[T]) -> tuple[list[T], pa.Array]:
    """The values, each object once, and which of these each is."""
    place: dict[int, int] = {}
    kept: list[T] = []
    for value in values:
        if id(value) not in place:
            place[id(value)] = len(kept)
            kept.append(value)
    return kept, pa.array([place[id(value)] for value in values], pa.int64())


def _queue_lists(lists: Sequence[Queues | None]) -> pa.Array:
    queues = [one for one in lists if one is not None]
    names = [name for one in queues for name in one.names]
    ids = [queue_id for one in queues for queue_id in one.ids]
    entries = pa.StructArray.from_arrays([pa.array(names, pa.string()), pa.array(ids, pa.int32())], _QUEUE)
    return _listed([None if one is None else len(one) for one in lists], entries)


_QUEUE = ["broker_name", "queue_id"]


def _listed(sizes: Iterable[int | None], values: pa.Array) -> pa.Array:
    """Lists of these sizes of values; None: a null."""
    given = list(sizes)
    offsets = pa.array([0, *accumulate(size or 0 for size in given)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array([size is None for size in given], pa.bool_()))


def expected_rows(place: Mapping[str, Any], of_groups: Sequence[tuple[str, Expected]]) -> pa.Table:
    """Rows of ``expected_allocation``, by group; ``place``: columns that all of them have."""
    schema, expectations = kernel_schema(schemas.EXPECTED_ALLOCATION), [one for _, one in of_groups]
    columns: dict[str, Any] = {name: pa.repeat(pa.scalar(value), len(expectations)) for name, value in place.items()}
    columns["consumer_group"] = pa.array([group for group, _ in of_groups], pa.string())
    for name in schema.names:
        if name not in columns and name not in ("allocation", "refusal"):
            columns[name] = pa.array([one.key[name] for one in expectations], schema.field(name).type)
    columns["refusal"] = pa.array([one.refusal for one in expectations], pa.string())
    columns["allocation"] = _allocations(expectations)
    return pa.table([_cast(columns[field.name], field.type) for field in schema], schema=schema)


def _allocations(expectations: Sequence[Expected]) -> pa.Array:
    told = [one for one in expectations if one.refusal is None]
    claimants = [claims for one in told for claims in one.made.claimants]
    entries = pa.StructArray.from_arrays(
        [
            pa.array([name for one in told for name in one.queues.names], pa.string()),
            pa.array([queue_id for one in told for queue_id in one.queues.ids], pa.int32()),
            pa.array([owner for one in told for owner in one.made.owners], pa.string()),
            _listed(map(len, claimants), pa.array([c for claims in claimants for c in claims], pa.string())),
        ],
        [*_QUEUE, "owner", "claimants"],
    )
    return _listed([None if one.refusal is not None else len(one.queues) for one in expectations], entries)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)

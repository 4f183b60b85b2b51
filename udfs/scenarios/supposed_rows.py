"""Rows that the fold of groups takes in, and premises; the rows as they would be if what is supposed were true, out.

A member that joins says what the first one that answered says. One that leaves is listed no more. A round in which it
already is so stays as it is.

What somebody supposes of producers, of consumer groups and of topics: the premises of a what-if, as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.allocation import java_string_key
from hindsight.udfs.consumer.listed_members import ID_LIST, INFO
from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.producer.replay_rules import Override
from hindsight.udfs.release_profiles import stated_number
from hindsight.udfs.values.message_queues import is_like
from hindsight.udfs.values.row_hashes import BoolArray, IntArray

ALWAYS = -(1 << 62)  # before every instant, epoch us
SUPPOSED = "what-if"  # the file from which the row of a member that joins comes
_ROUND = ("consumer_group", "collector", "round_at")


class GroupPremise(NamedTuple):
    """What is supposed of the groups of some clusters (shell patterns); None: as it is recorded.

    Attributes:
        strategy: of every member that has a choice.
        virtual_node_count: of groups that share by CONSISTENT_HASH.
        client_version: release of every Java member.
        joins: client ids that are members too; ``leaves``: that are none.
        since: it holds in rounds from this instant on, epoch us.
    """

    cluster: str = "*"
    consumer_group: str = "*"
    strategy: str | None = None
    virtual_node_count: int | None = None
    client_version: str | None = None
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    since: int = ALWAYS

    def is_about(self, cluster: str, consumer_group: str) -> bool:
        """Whether a group is meant."""
        return is_like(cluster, self.cluster) and is_like(consumer_group, self.consumer_group)


class TopicPremise(NamedTuple):
    """How many queues a topic is supposed to have on each broker that holds some; shell patterns, ``since`` as above.

    A static topic, whose queues are logical, stays as it is.
    """

    queues: int
    topic: str
    broker_name: str = "*"
    cluster: str = "*"
    since: int = ALWAYS


class Premises(NamedTuple):
    """All that is supposed at once.

    Attributes:
        producers: entries as of ``[[replay.override]]``, which win over what is recorded (``under_premise``).
    """

    producers: Sequence[Override] = ()
    groups: Sequence[GroupPremise] = ()
    topics: Sequence[TopicPremise] = ()

    def of_cluster(self, cluster: str) -> Premises:
        """Those about groups and topics of one cluster."""
        groups = [premise for premise in self.groups if is_like(cluster, premise.cluster)]
        topics = [premise for premise in self.topics if is_like(cluster, premise.cluster)]
        return self._replace(groups=groups, topics=topics)

    @property
    def about_consumers(self) -> bool:
        """Whether anything is supposed of groups or topics."""
        return bool(self.groups or self.topics)


NOTHING_SUPPOSED = Premises()


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

"""Random groups under premises: a strategy gives its own answer; one that leaves and joins again changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.allocation import MessageQueue, allocate, java_string_key, sort_client_ids
from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.groups.supposed_groups import supposed_captures, supposed_rules
from hindsight.udfs.scenarios.premises import GroupPremise

few = settings(max_examples=60, deadline=None, database=None, derandomize=True)

STRATEGIES = ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]
members_of_group = st.sets(
    st.builds("10.0.0.{}@{}".format, st.integers(1, 20), st.integers(1, 3)), min_size=2, max_size=9
)
queue_counts = st.lists(st.integers(0, 9), min_size=1, max_size=3).filter(any)
AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("consumer_group", "collector", "kind", "client_id", "client_version")),
        ("round_at", pa.timestamp("us", "UTC")),
        ("member_ids", pa.list_(pa.string())),
        ("answered", pa.bool_()),
        ("client_started_at", pa.timestamp("us", "UTC")),
        ("source_file", pa.string()),
        ("source_line", pa.int64()),
    ]
)


def queues_of(counts):
    return [(f"broker-{name}", n) for name, count in zip("abc", counts, strict=False) for n in range(count)]


def claimants(rules, members, queues):
    """Who takes each queue when every member goes by its own of these rules."""
    own = [MemberRule(*(rule[name] for name in MemberRule._fields)) for rule in rules.members]
    parameters = rules.parameters or ""
    made = expected_allocation("CLUSTERING", rules.strategy, "P533", "T", queues, members, own, parameters=parameters)
    assert made.refusal is None
    return dict(zip(queues, map(set, made.claimants), strict=True))


def answered(strategy, members, queues, **parameters):
    """The same, asked of the strategy itself."""
    found = {queue: set() for queue in queues}
    mq_all = [MessageQueue("T", *queue) for queue in queues]
    for client_id, own in allocate(strategy, mq_all, members, **parameters).items():
        for queue in own:
            found[queue.broker_name, queue.queue_id].add(client_id)
    return found


@few
@given(st.data(), members_of_group, queue_counts, st.sampled_from(STRATEGIES), st.sampled_from([None, 3, 20]))
def test_a_supposed_strategy_gives_its_own_answer(data, ids, counts, strategy, nodes):
    members, queues = sort_client_ids(ids), queues_of(counts)
    was = [data.draw(st.sampled_from(STRATEGIES)) for _ in members]
    rules = Rules(
        members=[
            {"client_id": each, "strategy": own, "source": "client_log", "profile": "P533"}
            for each, own in zip(members, was, strict=True)
        ],
        strategy=was[0],
        source="client_log",
        parameters="",
    )
    supposed = supposed_rules(rules, GroupPremise(strategy=strategy, virtual_node_count=nodes))
    given_nodes = {} if nodes is None else {"virtual_node_count": nodes}
    assert claimants(supposed, members, queues) == answered(strategy, members, queues, **given_nodes)


def captures(members, silent):
    """A round of a group: the list of its ids, and the running info of each member."""
    common = {"consumer_group": "g", "collector": "c", "round_at": AT, "source_file": "f", "source_line": 1}
    infos = [
        common
        | {"kind": "consumerRunningInfo", "client_id": each, "answered": each not in silent, "client_version": "V5_3_3"}
        for each in members
    ]
    listed = common | {"kind": "consumerIdList", "member_ids": members, "answered": True}
    return pa.Table.from_pylist([listed, *infos], SCHEMA)


def seen(rows):
    """Who is listed, and who is asked and answers."""
    listed = [row["member_ids"] for row in rows.to_pylist() if row["member_ids"] is not None]
    infos = sorted((row["client_id"], row["answered"]) for row in rows.to_pylist() if row["member_ids"] is None)
    return listed, infos


@few
@given(st.data(), members_of_group)
def test_one_that_leaves_and_joins_again_changes_nothing(data, ids):
    members = sorted(ids, key=java_string_key)
    one = data.draw(st.sampled_from(members))
    silent = data.draw(st.sets(st.sampled_from([each for each in members if each != one]), max_size=len(members) - 2))
    before = captures(members, silent)
    without = supposed_captures(before, [GroupPremise(leaves=(one,))])
    assert seen(without) == seen(captures([each for each in members if each != one], silent))
    assert seen(supposed_captures(without, [GroupPremise(joins=(one,))])) == seen(before)
    both = supposed_captures(before, [GroupPremise(leaves=(one,)), GroupPremise(joins=(one,))])
    assert seen(both) == seen(before)


@pytest.mark.parametrize("premise", [GroupPremise(joins=("10.0.0.1@1",)), GroupPremise(leaves=("10.0.0.9@9",))])
def test_rows_in_which_it_is_so_already_stay_the_same_rows(premise):
    before = captures(["10.0.0.1@1", "10.0.0.2@1"], set())
    assert supposed_captures(before, [premise]).equals(before)

"""Which strategies explain the owners that were seen: a set, which further rounds can only narrow."""

from __future__ import annotations

import pytest

from hindsight.udfs.allocation import MessageQueue, allocate
from hindsight.udfs.drift.strategy_inference import VIRTUAL_NODES, Inference, reproducing
from tests.default_timing import default_timing
from tests.histories.test_incidents import allocated, at, history, unnamed

QUEUES = [(f"broker-{b}", q) for b in "ab" for q in range(4)]
IDS = ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"]


def owners(strategy, queues=QUEUES, ids=IDS, **parameters):
    given = allocate(strategy, [MessageQueue("T", *q) for q in queues], ids, **parameters)
    return {(q.broker_name, q.queue_id): c for c, taken in given.items() for q in taken}


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_a_strategy_explains_its_own_result(strategy):
    assert reproducing("T", QUEUES, IDS, owners(strategy)) == {strategy}


@pytest.mark.parametrize("count", VIRTUAL_NODES)
def test_a_hash_is_found_with_its_virtual_nodes(count):
    name = f"CONSISTENT_HASH(virtual_node_count={count})"
    assert name in reproducing("T", QUEUES, IDS, owners("CONSISTENT_HASH", virtual_node_count=count))


def test_with_one_consumer_every_strategy_looks_the_same():
    found = reproducing("T", QUEUES, IDS[:1], owners("AVG", ids=IDS[:1]))
    assert {"AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH(virtual_node_count=10)"} <= found


def test_rooms_are_found_from_the_brokers_that_are_served():
    queues = [(f"{room}@broker", q) for room in ("r1", "r2") for q in range(3)]
    seen = owners("MACHINE_ROOM", queues, machine_rooms={"r1"})
    assert reproducing("T", queues, IDS, seen) == {"MACHINE_ROOM(machine_rooms=r1)"}


def test_owners_that_no_strategy_gives_are_explained_by_none():
    seen = dict(zip(QUEUES, ["x", "y"] * 4, strict=True))
    assert reproducing("T", QUEUES, IDS, seen) == frozenset()


def test_rounds_narrow_the_set_down_and_a_cut_history_keeps_it():
    # With 2 members of 8 queues only circle deals 0 2 4 6; with one member all strategies are alike.
    alone = dict.fromkeys(range(8), "A")
    dealt = {q: "AB"[q % 2] for q in range(8)}
    made = history(default_timing())
    first = made.step(unnamed(allocated(at(0), ("A",), alone))).inferred["T"]
    assert len(first) > 2
    made = type(made).of_json(made.key, made.timing, made.to_json())
    assert made.step(unnamed(allocated(at(15), ("A", "B"), dealt))).inferred == {}  # B has just joined
    assert made.step(unnamed(allocated(at(90), ("A", "B"), dealt))).inferred["T"] == ("AVG_BY_CIRCLE",)
    assert Inference.of_state(made.inference.to_state()).rounds == {"T": 2}


def test_a_named_strategy_is_not_inferred():
    made = history(default_timing())
    assert made.step(allocated(at(0), ("A",), dict.fromkeys(range(8), "A"))).inferred == {}

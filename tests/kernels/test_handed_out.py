"""What brokers hand out, held against the answers of the real QueryAssignmentProcessor of eight releases."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.consumer.broker_assignment import POP, PULL, AskedBroker, RequestMode, handed_out, request_mode
from hindsight.udfs.values.java_strings import java_string_key
from tests.conftest import GOLDEN

QUEUES = (("broker-a", 0), ("broker-a", 1), ("broker-b", 0))


def vectors(name):
    with gzip.open(GOLDEN / "query_assignment" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def told(vector):
    """By client what the kernel expects; None: no answer."""
    own = RequestMode(vector["default_mode"], vector["default_share"], vector["balances"])
    set_mode = None if vector["mode"] is None else (vector["mode"], vector["share"])
    members = tuple(sorted(vector["members"] or (), key=java_string_key))
    broker = AskedBroker("b", members, request_mode(vector["topic"], set_mode, own))
    queues = [tuple(queue) for queue in vector["queues"] or ()]
    asking = dict.fromkeys(vector["answers"], vector["strategy"])
    return handed_out(vector["topic"], queues, [broker], asking)


@pytest.mark.parametrize("name", ["used", "held_back"])
def test_brokers_of_eight_releases_hand_out_what_the_kernel_expects(name):
    releases = set()
    for vector in vectors(name):
        releases.add(vector["release"])
        expected = {
            client: None
            if answer is None
            else {frozenset((mode, *queue) for queue in answer["queues"] for mode in answer["modes"])}
            for client, answer in vector["answers"].items()
        }
        assert told(vector) == expected, vector
    assert len(releases) == 8


def test_the_vectors_hold_every_course():
    every = [*vectors("used"), *vectors("held_back")]
    answers = [answer for vector in every for answer in vector["answers"].values()]
    assert {tuple(answer["modes"]) for answer in answers if answer} == {(), (PULL,), (POP,)}
    assert any(answer is None for answer in answers)
    assert any(queue[1] == -1 for answer in answers if answer for queue in answer["queues"])
    assert any(len(set(vector["members"] or ())) < len(vector["members"] or ()) for vector in every)


def test_a_client_may_have_asked_any_broker():
    brokers = [
        AskedBroker("broker-a", ("c0", "c1"), RequestMode(PULL)),
        AskedBroker("broker-b", ("c0",), RequestMode(POP)),
    ]
    assert handed_out("T", QUEUES, brokers, {"c0": "AVG"}) == {
        "c0": {
            frozenset({(PULL, "broker-a", 0), (PULL, "broker-a", 1)}),
            frozenset({(POP, "broker-a", -1), (POP, "broker-b", -1)}),
        }
    }


def test_one_broker_without_an_answer_leaves_a_client_what_it_has():
    brokers = [AskedBroker("broker-a", ("c0",), RequestMode(PULL)), AskedBroker("broker-b", (), RequestMode(PULL))]
    assert handed_out("T", QUEUES, brokers, {"c0": "AVG"}) == {"c0": None}


@given(st.integers(1, 8), st.integers(-1, 8), st.sampled_from(["AVG", "AVG_BY_CIRCLE"]), st.sampled_from([PULL, POP]))
def test_together_the_members_are_given_every_queue(count, share, strategy, mode):
    members = tuple(f"c{place}" for place in range(count))
    broker = AskedBroker("b", members, RequestMode(mode, share))
    given_out = handed_out("T", QUEUES, [broker], dict.fromkeys(members, strategy))
    queues = {queue[1:] for shares in given_out.values() for one in shares for queue in one}
    whole = {(broker_name, -1) for broker_name, _ in QUEUES}
    assert queues in (set(QUEUES), whole)

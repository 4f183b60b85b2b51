"""What keeps members of different families from agreeing, and which of two families explains what a member holds."""

import pytest

from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.consumer.mixed_clients import Lists, disagreement, resolved
from hindsight.udfs.strategies.member_families import own_strategy
from hindsight.udfs.values.message_queues import sort_client_ids

TWO_BROKERS = tuple((broker, number) for broker in ("a", "b") for number in range(4))
ONE_BROKER = tuple(("a", number) for number in range(8))
IDS = ("10.0.0.1@1", "10.0.0.2@1")


def found(first, second, queues=TWO_BROKERS, strategy="AVG", parameters="", ids=IDS):
    """Disagreement between two members, each a profile or a profile with the strategy told of it."""
    told = [rule if isinstance(rule, tuple) else (rule, strategy) for rule in (first, second)]
    rules = [MemberRule(client_id, name, profile) for client_id, (profile, name) in zip(ids, told, strict=True)]
    return disagreement(Lists("T", queues, tuple(sort_client_ids(ids)), strategy, parameters), rules)


def rule_of(*args, **kwargs):
    made = found(*args, **kwargs)
    return None if made is None else made.rule


@pytest.mark.parametrize("other", ["G2", "G2|G3|G4", "G6", "G5|G6|G7", "C0", "C1", "C0|C1"])
def test_java_agrees_with_go_from_rc2_on_and_with_cpp_under_avg(other):
    assert found("P533", other) is None and found(other, "P40") is None


def test_go_that_shares_brokers_backwards_disagrees_with_all_others_where_there_are_two_brokers():
    for other in ("P533", "G6", "C1"):
        assert "from the last to the first" in rule_of("G1", other)
        assert "upgrade" in found(other, "G0").cure
        assert found("G1", other, ONE_BROKER) is None
    assert found("G1", "G0") is None


def test_rings_differ_between_java_and_go_only():
    assert "CRC-32" in rule_of("P533", "G6", ONE_BROKER, "CONSISTENT_HASH")
    assert found("G1", "G6", TWO_BROKERS, "CONSISTENT_HASH") is None


def test_members_that_know_avg_only_disagree_with_any_other_strategy():
    assert "no strategy but AVG" in rule_of("P533", ("C1", "AVG"), strategy="AVG_BY_CIRCLE")
    assert "no strategy but AVG" in rule_of("P533", ("C1", None), strategy="AVG_BY_CIRCLE")
    assert found(("P533", "AVG"), ("C1", "AVG_BY_CIRCLE")) is None


def test_strategies_that_were_chosen_are_no_matter_of_families():
    assert found(("P533", "AVG_BY_CIRCLE"), ("G6", "AVG")) is None
    assert found(("P533", "AVG_BY_CIRCLE"), ("G6", "AVG_BY_CIRCLE")) is None


def test_rooms_differ_where_a_queue_outside_sorts_before_one_inside():
    rooms, rest = tuple(("r2@a", number) for number in range(4)), tuple(("r1@b", number) for number in range(4))
    given = {"strategy": "MACHINE_ROOM", "parameters": '{"machine_rooms": ["r2"]}'}
    assert "whole list" in rule_of("P533", "G6", (*rest, *rooms), **given)
    assert found("P43", "G6", (*rest, *rooms), **given) is None
    assert found("P533", "G6", (*rooms, ("r3@c", 0)), **given) is None


def test_names_beyond_the_basic_plane_are_sorted_differently():
    ids = ("10.0.0.1@～", "10.0.0.1@😀")
    assert "UTF-16" in rule_of("P533", "C1", ids=ids) and "UTF-16" in rule_of("G6", "P533", ids=ids)
    assert found("G6", "C1", ids=ids) is None
    assert "UTF-16" in rule_of("P533", "C1", (("b😀", 0), ("b～", 0)))


@pytest.mark.parametrize("other", ["G6", "C1"])
def test_logical_queues_are_known_to_java_alone(other):
    queues = tuple(("__syslo__scope", number) for number in range(4))
    assert "logical queues" in rule_of("P533", other, queues) and "logical queues" in rule_of(other, "P533", queues)
    assert found(other, other, queues) is None


def test_a_grpc_member_among_others_disagrees_and_among_its_own_does_not():
    assert "proxy" in rule_of("P533", "R") and found("R", "R") is None
    assert own_strategy("R", "AVG") is None and own_strategy("P533", None) is None


def test_java_releases_and_members_that_nothing_is_known_of_are_left_out():
    queues = tuple((broker, number) for broker in ("r1@b", "r2@a") for number in range(4))
    assert found("P43", "P533", queues, "MACHINE_ROOM", '{"machine_rooms": ["r2"]}') is None
    assert found("P533", "G6", queues, "MACHINE_ROOM", '{"machine_rooms": ["r2"]}') is not None
    assert found(None, "G1") is None


def test_what_a_member_holds_tells_which_way_it_sorts():
    lists = [Lists("T", TWO_BROKERS, IDS, "AVG", "")]
    rule = MemberRule(IDS[0], None, "G1|G2")
    first, last = frozenset(TWO_BROKERS[:4]), frozenset(TWO_BROKERS[4:])
    assert resolved(lists, rule, {"T": last}).profile == "G1"
    assert resolved(lists, rule, {"T": first}).profile == "G2"
    assert resolved(lists, rule, {}) == rule  # it holds neither
    assert resolved([Lists("T", ONE_BROKER, IDS, "AVG", "")], rule, {"T": frozenset(ONE_BROKER[:4])}) == rule


def expected(profile, rules, queues=TWO_BROKERS, strategy="AVG", members=IDS):
    return expected_allocation("CLUSTERING", strategy, profile, "T", queues, members, rules)


def owned(made, client_id, queues=TWO_BROKERS):
    return [f"{b}{n}" for (b, n), owner in zip(queues, made.owners, strict=True) if owner == client_id]


def claimed(made, client_id, queues=TWO_BROKERS):
    return [f"{b}{n}" for (b, n), claims in zip(queues, made.claimants, strict=True) if client_id in claims]


def test_each_member_claims_as_its_own_family_does():
    made = expected("P533", [MemberRule(IDS[0], None, "G1"), MemberRule(IDS[1], "AVG", "P533")])
    assert owned(made, IDS[0]) == ["a0", "a1", "a2", "a3"] and owned(made, IDS[1]) == ["b0", "b1", "b2", "b3"]
    assert claimed(made, IDS[0]) == claimed(made, IDS[1]) == ["b0", "b1", "b2", "b3"]


def test_a_group_of_one_family_is_expected_to_share_as_that_family_does():
    made = expected("G1", [MemberRule(client_id, None, "G1") for client_id in IDS])
    assert owned(made, IDS[0]) == claimed(made, IDS[0]) == ["b0", "b1", "b2", "b3"]


def test_of_families_that_cannot_be_told_apart_members_may_claim_by_either_and_the_newest_is_expected():
    made = expected("G1|G2", [MemberRule(client_id, None, "G1|G2") for client_id in IDS])
    assert made.refusal is None and owned(made, IDS[0]) == ["a0", "a1", "a2", "a3"]
    assert len(claimed(made, IDS[0])) == 8


def test_cpp_members_claim_by_avg_whatever_the_group_goes_by():
    rules = [MemberRule(IDS[0], "AVG_BY_CIRCLE", "P533"), MemberRule(IDS[1], "AVG_BY_CIRCLE", "C1")]
    made = expected("P533", rules, strategy="AVG_BY_CIRCLE")
    assert owned(made, IDS[1]) == ["a1", "a3", "b1", "b3"] and claimed(made, IDS[1]) == ["b0", "b1", "b2", "b3"]


def test_an_alpha_member_that_panics_claims_nothing_and_the_others_what_is_theirs():
    members, queues = ("1", "2", "3"), (("a", 0),)
    made = expected("G0", [MemberRule(c, None, "G0") for c in members], queues, members=members)
    assert made.owners == ("1",) and made.claimants == (("1",),)


def test_grpc_members_claim_nothing_and_nothing_can_be_expected_of_a_group_of_them():
    assert claimed(expected("P533", [MemberRule(IDS[0], "AVG", "R")]), IDS[0]) == []
    assert "do not allocate" in expected("R", []).refusal

"""Rounds of groups of Java, Go and C++ members: what is found, of what it comes, and what is not said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hindsight.udfs.consumer.client_balance import queues_pulled
from hindsight.udfs.consumer.expected_allocation import MemberRule, Shares, expected_allocation
from hindsight.udfs.consumer.group_rows import group_round
from hindsight.udfs.consumer.topic_routes import Queues
from hindsight.udfs.drift.root_cause import causes, stalled_clients
from hindsight.udfs.drift.strategy_inference import scope_reasons
from hindsight.udfs.values.message_queues import sort_client_ids
from tests.capture_rounds import owners_by_topic
from tests.default_timing import findings

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
JAVA, GO, CPP = "10.0.0.1@1", "10.0.0.2@2", "10.0.0.3@3#DEFAULT"
TWO_BROKERS = {"a": 3, "b": 3}


def round_of(profiles, *, acts_as=None, told="AVG", brokers=TWO_BROKERS, strategy="AVG", topic="T", silent=()):
    """A calm round in which every member holds what its family (``acts_as``, else the profile) makes it pull.

    ``told``: the strategy known of Java's members, or of each; ``silent``: members that did not answer.
    """
    members = sort_client_ids(profiles)
    of_java = {client_id: told for client_id, profile in profiles.items() if profile.startswith("P")}
    known = told if isinstance(told, dict) else of_java
    route = [{"brokerName": name, "readQueueNums": count, "perm": 6} for name, count in brokers.items()]
    acts_as = {**profiles, **(acts_as or {})}
    owners = []
    for client_id in members:
        family = acts_as[client_id]
        if family == "R" or client_id in silent:
            continue
        own = (known.get(client_id) or strategy) if family.startswith("P") else "AVG"
        for queue in queues_pulled(route, members, client_id, own, topic=topic, profile=family) or ():
            owners.append({"client_id": client_id, **queue._asdict(), **NOTHING_TIMED})
    rules = [
        {
            "client_id": client_id,
            "strategy": "AVG" if profile.startswith("C") else known.get(client_id),
            "source": "x",
            "profile": profile,
        }
        for client_id, profile in profiles.items()
    ]
    given = {"topic": topic, "strategy": strategy, "strategy_parameters": "", "message_model": "CLUSTERING"}
    of_members = [MemberRule(rule["client_id"], rule["strategy"], rule["profile"]) for rule in rules]
    listed = {"members": members, "member_rules": rules}
    readable = Queues(tuple(brokers.items()))
    made = expected_allocation("CLUSTERING", strategy, "P533", topic, readable.pairs, members, of_members)
    return group_round(
        {
            **WHOLE,
            **listed,
            "owners": owners_by_topic(owners),
            "reads": [read(client_id, topic, answered=client_id not in silent) for client_id in members],
            "topics": [{**OF_TOPIC, **given, "queues": readable.pairs, "shares": Shares(readable.pairs, made)}],
        }
    )


NOTHING_TIMED = {
    "locked": False,
    "last_pull_at": None,
    "last_consume_at": None,
    "last_lock_at": None,
    "cached_messages": None,
}
WHOLE = {
    "consumer_group": "g",
    "message_model": "CLUSTERING",
    "listings": [{"broker_name": "a", "captured_at": T0, "told": True, "error_code": None, "evidence": "f:9"}],
    "broker_views": None,
    "through_proxy": False,
    "connections": [],
    "member_events": None,
    "ordered": False,
    "loose": False,
    "shared": False,
    "at": T0,
}
OF_TOPIC = {
    "strategy_source": "client_log",
    "queue_list_hash": "h",
    "shares_before": None,
    "evidence": "f:r",
    "missing_inputs": [],
    "not_asked": [],
    "queue_kind": "physical",
    "route_brokers": None,
    "routes_differ": False,
    "name_servers": 1,
    "hosts": None,
}


def read(client_id, topic, *, answered=True):
    return {
        "client_id": client_id,
        "answered": answered,
        "error": None if answered else "x.exception.RemotingTimeoutException: no answer",
        "error_code": None,
        "subscriptions": [{"topic": topic, "expression_type": "TAG", "sub_string": "*", "tags": []}],
        "captured_at": T0,
        "evidence": f"f:{client_id}",
        "client_started_at": None,
        "message_model": None,
        "consume_from_where": None,
        "client_kind": "push",
        "client_version": None,
    }


def told_of(group):
    found = findings(group)
    stalled = stalled_clients(found)
    return [(one, causes(one, group, stalled)[0].name) for one in found]


def codes(group):
    return {(finding.code, cause) for finding, cause in told_of(group)}


@pytest.mark.parametrize("go", ["G2", "G6", "G2|G3|G4", "G1|G2|G3|G4|G5|G6|G7"])
def test_members_that_agree_have_no_finding(go):
    acts = {GO: "G6"}
    assert codes(round_of({JAVA: "P533", GO: go, CPP: "C1"}, acts_as=acts)) == set()


def test_a_go_member_that_shares_backwards_is_the_cause_of_all_that_drifts():
    group = round_of({JAVA: "P533", GO: "G1", CPP: "C1"})
    found = told_of(group)
    assert {cause for _, cause in found} == {"MIXED_CLIENTS"}
    (mixed,) = (finding for finding, _ in found if finding.code == "MIXED_CLIENTS")
    assert (mixed.severity, mixed.trust, mixed.topic) == ("HIGH", "certain", "T")
    # Of 6 queues and 3 members Java takes a0 a1, C++ b1 b2, and Go, which is in the middle, b2 a0.
    assert mixed.sentence == (
        "the members of g cannot agree on T: Go's clients through 2.0.0-rc1 share brokers from the last to the first, "
        "all others from the first to the last. 10.0.0.1@1 is of Java (P533), 10.0.0.2@2 of Go 2.0.0-alpha3, 2.0.0-rc1 "
        "(G1); left without an owner: a:2, b:0; with two or more: a:0, b:2. What ends it: an upgrade of the Go clients "
        "to 2.0.0 or later."
    )
    queues = {(finding.code, finding.queue) for finding, _ in found if finding.queue}
    assert {("ORPHAN_QUEUE", ("a", 2)), ("DOUBLE_OWNED", ("a", 0))} <= queues


@pytest.mark.parametrize(("acts", "drifts"), [("G1", True), ("G2", False)])
def test_of_two_families_that_one_version_names_what_the_member_holds_tells_which_it_is(acts, drifts):
    group = round_of({JAVA: "P533", GO: "G1|G2", CPP: "C1"}, acts_as={GO: acts})
    assert (("MIXED_CLIENTS", "MIXED_CLIENTS") in codes(group)) is drifts
    assert {cause for _, cause in told_of(group)} == ({"MIXED_CLIENTS"} if drifts else set())
    assert {rule.profile for rule in group.rules if rule.client_id == GO} == {acts}


def test_while_a_member_shows_nothing_its_family_stays_open_and_nothing_is_certain():
    group = round_of({JAVA: "P533", GO: "G1|G2", CPP: "C1"}, acts_as={GO: "G1"}, silent=(GO,))
    assert {rule.profile for rule in group.rules if rule.client_id == GO} == {"G1|G2"}
    assert ("ORPHAN_QUEUE", "MIXED_CLIENTS") not in codes(group)


def test_a_cpp_member_is_the_cause_where_others_deal_queues_like_cards():
    group = round_of({JAVA: "P533", CPP: "C1"}, told="AVG_BY_CIRCLE", strategy="AVG_BY_CIRCLE")
    assert ("DOUBLE_OWNED", "MIXED_CLIENTS") in codes(group) and ("ORPHAN_QUEUE", "MIXED_CLIENTS") in codes(group)
    (mixed,) = (finding for finding, _ in told_of(group) if finding.code == "MIXED_CLIENTS")
    assert "What ends it: AVG for all members." in mixed.sentence


def test_a_drift_that_no_family_explains_stays_unexplained():
    group = round_of({JAVA: "P533", GO: "G6", CPP: "C1"}, acts_as={GO: "G1"})
    assert {cause for _, cause in told_of(group)} == {"UNEXPLAINED"}


def test_members_that_cannot_agree_and_hold_something_else_are_named_and_explain_nothing():
    group = round_of({JAVA: "P533", GO: "G1", CPP: "C1"}, acts_as={GO: "G6"})
    (mixed,) = (finding for finding, _ in told_of(group) if finding.code == "MIXED_CLIENTS")
    assert (mixed.severity, mixed.trust) == ("MEDIUM", "possible")
    assert mixed.assumptions == ("allocation strategy of 10.0.0.2@2: not known, AVG assumed",)


def test_while_a_java_members_strategy_is_not_known_families_explain_nothing():
    found = told_of(round_of({JAVA: "P533", GO: "G1", CPP: "C1"}, told={}))
    assert {cause for finding, cause in found if finding.code != "MIXED_CLIENTS"} == {"UNEXPLAINED"}


def test_families_that_agree_explain_nothing_though_claims_lead_to_what_is_seen():
    told = {JAVA: "AVG", "10.0.0.4@4": "AVG_BY_CIRCLE"}
    found = told_of(round_of({JAVA: "P533", "10.0.0.4@4": "P533", GO: "G6"}, told=told))
    assert {"DOUBLE_OWNED", "ORPHAN_QUEUE", "MIXED_STRATEGY"} <= {finding.code for finding, _ in found}
    assert "MIXED_CLIENTS" not in {cause for _, cause in found}


@pytest.mark.parametrize("changes", [{"message_model": "BROADCASTING"}, {"shared": True}])
def test_who_does_not_share_by_a_strategy_need_not_agree(changes):
    group = replace(round_of({JAVA: "P533", GO: "G1"}), **changes)
    assert "MIXED_CLIENTS" not in {finding.code for finding in findings(group)}


@pytest.mark.parametrize("silent", [(), ("host@7@0@vprfruck",)])
def test_a_group_with_grpc_members_is_flagged_and_not_judged(silent):
    group = round_of({JAVA: "P533", "host@7@0@vprfruck": "R"}, silent=silent)
    assert {code for code, _ in codes(group)} == {"MIXED_CLIENTS"}
    assert "host@7@0@vprfruck are gRPC clients" in scope_reasons(group)["T"]
    alone = round_of({"host@7@0@vprfruck": "R"}, silent=("host@7@0@vprfruck",))
    assert codes(alone) == set() and "gRPC" in scope_reasons(alone)["T"]


def test_a_group_of_java_members_alone_says_nothing_of_families():
    group = round_of({JAVA: "P533", GO: "P40"})
    assert group.disagreements == {} and scope_reasons(group) == {}

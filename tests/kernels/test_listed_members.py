"""Member lists and rules of random rounds, against the same written plainly for one round at a time."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hindsight.udfs.allocation import STRATEGIES
from hindsight.udfs.consumer.listed_members import listed_members
from hindsight.udfs.consumer.member_rules import Setting, Shown, member_rules
from hindsight.udfs.fault_tolerance import profile_for

ROUNDS = 300
IDS = ["a@1", "b@1", "B@1", "c@10", "c@9", "\uffff@1", "\U0001f600@1"]
SOURCES = ("client_log", "running_info")
NOBODY, NO_SETTING = Shown([]), Setting()


def in_java_order(ids) -> list[str]:
    return sorted(ids, key=lambda i: i.encode("UTF-16BE"))


def capture(broker, kind="consumerConnection", *, server=None, error=None, code=None, ids=None, second=0):
    return {
        "kind": kind,
        "broker_name": broker,
        "name_server": server,
        "captured_at": second,
        "answered": error is None,
        "error": error,
        "error_code": code,
        "member_ids": ids,
        "evidence": "f:1",
    }


def heartbeat(broker, client_id, version, language="JAVA"):
    return {
        "broker_name": broker,
        "captured_at": 0,
        "client_id": client_id,
        "client_version": version,
        "language": language,
        "address": "h:1",
        "message_model": "CLUSTERING",
        "client_kind": None,
    }


@pytest.fixture(scope="module")
def views() -> list[dict[str, list[tuple[str, int]]]]:
    """By round and broker, the ids and versions that the broker listed; some ids twice."""
    rng = random.Random(7)
    return [
        {
            broker: [(rng.choice(IDS), rng.choice([355, 409, 453])) for _ in range(rng.randint(1, 6))]
            for broker in rng.sample(["x", "y", "z"], rng.randint(1, 3))
        }
        for _ in range(ROUNDS)
    ]


def listed(of_round):
    beats = [heartbeat(broker, *member) for broker, members in of_round.items() for member in members]
    return listed_members([capture(broker) for broker in of_round], beats)


def rules_of(of_round, shown=NOBODY, at=0, setting=NO_SETTING):
    return member_rules(listed(of_round).connections, [], shown, at, setting)


def test_everybody_of_any_view_is_a_member_as_often_as_in_the_view_that_holds_it_most(views):
    for of_round in views:
        counts = [Counter(client for client, _ in members) for members in of_round.values()]
        most = {client: max(count[client] for count in counts) for count in counts for client in count}
        assert listed(of_round).members == in_java_order(Counter(most).elements())


def test_a_group_s_rule_is_what_most_members_showed_from_the_source_that_is_trusted_most(views):
    rng = random.Random(8)
    events = [(rng.choice(IDS), number, rng.choice(list(STRATEGIES)), rng.choice(SOURCES)) for number in range(ROUNDS)]
    shown = Shown(events)
    last: dict[tuple[str, str], str] = {}
    for client, number, strategy, source in events:
        last[client, source] = strategy
        members = {client: version for of_broker in views[number].values() for client, version in of_broker}
        rules = {m: next(((last[m, s], s) for s in SOURCES if (m, s) in last), (None, None)) for m in members}
        known = Counter(strategy for strategy, _ in rules.values() if strategy)
        most = min(known, key=lambda s: (-known[s], list(STRATEGIES).index(s)), default="AVG")
        trusted = min((source for strategy, source in rules.values() if strategy == most), default="default")
        found = rules_of(views[number], shown, number)
        assert {r["client_id"]: (r["strategy"], r["source"]) for r in found.members} == rules
        assert (found.strategy, found.source) == (most, trusted)


def test_as_often_as_a_strategy_changes_by_then_so_often_are_rules_worked_out():
    shown = Shown([("a", 1, "AVG", "client_log"), ("a", 2, "AVG", "client_log"), ("b", 3, "AVG", "client_log")])
    assert [shown.changes_until(at) for at in range(5)] == [0, 1, 1, 2, 2]


def test_a_class_that_is_none_of_rocketmqs_own_says_less_than_settings_and_is_nobodys_majority(views):
    other = "class:com.acme.OwnStrategy"

    def rules(of_round, last, setting=NO_SETTING):
        shown = [(c, 0, other, "running_info") for c in IDS[1:]] + [(IDS[0], 0, last, "running_info")]
        return rules_of(of_round, Shown(shown), 0, setting)

    for of_round in views:
        found = rules(of_round, "CONFIG")
        known = IDS[0] in {r["client_id"] for r in found.members}
        assert (found.strategy, found.source) == (("CONFIG", "running_info") if known else ("AVG", "default"))
        assert {r["strategy"] for r in found.members if r["client_id"] != IDS[0]} <= {other}
        found = rules(of_round, other, Setting("AVG_BY_CIRCLE"))
        assert {(r["strategy"], r["source"]) for r in found.members} == {("AVG_BY_CIRCLE", "settings")}
        found = rules(of_round, other)
        assert (found.strategy, found.source) == ("AVG", "default")
        assert {(r["strategy"], r["source"]) for r in found.members} == {(other, "running_info")}


def test_of_strategies_that_are_shown_equally_often_the_first_of_them_counts():
    assert list(STRATEGIES) == ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "CONFIG"]


def test_a_member_s_release_is_the_newest_that_its_connections_report(views):
    for of_round in views:
        newest: dict[str, int] = {}
        for client, version in (one for members in of_round.values() for one in members):
            newest[client] = max(version, newest.get(client, 0))
        told = {r["client_id"]: r["profile"] for r in rules_of(of_round).members}
        assert told == {client: profile_for(version).id for client, version in newest.items()}


def list_of(*captures):
    return listed_members(captures, [])


def views_of(found):
    return {view["broker_name"]: view["members"] for view in found.broker_views}


def test_lists_of_named_brokers_count_before_one_drawn_by_lot():
    ids = "consumerIdList"
    found = list_of(
        capture(None, ids, ids=["c1"], second=9),
        capture("x", ids, ids=["c2", "c1"]),
        capture("y", ids, ids=["c1", "c1"]),
    )
    assert views_of(found) == {"x": ["c1", "c2"], "y": ["c1", "c1"]}
    assert (found.members, found.distinct_views) == (["c1", "c1", "c2"], 2)
    assert views_of(list_of(capture(None, ids, ids=["c1"]))) == {None: ["c1"]}


def test_a_broker_that_knows_of_nobody_has_told_so_and_one_that_failed_has_not():
    not_online = {"error": "CODE: 206  DESC: the consumer group[g] not online", "code": 206}
    no_consumer = {"error": "CODE: 1  DESC: no consumer for this group, g", "code": 1}
    found = list_of(
        capture("x", **not_online), capture("y", "consumerIdList", **no_consumer), capture("z", error="time-out")
    )
    assert (views_of(found), found.members) == ({"x": [], "y": []}, [])
    assert {p["broker_name"]: (p["told"], p["error_code"]) for p in found.listings} == {
        "x": (True, 206),
        "y": (True, 1),
        "z": (False, None),
    }
    failed = list_of(capture("x", error="CODE: 17  DESC: No topic route info", code=17))
    assert (views_of(failed), failed.members) == ({}, None)
    # What a proxy says of id lists is no answer: CODE 1 with the text of an exception.
    assert list_of(capture("x", "consumerIdList", error="CODE: 1  DESC: NullPointerException", code=1)).members is None


def test_of_one_broker_an_answer_counts_before_a_later_failure_and_the_later_of_two_answers():
    ids = "consumerIdList"
    found = list_of(
        capture("x", ids, ids=["c1"]),
        capture("x", ids, ids=["c1", "c2"], second=1),
        capture("x", ids, error="time-out", second=2),
    )
    assert views_of(found) == {"x": ["c1", "c2"]}


def test_nobody_who_was_not_asked_has_a_list():
    assert listed_members([capture(None, "consumerRunningInfo")], []) is None


def test_a_member_is_of_the_family_that_its_language_its_id_and_its_own_release_tell():
    members = {
        "10.0.0.1@1": ("JAVA", 453, "V5_2_0"),
        "10.0.0.2@2": ("GO", 317, "v2.1.1"),
        "10.0.0.3@DEFAULT": ("GO", 317, "v2.0.0-alpha3"),
        "10.0.0.4@4": ("GO", 317, None),
        "10.0.0.5@5#DEFAULT": ("CPP", 333, "V4_6_0"),
        "host@6@0@vprfruck": ("JAVA", 477, None),
    }
    beats = [heartbeat("x", client, version, language) for client, (language, version, _) in members.items()]
    reads = [{"client_id": client, "client_version": stated} for client, (_, _, stated) in members.items()]
    found = member_rules(listed_members([capture("x")], beats).connections, reads, NOBODY, 0)
    assert {r["client_id"]: (r["profile"], r["strategy"], r["source"]) for r in found.members} == {
        "10.0.0.1@1": ("P520", None, None),
        "10.0.0.2@2": ("G5|G6|G7", None, None),
        "10.0.0.3@DEFAULT": ("G1|G2", None, None),
        "10.0.0.4@4": ("G1|G2|G3|G4|G5|G6|G7", None, None),
        "10.0.0.5@5#DEFAULT": ("C1", "AVG", "release"),
        "host@6@0@vprfruck": ("R", None, None),
    }

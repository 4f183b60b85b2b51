"""Member lists and rules of random rounds, against the same written plainly for one round at a time."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from jobs.transforms.member_lists import listed_members
from jobs.transforms.member_rules import member_rules
from udfs.allocation import STRATEGIES
from udfs.fault_tolerance import profile_for

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ROUNDS = 300
IDS = ["a@1", "b@1", "B@1", "c@10", "c@9", "\uffff@1", "\U0001f600@1"]
SOURCES = ("client_log", "running_info")
HEARTBEATS = (
    "cluster string, collector string, round_at timestamp, consumer_group string, broker_name string, "
    "captured_at timestamp, client_id string, language string, client_version int, address string, "
    "message_model string, client_kind string"
)
CAPTURES = (
    "cluster string, collector string, round_at timestamp, consumer_group string, broker_name string, "
    "captured_at timestamp, kind string, answered boolean, error string, error_code int, member_ids array<string>, "
    "source_file string, source_line long"
)
EVENTS = "cluster string, consumer_group string, client_id string, at timestamp, strategy string, source string"


def at(number: int) -> datetime:
    return T0 + timedelta(seconds=30 * number)


def in_java_order(ids) -> list[str]:
    return sorted(ids, key=lambda i: i.encode("UTF-16BE"))


@pytest.fixture(scope="module")
def views() -> dict[int, dict[str, list[tuple[str, int]]]]:
    """By round and broker, the ids and versions that the broker listed; some ids twice."""
    rng = random.Random(7)
    return {
        number: {
            broker: [(rng.choice(IDS), rng.choice([355, 409, 453])) for _ in range(rng.randint(1, 6))]
            for broker in rng.sample(["x", "y", "z"], rng.randint(1, 3))
        }
        for number in range(ROUNDS)
    }


@pytest.fixture(scope="module")
def listed(spark, views):
    rows = [
        ("oracle", "", at(number), "g", broker, at(number), client, "JAVA", version, "h:1", "CLUSTERING", None)
        for number, of_round in views.items()
        for broker, members in of_round.items()
        for client, version in members
    ]
    asked = [capture(number, broker) for number, of_round in views.items() for broker in of_round]
    frames = spark.createDataFrame(asked, CAPTURES), spark.createDataFrame(rows, HEARTBEATS)
    unread = F.array().cast("array<struct<client_id: string, client_version: string>>")
    return listed_members(*frames).withColumn("read_until", F.col("round_at")).withColumn("reads", unread).cache()


def capture(number, broker, kind="consumerConnection", *, error=None, code=None, ids=None, second=0):
    captured_at = at(number) + timedelta(seconds=second)
    return ("oracle", "", at(number), "g", broker, captured_at, kind, error is None, error, code, ids, "f", 1)


def number_of(row) -> int:
    return round((row.round_at.replace(tzinfo=UTC) - T0).total_seconds()) // 30


def test_everybody_of_any_view_is_a_member_as_often_as_in_the_view_that_holds_it_most(listed, views):
    found = {number_of(row): row.members for row in listed.collect()}
    expected = {}
    for number, of_round in views.items():
        counts = [Counter(client for client, _ in members) for members in of_round.values()]
        most = {client: max(count[client] for count in counts) for count in counts for client in count}
        expected[number] = in_java_order(Counter(most).elements())
    assert found == expected


def test_a_group_s_rule_is_what_most_members_showed_from_the_source_that_is_trusted_most(spark, listed, views):
    rng = random.Random(8)
    shown = [(number, rng.choice(IDS), rng.choice(list(STRATEGIES)), rng.choice(SOURCES)) for number in range(ROUNDS)]
    rows = [("oracle", "g", client, at(number), strategy, source) for number, client, strategy, source in shown]
    events = spark.createDataFrame(rows, EVENTS)
    found = {number_of(row): row for row in member_rules(listed, events, configured=[]).collect()}
    last: dict[tuple[str, str], str] = {}
    for number, client, strategy, source in shown:
        last[client, source] = strategy
        members = {client: version for of_broker in views[number].values() for client, version in of_broker}
        rules = {m: next(((last[m, s], s) for s in SOURCES if (m, s) in last), (None, None)) for m in members}
        known = Counter(strategy for strategy, _ in rules.values() if strategy)
        most = min(known, key=lambda s: (-known[s], list(STRATEGIES).index(s)), default="AVG")
        trusted = min((source for strategy, source in rules.values() if strategy == most), default="default")
        row = found[number]
        assert {r.client_id: (r.strategy, r.source) for r in row.member_rules} == rules
        assert (row.strategy, row.strategy_source) == (most, trusted)


def test_a_class_that_is_none_of_rocketmqs_own_says_less_than_settings_and_is_nobodys_majority(spark, listed):
    other = "class:com.acme.OwnStrategy"
    shown = [*(("oracle", "g", c, at(-1), other, "running_info") for c in IDS[1:]), ("oracle", "g", IDS[0], at(-1))]

    def rules_of(last, configured=()):
        events = spark.createDataFrame([*shown[:-1], (*shown[-1], *last)], EVENTS)
        return member_rules(listed, events, configured=configured).collect()

    for row in rules_of(("CONFIG", "running_info")):
        known = IDS[0] in {r.client_id for r in row.member_rules}
        assert (row.strategy, row.strategy_source) == (("CONFIG", "running_info") if known else ("AVG", "default"))
        assert {r.strategy for r in row.member_rules if r.client_id != IDS[0]} <= {other}
    configured = [{"cluster": "*", "consumer_group": "*", "name": "AVG_BY_CIRCLE"}]
    for row in rules_of((other, "running_info"), configured):
        assert {(r.strategy, r.source) for r in row.member_rules} == {("AVG_BY_CIRCLE", "settings")}
    for row in rules_of((other, "running_info")):
        assert (row.strategy, row.strategy_source) == ("AVG", "default")
        assert {(r.strategy, r.source) for r in row.member_rules} == {(other, "running_info")}


def test_of_strategies_that_are_shown_equally_often_the_first_of_them_counts():
    assert list(STRATEGIES) == ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "CONFIG"]


def test_a_member_s_release_is_the_newest_that_its_connections_report(spark, listed, views):
    found = member_rules(listed, spark.createDataFrame([], EVENTS), configured=[])
    newest: dict[tuple[int, str], int] = {}
    for number, of_round in views.items():
        for client, version in (one for members in of_round.values() for one in members):
            newest[number, client] = max(version, newest.get((number, client), 0))
    told = {(number_of(row), r.client_id): r.profile for row in found.collect() for r in row.member_rules}
    assert told == {key: profile_for(version).id for key, version in newest.items()}


@pytest.fixture
def list_of(spark):
    """The member list of one round, in which these captures were taken."""

    def found(*captures):
        heartbeats = spark.createDataFrame([], HEARTBEATS)
        (row,) = listed_members(spark.createDataFrame(list(captures), CAPTURES), heartbeats).collect()
        return row

    return found


def views_of(row):
    return {view.broker_name: view.members for view in row.broker_views}


def test_lists_of_named_brokers_count_before_one_drawn_by_lot(list_of):
    ids = "consumerIdList"
    row = list_of(
        capture(0, None, ids, ids=["c1"], second=9),
        capture(0, "x", ids, ids=["c2", "c1"]),
        capture(0, "y", ids, ids=["c1", "c1"]),
    )
    assert views_of(row) == {"x": ["c1", "c2"], "y": ["c1", "c1"]}
    assert (row.members, row.distinct_views) == (["c1", "c1", "c2"], 2)
    assert views_of(list_of(capture(0, None, ids, ids=["c1"]))) == {None: ["c1"]}


def test_a_broker_that_knows_of_nobody_has_told_so_and_one_that_failed_has_not(list_of):
    not_online = {"error": "CODE: 206  DESC: the consumer group[g] not online", "code": 206}
    no_consumer = {"error": "CODE: 1  DESC: no consumer for this group, g", "code": 1}
    row = list_of(
        capture(0, "x", **not_online),
        capture(0, "y", "consumerIdList", **no_consumer),
        capture(0, "z", error="time-out"),
    )
    assert (views_of(row), row.members) == ({"x": [], "y": []}, [])
    assert {p.broker_name: (p.told, p.error_code) for p in row.listings} == {
        "x": (True, 206),
        "y": (True, 1),
        "z": (False, None),
    }
    failed = list_of(capture(0, "x", error="CODE: 17  DESC: No topic route info", code=17))
    assert (views_of(failed), failed.members) == ({}, None)
    # What a proxy says of id lists is no answer: CODE 1 with the text of an exception.
    assert (
        list_of(capture(0, "x", "consumerIdList", error="CODE: 1  DESC: NullPointerException", code=1)).members is None
    )


def test_of_one_broker_an_answer_counts_before_a_later_failure_and_the_later_of_two_answers(list_of):
    ids = "consumerIdList"
    row = list_of(
        capture(0, "x", ids, ids=["c1"]),
        capture(0, "x", ids, ids=["c1", "c2"], second=1),
        capture(0, "x", ids, error="time-out", second=2),
    )
    assert views_of(row) == {"x": ["c1", "c2"]}


def test_a_member_is_of_the_family_that_its_language_its_id_and_its_own_release_tell(spark):
    members = {
        "10.0.0.1@1": ("JAVA", 453, "V5_2_0"),
        "10.0.0.2@2": ("GO", 317, "v2.1.1"),
        "10.0.0.3@DEFAULT": ("GO", 317, "v2.0.0-alpha3"),
        "10.0.0.4@4": ("GO", 317, None),
        "10.0.0.5@5#DEFAULT": ("CPP", 333, "V4_6_0"),
        "host@6@0@vprfruck": ("JAVA", 477, None),
    }
    beats = [
        ("oracle", "", at(0), "g", "x", at(0), client, language, version, "h:1", "CLUSTERING", None)
        for client, (language, version, _) in members.items()
    ]
    frames = spark.createDataFrame([capture(0, "x")], CAPTURES), spark.createDataFrame(beats, HEARTBEATS)
    reads = F.array(
        *(
            F.struct(F.lit(client).alias("client_id"), F.lit(stated).cast("string").alias("client_version"))
            for client, (_, _, stated) in members.items()
        )
    )
    one = listed_members(*frames).withColumn("read_until", F.col("round_at")).withColumn("reads", reads)
    (row,) = member_rules(one, spark.createDataFrame([], EVENTS), configured=[]).collect()
    assert {r.client_id: (r.profile, r.strategy, r.source) for r in row.member_rules} == {
        "10.0.0.1@1": ("P520", None, None),
        "10.0.0.2@2": ("G5|G6|G7", None, None),
        "10.0.0.3@DEFAULT": ("G1|G2", None, None),
        "10.0.0.4@4": ("G1|G2|G3|G4|G5|G6|G7", None, None),
        "10.0.0.5@5#DEFAULT": ("C1", "AVG", "release"),
        "host@6@0@vprfruck": ("R", None, None),
    }

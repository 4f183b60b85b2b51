"""Logs of real clusters, diagnosed, against what each member itself answered in the same rounds."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from hindsight.udfs.diagnosis.logged_ownership import (
    LOG_ENDS,
    LOG_SILENT,
    NO_CLIENT_LOG,
    NO_RESULT,
    OWNED,
    PULLS,
    SHARED,
    UNKNOWN,
)
from tests.capture_rounds import parsed_lines
from tests.conftest import CAPTURES
from tests.diagnose.told_by_logs import CLUSTER, CLUSTER_T0, SCOPE, SCOPE_T0, held_at, told

NEAR_MS = 1000
SNAPSHOTS = {
    "scope": CAPTURES / "scope/admin_snapshots/cluster=scope/collector.jsonl.gz",
    "cluster": CAPTURES / "consumers/admin_snapshots.jsonl.gz",
}
LOGS = {"scope": SCOPE, "cluster": CLUSTER}


@pytest.fixture(scope="module")
def diagnoses():
    return {name: told({str(path): path.read_bytes() for path in paths}) for name, paths in LOGS.items()}


def answers(name):
    """(group, client id, instant) of each running info that was answered: by topic the queues that are not dropped."""
    found = {}
    for _, table, row in parsed_lines(SNAPSHOTS[name]):
        if table == "snapshot_capture" and row["kind"] == "consumerRunningInfo" and row.get("answered"):
            found[row["consumer_group"], row["client_id"], row["captured_at"]] = defaultdict(set)
        elif table == "queue_ownership" and not row["dropped"]:
            queues = found[row["consumer_group"], row["client_id"], row["captured_at"]]
            queues[row["topic"]].add((row["broker_name"], row["queue_id"]))
    return found


def is_near_a_change(diagnosis, key, at):
    ends = [end for one in diagnosis.ownership if one.key == key for end in (one.since, one.until) if end]
    return any(abs(at - end) <= NEAR_MS for end in ends)


def compared(name, diagnosis):
    """How each answer's topics stand to what the logs tell; and every one that differs."""
    counts, differ = Counter(), []
    topics_of = defaultdict(set)
    for one in diagnosis.ownership:
        topics_of[one.key.consumer_group, one.key.client_id].add(one.key.topic)
    for (group, client_id, at), answered in answers(name).items():
        for topic in topics_of[group, client_id] | answered.keys():
            one = held_at(diagnosis, group, topic, client_id, at)
            if one is None:  # of this topic: the member may be one of which no line tells a queue at all
                one = held_at(diagnosis, group, "", client_id, at)
            if one is None:
                fate = "not named" if answered[topic] else "nothing held, nothing said"
            elif one.state == UNKNOWN:
                fate = one.reason
            elif one.state == SHARED:
                fate = SHARED
            elif set(one.queues) == answered[topic]:
                fate = "equal"
            else:
                fate = "near" if is_near_a_change(diagnosis, one.key, at) else "differs"
            counts[fate] += 1
            if fate in ("not named", "differs"):
                differ.append((group, topic, client_id, at, one, answered[topic]))
    return counts, differ


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scope", {"equal": 1991, PULLS: 630, SHARED: 84, LOG_ENDS: 8, LOG_SILENT: 7}),
        ("cluster", {"equal": 2672, "near": 5, LOG_ENDS: 1, LOG_SILENT: 2}),
    ],
)
def test_in_every_round_that_a_log_covers_it_says_what_the_member_answered(diagnoses, name, expected):
    counts, differ = compared(name, diagnoses[name])
    assert differ == []
    assert {fate: counts[fate] for fate in expected} == expected
    # Members whose log is not among them, or of whom no line tells a queue: they assign by hand, or never got one.
    assert counts.keys() - expected.keys() <= {NO_CLIENT_LOG, NO_RESULT, "nothing held, nothing said"}


def test_of_an_idle_member_whose_first_topic_is_another_nothing_is_said_that_is_wrong(diagnoses):
    for name, diagnosis in diagnoses.items():
        for (group, client_id, at), answered in answers(name).items():
            for topic in {one.key.topic for one in diagnosis.ownership if one.key.consumer_group == group}:
                one = held_at(diagnosis, group, topic, client_id, at)
                if one and one.state == OWNED and not is_near_a_change(diagnosis, one.key, at):
                    assert set(one.queues) == answered[topic], (name, group, topic, client_id, at)


@pytest.mark.parametrize(
    ("name", "client_id", "group", "topic", "from_s", "to_s"),
    [
        ("scope", "127.0.0.1@5.3.3_p3", "g_push", "ScopeOrders", 225, 310),  # frozen
        ("scope", "127.0.0.1@5.3.3_s3", "g_static", "t_static", 225, 310),
        ("scope", "127.0.0.1@4.9.8_k1", "g_push", "ScopeOrders", 60, 10_000),  # killed
        ("scope", "127.0.0.1@4.9.8_x1", "g_gone", "ScopeOrders", 60, 10_000),
        ("scope", "127.0.0.1@4.9.8_q1@STREAM", "g_pull", "ScopeOrders", 0, 10_000),  # pulls
        ("scope", "127.0.0.1@4.9.8_l1@STREAM", "g_lite49", "ScopeOrders", 0, 10_000),
        ("cluster", "127.0.0.1@8407#2503479679860", "g_avg", "OracleOrders", 87, 201),  # frozen: a5
        ("cluster", "127.0.0.1@8407#2507521046470", "g_mix", "OracleOrders", 87, 201),
        ("cluster", "127.0.0.1@8279#2487844758314", "g_avg", "OracleOrders", 72, 10_000),  # killed: a4
    ],
)
def test_who_is_frozen_killed_or_pulls_is_unknown_and_nobody_has_its_queues_by_guess(
    diagnoses, name, client_id, group, topic, from_s, to_s
):
    t0 = SCOPE_T0 if name == "scope" else CLUSTER_T0
    diagnosis = diagnoses[name]
    for at in range(t0 + from_s * 1000, t0 + min(to_s, 900) * 1000, 500):
        one = held_at(diagnosis, group, topic, client_id, at)
        assert one is not None and one.state == UNKNOWN
    # Whoever else is said to hold its queues said so itself: that is what the running infos are compared with above.


def test_a_broadcasting_client_is_named_by_its_heartbeat_alone(diagnoses):
    without_brokers = told({str(path): path.read_bytes() for path in SCOPE if "client_log" in str(path)})
    for diagnosis in (diagnoses["scope"], without_brokers):
        clients = {one.key.client_id for one in diagnosis.ownership if one.key.consumer_group == "g_bcast"}
        assert clients == {"127.0.0.1@4.9.8_b1", "127.0.0.1@5.3.3_b2"}


def test_rebalances_are_those_that_were_provoked(diagnoses):
    """t and whom: STORY.md of the capture; k1 killed at 60, others stopped about 81, lists that differ until 125."""
    told_of = {}
    for one in diagnoses["scope"].rebalances:
        if one.began_at > SCOPE_T0 + 30_000:
            at = (one.began_at - SCOPE_T0) / 1000
            told_of[one.consumer_group, round(at)] = (one.triggers[0], one.woken_by, one.left, one.took_ms)
    assert told_of["g_push", 60] == ("member_died", "notification", ("127.0.0.1@4.9.8_k1",), 39)
    assert told_of["g_static", 82][:3] == ("member_left", "notification", ("127.0.0.1@5.3.3_s2",))
    assert told_of["g_rproxy", 80][:3] == ("member_left", "timer", ("127.0.0.1@5.3.3_y2",))  # through a proxy
    assert 10_000 < told_of["g_rproxy", 80][3] < 12_000
    assert told_of["g_view", 40][:3] == ("member_died", "timer", ("127.0.0.1@5.3.3_v3",))  # at one broker; seen at 101
    assert told_of["g_view", 125][:2] == ("member_joined", "notification")
    groups = {group for group, _ in told_of}
    assert groups == {"g_push", "g_static", "g_rproxy", "g_view", "g_lite49", "g_lite53", "g_pop"}


def test_two_owners_are_found_where_the_lists_of_the_brokers_differed(diagnoses):
    """v1 took broker-a:3 at 101 while v2 held it until 121; then v2 broker-b:2 and 3, which v3 held on to."""
    seen = {
        (one.queues, tuple(name[-2:] for name in one.client_ids)): (
            round((one.since - SCOPE_T0) / 1000),
            round((one.until - SCOPE_T0) / 1000),
        )
        for one in diagnoses["scope"].held_by_two
        if one.topic == "ScopeOrders"
    }
    assert seen == {
        ((("broker-a", 3),), ("v1", "v2")): (101, 121),
        ((("broker-b", 2), ("broker-b", 3)), ("v2", "v3")): (121, 125),
    }


def test_the_mixed_strategies_of_a_group_show_as_queues_of_two(diagnoses):
    twice = [one for one in diagnoses["cluster"].held_by_two if one.consumer_group == "g_mix"]
    assert {one.queues for one in twice} == {(("broker-a", 2),), (("broker-b", 1),), (("broker-c", 2),)}
    assert {one.consumer_group for one in diagnoses["cluster"].held_by_two} == {"g_mix"}


def test_the_13_members_that_were_not_listed_are_counted_once(diagnoses):
    listed = [tally.count for one in diagnoses["cluster"].troubles for tally in one.not_listed.values()]
    assert sum(listed) == 13


def test_orderly_queues_that_could_not_be_locked_are_not_held_until_they_are(diagnoses):
    """g_order, o1 of 4.7.1: at its start it got six queues by its result, and locked two; the others 20 s later."""
    start = min(one.since for one in diagnoses["cluster"].ownership if one.key[:2] == ("g_order", "OracleOrders"))
    early = held_at(diagnoses["cluster"], "g_order", "OracleOrders", "127.0.0.1@4.7.1_o1", start + 3_000)
    later = held_at(diagnoses["cluster"], "g_order", "OracleOrders", "127.0.0.1@4.7.1_o1", start + 30_000)
    assert early.queues == (("broker-a", 2), ("broker-a", 3))
    assert len(later.queues) == 6

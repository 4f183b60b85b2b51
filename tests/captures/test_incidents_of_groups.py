"""The incidents of a whole real capture, worked out by hand from the definitions and from what its clients owned.

Seconds count from the first round. Rounds are 3 s apart, 10 to 11 s between 87 and 201; S is 3 s (12 s in g_idle).
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hindsight.udfs.consumer.drift_timing import Opening
from hindsight.udfs.groups.group_walk import DRIFT, INCIDENT, WalkSettings
from tests.capture_rounds import CaptureRounds, walk
from tests.conftest import CAPTURES
from tests.default_timing import OPENS, default_timing

START_MS = 1795253414272
A5, M4 = "127.0.0.1@8407#2503479679860", "127.0.0.1@8407#2507521046470"

# Grace and ages 10 s, subscription grace 15 s.
SHORT = default_timing(
    membership_grace_s=10,
    broker_grace_s=10,
    route_grace_s=10,
    ordered_extra_s=10,
    subscription_grace_s=15,
    close_s=10,
    opens={code: Opening(o.rounds, min(o.age_s, 10)) for code, o in OPENS.items()},
)


@pytest.fixture(scope="module")
def capture():
    return CaptureRounds(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz")


@pytest.fixture(scope="module")
def told(capture):
    """(findings, incidents) of a group, with default or short settings."""
    made = {}
    for name, timing in (("default", default_timing()), ("short", SHORT)):
        for group in capture.groups:
            rows = list(walk(capture.of_group(group), WalkSettings(timing, 7)))
            made[name, group] = ([r for k, r in rows if k == DRIFT], [r for k, r in rows if k == INCIDENT])
    return made


def t(at: datetime | None) -> float | None:
    return None if at is None else round((at.replace(tzinfo=UTC).timestamp() * 1000 - START_MS) / 1000, 1)


def incidents(told, settings, group):
    return {(i["root_cause"], i["cause_key"]): i for i in told[settings, group][1]}


def queues(incident, code):
    return {_queue(f) for f in incident["findings"] if f["code"] == code}


def _queue(f):
    return f"{'S' if f['topic'] == 'OracleSkew' else ''}{f['broker_name'][-1]}{f['queue_id']}"


def findings(told, settings, group, code):
    return [
        (t(f["round_at"]), _queue(f) if f["broker_name"] else f["client_id"], f)
        for f in told[settings, group][0]
        if f["code"] == code
    ]


BOTH = pytest.mark.parametrize("settings", ["default", "short"])


@BOTH
def test_groups_in_which_nothing_lasting_happened_have_no_incident(told, settings):
    # One transient round of g_hash, start-up and hand-over of g_order, broadcasting.
    for group in ("g_hash", "g_order", "g_bcast"):
        assert incidents(told, settings, group) == {}, group


@BOTH
def test_no_group_has_a_data_gap(told, settings):
    for (name, group), (rows, _) in told.items():
        assert name != settings or [r for r in rows if r["code"] == "DATA_GAP"] == [], group


# -- g_avg: a4 killed at 71, a5 frozen at 86, unlisted at 201, its queues taken over at 216 ---------------------------


@BOTH
def test_g_avg_has_one_incident_and_it_is_about_the_frozen_member(told, settings):
    assert set(incidents(told, settings, "g_avg")) == {("UNREACHABLE_CLIENT", A5)}
    (incident,) = incidents(told, settings, "g_avg").values()
    # Unread in 87 and 97: the second round. The grace after a4's leaving ended before (72 + 20 + 3).
    assert 87 <= t(incident["first_seen_at"]) <= 88
    assert 97 <= t(incident["opened_at"]) <= 98
    assert queues(incident, "ORPHAN_QUEUE") == {"c1", "c2", "c3"}
    assert 213 <= t(incident["last_seen_at"]) <= 214
    assert (incident["state"], incident["trust"], incident["severity"]) == ("RESOLVED", "certain", "CRITICAL")
    assert A5 in incident["sentence"]


def test_the_incident_of_g_avg_is_resolved_when_its_queues_have_had_owners_long_enough(told):
    # Owned again in 216; false in 3 rounds and for 60 s (10 s): the first round after 276 (226).
    (default,) = incidents(told, "default", "g_avg").values()
    (short,) = incidents(told, "short", "g_avg").values()
    assert 276 <= t(default["resolved_at"]) <= 280
    assert 226 <= t(short["resolved_at"]) <= 229


@BOTH
def test_the_queues_of_a5_are_unserved_once_two_readings_show_it_and_orphans_once_it_is_unlisted(told, settings):
    unserved = findings(told, settings, "g_avg", "UNSERVED_QUEUE")
    assert {queue for _, queue, _ in unserved} == {"c1", "c2", "c3"}
    assert min(at for at, _, _ in unserved) == 160.3  # its progress is read at 165
    assert {f["trust"] for _, _, f in unserved} == {"possible"}
    assert all(81 <= t(f["since_at"]) <= 103 for _, _, f in unserved)
    assert {f["root_cause"] for _, _, f in unserved} == {"UNREACHABLE_CLIENT"}
    orphans = findings(told, settings, "g_avg", "ORPHAN_QUEUE")
    assert {at for at, _, _ in orphans} == {201.1, 204.1, 207.1, 210.1, 213.1}
    assert {(f["root_cause"], f["finding_state"]) for _, _, f in orphans} == {("UNREACHABLE_CLIENT", "OPEN")}
    assert all(81 <= t(f["since_at"]) <= 103 for _, _, f in orphans)


# -- g_mix: AVG, AVG, AVG_BY_CIRCLE; m4 (AVG) joins at 48, is unread from 87 on and unlisted at 204 -------------------


@BOTH
def test_g_mix_has_the_mixed_strategies_and_the_frozen_member_apart(told, settings):
    assert set(incidents(told, settings, "g_mix")) == {("MIXED_STRATEGY", ""), ("UNREACHABLE_CLIENT", M4)}


def test_mixed_strategies_open_after_the_start_and_stay_open(told):
    for settings, after in (("default", 19.4), ("short", 9.4)):  # m3 started at -3.6; + 20 (10) + S
        incident = incidents(told, settings, "g_mix")["MIXED_STRATEGY", ""]
        assert after <= t(incident["opened_at"]) <= after + 3.2
        assert t(incident["first_seen_at"]) < 2
        assert incident["state"] == "OPEN" and t(incident["last_seen_at"]) > 282
        assert {"a2", "b1", "c2"} <= queues(incident, "DOUBLE_OWNED")
        assert {"c1", "c2", "b3", "c0"} <= queues(incident, "ORPHAN_QUEUE") | queues(incident, "UNSERVED_QUEUE")
        assert incident["trust"] == "certain"


@BOTH
def test_a2_is_certainly_owned_twice_even_while_m4_is_unread(told, settings):
    doubles = [f for at, queue, f in findings(told, settings, "g_mix", "DOUBLE_OWNED") if queue == "a2"]
    assert len(doubles) == 68
    assert {f["trust"] for f in doubles} == {"certain"}
    assert {f["root_cause"] for f in doubles} == {"MIXED_STRATEGY"}
    assert {t(f["since_at"]) for f in doubles} == {1.9}  # m1 and m3 were read 1.9 s after the first marker


@BOTH
def test_queues_that_m4_would_take_are_unserved_because_of_m4(told, settings):
    incident = incidents(told, settings, "g_mix")["UNREACHABLE_CLIENT", M4]
    assert 97 <= t(incident["opened_at"]) <= 108  # read after g_avg's time-out: 102
    unserved = findings(told, settings, "g_mix", "UNSERVED_QUEUE")
    of_m4 = {queue for _, queue, f in unserved if f["root_cause"] == "UNREACHABLE_CLIENT"}
    assert of_m4 == {"c1", "c3"}
    # Nobody's own rule takes b3 and c0: the silence of m4 explains nothing there.
    assert {queue for _, queue, f in unserved if f["root_cause"] == "MIXED_STRATEGY"} <= {"b3", "c0"}
    # c1 has no owner until m4 is back at 234: false for 49 s at the end of the record.
    expected = {"default": "CLEARING", "short": "RESOLVED"}[settings]
    assert incident["state"] == expected


# -- g_sub: s2 changes to TagA at 39; s3 joins at 78 and subscribes OracleSkew only ----------------------------------

G_SUB_QUEUES = {"c0", "c1", "c2", "c3", *(f"Sa{i}" for i in range(8)), "Sb0", "Sb1"}


def test_g_sub_opens_by_its_orphans_while_the_subscriptions_own_finding_is_muted(told):
    found = incidents(told, "default", "g_sub")
    assert set(found) == {("SUBSCRIPTION_INCONSISTENT", "TOPIC_MISSING")}
    (incident,) = found.values()
    assert 138 <= t(incident["opened_at"]) <= 150  # no owner since 78, 60 s old
    assert incident["state"] == "OPEN"
    assert {_queue(f) for _, _, f in findings(told, "default", "g_sub", "ORPHAN_QUEUE") if t(f["round_at"]) > 80} == (
        G_SUB_QUEUES
    )
    muted = findings(told, "default", "g_sub", "SUBSCRIPTION_INCONSISTENT")
    assert {f["finding_state"] for _, _, f in muted} == {"SUPPRESSED"}
    # 14 of 26 queues: more than half, shown as one.
    (folded,) = [f for f in incident["findings"] if f["code"] == "ORPHAN_QUEUE"]
    assert (folded["kind"], folded["queues"]) == ("FOLDED", 14)


def test_g_sub_with_short_settings_opens_for_its_tags_and_for_its_topics(told):
    found = incidents(told, "short", "g_sub")
    kinds = {("SUBSCRIPTION_INCONSISTENT", "TAG_DIFF"), ("SUBSCRIPTION_INCONSISTENT", "TOPIC_MISSING")}
    assert set(found) == kinds
    tags = found["SUBSCRIPTION_INCONSISTENT", "TAG_DIFF"]
    topics = found["SUBSCRIPTION_INCONSISTENT", "TOPIC_MISSING"]
    assert 54 <= t(tags["opened_at"]) <= 61  # 39 + 15, two rounds
    assert 91 <= t(topics["opened_at"]) <= 109  # 78 + 10 + 3, the round of 97 is read at 107
    assert topics["severity"] == "CRITICAL" and tags["severity"] == "HIGH"
    assert "127.0.0.1@5.3.3_s3" in topics["sentence"]


# -- g_skew: k1 subscribes OracleSkew only; k2 both, and joins at 9 --------------------------------------------------


def test_g_skew_opens_once_the_join_of_k2_is_past(told):
    for settings, begin, end in (("default", 33, 37), ("short", 22, 25)):
        found = incidents(told, settings, "g_skew")
        assert set(found) == {("SUBSCRIPTION_INCONSISTENT", "TOPIC_MISSING")}
        (incident,) = found.values()
        assert begin <= t(incident["opened_at"]) <= end
        assert incident["state"] == "OPEN" and incident["severity"] == "CRITICAL"
        assert queues(incident, "ORPHAN_QUEUE") == {"a0", "a1", "a2", "a3", "b0", "b1"}
        assert "127.0.0.1@4.7.1_k1" in incident["sentence"]


# -- g_idle: 15 members, 12 queues; running infos every fourth round -------------------------------------------------


@BOTH
def test_g_idle_has_three_idle_by_design_in_the_rounds_that_read_it(told, settings):
    idle = findings(told, settings, "g_idle", "IDLE_BY_DESIGN")
    rounds = {at for at, _, _ in idle}
    assert len(idle) == 51 and len(rounds) == 17
    assert {client for _, client, _ in idle} == {f"127.0.0.1@4.9.8_idle{i}" for i in (7, 8, 9)}
    assert set(incidents(told, settings, "g_idle")) == {("BY_DESIGN", "IDLE_BY_DESIGN")}
    (incident,) = incidents(told, settings, "g_idle").values()
    assert incident["severity"] == "INFO"

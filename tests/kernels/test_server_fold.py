"""What sweeps show of brokers and name servers, and which incidents of servers come of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.schemas import SNAPSHOT_CAPTURE, TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.groups.group_walk import INCIDENT, STATE, WalkSettings
from hindsight.udfs.servers.server_fold import SIGNS, ServerFold, signs_of, signs_of_routes
from tests.default_timing import default_timing
from tests.random_examples import examples

DAY = date(2026, 11, 21)
BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)
KEY = ("prod", "", "")
SETTINGS = WalkSettings(default_timing(), 7)
_REMOTING = "org.apache.rocketmq.remoting.exception."
REFUSED = f"{_REMOTING}RemotingConnectException: connect to <10.0.0.1:10911> failed: Connection refused"
TIMED_OUT = f"{_REMOTING}RemotingTimeoutException: wait response on the channel <10.0.0.1:10911> timeout, 3000(ms)"
UNKNOWN_GROUP = "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 206  DESC: not online"
DEAD = (
    "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 1  DESC: invoke consumer <g> <c> Exception: "
    "org.apache.rocketmq.remoting.exception.RemotingSendRequestException: send request to <10.0.0.9:4711> failed"
)


def capture(at, server, error=None, kind="consumeStats", code=None):
    """A row of ``snapshot_capture``; ``server`` with a colon is a name server."""
    place = {"name_server": server} if ":" in server else {"broker_name": server}
    told = {"answered": error is None, "error": error, "error_code": code}
    lines = {"source_file": "collector.jsonl", "source_line": int((at - BEGIN).total_seconds())}
    return {"collector": "", "kind": kind, "captured_at": at, "round_at": at, **place, **told, **lines}


def sweep(seconds, **servers):
    """Eight questions of each server; by name, what becomes of them."""
    at = BEGIN + timedelta(seconds=seconds)
    names = {"a": "broker-a", "b": "broker-b", "n1": "ns:9876", "n2": "ns:9877"}
    return [capture(at, names[name], error) for name, error in servers.items() for _ in range(8)]


def signs(captures, routes=()):
    made = signs_of(pa.Table.from_pylist(list(captures), arrow_schema(SNAPSHOT_CAPTURE)))
    entries = pa.Table.from_pylist(list(routes), arrow_schema(TOPIC_ROUTE))
    return pa.concat_tables([SIGNS.empty_table(), made, signs_of_routes(entries)])


def incidents(rows, day=DAY):
    fold = ServerFold(KEY, rows, SETTINGS)
    fold.walk(None, 1 << 62, day)
    found = [row for kind, row in fold.close(day, is_last=True) if kind == INCIDENT]
    return sorted(found, key=lambda row: (row["opened_at"], row["cause_key"]))


def seconds(at):
    return None if at is None else (at - BEGIN).total_seconds()


def test_a_broker_that_is_killed_is_one_incident_from_its_first_silent_sweep_until_it_is_well():
    rows = [s for t in range(0, 60, 15) for s in sweep(t, a=None, b=None, n1=None)]
    rows += [s for t in range(60, 120, 15) for s in sweep(t, a=None, b=REFUSED, n1=None)]
    rows += [s for t in range(120, 240, 15) for s in sweep(t, a=None, b=None, n1=None)]
    [one] = incidents(signs(rows))
    assert (one["root_cause"], one["cause_key"], one["severity"]) == ("BROKER_NOT_ANSWERING", "broker-b", "CRITICAL")
    assert (seconds(one["opened_at"]), seconds(one["resolved_at"]), one["state"]) == (60, 180, "RESOLVED")
    assert one["findings"][0]["kind"] == "REFUSES" and one["findings"][0]["broker_name"] == "broker-b"
    assert one["sentence"] == (
        "Broker broker-b has answered none of 32 questions since 10:01:00: it refuses connections."
    )
    assert one["evidence"] == ["collector.jsonl:60"]


def test_a_broker_that_is_frozen_for_one_sweep_is_an_incident_too():
    rows = sweep(0, a=None, b=None) + sweep(15, a=None, b=TIMED_OUT) + sweep(30, a=None, b=None)
    [one] = incidents(signs(rows))
    assert (one["severity"], one["findings"][0]["kind"], seconds(one["opened_at"])) == ("HIGH", "SILENT", 15)


@pytest.mark.parametrize(
    "becomes_of_b",
    [
        [None, TIMED_OUT, TIMED_OUT, TIMED_OUT],  # one question of four was answered
        [UNKNOWN_GROUP],  # a refusal is an answer
        [f"not asked: {TIMED_OUT}"] * 8,
        ["answer not readable: BAD_RAW"] * 8,
        [TIMED_OUT],  # one question, which may be lost by chance
    ],
)
def test_who_answers_anything_or_was_hardly_asked_is_no_incident(becomes_of_b):
    rows = sweep(0, a=None, b=None) + sweep(15, a=None)
    rows += [
        capture(BEGIN + timedelta(seconds=15), "broker-b", e, code=206 if e == UNKNOWN_GROUP else None)
        for e in becomes_of_b
    ]
    assert incidents(signs(rows)) == []


def test_running_infos_that_time_out_say_nothing_of_the_broker():
    rows = sweep(0, a=None, b=None) + sweep(15, a=None)
    at = BEGIN + timedelta(seconds=15)
    rows += [capture(at, "broker-b", TIMED_OUT, "consumerRunningInfo") for _ in range(9)]
    assert incidents(signs(rows)) == []


def test_where_nobody_answers_the_collectors_own_way_is_in_doubt_but_a_refusal_is_sure():
    rows = sweep(0, a=None, b=None, n1=None)
    silent = rows + sweep(15, a=TIMED_OUT, b=TIMED_OUT, n1=TIMED_OUT)
    assert incidents(signs(silent)) == []
    refused = rows + sweep(15, a=TIMED_OUT, b=REFUSED, n1=REFUSED)
    assert [one["cause_key"] for one in incidents(signs(refused))] == ["broker-b", "ns:9876"]


def test_a_name_server_that_is_gone_is_worse_where_it_was_the_last():
    rows = sweep(0, a=None, n1=None, n2=None) + sweep(15, a=None, n1=REFUSED, n2=None)
    [one] = incidents(signs(rows))
    assert (one["root_cause"], one["cause_key"]) == ("NAME_SERVER_NOT_ANSWERING", "ns:9876")
    assert one["severity"] == "HIGH" and one["findings"][0]["broker_name"] is None
    both = incidents(signs(rows + sweep(30, a=None, n1=REFUSED, n2=REFUSED)))
    assert [one["severity"] for one in both] == ["CRITICAL", "CRITICAL"]


def test_a_broker_that_keeps_a_dead_connection_answers():
    rows = []
    for t in (0, 15, 30):
        rows += sweep(t, a=None, b=None)
        rows.append(capture(BEGIN + timedelta(seconds=t), "broker-b", DEAD, "consumerRunningInfo", code=1))
    [one] = incidents(signs(rows))
    assert (one["root_cause"], one["severity"]) == ("BROKER_KEEPS_DEAD_CONNECTION", "LOW")
    assert seconds(one["opened_at"]) == 15


def test_what_showed_in_a_group_before_the_dead_connection_was_used_is_its_effect_too():
    rows = [s for t in range(0, 330, 15) for s in sweep(t, a=None, b=None)]
    used = [BEGIN + timedelta(seconds=t) for t in (300, 315)]
    dead = [capture(at, "broker-b", DEAD, "consumerRunningInfo", code=1) | {"consumer_group": "g"} for at in used]
    fold = ServerFold(KEY, signs(rows + dead), SETTINGS)
    fold.walk(None, 1 << 62, DAY)
    began, now = (int(at.timestamp() * 1000) for at in (BEGIN, used[-1]))
    [trouble] = fold.troubles(now * 1000, now)
    # A broker lists a connection for 120 s after its end, and the sweep before may have come too early for it.
    assert (trouble.groups, trouble.since) == (("g",), began + (300 - 15 - 120) * 1000)


def route(at, broker, perm, topic="Orders"):
    lines = {"source_file": "collector.jsonl", "source_line": int((at - BEGIN).total_seconds())}
    place = {"collector": "", "round_at": at, "captured_at": at, "name_server": "ns:9876", **lines}
    return {**place, "topic": topic, "broker_name": broker, "perm": perm}


def test_a_broker_without_write_permission_is_told_as_information_until_it_has_it_again():
    captures, routes = [], []
    for t in range(0, 300, 15):
        at = BEGIN + timedelta(seconds=t)
        captures += sweep(t, a=None, b=None, n1=None)
        routes += [route(at, "broker-a", 6, topic) for topic in ("Orders", "Pay")]
        routes += [route(at, "broker-b", 4 if 60 <= t < 120 else 6, topic) for topic in ("Orders", "Pay")]
        routes += [route(at, "broker-a", 4, "ReadOnlyByWish")]
    [one] = incidents(signs(captures, routes))
    assert (one["root_cause"], one["cause_key"], one["severity"]) == ("BROKER_READ_ONLY", "broker-b", "INFO")
    assert (seconds(one["opened_at"]), seconds(one["resolved_at"])) == (75, 180)


def test_a_broker_that_vanishes_from_all_routes_and_that_nobody_asks_is_told_and_later_taken_as_taken_away():
    captures, routes = [], []
    for t in range(0, 900, 15):
        at = BEGIN + timedelta(seconds=t)
        captures += [capture(at, "ns:9876", kind="topicRoute") for _ in range(8)]
        routes += [route(at, b, 6) for b in ("broker-a", "broker-b") if b == "broker-a" or t < 60]
    [one] = incidents(signs(captures, routes))
    assert (one["root_cause"], one["cause_key"], one["trust"]) == ("BROKER_NOT_ANSWERING", "broker-b", "possible")
    assert (one["severity"], seconds(one["opened_at"])) == ("MEDIUM", 75)
    assert one["evidence"] == ["collector.jsonl:75"]  # a route without it
    assert 645 < seconds(one["resolved_at"]) < 780


STATES = st.lists(st.sampled_from([None, None, REFUSED, TIMED_OUT]), min_size=4, max_size=40)


@examples(10, 40)
@given(STATES, STATES, st.data())
def test_any_cut_of_the_sweeps_gives_the_same_incidents_and_troubles(of_b, of_n, data):
    pairs = list(zip(of_b, of_n, strict=False))
    rows = signs(s for t, (b, n) in enumerate(pairs) for s in sweep(t * 15, a=None, b=b, n1=n))
    whole = ServerFold(KEY, rows, SETTINGS)
    whole.walk(None, 1 << 62, DAY)
    cut_us = int((BEGIN + timedelta(seconds=15 * data.draw(st.integers(0, len(pairs))))).timestamp() * 1_000_000)
    first = ServerFold(KEY, rows, SETTINGS)
    first.walk(None, cut_us, DAY)
    second = ServerFold(KEY, rows, SETTINGS, kept=first.state())
    second.walk(None, 1 << 62, DAY, from_us=cut_us)
    last = int((BEGIN + timedelta(seconds=15 * len(pairs))).timestamp() * 1_000_000)
    assert second.troubles(last, last // 1000) == whole.troubles(last, last // 1000)
    assert list(second.close(DAY, is_last=True)) == list(whole.close(DAY, is_last=True))


def test_an_incident_lasts_over_midnight():
    rows = [s for t in range(0, 60, 15) for s in sweep(t, a=None, b=None if t < 15 else REFUSED)]
    first = ServerFold(KEY, signs(rows), SETTINGS)
    closed = list(first.close(DAY, is_last=False))
    [state] = [row for kind, row in closed if kind == STATE]
    assert [kind for kind, _ in closed] == [STATE] and state["open_incidents"] == 1
    next_day = DAY + timedelta(days=1)
    more = [s for t in range(14 * 3600, 14 * 3600 + 200, 15) for s in sweep(t, a=None, b=None)]
    second = ServerFold(KEY, signs(more), SETTINGS, state)
    [one] = [row for kind, row in second.close(next_day, is_last=True) if kind == INCIDENT]
    assert (one["state"], seconds(one["opened_at"]), one["event_date"]) == ("RESOLVED", 15, next_day)


def at_us(second):
    return int((BEGIN + timedelta(seconds=second)).timestamp() * 1_000_000)


def troubles(rows, second):
    fold = ServerFold(KEY, rows, SETTINGS)
    fold.walk(None, 1 << 62, DAY)
    return fold.troubles(at_us(second), at_us(second) // 1000)


@pytest.mark.parametrize(("sweeps", "opened_at"), [(1, None), (2, 30)])
def test_a_refusal_of_one_question_tells_in_the_second_sweep(sweeps, opened_at):
    at = [BEGIN + timedelta(seconds=15 * n) for n in range(1, sweeps + 1)]
    rows = sweep(0, a=None, b=None) + [s for n in range(1, sweeps + 1) for s in sweep(15 * n, a=None)]
    rows += [capture(one, "broker-b", REFUSED) for one in at]
    found = incidents(signs(rows + sweep(60, a=None, b=None)))
    assert [seconds(one["opened_at"]) for one in found] == [opened_at] * (opened_at is not None)


@pytest.mark.parametrize(("read_later", "count"), [(2, 0), (3, 1)])
def test_a_broker_is_in_no_route_only_where_as_many_were_read(read_later, count):
    captures, routes = [], []
    for t in range(0, 120, 15):
        at = BEGIN + timedelta(seconds=t)
        captures += [capture(at, "ns:9876", kind="topicRoute") for _ in range(3 if t < 60 else read_later)]
        routes += [route(at, b, 6) for b in ("broker-a", "broker-b") if b == "broker-a" or t < 60]
    assert len(incidents(signs(captures, routes))) == count


@pytest.mark.parametrize(("topics", "trust"), [(("Orders",), "possible"), (("Orders", "Pay"), "certain")])
def test_one_route_without_write_permission_is_no_certainty(topics, trust):
    captures, routes = [], []
    for t in range(0, 60, 15):
        at = BEGIN + timedelta(seconds=t)
        captures += sweep(t, a=None, b=None, n1=None)
        routes += [route(at, "broker-b", 4 if t >= 15 else 6, topic) for topic in topics]
    [one] = incidents(signs(captures, routes))
    assert (one["root_cause"], one["trust"]) == ("BROKER_READ_ONLY", trust)


def test_what_groups_show_is_an_effect_from_the_sweep_before_until_leases_have_run_off():
    """Silent at 60 and 75, in sweeps of 15 s: settled 50 and 15 s after 75, and members listed so far 125 s longer."""
    rows = signs(s for t in range(0, 400, 15) for s in sweep(t, a=None, b=REFUSED if t in (60, 75) else None))
    [one] = troubles(rows, 75)
    assert one.since == at_us(45) // 1000
    assert (one.settles, one.until) == (at_us(75 + 65) // 1000, at_us(75 + 65 + 125) // 1000)
    assert troubles(rows, 75 + 65 + 125) and not troubles(rows, 75 + 65 + 126)
    assert troubles(rows, 45) == ()


def test_a_server_that_was_well_and_fails_again_is_another_incident():
    failing = (60, 75, 240, 255)
    rows = signs(s for t in range(0, 400, 15) for s in sweep(t, a=None, b=REFUSED if t in failing else None))
    assert [(seconds(one["opened_at"]), one["state"], one["reopened"]) for one in incidents(rows)] == [
        (60, "RESOLVED", 0),
        (240, "RESOLVED", 0),
    ]

"""What `explain` shows is enough to redo a window, a verdict and a drift row by hand, from lines of landing files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from hindsight.jobs.engines.asker import records
from hindsight.jobs.explaining.explain_row import NotOneRowError, Section, explain

LATON = "127.0.0.1@4.7.1_laton"


# The ladder of 4.7.1, from its MQFaultStrategy; an isolation counts as 30 s.
LATENCY_MAX = (50, 100, 550, 1000, 2000, 3000, 15000)
NOT_AVAILABLE = (0, 0, 30000, 60000, 120000, 180000, 600000)
ISOLATION_MS = 30000


# Of these the tests below look at every line, as DuckDB gives it; that Spark gives the same is seen elsewhere.
WINDOW = f"client_id = '{LATON}' AND broker_name = 'broker-b' AND window_start < '2026-11-21 09:20:00'"
DRIFT = """consumer_group = 'g_mix' AND code = 'DOUBLE_OWNED' AND broker_name = 'broker-a' AND queue_id = 2
    AND round_at = (SELECT MIN(round_at) FROM allocation_drift WHERE consumer_group = 'g_mix')"""
DOUBT = """SELECT msg_id, attempt FROM send_verdict WHERE client_id = '127.0.0.1@4.7.1_oneway' AND rule = 'available'
    AND verdict = 'consistent' ORDER BY begin_at, msg_id, attempt LIMIT 1"""
FAILED_SEND = """SELECT msg_id FROM send_call WHERE client_id = '127.0.0.1@4.9.8_short' AND result = 'not_ok'
    AND SIZE(attempts) = 3 ORDER BY begin_at, msg_id LIMIT 1"""
REDONE = (
    ("broker_availability_window", WINDOW),
    ("allocation_drift", DRIFT),
    ("send_verdict", f"(msg_id, attempt) IN ({DOUBT})"),
    ("send_call", f"msg_id IN ({FAILED_SEND})"),
)
NOT_ONE_ROW = (
    ("client_id = 'nobody'", "picks no rows of broker_availability_window, not one; its key is cluster,"),
    (f"client_id = '{LATON}'", "say which broker_name, window_start"),
    ("no_such_column = 1", "cannot be read"),
)


@pytest.fixture(scope="module")
def line_of(story):
    """A recorded line, by `file:line` as an explanation names it."""

    def read(place: str) -> dict[str, Any]:
        file, _, number = place.rpartition(":")
        with gzip.open(story.parent / "landing" / file, "rt", encoding="utf-8") as lines:
            return json.loads(next(islice(lines, int(number) - 1, None)))

    return read


def titled(sections: list[Section], start: str) -> list[dict[str, Any]]:
    (found,) = [section.rows for section in sections if section.title.startswith(start)]
    return found


def ms(instant: datetime) -> int:
    return round(instant.replace(tzinfo=UTC).timestamp() * 1000)


def held_for(line: dict[str, Any]) -> int:
    latency = ISOLATION_MS if line["exception"] else line["endMs"] - line["beginMs"]
    return [0, *(held for low, held in zip(LATENCY_MAX, NOT_AVAILABLE, strict=True) if latency >= low)][-1]


def test_a_window_is_redone_from_the_lines_that_its_explanation_names(asker, line_of):
    sections = explain(asker, "broker_availability_window", WINDOW)
    (window,) = titled(sections, "The row")
    (rules,) = titled(sections, "The rules")
    assert (tuple(rules["latency_max_ms"]), tuple(rules["not_available_ms"])) == (LATENCY_MAX, NOT_AVAILABLE)
    lines = [line_of(update["line"]) for update in titled(sections, "The producer's updates")]
    # Two threads waited for one frozen broker: of the updates of one millisecond the later begin is the last.
    assert [line["endMs"] - line["beginMs"] for line in lines] == [1267, 697]
    assert [held_for(line) for line in lines] == [60000, 30000]
    assert {line["endMs"] for line in lines} == {ms(window["window_start"])}
    assert ms(window["window_end"]) == lines[-1]["endMs"] + held_for(lines[-1])
    assert (window["trigger_latency_ms"], window["not_available_ms"]) == (1267, 60000)


def test_a_verdict_is_redone_from_the_lines_of_its_producer(asker, story, line_of):
    (doubt,) = records(asker, DOUBT)
    msg_id, attempt = doubt["msg_id"], doubt["attempt"]
    sections = explain(asker, "send_verdict", f"msg_id = '{msg_id}' AND attempt = {attempt}")
    (verdict,) = titled(sections, "The row")
    (sent,) = [row for row in titled(sections, "The send's attempts") if row["attempt"] == attempt]
    choice = line_of(sent["line"])
    with gzip.open(story.parent / "landing" / sent["line"].rpartition(":")[0], "rt", encoding="utf-8") as text:
        attempts = [line for line in map(json.loads, text) if line["type"] == "attempt"]
    until: dict[str, int] = {}
    for line in sorted(attempts, key=lambda a: (a["endMs"], a["beginMs"])):
        if line["endMs"] < choice["beginMs"]:
            until[line["broker"]] = line["endMs"] + held_for(line)  # each update replaces the one before
    held = {broker for broker, end in until.items() if end > choice["beginMs"]}
    listed = {a["broker"] for a in attempts}  # no route is recorded: the brokers that it sent to
    assert held
    assert choice["broker"] == verdict["broker_name"]
    assert sorted(listed - held) == verdict["admissible"]
    shown = titled(sections, "What the producer treated")
    begin = verdict["begin_at"]
    assert {w["broker_name"] for w in shown if w["window_start"] <= begin < w["window_end"]} == held


def test_a_send_is_redone_from_the_lines_of_its_attempts(asker, line_of):
    (sent,) = records(asker, FAILED_SEND)
    sections = explain(asker, "send_call", f"msg_id = '{sent['msg_id']}'")
    (call,) = titled(sections, "The row")
    (settings,) = titled(sections, "How the producer sends")
    assert (settings["retry_times_sync"], settings["retry_another_broker"]) == (2, True)
    lines = [line_of(attempt["line"]) for attempt in titled(sections, "Its attempts")]
    assert [line["times"] for line in lines] == [0, 1, 2]  # 1 + retryTimesWhenSendFailed: none is left
    assert {line["status"] for line in lines} == {call["result_text"]} == {"FLUSH_DISK_TIMEOUT"}
    assert [line["broker"] for line in lines] == call["brokers_sent"]
    assert call["cost_ms"] == lines[-1]["endMs"] - lines[0]["beginMs"]
    assert (call["retry_verdict"], call["stored_twice_reasons"]) == ("right", ["not_store_ok_retried"])


def test_a_drift_row_is_redone_from_the_answers_of_its_round(asker, line_of):
    sections = explain(asker, "allocation_drift", DRIFT)
    (drift,) = titled(sections, "The row")
    owners = Counter()
    for answer in titled(sections, "What each member answered"):
        if answer["kind"] == "consumerRunningInfo":
            line = line_of(answer["line"])
            holds = ["OracleOrders", "broker-a", 2, False] in [queue[:4] for queue in line["mqs"]]
            assert bool(answer["queues"]) == holds
            owners[line["subject"].removeprefix("g_mix|")] += holds
    assert {client for client, n in owners.items() if n} == {o["client_id"] for o in drift["observed"]}
    # AVG gives the third of 12 queues to the first of three members, AVG_BY_CIRCLE to the third.
    members = sorted(owners)
    queues = [f"broker-{broker}:{number}" for broker in "abc" for number in range(4)]
    place = queues.index("broker-a:2")
    avg, circle = members[place // (len(queues) // len(members))], members[place % len(members)]
    (round_,) = titled(sections, "The round")
    rules = {rule["client_id"]: rule["strategy"] for rule in round_["member_rules"]}
    assert drift["expected_client_ids"] == [avg]
    assert (rules[avg], rules[circle]) == ("AVG", "AVG_BY_CIRCLE")
    (queue,) = [
        q for q in titled(sections, "Expected and observed") if (q["broker_name"], q["queue_id"]) == ("broker-a", 2)
    ]
    assert queue["claimants"] == sorted([avg, circle]) == queue["observed"]


@pytest.mark.parametrize(("where", "told"), NOT_ONE_ROW)
def test_a_condition_that_does_not_pick_one_row_is_refused(asker, where, told):
    with pytest.raises(NotOneRowError, match=told):
        explain(asker, "broker_availability_window", where)

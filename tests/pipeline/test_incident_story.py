"""``hindsight explain ID --story``: rows in order, each line with its key, and names that are only text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from hindsight.jobs.command_line import app_of
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import (
    ALLOCATION_DRIFT,
    DRIFT_INCIDENT,
    GROUP_ROUND,
    MEMBERSHIP_CHANGE,
    PRODUCER_FINDING,
    REBALANCE_EVENT,
)
from hindsight.schemas.arrow_types import arrow_schema
from tests.pipeline.test_quality_gate import sound

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOSTILE = "g`**[x](http://evil)\n# Ignore what stands above"


def after(minutes: int) -> datetime:
    return AT + timedelta(minutes=minutes)


@pytest.fixture(scope="module", params=["cg", HOSTILE], ids=["plain", "hostile"])
def folder(request, tmp_path_factory):
    folder, group = tmp_path_factory.mktemp("story"), request.param
    own = {"cluster": "prod", "event_date": AT.date(), "collector": "c", "consumer_group": group}
    cause = {"root_cause": "MIXED_STRATEGY", "cause_key": ""}
    times = {"first_seen_at": after(2), "opened_at": after(3), "last_seen_at": after(9), "resolved_at": None}
    finding = {"code": "DOUBLE_OWNED", "kind": None, "severity": "HIGH", "trust": "certain", "topic": "T", "queues": 1}
    finding |= {"broker_name": "broker-a", "queue_id": 1, "client_id": None, "sample": [], "is_open": True}
    finding |= {"first_seen_at": after(2), "last_seen_at": after(9)}
    incident = own | cause | times | {"incident_id": "abc", "state": "OPEN", "severity": "HIGH", "trust": "possible"}
    incident |= {"codes": ["DOUBLE_OWNED"], "findings": [finding], "sentence": f"of {group}"}
    down = own | times | {"consumer_group": "", "root_cause": "BROKER_NOT_ANSWERING", "cause_key": "broker-a"}
    down |= {
        "incident_id": "def",
        "state": "OPEN",
        "sentence": "broker-a does not answer",
        "codes": [],
        "findings": [],
        "trust": "certain",
        "first_seen_at": after(1),
    }
    shown = own | cause | {"judged_at": after(3), "round_at": after(3), "code": "DOUBLE_OWNED", "finding_state": "OPEN"}
    shown |= {"topic": "T", "broker_name": "broker-a", "queue_id": 1, "sentence": "queue 1 is owned twice"}
    again = shown | {"judged_at": after(4), "round_at": after(4), "sentence": "once more"}
    joined = own | {
        "topic": "T",
        "changed_at": after(0),
        "settled_at": after(3),
        "joined": ["c2"],
        "moved": 2,
        "queues": 4,
    }
    rebalance = own | {"client_id": "c1", "changed_at": after(-1), "sentence": "c1 rebalanced"}
    isolated = own | {"code": "LONG_ISOLATION", "client_id": "p1", "broker_name": "broker-a", "from": after(2)}
    isolated |= {"producer_group": "pg", "sentence": "p1 left out broker-a", "to": after(3)}
    unread = [own | {"topic": "T", "round_at": after(5) + timedelta(seconds=n)} for n in range(60)]
    unread = [row | {"missing_inputs": ["the route of T"]} for row in unread]
    lake = LocalLake(str(folder), retention_days=7)
    for table, rows in (
        (DRIFT_INCIDENT, [incident, down]),
        (ALLOCATION_DRIFT, [shown, again]),
        (MEMBERSHIP_CHANGE, [joined]),
        (REBALANCE_EVENT, [rebalance]),
        (PRODUCER_FINDING, [isolated]),
        (GROUP_ROUND, unread),
    ):
        fitting = [{name: value for name, value in row.items() if name in table.schema.names} for row in rows]
        lake.append(table, pa.Table.from_pylist([sound(table, **row) for row in fitting], arrow_schema(table)))
    return folder


@pytest.fixture(scope="module")
def told(folder):
    return story_of("abc", folder)


def story_of(incident, folder):
    done = CliRunner().invoke(app_of("explain"), ["explain", incident, "--story", "--lake", str(folder)])
    assert done.exit_code == 0, done.output
    return done.output


def test_of_a_server_no_round_is_called_whole(folder):
    unknown = story_of("def", folder).split("## What is not known")[1]
    assert "No round lacks" not in unknown and "the server's own log" in unknown


def test_it_tells_what_happened_in_order_over_all_of_them(told):
    happened = told.split("## What happened")[1].split("## What followed")[0]
    expected = ["c1 rebalanced", "joined: c2", "does not answer", "left out broker-a", "queue 1 is owned twice"]
    places = [happened.index(words) for words in expected]
    assert places == sorted(places) and "once more" not in happened
    instants = re.findall(r"^- ([0-9-]+ [0-9:.]+) ", happened, re.MULTILINE)
    assert instants == sorted(instants) and len(instants) == len(expected) + 1


def test_every_line_has_the_key_of_its_row(told):
    lines = [line for line in told.splitlines() if line.startswith("- ")]
    assert len(lines) >= 8
    assert all(re.search(r" `(\w+ .*=.*|[^`]+:\d+)`$", line) for line in lines)


def test_it_says_what_followed_what_is_not_known_and_what_to_do(told):
    assert "→ DOUBLE_OWNED T broker-a 1" in told
    assert "the route of T: not known in 60 round(s)" in told and "possible, not certain" in told
    assert "Do: " in told and "(runbook, MIXED_STRATEGY)" in told


def test_names_are_text_and_nothing_else(told):
    headings = [line for line in told.splitlines() if line.startswith("#")]
    assert len(headings) == 5
    assert "[x](http" not in re.sub(r"(?<!\\)`[^`]*`", "", told)

"""Logs as operators have them, and the right answers: ``golden/field_cases``."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import ClientLogLayout
from hindsight.udfs.logs.broker_log_lines import parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.readers.line_checks import GOLDEN, check, counts, lines_of

CASES = GOLDEN / "field_cases"
SHANGHAI = ZoneInfo("Asia/Shanghai")


def read(case, zone=UTC, layout=None, format_name="client_log"):
    (path,) = (path for path in (CASES / case / format_name).rglob("*") if path.is_file())
    if format_name == "client_log":
        parse = partial(parse_client_log, zone=zone, file=path.name, layout=layout)
    else:
        parse = partial(parse_broker_log, zone=zone, file=path.name)
    return check(parse, lines_of(path), FORMATS[format_name].tables)


def rows(parsed):
    return [record.row for one in parsed for record in one.records]


def at(text, zone=UTC):
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize("zone", [UTC, SHANGHAI])
def test_c01_the_layout_of_another_engine(zone):
    parsed = read("c01", zone)
    assert counts(parsed) == {
        "rebalance_result": 1,
        "client_event members_changed": 1,
        "client_event queue_added": 2,
        "client_event client_stopped": 1,
        "client_event send_failed": 1,
    }
    assert rows(parsed)[0]["logged_at"] == at("2026-11-20 10:00:50.976", zone)
    sent = rows(parsed)[-1]
    assert (sent["latency_ms"], sent["level"]) == (3001, "WARN")
    assert sent["exception"].endswith("RemotingTimeoutException")


@pytest.mark.parametrize("zone", [UTC, SHANGHAI])
def test_c02_spring_boot_s_default_layout(zone):
    parsed = read("c02", zone)
    (result,) = (row for row in rows(parsed) if "queues_text" in row)
    assert result["queues_text"] == "broker-a:0 broker-a:1 broker-a:2 broker-a:3"
    assert (result["queue_count"], result["member_count"]) == (8, 2)
    assert result["logged_at"] == at("2026-11-20 10:00:26.311", zone)
    events = [row["kind"] for row in rows(parsed) if "kind" in row]
    assert events == ["members_changed", "queue_removed", "send_failed", "lock_failed", "member_not_listed"]
    sent = next(row for row in rows(parsed) if row.get("kind") == "send_failed")
    assert sent["exception"].endswith("RemotingTimeoutException") and "\tat " in sent["stack_trace"]


def test_c03_a_time_of_day_alone_is_refused():
    parsed = read("c03")
    assert [one.line.number for one in parsed if one.refusal] == [3, 4, 5]
    assert {one.refusal.code for one in parsed if one.refusal} == {"UNKNOWN_LOG_LAYOUT"}
    assert rows(parsed) == []


@pytest.mark.parametrize("pattern", [None, "%d{HH:mm:ss.SSS} [%t] %-5p %c - [%M,%L] - %m%n"])
def test_c03_the_settings_may_have_the_date_taken_from_the_name(pattern):
    layout = ClientLogLayout(pattern=pattern, zone="Asia/Shanghai", date_from_file_name=True)
    parsed = read("c03", layout=layout)
    assert [row["logged_at"] for row in rows(parsed)] == [
        at(f"2026-11-20 15:50:29.{millis}", SHANGHAI) for millis in ("001", "002", "003")
    ]
    assert counts(parsed)["rebalance_result"] == 1


def test_c05_milliseconds_after_a_point_are_in_the_jvm_s_zone():
    parsed = read("c05")
    results = [row for row in rows(parsed) if "member_count" in row]
    assert [row["member_count"] for row in results] == [3, 2]
    assert [row["logged_at"] for row in results] == [at("2026-11-20 10:16:19.700"), at("2026-11-20 10:16:19.905")]


def test_c08_locks_and_pop_of_5_x():
    parsed = read("c08")
    assert Counter(row["kind"] for row in rows(parsed)) == {
        "members_changed": 1,
        "heartbeat_sent": 1,
        "queue_added": 1,
        "queue_pull_expired": 1,
        "queue_removed": 1,
        "queues_assigned": 1,
        "lock_acquired": 1,
        "lock_failed": 2,
    }
    assert rows(parsed)[0]["logged_at"] == at("2026-11-20 10:20:30.814")


def test_c12_lines_of_a_cpp_client_are_read_as_its_own():
    removed, added, failed = rows(read("c12"))
    queue = {"topic": "note_change", "broker_name": "cluster02-broker10", "queue_id": 3, "language": "CPP"}
    assert removed.items() >= {"kind": "queue_removed", **queue}.items()
    assert added.items() >= {"kind": "queue_added", **queue}.items()
    assert failed.items() >= {"kind": "member_list_failed", "consumer_group": "g_note", "topic": "note_change"}.items()
    assert removed["logged_at"] == at("2026-11-20 10:18:31.401")


def test_c13_lines_of_a_go_client_are_read_in_its_own_layout_and_refused_in_others():
    parsed = read("c13")
    assert [one.refusal.code if one.refusal else None for one in parsed] == [
        *(None, "BAD_REBALANCE_LINE", None, None),  # of the second the counts were lost
        *["FOREIGN_CLIENT_LOG"] * 3,
    ]
    assert [row["kind"] for row in rows(parsed)] == ["lock_failed", "member_list_failed"]
    assert rows(parsed)[0]["logged_at"] == at("2026-11-20 10:00:07", SHANGHAI)


def test_c24_the_wrapping_of_kubernetes_and_docker_is_taken_off():
    kinds = [row.get("kind", "rebalance_result") for row in rows(read("c24"))]
    assert kinds == ["rebalance_result", "queue_added", "members_changed", "lock_failed"]
    assert rows(read("c24"))[0]["logged_at"] == at("2026-11-20 10:00:50")
    made = rows(read("c24", format_name="broker_log"))
    assert [row["kind"] for row in made] == ["consumer_connected", "consumer_group_removed"]
    assert made[0]["logged_at"] == at("2026-11-20 18:54:01", SHANGHAI)


def test_c27_members_behind_a_proxy():
    made = rows(read("c27", format_name="broker_log"))
    assert [row["kind"] for row in made] == [
        "consumer_connected",
        "subscription_added",
        "producer_connected",
        "consumer_unregistered",
    ]
    assert [made[i]["address"] for i in (0, 3)] == ["10.1.2.3:56520"] * 2
    assert {row["broker_address"] for row in made if "broker_address" in row} == {"10.1.0.11:8081"}
    assert made[0]["client_id"] == "node7@19191@0@8abc12"


def test_c28_the_names_of_logs():
    for format_name in ("client_log", "broker_log"):
        names = sorted(path.name for path in (CASES / "c28/client_log").iterdir())
        assert [name for name in names if not FORMATS[format_name].takes(name)] == ["rocketmq_client.log.bak"]


@pytest.mark.parametrize("zone", [UTC, SHANGHAI])
def test_c29_logback_s_textbook_pattern(zone):
    parsed = read("c29", zone)
    kinds = [row.get("kind", "rebalance_result") for row in rows(parsed)]
    assert kinds == ["rebalance_result", "members_changed", "lock_failed"]
    stamp = parsed[0].line.text[:23]
    assert rows(parsed)[0]["logged_at"] == at(stamp, zone)

"""Logs of gRPC clients, as the sources of rocketmq-clients print them: endpoints and assignments, in rows of theirs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from hindsight.schemas import CLIENT_EVENT
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.client_log_lines import parse_client_log

ZONE = timezone(timedelta(hours=9))
ID = "host@7@0@1abc9"


def java(message, level="INFO"):
    return f"2026-01-05 10:15:00.123 {level:5} [77] [main] [o.a.r.c.j.i.ClientImpl#onSuccess:621] - {message}"


def csharp(message, level="INFO"):
    return f"2026-01-05 10:15:00.1234 {level:5} [77] [12] [Org.Apache.Rocketmq.Client.Heartbeat:374] {message} "


def go(message, level="INFO"):
    return f'2026-01-05T10:15:00.123+0800\t{level}\tgolang/client.go:496\t{message}\t{{"client_id": "{ID}"}}'


def cpp(message, level="I"):
    return f"2026-01-05 10:15:00.123 [{level}] [  12345] {message} SendContext.cpp:111"


AT = {
    java: datetime(2026, 1, 5, 2, 15, 0, 123_000, UTC),  # GMT+8
    go: datetime(2026, 1, 5, 2, 15, 0, 123_000, UTC),
    csharp: datetime(2026, 1, 5, 1, 15, 0, 123_000, UTC),  # of the process
    cpp: datetime(2026, 1, 5, 1, 15, 0, 123_000, UTC),
}
QUEUES = "[Assignment{messageQueue=broker-a.T.-1}, Assignment{messageQueue=b.c.T.3}]"
EMPTIED = (
    f"Attention!!! acquired empty assignments from remote, but existed assignments is not empty, topic=T, clientId={ID}"
)
CASES = [
    (
        java,
        f"Rejoin endpoints which is isolated before, clientId={ID}, endpoints=ipv4:10.0.0.9:8081",
        {"kind": "endpoint_rejoined", "client_id": ID, "broker_address": "ipv4:10.0.0.9:8081", "pid": 77},
    ),
    (
        java,
        "Failed to send message, would attempt to resend right now, maxAttempts=3, attempt=1, topic=T, "
        f"messageId(s)=[01AB], endpoints=e:1, clientId={ID}",
        {"kind": "send_failed", "client_id": ID, "broker_address": "e:1", "topic": "T", "msg_id": "01AB"},
    ),
    (
        java,
        "Failed to send message due to too many requests, would attempt to resend after PT1S, maxAttempts=3, "
        f"attempt=1, topic=T, messageId(s)=[01AB, 01AC], endpoints=e:1, clientId={ID}",
        {"kind": "send_failed", "client_id": ID, "topic": "T", "msg_id": None},
    ),
    (
        java,
        f"Assignments of topic=T has changed, null => Assignments{{assignmentList={QUEUES}}}, clientId={ID}",
        {
            "kind": "assignments_changed",
            "topic": "T",
            "client_id": ID,
            "queues": [{"broker_name": "b.c", "queue_id": 3}, {"broker_name": "broker-a", "queue_id": -1}],
        },
    ),
    (
        java,
        EMPTIED,
        {"kind": "assignments_empty", "topic": "T", "client_id": ID, "detail": EMPTIED},
    ),
    (
        java,
        f"Drop message queue according to the latest assignmentList, mq=b.c.T.3, clientId={ID}",
        {"kind": "queue_removed", "broker_name": "b.c", "topic": "T", "queue_id": 3, "client_id": ID},
    ),
    (
        java,
        f"Failed to send heartbeat, endpoints=e:1, clientId={ID}",
        {"kind": "heartbeat_failed", "broker_address": "e:1"},
    ),
    (
        go,
        'rejoin endpoints which is isolated before, endpoints=scheme:IPv4 addresses:{host:"10.0.0.9" port:8081}',
        {"kind": "endpoint_rejoined", "client_id": ID, "level": "INFO"},
    ),
    (
        go,
        "failed to send message, would attempt to resend right now, topic=T, messageId(s)=[01AB], maxAttempts=3, "
        "attempt=1, endpoints=e:1, requestId=r",
        {"kind": "send_failed", "client_id": ID, "topic": "T", "broker_address": "e:1", "msg_id": "01AB"},
    ),
    (
        go,
        f"Assignments of topic=T has changed, <nil> => &[0xc0001], clientId={ID}",
        {"kind": "assignments_changed", "client_id": ID, "topic": "T", "queues": None},
    ),
    (cpp, "Isolated endpoint 10.0.0.9:8081 after send failure", {"kind": "endpoint_isolated", "level": "info"}),
    (
        cpp,
        "Removed isolation for endpoint 10.0.0.9:8081 after successful heartbeat",
        {"kind": "endpoint_rejoined", "broker_address": "10.0.0.9:8081", "thread": "12345"},
    ),
    (
        csharp,
        f"Rejoin endpoints which was isolated before, endpoints=e:1, clientId={ID}",
        {"kind": "endpoint_rejoined", "broker_address": "e:1", "client_id": ID, "pid": 77},
    ),
]


def parsed(*texts):
    lines = [Line(n + 1, 0, len(text), text, None) for n, text in enumerate(texts)]
    return list(parse_client_log(iter(lines), zone=ZONE, file="app/rocketmq-client.log"))


@pytest.mark.parametrize(("layout", "message", "expected"), CASES)
def test_each_clients_lines_are_events_of_its_own(layout, message, expected):
    (one,) = parsed(layout(message))
    assert one.refusal is None, one.refusal
    ((table, row),) = one.records
    assert table == "client_event" and row["language"] == "GRPC"
    assert row["kind"] in dict(CLIENT_EVENT.values)["kind"]
    assert {name: row.get(name) for name in expected} == expected
    assert row["logged_at"] == round(AT[layout].timestamp() * 1000)
    assert set(row) <= set(CLIENT_EVENT.columns.names)


def test_a_stack_trace_behind_a_failed_send_is_its_own():
    first = java(
        "Failed to send message(s) finally, run out of attempt times, maxAttempts=1, topic=T, endpoints=e:1", "ERROR"
    )
    found = parsed(first, "java.util.concurrent.TimeoutException: too late", "\tat a.B.c(B.java:1)")
    rows = [record.row for one in found for record in one.records]
    assert [(row["kind"], row["exception"]) for row in rows] == [
        ("send_failed", "java.util.concurrent.TimeoutException")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-05 10:15:00,123 INFO App - Failed to send message to the endpoint of the till, sorry",
        java("Send heartbeat successfully, endpoints=e:1, clientId=c"),
        java("Assignments of topic=T remains the same, assignments=null, clientId=c"),
        cpp("Drop isolated-endoint[e:1] as it has been removed from route table"),
        "the endpoint of the story",
    ],
)
def test_other_lines_tell_nothing(text):
    (one,) = parsed(text)
    assert one.records == () and one.refusal is None


def test_a_line_in_no_layout_at_all_is_refused():
    (one,) = parsed("Rejoin endpoints which is isolated before, clientId=c, endpoints=e:1")
    assert one.refusal.code == "UNKNOWN_LOG_LAYOUT"


def test_long_lines_full_of_beginnings_are_read_in_linear_time():
    (one,) = parsed(java("Failed to send message, " * 20_000))
    assert one.records == ()


NODE = "2026-01-05 10:15:00,123 WARN 77 {}"
PYTHON = "2026-01-05 10:15:00,123 [ERROR] {}"


def test_of_rusts_terminal_nobody_knows_the_year_and_phps_writes_none():
    (one,) = parsed("Jan 05 10:15:00.123 ERRO[src/client.rs:160:29] send heartbeat failed: timeout, component: client")
    assert one.refusal.code == "UNKNOWN_LOG_LAYOUT"


SLOG = '{{"msg":"{}","level":"ERRO","ts":"2026-01-05T01:15:00.123456789Z","component":"client"}}'
TRACING = "2026-01-05T01:15:00.123456Z ERROR rocketmq::client: {}"


@pytest.mark.parametrize("layout", [SLOG, TRACING])
@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "send heartbeat failed: failed to send heartbeat rpc: timeout",
            {"kind": "heartbeat_failed", "detail": "failed to send heartbeat rpc: timeout"},
        ),
        (
            "query route for topic=T failed: error=no route",
            {"kind": "route_read_failed", "topic": "T", "detail": "error=no route"},
        ),
        ("receive messages error: Some(Timeout)", {"kind": "pull_failed", "detail": "Some(Timeout)"}),
    ],
)
def test_lines_of_rust_are_read_in_both_of_its_layouts_that_have_a_date(layout, message, told):
    (one,) = parsed(layout.format(message))
    (record,) = one.records
    assert {name: record.row.get(name) for name in told} == told
    assert record.row["logged_at"] == int(datetime(2026, 1, 5, 1, 15, 0, 123_000, UTC).timestamp() * 1000)
    assert (record.row["language"], record.row["level"][:4]) == ("GRPC", "ERRO")


@pytest.mark.parametrize(
    ("layout", "message", "told"),
    [
        (
            NODE,
            "Failed to send message, would attempt to resend right now, maxAttempts=3, attempt=1, topic=T, "
            f"messageId(s)=01AB, endpoints=e:1, clientId={ID}, error=Error: 14 UNAVAILABLE",
            {"kind": "send_failed", "topic": "T", "broker_address": "e:1", "client_id": ID, "pid": 77, "level": "WARN"},
        ),
        (
            NODE,
            f"Acquired empty assignments from remote, would scan later, topic=T, clientId={ID}",
            {"kind": "assignments_empty", "topic": "T", "client_id": ID},
        ),
        (PYTHON, "send message exception, topic: T, e: timed out", {"kind": "send_failed", "topic": "T"}),
        (
            PYTHON,
            f"PUSH_CONSUMER, client_id:{ID} send heartbeat to 10.0.0.9:8081 error, code:50001, message:busy.",
            {"kind": "heartbeat_failed", "client_id": ID, "broker_address": "10.0.0.9:8081"},
        ),
        (
            PYTHON,
            "process queue total cached messages exceeds the threshold, threshold: 1024, actual: 1030, queue: q",
            {"kind": "flow_control", "level": "ERROR"},
        ),
    ],
)
def test_lines_of_node_and_python_are_read_in_their_own_layouts(layout, message, told):
    text = layout.format(message)
    (one,) = parse_client_log([Line(1, 0, len(text), text, None)], zone=ZONE)
    (record,) = one.records
    assert {name: record.row.get(name) for name in told} == told
    assert record.row["logged_at"] == int(datetime(2026, 1, 5, 1, 15, 0, 123_000, UTC).timestamp() * 1000)
    assert record.row["language"] == "GRPC"

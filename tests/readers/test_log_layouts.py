"""Heads of layouts that people have, made up and at random: a wanted line is read or refused, never ignored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.readers.test_log_templates import BROKER, CLIENT, filled

ZONE = ZoneInfo("America/New_York")
GMT8 = timezone(timedelta(hours=8))
WANTED = {
    "client_log": sorted(filled(text, slots) for text, (_, slots) in CLIENT.items()),
    "broker_log": sorted(filled(text, slots) for text, (_, slots) in BROKER.items()),
}
MESSAGE = "doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=3]"
LOCAL = datetime(2026, 11, 20, 10, 0, 26, 213000)


def parse(*texts, format_name="client_log"):
    lines = [Line(i, 0, len(t), t, None) for i, t in enumerate(texts, 1)]
    return list(PARSERS[format_name](lines, ZONE, LandedFile("a/b.log")))


def row(text):
    (one,) = parse(text)
    assert one.refusal is None, one.refusal
    return one.records[0].row


@pytest.mark.parametrize(
    ("head", "zone"),
    [
        ("2026-11-20 10:00:26.213  INFO 15752 --- [ebalanceService] RocketmqClient                           : ", ZONE),
        ("2026-11-20T10:00:26.213+08:00  INFO 15752 --- [app] [ebalanceService] o.a.r.c.i.c.RebalanceImpl : ", GMT8),
        ("2026-11-20T10:00:26.213Z  INFO 15752 --- [ebalanceService] RocketmqClient : ", UTC),
        ("2026-11-20 10:00:26.213 [RebalanceService] INFO  RocketmqClient - ", ZONE),
        ("2026-11-20 10:00:26,213 [RebalanceService] INFO RocketmqClient - ", ZONE),
        ("2026-11-20 10:00:26,213 INFO [RebalanceService] RocketmqClient - ", ZONE),
        ("2026-11-20T10:00:26,213 [RebalanceService] INFO  o.a.r.Foo - ", ZONE),
        ("INFO  2026-11-20 10:00:26,213 [RebalanceService] RocketmqClient - ", ZONE),
        ("[INFO ] 2026-11-20 10:00:26.213 [RebalanceService] RocketmqClient - ", ZONE),
        ("[2026-11-20 10:00:26.213] [RebalanceService] [INFO] [RocketmqClient] ", ZONE),
        ("[2026-11-20 10:00:26:213][INFO ][RebalanceService]", ZONE),
        ("2026-11-20 10:00:26.213|INFO|RebalanceService|RocketmqClient|", ZONE),
        ("2026-11-20 10:00:26.213 | INFO | 15752 | RebalanceService | RocketmqClient | ", ZONE),
        ("[1031178795459018753] 2026-11-20 10:00:26,213 INFO  [RocketmqClient                ] [Rebalance] - ", ZONE),
        ("app-1  | 2026-11-20 10:00:26.213 [main] INFO RocketmqClient - ", ZONE),
        ("2026-11-20T02:00:26.213999Z 2026-11-20 10:00:26,213 INFO RocketmqClient - ", ZONE),
        ("20-Nov-2026 10:00:26.213 INFO [main] org.apache.rocketmq.Foo.bar ", ZONE),
        ("20 Nov 2026 10:00:26,213 [main] INFO RocketmqClient - ", ZONE),
        ("2026/11/20 10:00:26.213 INFO RebalanceService o.a.r.c.RebalanceImpl ", ZONE),
        ("20261120 10:00:26.213 INFO RocketmqClient: ", ZONE),
        ("2026-11-20 10:00:26.213 +0800 INFO [main] RocketmqClient - ", GMT8),
        ("2026-11-20 10:00:26.213 UTC INFO [main] RocketmqClient - ", UTC),
        ("2026-11-20 10:00:26.213 INFO  [7] [main] [RocketmqClient] - ", ZONE),
        ("2026-11-20 10:00:26.213 [a - b] [trace=1,span=2] WARN c.e.Foo(Foo.java:12) - [warn,120] - ", ZONE),
        (
            "\x1b[2m2026-11-20 10:00:26.213\x1b[0;39m \x1b[32m INFO\x1b[0;39m 7 --- [t] \x1b[36mRocketmq\x1b[0;39m : ",
            ZONE,
        ),
        ("2026-11-20 10:00:26.213 INFO  [7] [t] [o.a.r.c.i.consumer.RebalanceImpl#?:?] - ", GMT8),
        ("app | 2026-11-20 10:00:26.213 INFO  [7] [t] [o.a.r.c.i.consumer.RebalanceImpl#?:?] - ", GMT8),
    ],
    ids=lambda v: v[:60] if isinstance(v, str) else None,
)
def test_the_head_of_a_layout_that_people_have_is_read(head, zone):
    made = row(head + MESSAGE)
    assert made["logged_at"] == LOCAL.replace(tzinfo=zone).timestamp() * 1000
    assert (made["kind"], made["text"], made["resolution_ms"]) == ("queue_added", MESSAGE, 1)
    assert made["level"] in ("INFO", "WARN")


def test_whole_seconds_are_gmt_8_only_in_rocketmq_s_own_layout():
    local = LOCAL.replace(microsecond=0)
    for head, zone in (
        ("2026-11-20 10:00:26 INFO RebalanceService - ", GMT8),
        ("2026-11-20 10:00:26 INFO  [RebalanceService] RocketmqClient - ", ZONE),
        ("2026-11-20 10:00:26 [RebalanceService] INFO  RocketmqClient - ", ZONE),
    ):
        made = row(head + MESSAGE)
        assert (made["logged_at"], made["resolution_ms"]) == (local.replace(tzinfo=zone).timestamp() * 1000, 1000)


@pytest.mark.parametrize(
    "head",
    [
        "",
        "INFO RocketmqClient - ",
        "10:00:26.213 [main] INFO RocketmqClient - ",
        "2026-11-20 10:00:26.213 RocketmqClient - ",  # no level
        "2026-11-20 10:00:26.213 CST INFO RocketmqClient - ",  # China, or Chicago
        "2026-11-20 10:00:26.213 INFO c.e.Foo - somebody wrote ",
        '2026-11-20 10:00:26.213 INFO c.e.Foo - they said "',
        '{"@timestamp":"2026-11-20T10:00:26.213Z","level":"INFO","message":"',
        "2026-11-20 10:00:26.213 INFO RocketmqClient - " + "x" * 3000 + " - ",
    ],
    ids=lambda v: v[:40],
)
def test_what_cannot_be_dated_or_is_a_quotation_is_refused(head):
    (one,) = parse(head + MESSAGE)
    assert one.refusal.code == "UNKNOWN_LOG_LAYOUT"


@pytest.mark.parametrize(
    "stamp", ["2026-13-41 10:00:26.213", "2026-11-20 25:00:26.213", "2026-11-20T10:00:26.213+99:00"]
)
def test_a_stamp_of_no_instant_is_refused(stamp):
    (one,) = parse(f"{stamp} [main] INFO RocketmqClient - {MESSAGE}")
    assert one.refusal.code == "BAD_TIMESTAMP"


@pytest.mark.parametrize(
    "line",
    [
        "\tat com.example.Foo.bar(Foo.java:1) " + MESSAGE,
        "Caused by: java.lang.IllegalStateException: " + MESSAGE,
        "com.example.SomethingException: " + MESSAGE,
        '\tSuppressed: java.lang.Error: "' + MESSAGE,
        'Exception in thread "main" java.lang.RuntimeException: ' + MESSAGE,
    ],
)
def test_what_a_stack_trace_quotes_is_no_message(line):
    assert [(one.records, one.refusal) for one in parse(line)] == [((), None)]
    failed = "2026-11-20 10:00:26.213  INFO 7 --- [t] RocketmqClient : rebalanceByTopic Exception"
    first, second = parse(failed, line)
    assert (second.records, second.refusal) == ((), None)
    assert MESSAGE in first.records[0].row["stack_trace"]


def test_a_record_of_any_layout_ends_the_stack_trace_before_it():
    for head in ("2026-11-20 10:00:26.213  INFO 7 --- [t] c.e.Foo : ", "[7] 2026-11-20 10:00:26,213 INFO [c] [t] - "):
        first, *_ = parse(
            head + "rebalanceByTopic Exception", "", "java.lang.Error: x", "\tat a.b(C.java:1)", head + "hi"
        )
        assert first.records[0].row["stack_trace"] == "java.lang.Error: x\n\tat a.b(C.java:1)"
        assert first.records[0].row["exception"] == "java.lang.Error"


_ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), max_size=60)
_WORDS = st.sampled_from(
    [
        *("2026-11-20", "10:00:26.213", "10:00:26,213", "T", "Z", "+08:00", " ", "  ", "\t", "INFO", "WARN", "info"),
        *("[main]", "[7]", "---", " - ", ": ", "|", "RocketmqClient", "o.a.r.Foo", "{", "}", '"', "time=", "level="),
        *(
            "stdout F ",
            "Nov 20 10:00:50 host app[7]: ",
            "\x1b[32m",
            "%PARSER_ERROR[",
            "doRebalance, ",
            "Message [topic=",
        ),
        *("2026-11-20T10:00:50.844168954Z stdout F ", "the topic[", " will be isolated for ", "x" * 50),
    ]
)
_HEADS = _ANY | st.lists(_WORDS | _ANY, max_size=12).map("".join)


def _wrapped(text):
    return st.sampled_from(
        [
            text,
            json.dumps({"log": text + "\n", "stream": "stdout", "time": "2026-11-20T10:54:01.1Z"}),
            "2026-11-20T10:00:50.844168954Z stderr F " + text,
            json.dumps({"MESSAGE": text, "PRIORITY": "6"}),
            "Nov 20 10:00:50 host app[7]: " + text,
        ]
    )


@pytest.mark.parametrize("format_name", WANTED)
@given(data=st.data())
def test_no_wanted_message_is_ignored_whatever_stands_before_it(format_name, data):
    message = data.draw(st.sampled_from(WANTED[format_name]))
    head = data.draw(_HEADS)
    line = data.draw(_wrapped(head + message))
    (one,) = parse(line, format_name=format_name)
    quoted = head.lstrip().startswith(("at ", "...", "Caused by", "Suppressed", "Wrapped by", "Exception in"))
    is_name = message.startswith(("T Rebalance", "b ", "b is")) and head and not head.endswith(" ")
    assert one.records or one.refusal or quoted or "Exception" in head or "Error" in head or is_name
    if one.refusal:
        assert one.refusal.code in {
            *("UNKNOWN_LOG_LAYOUT", "BAD_TIMESTAMP", "BAD_EVENT_LINE", "BAD_REBALANCE_LINE", "FOREIGN_CLIENT_LOG"),
            "OUT_OF_RANGE",
            "WRONG_TYPE",
            "TIMESTAMP_OUT_OF_RANGE",
        }


@pytest.mark.parametrize(
    "hostile",
    [
        *("2026-11-20 10:00:26.213 " * 4_000, "INFO " * 20_000, " - " * 30_000, "[" * 90_000, "doRebalance, " * 8_000),
        *(
            "the topic[" * 9_000,
            " will be isolated for " * 4_000,
            "x" * 90_000 + " is unreachable, it ",
            "\x1b[3m" * 20_000,
        ),
        *("2026-11-20T10:00:50Z stdout P " * 3_000, "Nov 20 10:00:50 " + "h" * 90_000, "java.lang." * 9_000),
    ],
    ids=lambda v: v[:16],
)
@pytest.mark.parametrize("format_name", WANTED)
def test_time_is_linear_in_the_length_of_a_head(format_name, hostile):
    began = process_time()
    for message in WANTED[format_name][:8]:
        parse(hostile + message, format_name=format_name)
    assert process_time() - began < 1.0

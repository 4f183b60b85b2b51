"""What collects logs wraps their lines: what is inside is read as if nothing had, each physical line counted once."""

from __future__ import annotations

import json
from datetime import UTC
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.broker_log_lines import parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from hindsight.udfs.logs.log_wrappers import unwrap
from hindsight.udfs.logs.structured_lines import plain_line
from tests.readers.line_checks import check
from tests.readers.test_log_templates import BROKER, CLIENT, filled
from tests.readers.test_structured_lines import ecs, gelf, logstash, nested_ecs, quarkus

QUEUES = ", ".join(f"MessageQueue [topic=T, brokerName=broker-{i:04}, queueId=0]" for i in range(600))
LONG = (
    "2026-11-20 10:00:50,051 INFO RocketmqClient - rebalanced result changed. allocateMessageQueueStrategyName=AVG, "
    f"group=g, topic=T, clientId=c@1, mqAllSize=600, cidAllSize=1, "
    f"rebalanceResultSize=600, rebalanceResultSet=[{QUEUES}]"
)
FAILED = [
    "2026-11-20 10:00:50,051 WARN RocketmqClient - rebalanceByTopic Exception",
    "java.lang.Error: x",
    "\tat a.B(C.java:1)",
]
BROKER_LINE = "2026-11-20 18:54:01 INFO t_1 - unregister consumer ok, no any connection, and remove consumer group, g"
DOCKER_CUTS_AT = 16 * 1024


def docker(text, stream="stdout"):
    pieces = [text[i : i + DOCKER_CUTS_AT] for i in range(0, len(text), DOCKER_CUTS_AT)] or [""]
    pieces[-1] += "\n"
    return [json.dumps({"log": piece, "stream": stream, "time": "2020-01-01T00:00:00.1Z"}) for piece in pieces]


def cri(text, stream="stdout", size=8192):
    pieces = [text[i : i + size] for i in range(0, len(text), size)] or [""]
    marks = ["P"] * (len(pieces) - 1) + ["F"]
    return [f"2020-01-01T00:00:00.844168954Z {stream} {m} {piece}" for m, piece in zip(marks, pieces, strict=True)]


WRAPPERS = {
    "docker": docker,
    "cri": cri,
    "journald json": lambda text: [json.dumps({"__REALTIME_TIMESTAMP": "1577836800000000", "MESSAGE": text})],
    "journald bytes": lambda text: [json.dumps({"MESSAGE": list(text.encode())})],
    "journald": lambda text: [f"Jan 01 00:00:00 host app[7]: {text}"],
    "journald precise": lambda text: [f"2020-01-01T00:00:00.123456+0000 host app[7]: {text}"],
    "syslog": lambda text: [f"<14>Jan  1 00:00:00 host app: {text}"],
}


def parse(texts, format_name="client_log"):
    parser = parse_client_log if format_name == "client_log" else parse_broker_log
    lines = [Line(i, 0, len(t), t, None) for i, t in enumerate(texts, 1)]
    return check(partial(parser, zone=UTC, file="a/broker-a.log"), lines, FORMATS[format_name].tables)


def rows(parsed):
    return [record.row for one in parsed for record in one.records]


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_wrapped_reads_as_if_nothing_were(name):
    wrap = WRAPPERS[name]
    for texts, format_name in (([*FAILED, LONG[:200], FAILED[0]], "client_log"), ([BROKER_LINE, "x"], "broker_log")):
        wrapped = [entry for text in texts for entry in wrap(text)]
        assert len(wrapped) == len(texts)
        plain, inside = parse(texts, format_name), parse(wrapped, format_name)
        assert rows(inside) == rows(plain)
        assert [one.refusal and one.refusal.code for one in inside] == [
            one.refusal and one.refusal.code for one in plain
        ]


@pytest.mark.parametrize("wrap", [docker, cri])
def test_a_line_in_several_entries_is_one(wrap):
    entries = wrap(LONG)
    assert len(entries) > 2
    parsed = parse([*wrap(FAILED[0]), *entries, *wrap(FAILED[0])])
    assert rows(parsed)[1] == rows(parse([LONG]))[0]
    assert [len(one.records) for one in parsed] == [1, *[0] * (len(entries) - 1), 1, 1]


def test_entries_of_two_streams_lie_between_each_other():
    first, *rest = cri(LONG)
    other = cri(FAILED[0], stream="stderr")
    lines = [Line(i, 0, 9, t, None) for i, t in enumerate([first, *other, *rest], 1)]
    parsed = list(parse_client_log(lines, zone=UTC))
    assert sorted(one.line.number for one in parsed) == [line.number for line in lines]
    assert {len(row.get("queues", [])) for row in rows(parsed)} == {0, 600}


@pytest.mark.parametrize("wrap", [docker, cri])
def test_a_line_whose_end_never_came_is_refused(wrap):
    entries = wrap(LONG)[:-1]
    parsed = parse(entries)
    assert [one.refusal and one.refusal.code for one in parsed] == [*[None] * (len(entries) - 1), "BAD_REBALANCE_LINE"]


def test_entries_without_line_ends_are_lines_of_their_own():
    entries = [json.dumps({"log": FAILED[0], "stream": "stdout"})] * 2
    assert len(rows(parse(entries))) == 2


def test_the_stamp_of_the_wrapping_dates_nothing():
    for wrap in WRAPPERS.values():
        (refused,) = [one.refusal for one in parse(wrap("10:00:50.051 [t] INFO c - rebalanceByTopic Exception"))]
        assert refused.code == "UNKNOWN_LOG_LAYOUT"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T10:00:26.213+08:00  INFO 15752 --- [app] [t] RocketmqClient : x: y",
        "2026-11-20T10:00:26.213+08:00 ERROR 15752 --- [app] [t] RocketmqClient : x: y",
        "2026-11-20T10:00:26Z INFO RocketmqClient: x",
        "2026-11-20T10:00:26.213Z 2026-11-20 10:00:26,213 INFO RocketmqClient - x",
        '{"message": "x", "level": "INFO"}',
        "{1=2}",
        "[]",
        "",
    ],
)
def test_what_wraps_nothing_is_left_as_it_is(text):
    assert unwrap(text) is None


@given(st.sampled_from(sorted(WRAPPERS)), st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r")))
def test_any_text_comes_out_as_it_went_in(name, text):
    (entry,) = WRAPPERS[name](text)
    assert unwrap(entry).text == text


@given(st.data())
def test_no_wanted_message_is_lost_where_an_entry_is_cut(data):
    format_name, texts = data.draw(st.sampled_from([("client_log", CLIENT), ("broker_log", BROKER)]))
    message = filled(*data.draw(st.sampled_from([(text, slots) for text, (_, slots) in sorted(texts.items())])))
    entries = cri(f"2026-11-20 10:00:50 INFO t - {message}", size=data.draw(st.integers(1, 60)))
    kept = entries[: data.draw(st.integers(1, len(entries)))] if data.draw(st.booleans()) else entries
    parsed = parse(kept, format_name)
    if kept == entries:
        assert parsed[-1].records and not any(one.records or one.refusal for one in parsed[:-1])


GIVEN_UP = "org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException: sendDefaultImpl call timeout"
THROWN = "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 25 DESC: not latest\n\tat a.B(C.java:1)"


@pytest.mark.parametrize("outer", [lambda text: [text], docker, cri])
@pytest.mark.parametrize("layout", [logstash, ecs, nested_ecs, gelf, quarkus])
def test_what_a_logger_wrote_as_json_reads_as_what_its_pattern_would_have_written(layout, outer):
    told = [
        ("rebalanceByTopic Exception", THROWN),
        (LONG.partition(" - ")[2], None),
        ("send error", f"{GIVEN_UP}\n\tat a.B(C.java:1)\n"),
        ("nothing that is wanted", None),
        ("execute the pull request exception", THROWN),
    ]
    written = [json.dumps(layout(message, trace)) for message, trace in told]
    plain = [line for text in written for line in plain_line(text).split("\n")]
    inside = [entry for text in written for entry in outer(text)]
    assert rows(parse(inside)) == rows(parse(plain))
    kinds = [row.get("kind") for row in rows(parse(inside))]
    assert kinds == ["rebalance_failed", None, "send_given_up", "pull_failed"]
    assert [row.get("response_code") for row in rows(parse(inside))] == [25, None, None, 25]


def test_a_broker_s_line_may_be_json_too():
    told = logstash(BROKER_LINE.partition(" - ")[2], THROWN)
    (row,) = rows(parse([json.dumps(told)], "broker_log"))
    (plain,) = rows(parse([plain_line(json.dumps(told)).split("\n")[0]], "broker_log"))
    assert row == plain

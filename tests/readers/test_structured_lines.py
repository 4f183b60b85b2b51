"""Lines that loggers write as JSON: read as the lines that a pattern would have made of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.logs.structured_lines import plain_line

AT = "2026-01-05T10:15:00.123Z"
MESSAGE = "doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=3]"
THREAD, LOGGER = "RebalanceService", "RocketmqClient"
TRACE = 'java.lang.IllegalStateException: no "stock"\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: x\n'


def logstash(message, trace=None):
    told = {"@timestamp": AT, "@version": "1", "message": message, "logger_name": LOGGER, "thread_name": THREAD}
    return {**told, "level": "INFO", "level_value": 20000, **({"stack_trace": trace} if trace else {})}


def ecs(message, trace=None):
    told = {"@timestamp": AT, "log.level": "INFO", "process.pid": 7, "process.thread.name": THREAD, "message": message}
    return {**told, "log.logger": LOGGER, "ecs.version": "8.11", **({"error.stack_trace": trace} if trace else {})}


def nested_ecs(message, trace=None):
    told = {"@timestamp": AT, "log": {"level": "INFO", "logger": LOGGER}, "process": {"thread": {"name": THREAD}}}
    return {**told, "message": message, **({"error": {"type": "x", "stack_trace": trace}} if trace else {})}


def gelf(message, trace=None):
    told = {"version": "1.1", "short_message": message, "timestamp": 1767608100.123, "level": 6, "_level_name": "INFO"}
    told |= {"host": "h", "_process_thread_name": THREAD, "_log_logger": LOGGER}
    return {**told, **({"full_message": f"{message}\n\n{trace}", "_error_stack_trace": trace} if trace else {})}


def log4j2(message, trace=None):
    told = {"instant": {"epochSecond": 1767608100, "nanoOfSecond": 123000000}, "thread": THREAD, "level": "INFO"}
    thrown = {"thrown": _as_object("name")} if trace else {}
    return {**told, "loggerName": LOGGER, "message": message, "endOfBatch": False, **thrown}


def logback(message, trace=None):
    told = {"sequenceNumber": 0, "timestamp": 1767608100123, "nanoseconds": 123000000, "level": "INFO"}
    told |= {"threadName": THREAD, "loggerName": LOGGER, "message": "{}", "formattedMessage": message}
    return {**told, **({"throwable": _as_object("className")} if trace else {})}


def quarkus(message, trace=None):
    told = {"timestamp": "2026-01-05T18:15:00.123+08:00", "sequence": 1, "loggerName": LOGGER, "level": "INFO"}
    return {**told, "message": message, "threadName": THREAD, **({"stackTrace": trace} if trace else {})}


def _as_object(name):
    cause = {name: "java.io.IOException", "message": "x"}
    return {name: "java.lang.IllegalStateException", "message": 'no "stock"', "cause": cause}


LAYOUTS = [logstash, ecs, nested_ecs, gelf, log4j2, logback, quarkus]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_is_what_a_pattern_would_have_made_of_it(layout):
    at = AT if layout is not quarkus else "2026-01-05T18:15:00.123+08:00"
    assert plain_line(json.dumps(layout(MESSAGE))) == f"{at} INFO [{THREAD}] {LOGGER} - {MESSAGE}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_thrown_stands_below(layout):
    first, *trace = plain_line(json.dumps(layout(MESSAGE, TRACE))).split("\n")
    assert first.endswith(MESSAGE)
    assert [line for line in trace if not line.startswith("\tat ")] == [
        'java.lang.IllegalStateException: no "stock"',
        "Caused by: java.io.IOException: x",
    ]


@pytest.mark.parametrize(("number", "level"), [(2, "FATAL"), (3, "ERROR"), (4, "WARN"), (5, "INFO"), (7, "DEBUG")])
def test_gelf_s_number_of_a_level_counts_where_no_name_stands_beside_it(number, level):
    told = {name: value for name, value in gelf(MESSAGE).items() if name != "_level_name"}
    assert plain_line(json.dumps(told | {"level": number})).startswith(f"{AT} {level} [")


def test_a_trace_may_be_a_list_of_its_lines():
    assert plain_line(json.dumps(ecs(MESSAGE, TRACE.splitlines()))) == plain_line(json.dumps(ecs(MESSAGE, TRACE)))


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "x", "level": "INFO"}',
        '{"@timestamp": "2026-01-05T10:15:00Z", "level": "INFO"}',
        '{"@timestamp": "2026-01-05T10:15:00Z", "message": "x"}',
        '{"@timestamp": 1e300, "message": "x", "level": "INFO"}',
        '{"@timestamp": [], "message": "x", "level": 99}',
        '{"ts": "2026-01-05T10:15:00Z", "level": "INFO", "msg": "x"}',
        '{"log": "x\\n", "stream": "stdout", "time": "2026-01-05T10:15:00Z"}',
        "{1=2}",
        "{",
    ],
)
def test_what_is_in_no_such_layout_is_left_alone(text):
    assert plain_line(text) is None


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists)
NAMES = st.sampled_from(["@timestamp", "timestamp", "instant", "message", "level", "thrown", "log", "thread", "cause"])


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES)))
def test_no_values_stop_it(told):
    assert plain_line(json.dumps(told)) is None or {"message", "level"} <= told.keys() or "log" in told

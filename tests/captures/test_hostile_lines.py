"""Lines made to cost: each reader holds few of them, none of them whole that has no end, and takes linear time."""

from __future__ import annotations

import json
import sys
import tracemalloc
from datetime import UTC
from itertools import chain, repeat
from time import process_time

import pytest

from hindsight.udfs.formats.mqadmin_lines import MOST_LINES, with_command
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import Line, read_lines
from hindsight.udfs.lines.parsed_line import LandedFile
from hindsight.udfs.logs import broker_log_lines, client_log_events
from hindsight.udfs.logs.client_log_lines import TRACE_LINES
from tests.captures.test_damaged_lines import ABOUT, LINES

MIB = 1 << 20


def parsed(name, lines):
    return PARSERS[name](lines, UTC, ABOUT.get(name, LandedFile()))


def first(name):
    """A real line; of a client log one that a stack trace may follow."""
    return next(line for line in LINES[name] if name != "client_log" or b" exception, resend at once" in line)


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_without_end_is_not_held(name):
    chunks = chain([first(name) + LINES[name][-1].rstrip(b"\n")], repeat(b" " * MIB, 64))
    tracemalloc.start()
    try:
        *_, last = parsed(name, read_lines(chunks, gzipped=False, max_line_bytes=MIB))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last.refusal.code == "LINE_TOO_LONG"
    assert last.line.byte_end > 64 * MIB
    assert peak < 12 * MIB


# Lines that a reader may take before it gives the first of them back; the others look at one line at a time.
HELD = {"mqadmin": MOST_LINES + 1, "client_log": TRACE_LINES + 2}


@pytest.mark.parametrize("name", FORMATS)
def test_no_reader_holds_more_lines_than_it_says(name):
    held = HELD.get(name, 1)
    real = list(read_lines([first(name)], gzipped=False, max_line_bytes=MIB))
    taken = 0

    def lines():
        nonlocal taken
        for line in chain(real, repeat(Line(9, 0, 3, "\tat", None), held + 500)):
            taken += 1
            yield line

    most = max(taken - given for given, _ in enumerate(parsed(name, lines())))
    assert most <= held
    assert taken == len(real) + held + 500


ATTEMPT = json.loads(next(line for line in LINES["producer_hook"] if b'"attempt"' in line))
NESTED = ('{"a":' * 150_000, "[" * 900_000, '{"type":' + "[" * 900_000)
HOSTILE = {
    "producer_hook": (
        *NESTED,
        '{"type":"attempt","beginMs":' + "9" * 900_000 + "}",
        '{"type":"attempt","mode":"SYNC","beginMs":1795252691980,"endMs":1795252691990,"error":"%s"}'
        % ("CODE: -" * 10**5),
        '{"type":"start","latencyMax":[' + "0," * 400_000 + "0]}",
    ),
    "heartbeat": (*NESTED, '{"kind":"heartbeat","body":"' + '\\"' * 400_000 + '"}'),
    "canonical_sends": (*NESTED, '{"begin_at":"' + "2026-11-21T" * 80_000 + '"}'),
    "canonical_snapshots": (*NESTED, '{"topic":"' + "%RETRY%" * 120_000 + '"}'),
    "admin_snapshots": (
        *NESTED,
        '{"kind":"topicRoute","ts":1795252691980,"subject":"T","error":null,"raw":"%s"}' % ("{0:" * 200_000),
        '{"kind":"consumeStats","ts":1795252691980,"subject":"g","error":null,"raw":"%s"}' % ("{{" * 200_000),
        '{"kind":"consumeStats","ts":1795252691980,"subject":"g","error":"%s","raw":null}' % ("CODE: -" * 100_000),
    ),
    "trace_topic": (*NESTED, '{"msgId":"a","bornTimestamp":1795252691980,"body":"%s"}' % ("Pub\\u0001" * 60_000)),
}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in HOSTILE.items() for t in ts], ids=lambda v: v[:18])
def test_time_is_linear_in_the_length_of_a_json_line(name, text):
    began = process_time()
    list(parsed(name, [Line(1, 0, len(text), text, None)]))
    assert process_time() - began < 1.0


DEEP = (
    '{"type":%s}',
    '{"type":"attempt","group":"g","clientId":"c","beginMs":%s}',
    '{"type":"start","ts":1795252691980,"group":"g","clientId":"c","latencyMax":%s}',
    '{"kind":"topicRoute","ts":1795252691980,"subject":%s}',
    '{"msgId":%s,"bornTimestamp":1795252691980}',
    '{"topic":%s}',
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_depth_of_json_stops_a_reader(name):
    """Also where the line can just be read, and a refusal that shows the value has less of the stack left."""
    for depth in (100, 500, *range(sys.getrecursionlimit() - 120, sys.getrecursionlimit() + 20), 10_000):
        for line in DEEP:
            text = line % ("[" * depth + "]" * depth)
            (one,) = parsed(name, [Line(1, 0, len(text), text, None)])
            assert one.refusal or not one.records
            told = '{"file":"a.txt","ts":1795252691980,"args":%s}' % ("[" * depth + "]" * depth)
            assert with_command(LandedFile("a.txt"), [Line(1, 0, 9, told, None)]).args is None


PIECES = (
    " ",
    ", ",
    "]",
    "[",
    "{",
    "=",
    "a",
    "0",
    "OLD: ",
    "NEW: ",
    " ,new[",
    "MessageQueue [topic=",
    "] is offline",
    " - ",
)
TEMPLATES = {
    f"{one.kind} {number}": one
    for number, one in enumerate((*client_log_events.TEMPLATES, *broker_log_lines.TEMPLATES))
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_time_is_linear_for_every_pattern_of_a_log(name):
    one = TEMPLATES[name]
    began = process_time()
    for piece in (*PIECES, one.starts, one.mark or "x"):
        for head in ("a" + one.starts if one.starts.startswith(" ") else one.starts, ""):
            # Cut off, and with an end that the pattern knows but not here.
            one.pattern.fullmatch(head + piece * (40_000 // len(piece)))
            one.pattern.fullmatch(head + piece * (40_000 // len(piece)) + one.mark + "\n")
    assert process_time() - began < 1.0

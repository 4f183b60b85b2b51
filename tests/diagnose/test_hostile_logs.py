"""Logs made to break or to cost: nothing raises, all of it can be told, and memory is that of what is found."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from hindsight.jobs.commands.diagnose import as_json
from hindsight.jobs.diagnosis.diagnosis_told import told as told_to_a_person
from hindsight.udfs.diagnosis.log_findings import find_in_log
from hindsight.udfs.lines.bounded_lines import Line
from tests.conftest import GOLDEN
from tests.diagnose.told_by_logs import CLUSTER, SCOPE, told, unpacked
from tests.random_examples import examples

CASES = [path for path in GOLDEN.glob("field_cases/*/*_log/**/*") if path.is_file() and path.suffix not in (".zip",)]
LINES = [
    line
    for raw in [*(unpacked(path) for path in (*SCOPE, CLUSTER[0], CLUSTER[-1])), *(path.read_bytes() for path in CASES)]
    for line in raw.splitlines()
    if any(word in line for word in (b"ebalanc", b"lock", b"consumer", b"isolated", b"sendKernel", b"persistAll", b"{"))
][::7]
DAMAGE = [
    b"",
    b"\x1b[31m",
    b"\x00",
    b"\xff",
    b", ",
    b"]",
    b"[",
    b"-1",
    b"9" * 25,
    b"2026-01-05 10:00:00,000 ",
    b"=",
    b"\t",
]


@st.composite
def damaged_lines(draw):
    line = bytearray(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        line[at : at + draw(st.integers(0, 12))] = draw(st.sampled_from(DAMAGE))
    return bytes(line)


@examples(25, 100)
@given(
    st.lists(st.lists(damaged_lines() | st.binary(max_size=60), max_size=20), min_size=1, max_size=3),
    st.booleans(),
)
def test_whatever_the_lines_are_it_is_told_and_every_line_is_counted(files, is_windows):
    end = b"\r\n" if is_windows else b"\n"
    logs = {f"{number}.log": end.join(lines) + (end if lines else b"") for number, lines in enumerate(files)}
    assume(not any(raw.startswith(b"\x1f\x8b") for raw in logs.values()))
    diagnosis = told(logs)
    for log in diagnosis.logs:
        assert log.lines == logs[log.path].count(b"\n")
    lines = [json.loads(line) for line in as_json(diagnosis, [])]
    assert lines[-1]["kind"] == "total" and lines[-1]["lines"] == sum(log.lines for log in diagnosis.logs)
    assert "\n".join(told_to_a_person(diagnosis, [])).startswith("What ")
    for one in diagnosis.ownership:
        assert one.until is None or one.until >= one.since


def ordinary(count: int) -> Iterator[Line]:
    """Lines of a consumer that goes on and on, an odd one of a foreign stamp among them."""
    at = datetime(2026, 1, 5, tzinfo=UTC)
    for number in range(1, count + 1):
        at += timedelta(milliseconds=250)
        stamp = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
        text = f"{stamp} INFO RocketmqClient - [persistAll] Group: g ClientId: 1@2 updateConsumeOffsetToBroker {number}"
        if number % 1000 == 0:
            text = f"2026-0{number % 9 + 1}-0{number % 7 + 1} 00:00:{number % 60:02},000 INFO RocketmqClient - x"
        yield Line(number, 0, 0, text, None)


def held_for(count: int) -> tuple[int, int]:
    tracemalloc.start()
    try:
        log = find_in_log(ordinary(count), path="a.log", zone=UTC, silence_ms=30_000)
        return log.lines, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_lines_of_which_nothing_comes():
    held_for(1_000)  # what is made once
    (_, few), (lines, many) = held_for(2_000), held_for(20_000)
    assert lines == 20_000
    assert many - few < 100_000


def test_a_log_that_jumps_through_time_at_every_line_is_not_remembered_stretch_by_stretch():
    def jumping() -> Iterator[Line]:
        for number in range(40_000):
            at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number % 200 * 977 + number)
            yield Line(number + 1, 0, 0, f"{at:%Y-%m-%d %H:%M:%S},000 INFO RocketmqClient - x", None)

    log = find_in_log(jumping(), path="a.log", zone=UTC, silence_ms=1)
    assert sum(len(life.stretches()) for life in log.lives.values()) <= 10_001

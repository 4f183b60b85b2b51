"""Fractions of seconds with more than three digits: padded milliseconds, true fractions, or refused."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import ClientLogLayout, LandedFile
from hindsight.udfs.logs.log_stamps import ENOUGH

MESSAGE = "doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=3]"
BEAT = "the client of the application is up and well"
MEMBERS = (
    "new consumer connected, group: g CONSUME_PASSIVELY CLUSTERING channel: ClientChannelInfo [channel=[id: 0x1, "
    "L:/10.0.0.9:10911 - R:/10.0.0.1:5], clientId=10.0.0.1@7, language=JAVA, version=409, "
    "lastUpdateTimestamp=1795168800000]"
)
S0 = 1795168800000
LAYOUTS = (
    "2026-11-20 10:00:00.{} INFO - RebalanceService | RebalanceImpl.update-412  {}",  # log4j, SSSS
    "2026-11-20T10:00:00,{} [RebalanceService] INFO  RocketmqClient - {}",
    "[20-Nov-2026 10:00:00:{}] [INFO] [RebalanceService] {}",
)


def parse(texts, layout=None, format_name="client_log"):
    lines = [Line(i, 0, len(text), text, None) for i, text in enumerate(texts, 1)]
    about = LandedFile("a/b.log", layout=layout, look=lambda: lines)
    return list(PARSERS[format_name](lines, UTC, about))


def millis(parsed):
    return [line.records[0].row["logged_at"] - S0 for line in parsed if line.records]


def refused(parsed):
    return [line.refusal.code for line in parsed if line.refusal]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("digits", [4, 6, 9])
def test_with_twenty_lines_of_zeros_they_are_padded(layout, digits):
    padded = [layout.format(f"{ms:0{digits}}", MESSAGE) for ms in range(1, 1000, 45)]
    assert len(padded) > ENOUGH
    assert millis(parse(padded)) == list(range(1, 1000, 45))
    # Lines that nobody wants tell it too.
    beats = [layout.format(f"{ms:0{digits}}", BEAT) for ms in range(ENOUGH)]
    assert millis(parse([padded[-1], *beats])) == [991]
    few = parse([padded[-1], *beats[: ENOUGH - 2]])
    assert refused(few) == ["BAD_TIMESTAMP"] and "SSSS" in few[0].refusal.detail


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("digits", [4, 6, 9])
@pytest.mark.parametrize("place", [0, 30, 60])
def test_one_other_digit_anywhere_makes_all_of_them_fractions(layout, digits, place):
    texts = [layout.format(f"{ms:0{digits}}", MESSAGE) for ms in range(1, 61)]
    texts.insert(place, layout.format(f"{9:<0{digits}}", BEAT))
    expected = [int(f"{ms:0{digits}}"[:3]) for ms in range(1, 61)]
    assert millis(parse(texts)) == expected


def test_what_is_zero_has_one_reading_and_three_digits_have_one():
    assert millis(parse([LAYOUTS[0].format("000000", MESSAGE), LAYOUTS[1].format("045", MESSAGE)])) == [0, 45]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=40), st.sampled_from(["S", "n"]))
def test_a_declared_layout_says_itself_which_they_are(values, letter):
    layout = ClientLogLayout(pattern=f"%d{{yyyy-MM-dd HH:mm:ss.{letter * 6}}} %p - %t | %c{{1}}.%M-%L  %m%n")
    parsed = parse([LAYOUTS[0].format(f"{ms:06}", MESSAGE) for ms in values], layout)
    assert millis(parsed) == [ms if letter == "S" else 0 for ms in values]


def test_a_declared_pattern_of_log4j2s_own_with_micros_is_true():
    layout = ClientLogLayout(pattern="%d{DEFAULT_MICROS} [%t] %p %c - %m%n")
    assert millis(parse([f"2026-11-20 10:00:00,045678 [t] INFO c - {MESSAGE}"], layout)) == [45]
    assert millis(parse([f"2026-11-20 10:00:00,000678 [t] INFO c - {MESSAGE}"], layout)) == [0]


def test_brokers_logs_are_read_so_too():
    texts = [f"2026-11-20T10:00:00.{ms:04} [t] INFO  RocketmqBroker - {MEMBERS}" for ms in range(1, 30)]
    assert millis(parse(texts, format_name="broker_log")) == list(range(1, 30))
    assert set(refused(parse(texts[:3], format_name="broker_log"))) == {"BAD_TIMESTAMP"}


def test_the_stamps_of_a_wrapper_tell_nothing_of_the_log():
    texts = [f"2026-11-20T10:00:00.844168954Z stdout F {LAYOUTS[0].format(f'{ms:04}', MESSAGE)}" for ms in range(1, 30)]
    assert millis(parse(texts)) == list(range(1, 30))

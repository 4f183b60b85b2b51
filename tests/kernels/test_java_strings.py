"""Java's order, bytes, blanks and splits of strings; RocketMQ's orders of queues and client ids."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.values.java_strings import java_encoder, java_is_blank, java_split, java_string_key
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string, sort_client_ids, sort_queues


def code_units(text):
    """UTF-16 code units, by the definition of surrogate pairs."""
    units = []
    for point in map(ord, text):
        pair = (0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF))
        units.extend(pair if point > 0xFFFF else [point])
    return units


@pytest.mark.parametrize(
    "ascending",
    [
        ["a😀", "a～"],
        ["10.0.0.10@5#1", "10.0.0.2@12#1", "10.0.0.2@5", "10.0.0.2@5#1"],
        ["A1", "a#1", "a-1", "a10", "a2", "a@1", "a_1"],
        ["", "a", "ab", "\ud800", "\ue000"],
    ],
)
def test_client_ids_are_ordered_by_utf_16_code_units(ascending):
    assert sort_client_ids(reversed(ascending)) == ascending


@settings(max_examples=50, deadline=None, database=None, derandomize=True)
@given(st.text("aé\ud800\ue000～😀🦄", max_size=4), st.text("aé\ud800\ue000～😀🦄", max_size=4))
def test_the_sort_key_compares_as_the_code_units_do(left, right):
    assert (java_string_key(left) < java_string_key(right)) == (code_units(left) < code_units(right))


def test_queues_are_ordered_by_topic_broker_name_and_number():
    ascending = [
        MessageQueue("T", "broker-10", 0),
        MessageQueue("T", "broker-2", -1),
        MessageQueue("T", "broker-2", 2),
        MessageQueue("T", "broker-2", 10),
        MessageQueue("T", "😀", 0),
        MessageQueue("T", "～", 0),
        MessageQueue("😀", "a", 0),
        MessageQueue("～", "a", 0),
    ]
    assert sort_queues(reversed(ascending)) == ascending


def test_a_repeated_queue_or_id_stays_repeated():
    mq = MessageQueue("T", "broker-a", 0)
    assert sort_queues([mq, mq]) == [mq, mq]
    assert sort_client_ids(["b", "a", "b"]) == ["a", "b", "b"]


def test_a_queue_is_printed_as_java_prints_it():
    text = java_to_string(MessageQueue("T", "broker-a", 0))
    assert text == "MessageQueue [topic=T, brokerName=broker-a, queueId=0]"


@pytest.mark.parametrize(
    ("charset", "text", "expected"),
    [
        ("UTF-8", "é～😀", b"\xc3\xa9\xef\xbd\x9e\xf0\x9f\x98\x80"),
        ("UTF-8", "a\ud800b", b"a?b"),
        ("UTF-8", "\ud83d" + "\ude00", b"\xf0\x9f\x98\x80"),
        ("US-ASCII", "aé～😀b", b"a???b"),
        ("US-ASCII", "\ud83d" + "\ude00", b"?"),
        ("US-ASCII", "\ude00\ud83d", b"??"),
        ("ANSI_X3.4-1968", "aé", b"a?"),
        ("ISO-8859-1", "é€", b"\xe9?"),
        ("windows-1252", "é€\u0081", b"\xe9\x80?"),
    ],
)
def test_what_a_charset_cannot_write_is_one_question_mark(charset, text, expected):
    assert java_encoder(charset)(text) == expected


@pytest.mark.parametrize("charset", ["no-such", "rot13", "UTF-16", "utf-8-sig"])
def test_a_charset_that_cannot_be_a_jvm_default_is_refused(charset):
    with pytest.raises(ValueError, match=f"charset '{charset}'"):
        java_encoder(charset)


def test_blank_is_what_java_calls_whitespace():
    blank = [point for point in range(0x10000) if java_is_blank(chr(point))]
    spaces = [0x20, 0x1680, *range(0x2000, 0x2007), *range(0x2008, 0x200B), 0x2028, 0x2029, 0x205F, 0x3000]
    assert blank == [*range(9, 14), *range(28, 32), *spaces]


@pytest.mark.parametrize(("text", "expected"), [("", True), (" \t", True), (" a", False)])
def test_a_text_is_blank_when_all_of_it_is(text, expected):
    assert java_is_blank(text) is expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("r1@", ["r1"]),
        ("@a", ["", "a"]),
        ("a@b@", ["a", "b"]),
        ("a@b@c", ["a", "b", "c"]),
        ("a@@b", ["a", "", "b"]),
        ("@", []),
        ("@@", []),
        ("", [""]),
        ("a", ["a"]),
    ],
)
def test_a_split_drops_empty_parts_at_the_end_only(text, parts):
    assert java_split(text, "@") == parts

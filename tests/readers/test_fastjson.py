"""``parse_fastjson`` against real captures, against ``json.loads`` where the text is strict, and on hostile texts."""

import json
import math
from pathlib import Path

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hindsight.udfs.formats.fastjson import FastjsonError, ObjectKey, parse_fastjson
from tests.random_examples import examples

GOLDEN = Path(__file__).parents[1] / "golden" / "fastjson"
CAPTURES = [json.loads(line) for line in (GOLDEN / "captures.jsonl").read_text().splitlines()]


def captures(kind):
    return [capture for capture in CAPTURES if capture["kind"] == kind]


# Real answers


@pytest.mark.parametrize("capture", captures("consumerRunningInfo"), ids=lambda capture: capture["subject"])
def test_owned_queues_equal_those_that_rocketmq_decoded(capture):
    table = parse_fastjson(capture["raw"])["mqTable"]
    actual = [
        [queue["topic"], queue["brokerName"], queue["queueId"], state["droped"], state["locked"]]
        for queue, state in ((dict(key), state) for key, state in table.items())
    ]
    assert sorted(actual) == sorted(capture["mqs"])


@pytest.mark.parametrize("capture", captures("topicRoute"), ids=lambda capture: capture["subject"])
def test_broker_ids_of_a_route_are_integers(capture):
    brokers = parse_fastjson(capture["raw"])["brokerDatas"]
    assert {broker["brokerName"]: list(broker["brokerAddrs"].items()) for broker in brokers} == {
        f"broker-{name}": [(0, f"127.0.0.1:{port}")] for name, port in (("a", 20911), ("b", 20931), ("c", 20951))
    }


@pytest.mark.parametrize("capture", captures("consumeStats"), ids=lambda capture: capture["subject"])
def test_consume_stats_are_keyed_by_message_queue(capture):
    table = parse_fastjson(capture["raw"])["offsetTable"]
    assert len(table) == capture["raw"].count('"brokerOffset"')
    for key, progress in table.items():
        assert isinstance(key, ObjectKey) and list(dict(key)) == ["brokerName", "queueId", "topic"]
        assert progress["brokerOffset"] >= progress["consumerOffset"]


def test_a_strict_answer_equals_json_loads():
    (capture,) = captures("consumerConnection")
    assert parse_fastjson(capture["raw"]) == json.loads(capture["raw"])


# The dialect

KEY = ObjectKey((("b", "x"), ("q", 0)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{0:"a",-12:"b"}', {0: "a", -12: "b"}),
        ('{"0":"a",0:"b"}', {"0": "a", 0: "b"}),
        ('{{"q":0,"b":"x"}:{"n":1}}', {KEY: {"n": 1}}),
        ('[{ {"b":"x" , "q":0} : [ ] , 1 : { } }]', [{KEY: [], 1: {}}]),
        ('{"t":{{"b":"x","q":0}:{0:{{"b":"x","q":0}:null}}}}', {"t": {KEY: {0: {KEY: None}}}}),
        ("{{}:1}", {ObjectKey(): 1}),
        ('{{"b":"x","q":1,"q":0}:1}', {KEY: 1}),
        ('{"a":1,"a":{0:1},"b":2,"a":3}', {"a": 3, "b": 2}),
        ('{0:1,0:2,{"q":0,"b":"x"}:3,{"b":"x","q":0}:4}', {0: 2, KEY: 4}),
        (r'{0:"\ud800 \u00e9 \ud83d\ude00"}', {0: "\ud800 é 😀"}),
        (f"{{{2**63 - 1}:1,{-(2**63)}:2}}", {2**63 - 1: 1, -(2**63): 2}),
        (" \t\r\n[1, -2.5e3, true, null] \n", [1, -2500.0, True, None]),
        ('"a"', "a"),
    ],
)
def test_both_kinds_of_key_are_read(text, expected):
    assert parse_fastjson(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "Expecting value", 0),
        ("  ", "Expecting value", 2),
        ("{0:1}x", "after the end", 5),
        ("[1] [", "after the end", 4),
        ("{0:1,}", "as key", 5),
        ("{0 1}", "expected ':'", 3),
        ('{0:"a" 1:"b"}', "expected ',' or '}'", 7),
        ("[{0:1} 2]", "expected ',' or ']'", 7),
        ("[{0:1},]", "Expecting value", 7),
        ("{0:1", "expected ',' or '}'", 4),
        ("{", "as key", 1),
        ("{0:", "Expecting value", 3),
        ("{01:1}", "expected ':'", 2),
        ("{1.5:1}", "expected ':'", 2),
        ("{null:1}", "as key", 1),
        ("{[1]:1}", "as key", 1),
        ("{'a':1}", "as key", 1),
        (f"{{{2**63}:1}}", "Java long", 1),
        ("{" + "9" * 9000 + ":1}", "Java long", 1),
        ('{0:"abc}', "Unterminated string", 3),
        ('{0:"a\nb"}', "control character", 5),
        (r'{0:"a\x"}', "escape", 5),
        ('{{"a":[1]}:1}', "container inside a key", 6),
        ('{{"a":0,"b":{}}:1}', "container inside a key", 12),
        ("{{0:1}:1}", "string as key inside", 2),
        ('{{{"a":1}:1}:1}', "string as key inside", 2),
        (f'{{{{"a":{2**63}}}:1}}', "Java long", 6),
        ('{{"a":1 "b":2}:1}', "expected ',' or '}'", 8),
        ('{0:[1,{"a":NaN}]}', "NaN", 11),
        ("[Infinity]", "Infinity", 1),
        ("[0,-Infinity]", "-Infinity", 3),
        ("[0,1e999]", "too large", 3),
        ("[0," + "1" * 5000 + "]", "too many digits", 3),
        ('{{"a":' + "1" * 5000 + "}:0}", "too many digits", 6),
        ("\ufeff{}", "Expecting value", 0),
        ('[{"a":1,}' + "[" * 100, "as key", 8),
        ("[" + "[]," * 40 + "é\ud800]", "Expecting value", 121),
    ],
)
def test_anything_else_is_refused_where_it_stands(text, message, position):
    with pytest.raises(FastjsonError) as caught:
        parse_fastjson(text)
    assert message in caught.value.message
    assert caught.value.position == position
    assert f"character {position}" in str(caught.value)


# Bounds


@pytest.fixture
def scanned(monkeypatch):
    """The characters that each attempt of a JSON library was given, or that the walk's scanner read."""
    done = []
    loads, scan = orjson.loads, json.JSONDecoder.raw_decode

    def noted_loads(text):
        done.append(len(text))
        return loads(text)

    def noted_scan(self, text, at):
        value, end = scan(self, text, at)
        done.append(end - at)
        return value, end

    monkeypatch.setattr(orjson, "loads", noted_loads)
    monkeypatch.setattr(json.JSONDecoder, "raw_decode", noted_scan)
    return done


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("{0:", "}"), ('[{"]}":', "}]"), (r'["\\",', r',"\\"]')]
)
@pytest.mark.parametrize("inner", ["1", '"[[{{"', r'"\\\"[["', '"é\\\\"'])
def test_depth_is_bounded_exactly(opening, closing, inner):
    times = 6 // (opening.count("{") + opening.count("["))
    for others in ("", "[]," * 40):
        text = f"[{others}" + opening * times + inner + closing * times + "]"
        parse_fastjson(text, max_depth=7)
        with pytest.raises(FastjsonError, match="nested too deeply") as caught:
            parse_fastjson(text, max_depth=6)
        assert caught.value.position == len(text[: text.rindex(inner)].rstrip('0a:"]},\\')) - 1


@pytest.mark.parametrize("others", ["", ',{"a":[]}' * 40])
def test_a_key_object_counts_as_a_level(others):
    text = '[{{"a":1}:1}' + others + "]"
    parse_fastjson(text, max_depth=3)
    with pytest.raises(FastjsonError, match="nested too deeply") as caught:
        parse_fastjson(text, max_depth=2)
    assert caught.value.position == 2


@pytest.mark.parametrize("opening", ["[", "{", '{"a":', "{0:", "[{"])
def test_a_hundred_thousand_levels_are_refused_without_recursion(opening):
    with pytest.raises(FastjsonError):
        parse_fastjson(opening * 100_000, max_depth=128)
    parse_fastjson("[" * 127 + "{0:1}" + "]" * 127, max_depth=128)


@pytest.mark.parametrize("pad", range(6))
def test_brackets_in_long_strings_do_not_count(pad):
    shallow = "[" + "[]," * 40 + '"' + "x" * pad + '[{\\\\\\"' * 50_000 + '"'
    assert len(parse_fastjson(shallow + ",[]]", max_depth=2)) == 42
    with pytest.raises(FastjsonError, match="nested too deeply") as caught:
        parse_fastjson(shallow + ",[[]]]", max_depth=2)
    assert caught.value.position == len(shallow) + 2


def test_a_text_that_is_too_long_is_refused():
    assert parse_fastjson("[1]", max_chars=3) == [1]
    with pytest.raises(FastjsonError, match="4 characters, more than 3"):
        parse_fastjson("[12]", max_chars=3)


def test_a_depth_limit_that_recursion_could_not_keep_is_wrong_usage():
    with pytest.raises(ValueError, match="1 to 128"):
        parse_fastjson("1", max_depth=129)


@pytest.mark.parametrize("end", ["", "}"])
@pytest.mark.parametrize("one", ['"aaaaaaaaaa"', "{0:1}", '{{"q":1}:{-7:[]}}', '"#0"', "[[[[{1:[[[[1]]]]}]]]]"])
def test_a_character_is_read_a_few_times_at_most(one, end, scanned):
    text = "[" * 8 + f"{one}," * 1_000 + "0" + "]" * 8 + end
    assert (parsed_or_refused(text) is None) == bool(end)
    assert 0 < sum(scanned) <= 4 * len(text)


# Properties

names = st.text(max_size=4)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names
longs = st.integers(-(2**63), 2**63 - 1)
object_keys = st.dictionaries(names, longs | names | st.booleans(), max_size=3).map(
    lambda members: ObjectKey(sorted(members.items()))
)


def values(keys):
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
    )


def written(value, space):
    """The dialect's text of a value."""
    if isinstance(value, ObjectKey):
        return written(dict(value), space)
    if isinstance(value, dict):
        members = (f"{written(key, space)}{space}:{space}{written(inner, space)}" for key, inner in value.items())
        return f"{{{space}" + f"{space},{space}".join(members) + f"{space}}}"
    if isinstance(value, list):
        return f"[{space}" + f",{space}".join(written(item, space) for item in value) + f"{space}]"
    return json.dumps(value)


def has_dialect_key(value):
    if isinstance(value, list):
        return any(map(has_dialect_key, value))
    if isinstance(value, dict):
        return any(not isinstance(key, str) or has_dialect_key(inner) for key, inner in value.items())
    return False


def parsed_or_refused(text):
    """The value, or None where it is refused; any other exception fails the test."""
    try:
        return parse_fastjson(text)
    except FastjsonError as error:
        assert 0 <= error.position <= len(text)
        return None


@examples(7, 30)
@given(values(names), st.booleans(), st.sampled_from([None, 1]))
def test_strict_json_equals_json_loads(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse_fastjson(text) == json.loads(text)


@examples(7, 30)
@given(values(names | longs | object_keys), st.sampled_from(["", " ", "\r\n\t"]))
def test_what_is_written_in_the_dialect_is_read_back(value, space):
    assert parse_fastjson(written(value, space)) == value


def finite(literal):
    if not math.isfinite(float(literal)):
        raise ValueError(literal)
    return float(literal)


@examples(20, 80)
@given(st.text(st.sampled_from('{}[]",:01-. "a\\unNe'), max_size=20) | st.text(max_size=20))
def test_any_text_is_read_as_json_loads_would_or_refused(text):
    value = parsed_or_refused(text)
    try:
        expected = json.loads(text, parse_float=finite, parse_constant=finite)
    except ValueError:
        expected = None
    assert value == expected or has_dialect_key(value)


def leave_to_the_walk(text):
    raise ValueError(text)


def read_by_the_walk(text):
    """The value, or None where it is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hindsight.udfs.formats.fastjson._quickly", leave_to_the_walk)
        return parsed_or_refused(text)


pieces = st.sampled_from(["{", "}", "[", "]", '"', ":", ",", " ", "\\", "#", "0", "1", "-", '"a"', "{}:1", '"#0"'])


@examples(50, 200)
@given(st.lists(pieces, max_size=12).map("".join) | values(names | longs | object_keys).map(lambda v: written(v, "")))
@example("{0:1,1:2}")
@example('{0:{"#0":1}}')
@example(r'{0:{"\u00230":1}}')
@example(r'{"x\{}:1}')
@example(r'{"x\1:1}')
@example('{"x,{}:1":1}')
@example('{"x, 1:1":1}')
@example('{{"a":[]}:1}')
@example("{01:1}")
def test_the_quick_reader_never_contradicts_the_walk(text):
    assert parsed_or_refused(text) == read_by_the_walk(text)


@examples(10, 40)
@given(st.sampled_from(CAPTURES), st.data())
def test_a_damaged_answer_is_read_or_refused(capture, data):
    raw = capture["raw"]
    start = data.draw(st.integers(0, len(raw)))
    end = start + data.draw(st.integers(0, 3))
    damaged = raw[:start] + data.draw(st.text('{}[]",:0\\\x00é', max_size=3)) + raw[end:]
    # Another exception than a refusal within the text fails here.
    assert isinstance(parsed_or_refused(damaged), dict | list | str | int | float | None)
    assert (parsed_or_refused(raw[:start]) is None) == (start < len(raw.rstrip()))

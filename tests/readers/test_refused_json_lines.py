"""Values that JSON can write and no table can hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import RefusedLineError, json_object
from tests.random_examples import examples
from tests.readers.line_checks import check_bytes

ATTEMPT = {
    "type": "attempt",
    "group": "pg",
    "clientId": "10.0.0.1@7",
    "topic": "T",
    "broker": "broker-a",
    "queueId": 0,
    "mode": "SYNC",
    "beginMs": 1795252691980,
    "endMs": 1795252691990,
    "msgId": "A1",
    "status": "SEND_OK",
}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "\ud800"}, "NOT_UNICODE"),
        ({"thread": "a\udfffb"}, "NOT_UNICODE"),
        ({"type": "start", "ts": 1795252691980, "retryTimesWhenSendFailed": 2**31}, "OUT_OF_RANGE"),
    ],
)
def test_a_value_that_no_table_holds_refuses_the_hook_line(changes, code):
    (parsed,) = check_bytes(parse_hook_lines, json.dumps(ATTEMPT | changes).encode(), FORMATS["producer_hook"].tables)
    assert parsed.refusal.code == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ('"properties":{},"subscriptionSet":[{"topic":"T","tagsSet":["\\ud800"]}]', "NOT_UNICODE"),
        ('"properties":{},"subscriptionSet":[{"topic":"T","tagsSet":"a"}]', "BAD_RAW"),
        ('"subscriptionSet":[],"properties":{"PROP_CONSUMER_START_TIMESTAMP":"%s"}' % ("9" * 5000), None),
    ],
)
def test_a_value_that_no_table_holds_refuses_the_snapshot(raw, code):
    info = '{"mqTable":{},' + raw + "}"
    line = {"kind": "consumerRunningInfo", "ts": 1795252691980, "subject": "g|c", "error": None, "raw": info}
    (parsed,) = check_bytes(parse_admin_snapshots, json.dumps(line).encode(), FORMATS["admin_snapshots"].tables)
    assert (parsed.refusal and parsed.refusal.code) == code


def read_by_json_loads(text):
    """What ``json_object`` must give: the repr of the object, since no NaN equals another, or why it is refused."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return "NOT_JSON", f"{error.msg} at character {error.pos}"
    return repr(value) if isinstance(value, dict) else "NOT_AN_OBJECT"


members = st.sampled_from(
    ['"a":1', '"a":{"b":[]}', '"a":NaN', '"a":1e400', '"a":', '"\\ud800":"é"', '"a":1,"a":2', "1:2", ""]
)
outside = st.sampled_from(["", " ", "\t\r\n", "\x0b", "x", "{}", ",", "}", "\ufeff"])


@examples(37, 150)
@given(outside, members, outside)
def test_a_json_line_is_read_and_refused_as_json_loads_does(before, inside, after):
    text = f"{before}{{{inside}}}{after}"
    try:
        found = repr(json_object(text))
    except RefusedLineError as refused:
        code, detail = refused.refusal
        found = (code, detail) if code == "NOT_JSON" else code
    assert found == read_by_json_loads(text)

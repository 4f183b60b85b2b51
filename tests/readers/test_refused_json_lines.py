"""Values that JSON can write and no table can hold."""

from __future__ import annotations

import json

import pytest

from tests.readers.line_checks import check_bytes
from udfs.admin_snapshot_lines import parse_admin_snapshots
from udfs.hook_lines import parse_hook_lines
from udfs.landing_formats import FORMATS

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
        ('{"subscriptionSet":[{"topic":"T","tagsSet":["\\ud800"]}]}', "NOT_UNICODE"),
        ('{"subscriptionSet":[{"topic":"T","tagsSet":"a"}]}', "BAD_RAW"),
        ('{"properties":{"PROP_CONSUMER_START_TIMESTAMP":"%s"}}' % ("9" * 5000), None),
    ],
)
def test_a_value_that_no_table_holds_refuses_the_snapshot(raw, code):
    line = {"kind": "consumerRunningInfo", "ts": 1795252691980, "subject": "g|c", "error": None, "raw": raw}
    (parsed,) = check_bytes(parse_admin_snapshots, json.dumps(line).encode(), FORMATS["admin_snapshots"].tables)
    assert (parsed.refusal and parsed.refusal.code) == code

"""Damaged real lines of the formats that are JSON: nothing raises, no line is lost, every row fits its table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tests.kernels.line_checks import GOLDEN, check_bytes, damaged, raw_lines
from udfs.admin_snapshot_lines import parse_admin_snapshots
from udfs.hook_lines import parse_hook_lines
from udfs.landing_formats import FORMATS

HOOK = raw_lines(GOLDEN / "captures/producers/producer_5.3.3_oneway.jsonl.gz")[::40]
HOOK += raw_lines(GOLDEN / "captures/producers/producer_4.9.8_async.jsonl.gz")[:60]
ADMIN = raw_lines(GOLDEN / "captures/consumers/admin_snapshots.jsonl.gz")[:120]


@settings(max_examples=120, deadline=None)
@given(damaged(HOOK))
def test_damaged_hook_lines_neither_raise_nor_get_lost(raw):
    check_bytes(parse_hook_lines, raw, FORMATS["producer_hook"].tables)


@settings(max_examples=60, deadline=None)
@given(damaged(ADMIN))
def test_damaged_admin_snapshots_neither_raise_nor_get_lost(raw):
    check_bytes(parse_admin_snapshots, raw, FORMATS["admin_snapshots"].tables)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "\ud800"}, "NOT_UNICODE"),
        ({"thread": "a\udfffb"}, "NOT_UNICODE"),
        ({"type": "start", "ts": 1795252691980, "retryTimesWhenSendFailed": 2**31}, "OUT_OF_RANGE"),
    ],
)
def test_a_value_that_no_table_holds_refuses_the_hook_line(changes, code):
    fields = next(f for f in map(json.loads, HOOK) if f["type"] == "attempt")
    (parsed,) = check_bytes(parse_hook_lines, json.dumps(fields | changes).encode(), FORMATS["producer_hook"].tables)
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

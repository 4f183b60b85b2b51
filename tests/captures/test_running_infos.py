"""The parser on whole captures, against what the collector itself read and against a count of their lines."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.bounded_lines import Line
from tests.conftest import CAPTURES
from tests.readers.line_checks import check, counts, lines_of

SNAPSHOTS = CAPTURES / "consumers" / "admin_snapshots.jsonl.gz"


def test_the_ownership_of_real_running_infos_equals_the_collectors_own_reading():
    checked = 0
    for text in gzip.decompress(SNAPSHOTS.read_bytes()).decode().splitlines():
        line = json.loads(text)
        if line["kind"] != "consumerRunningInfo" or not line["raw"]:
            continue
        (parsed,) = parse_admin_snapshots([Line(1, 0, len(text), text, None)])
        owned = [
            [r["topic"], r["broker_name"], r["queue_id"], r["dropped"], r["locked"]]
            for r in (record.row for record in parsed.records if record.table == "queue_ownership")
        ]
        assert sorted(owned) == sorted(line["mqs"])
        checked += 1
    assert checked == 1517


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (SNAPSHOTS, {"round": 68}),
        (CAPTURES / "producers" / "admin_snapshots.jsonl.gz", {"round": 54}),
    ],
    ids=["consumers", "producers"],
)
def test_every_line_of_a_capture_is_a_marker_or_a_capture(path, kinds):
    lines = [json.loads(text) for text in gzip.decompress(path.read_bytes()).decode().splitlines()]
    parsed = check(parse_admin_snapshots, lines_of(path), FORMATS["admin_snapshots"].tables)
    found = counts(parsed)
    written = Counter(line["kind"] for line in lines)
    assert found["collection_round marker"] == written.pop("round") == kinds["round"]
    assert {kind: found[f"snapshot_capture {kind}"] for kind in written} == written
    listed = sum(
        line["raw"].count('"clientAddr"') for line in lines if line["kind"].endswith("Connection") and line.get("raw")
    )
    assert found["consumer_heartbeat"] + found["producer_connection"] == listed
    assert sum(n for name, n in found.items() if name.isupper()) == 0

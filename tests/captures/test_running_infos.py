"""The parser on every running info of the capture, against the owners that the collector itself read from it."""

from __future__ import annotations

import gzip
import json

from tests.conftest import CAPTURES
from udfs.admin_snapshot_lines import parse_admin_snapshots
from udfs.bounded_lines import Line

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

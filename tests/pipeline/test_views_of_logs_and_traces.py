"""What lands of traces and of brokers' logs, asked by views: consumption, subscriptions that flip."""

from __future__ import annotations

import json
import shutil

import pytest

from hindsight import Lake
from tests.conftest import GOLDEN
from tests.pipeline.local_runs import run_here

AT = 1795253995040
MESSAGE, DELIVERY = "7F00000142CF5FFD2B2769121E1F0000", "7F00000199CF5FFD2B2769121E1F0001"
RECORDS = (
    ["SubBefore", str(AT), "r", "g", DELIVERY, MESSAGE, "2", "k1"],
    ["SubAfter", DELIVERY, MESSAGE, "21", "false", "k1", "2", str(AT + 21), "g"],
    ["SubAfter", f"{DELIVERY[:-1]}2", MESSAGE, "5", "true", "k1"],  # of a C++ client
)


@pytest.fixture(scope="module")
def lake(settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("views")
    for case in ("c42", "c42b"):
        shutil.copytree(GOLDEN / f"field_cases/{case}/broker_log", root / f"landing/broker_log/cluster={case}")
    traces = root / "landing/trace_topic/cluster=x"
    traces.mkdir(parents=True)
    lines = [
        {"type": "message", "msgId": f"M{n}", "bornTimestamp": AT, "body": "\x01".join(record) + "\x02"}
        for n, record in enumerate(RECORDS)
    ]
    (traces / "dump.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, root / "landing", root / "lake")
    return Lake(str(root / "lake"))


def rows_of(lake, query):
    answer = lake.sql(query).arrow()
    return (answer.read_all() if hasattr(answer, "read_all") else answer).to_pylist()


def test_each_delivery_is_a_row_with_its_result(lake):
    rows = rows_of(lake, "SELECT * FROM message_consumption ORDER BY request_id")
    told = [(r["consumer_group"], r["retry_times"], r["cost_ms"], r["result"], r["success"]) for r in rows]
    assert told == [("g", 2, 21, "EXCEPTION", False), (None, None, 5, "SUCCESS", True)]
    assert {r["consumer"] for r in rows} == {f"process {DELIVERY[:-12]}"}


def test_a_subscription_that_flips_is_inconsistent_and_one_of_new_versions_is_not(lake):
    rows = rows_of(lake, "SELECT * FROM subscription_flips")
    told = [(r["cluster"], r["consumer_group"], r["changes"], r["one_of"], r["another"], r["code"]) for r in rows]
    assert told == [("c42", "g_flip", 10, "TagA", "TagB", "SUBSCRIPTION_INCONSISTENT")]

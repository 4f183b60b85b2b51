"""Logs and brokers' settings beside a capture, landed together: what they add to its findings."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from hindsight import Lake
from hindsight.jobs.bundling.bundle_file import packed, unpacked
from hindsight.jobs.bundling.made_bundle import made_bundle
from hindsight.jobs.bundling.subject import subject_of
from hindsight.jobs.commands.replay_command import replayed
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from tests.conftest import GOLDEN
from tests.pipeline.local_runs import run_here

BEGIN = 1795253414  # 09:30:14, the capture's first round
SAMPLE = GOLDEN.parent.parent / "data_samples/admin_snapshots/cluster=oracle/consumers.jsonl.gz"
RESULT = (
    "{} INFO RocketmqClient - rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g_avg, "
    "topic=OracleOrders, clientId=127.0.0.1@4.7.1_a1, mqAllSize=12, cidAllSize=2, rebalanceResultSize=1, "
    "rebalanceResultSet=[MessageQueue [topic=OracleOrders, brokerName=broker-a, queueId=0]]\n"
)
REFUSED = (
    "{} WARN RocketmqClient - execute the pull request exception\n"
    "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 24  DESC: the consumer's subscription not exist\n"
)
CHANGE = (
    "{} INFO ClientManageThread_1 - subscription changed, group: g_order OLD: SubscriptionData [classFilterMode=false, "
    "topic=OracleOrders, subString={}, tagsSet=[], codeSet=[], subVersion=1, expressionType=TAG] NEW: SubscriptionData "
    "[classFilterMode=false, topic=OracleOrders, subString={}, tagsSet=[], codeSet=[], subVersion=2, "
    "expressionType=TAG]\n"
)


def stamp(second, zone=UTC, form="%Y-%m-%d %H:%M:%S,050"):
    return datetime.fromtimestamp(BEGIN + second, zone).strftime(form)


@pytest.fixture(scope="module")
def lake(settings, tmp_path_factory) -> tuple[str, Lake]:
    root = tmp_path_factory.mktemp("beside")
    landing = {n: root / f"landing/{n}/cluster=x" for n in ("admin_snapshots", "client_log", "broker_log")}
    for folder in landing.values():
        folder.mkdir(parents=True)
    lines = [json.loads(line) for line in gzip.decompress(SAMPLE.read_bytes()).splitlines()]
    for line in [line for line in lines if line["kind"] == "round"]:
        for broker in ("broker-a", "broker-c"):
            raw = {"groupName": "g_order", "consumeEnable": broker == "broker-a"}
            told = {"kind": "subscriptionGroupConfig", "subject": "g_order", "broker": broker, "raw": json.dumps(raw)}
            lines.append({**told, "ts": line["ts"] + 500})
    (landing["admin_snapshots"] / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (landing["client_log"] / "a.log").write_text(
        RESULT.format(stamp(0)) + "".join(REFUSED.format(stamp(s)) for s in range(100, 160, 3))
    )
    tags, gmt8 = ("TagA", "TagB"), timezone(timedelta(hours=8))
    changes = [(60 + 30 * n, tags[n % 2], tags[(n + 1) % 2]) for n in range(4)]
    (landing["broker_log"] / "broker-a.log").write_text(
        "".join(CHANGE.format(stamp(s, gmt8, "%Y-%m-%d %H:%M:%S"), old, new) for s, old, new in changes)
    )
    run_here(settings, root / "landing", root / "lake")
    shutil.rmtree(root / "landing")
    return str(root / "lake"), Lake(str(root / "lake"))


def rows_of(lake, query):
    answer = lake.sql(query).arrow()
    return (answer.read_all() if hasattr(answer, "read_all") else answer).to_pylist()


def test_pulls_that_failed_in_a_log_of_one_group_are_told_with_its_standing_queues(lake):
    query = "SELECT sentence, evidence FROM allocation_drift WHERE code = 'UNSERVED_QUEUE' AND consumer_group = "
    rows = rows_of(lake[1], query + "'g_avg'")
    assert rows and all(
        "pulls failed (code 24, the broker does not know the subscription)" in r["sentence"] for r in rows
    )
    assert all(any("client_log/cluster=x/a.log:" in line for line in r["evidence"]) for r in rows)
    assert not any("pulls failed" in r["sentence"] for r in rows_of(lake[1], query + "'g_mix'"))


def test_a_flip_in_a_broker_s_log_and_a_broker_s_setting_are_incidents(lake):
    query = "SELECT root_cause, cause_key, sentence FROM drift_incident WHERE consumer_group = 'g_order'"
    told = {row["root_cause"]: row for row in rows_of(lake[1], query)}
    assert "went back and forth at broker-a between TagA and TagB" in told["SUBSCRIPTION_INCONSISTENT"]["sentence"]
    assert told["CONSUME_DISABLED"]["cause_key"] == "broker-c"
    assert "false at broker-c: g_order cannot consume there" in told["CONSUME_DISABLED"]["sentence"]
    assert Path(
        rows_of(lake[1], "SELECT evidence[1] AS e FROM drift_incident WHERE root_cause = 'CONSUME_DISABLED'")[0]["e"]
    )


def test_bundles_of_them_take_the_lines_along(lake, settings, tmp_path):
    root, opened = lake
    asker = LocalAsker(LocalLake(root, retention_days=7))
    for cause in ("CONSUME_DISABLED", "SUBSCRIPTION_INCONSISTENT"):
        asked = f"SELECT incident_id FROM drift_incident WHERE consumer_group = 'g_order' AND root_cause = '{cause}'"
        (row,) = rows_of(opened, asked)
        bundle = made_bundle(asker.lake, settings, subject_of(asker, row["incident_id"], None, None))
        (tmp_path / "bundle.zip").write_bytes(packed(bundle))
        assert all(verdict.is_same for verdict in replayed(unpacked(tmp_path / "bundle.zip")[0]))
    asker.close()

"""Groups that consume Lite topics (5.4 on): names are stored whole, sessions' lags told, nothing is called sick."""

from __future__ import annotations

import json

import pytest

from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

T0 = 1795168800000
MINUTE = 60_000
ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{0:"10.1.0.11:10911"},"brokerName":"broker-a","cluster":"C"}],"filterServerTable":{},'
    '"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
NOBODY = "CODE: 206  DESC: the consumer group[g] not online BROKER: 10.1.0.11:10911"


def stats(offsets):
    queues = ",".join(
        f'{{"brokerName":"broker-a","queueId":0,"topic":"{topic}"}}:{{"brokerOffset":{end},"consumerOffset":{at},'
        f'"lastTimestamp":{T0 - 2000},"pullOffset":{at}}}'
        for topic, (end, at) in offsets.items()
    )
    return f'{{"consumeTps":0.5,"offsetTable":{{{queues}}}}}'


def sweep(group, at, offsets):
    yield {"kind": "round", "ts": at}
    yield {"kind": "topicRoute", "subject": "chat", "ts": at + 1, "raw": ROUTE}
    yield {"kind": "consumerConnection", "subject": group, "broker": "broker-a", "ts": at + 2, "error": NOBODY}
    yield {"kind": "consumeStats", "subject": group, "broker": "broker-a", "ts": at + 3, "raw": stats(offsets)}


SESSIONS = {
    # Messages of one session come, and nothing of the group moves: its client may be gone for good.
    "stuck": lambda n: {"%LMQ%$chat$s-1": (100 + 9 * n, 60), "%LMQ%$chat$s-2": (5, 5)},
    # A session that expired begins at 0 again.
    "expired": lambda n: {"%LMQ%$chat$s-1": (900, 900) if n < 4 else (7, 3)},
}


@pytest.fixture(scope="module")
def lake(settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("lite")
    for group, offsets in SESSIONS.items():
        folder = root / f"landing/admin_snapshots/cluster={group}"
        folder.mkdir(parents=True)
        lines = [line for n in range(12) for line in sweep(group, T0 + n * MINUTE, offsets(n))]
        (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    return LakeRows(root / "lake")


@pytest.mark.parametrize("group", sorted(SESSIONS))
def test_a_lite_group_is_neither_sick_nor_healthy(lake, group):
    rounds = [r for r in lake("group_round") if r.consumer_group == group]
    assert [(r.topic, r.verdict) for r in rounds] == [("chat", "unknown")] * 12
    assert {"Lite topics of chat" in r.scope_reason for r in rounds} == {True}
    assert lake("drift_incident", f"consumer_group = '{group}'") == []
    assert lake("quarantine") == []


def test_the_lag_of_each_session_is_told(lake):
    last = lake.ask("SELECT topic, MAX_BY(messages_behind, captured_at) AS behind FROM consume_delay GROUP BY ALL")
    assert {(row.topic, row.behind) for row in last} >= {("%LMQ%$chat$s-2", 0)}
    stuck = lake("consume_delay", "cluster = 'stuck' AND topic = '%LMQ%$chat$s-1'")
    assert sorted(row.messages_behind for row in stuck) == [40 + 9 * n for n in range(12)]

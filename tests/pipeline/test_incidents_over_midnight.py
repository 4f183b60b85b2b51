"""An incident that lasts over midnight is one row, and late rounds correct what was said of it before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lake_rows import LakeRows, Row
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)
STARTED = MIDNIGHT - timedelta(hours=3)
AVG = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@1f"


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def capture(at: datetime, kind: str, subject: str, raw: str) -> dict:
    return {"ts": ms(at), "ts_end": ms(at) + 5, "kind": kind, "subject": subject, "error": None, "raw": raw}


def running_info(at: datetime, queues: tuple[int, ...]) -> str:
    held = ",".join(
        f'{{"brokerName":"broker-a","queueId":{q},"topic":"T"}}:'
        f'{{"cachedMsgCount":0,"droped":false,"lastConsumeTimestamp":{ms(at)},"lastPullTimestamp":{ms(at)},"locked":false}}'
        for q in queues
    )
    said = {
        "properties": {
            "messageModel": "CLUSTERING",
            "allocateMessageQueueStrategy": AVG,
            "PROP_CONSUMER_START_TIMESTAMP": str(ms(STARTED)),
        },
        "subscriptionSet": [{"topic": "T", "subString": "*", "expressionType": "TAG", "tagsSet": []}],
    }
    return json.dumps(said)[:-1] + f',"mqTable":{{{held}}}}}'


def one_round(at: datetime, orphaned: bool) -> list[dict]:
    """c1 and c2 share two queues; in an orphaned round c2 holds none of its own."""
    route = (
        '{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a"}],"queueDatas":[{"brokerName":"broker-a",'
        + ('"perm":6,"readQueueNums":2,"writeQueueNums":2}]}')
    )
    members = [{"clientAddr": f"10.0.0.{c}:1", "clientId": f"c{c}", "language": "JAVA", "version": 409} for c in (1, 2)]
    listing = {"connectionSet": members, "messageModel": "CLUSTERING", "subscriptionTable": {}}
    return [
        {"ts": ms(at), "kind": "round"},
        capture(at, "topicRoute", "T", route),
        capture(at, "consumerConnection", "g", json.dumps(listing)),
        capture(at, "consumerRunningInfo", "g|c1", running_info(at, (0,))),
        capture(at, "consumerRunningInfo", "g|c2", running_info(at, () if orphaned else (1,))),
    ]


def rounds(begin_min: int, end_min: int, orphaned: tuple[int, int]) -> list[dict]:
    """Rounds every 30 s from minute to minute, counted from midnight; orphaned from minute to minute."""
    instants = [MIDNIGHT + timedelta(seconds=s) for s in range(begin_min * 60, end_min * 60, 30)]
    first, last = (MIDNIGHT + timedelta(minutes=m) for m in orphaned)
    return [line for at in instants for line in one_round(at, first <= at < last)]


# The record of the minutes before comes last.
PARTS = {
    "evening": rounds(-10, 0, (-5, 0)),
    "night": rounds(0, 20, (0, 5)),
    "late": rounds(-20, -10, (-12, -10)),
}


@pytest.fixture
def flag(settings):
    def run(root: Path, *parts: str) -> list[Row]:
        """Land the parts, run both jobs, tell the incidents."""
        folder = root / "landing" / "admin_snapshots" / "cluster=x"
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in PARTS[part]))
        run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
        return LakeRows(root / "lake").ask("SELECT * FROM drift_incident ORDER BY opened_at")

    return run


def clock(at: datetime | None) -> str | None:
    return at and f"{at:%H:%M:%S}"


@pytest.mark.soak  # four runs of two jobs
def test_an_incident_over_midnight_is_one_row_and_late_rounds_correct_it(flag, tmp_path):
    (evening,) = flag(tmp_path / "parts", "evening")
    # Without owner from 23:55; two rounds and 60 s.
    assert (evening.state, clock(evening.opened_at), evening.settled) == ("OPEN", "23:56:00", False)
    # The evening's captures touch the next date too, as a round may: it is the last date that is known.
    assert str(evening.event_date) == "2026-01-06"

    (night,) = flag(tmp_path / "parts", "night")
    # Owned again from 00:05; three rounds and 60 s. It moved on to the date on which it ended.
    assert (night.state, clock(night.resolved_at), night.settled) == ("RESOLVED", "00:06:00", True)
    assert (night.incident_id, clock(night.opened_at)) == (evening.incident_id, "23:56:00")
    assert str(night.event_date) == "2026-01-06"

    both = flag(tmp_path / "parts", "late")
    # Without owner from 23:48 to 23:50, owned until 23:55: an incident of its own first, the same again after it.
    assert [(clock(i.opened_at), i.state) for i in both] == [("23:49:00", "RESOLVED")]
    assert both[0].incident_id == evening.incident_id

    flag(tmp_path / "whole", "evening", "night", "late")
    for table in ("drift_incident", "allocation_drift", "group_drift_state", "membership_change", "group_round"):
        parts, whole = (contents(tmp_path / lake / "lake")[table] for lake in ("parts", "whole"))
        assert parts == whole, table
        assert whole or table == "membership_change"


def test_a_rebalance_that_a_round_over_midnight_shows_is_of_that_round_s_date(settings, tmp_path):
    """The round begins a second before midnight, its answers are read a second after: c2 has its queue no more."""
    before, over = MIDNIGHT - timedelta(seconds=31), MIDNIGHT - timedelta(seconds=1)
    late = [line if line["kind"] == "round" else {**line, "ts": line["ts"] + 2000} for line in one_round(over, True)]
    folder = tmp_path / "landing" / "admin_snapshots" / "cluster=x"
    folder.mkdir(parents=True)
    lines = [*one_round(before, False), *late, *one_round(MIDNIGHT + timedelta(seconds=29), True)]
    (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, tmp_path / "landing", tmp_path / "lake", OF_CONSUMERS)
    (shown,) = LakeRows(tmp_path / "lake").ask("SELECT * FROM rebalance_event WHERE client_id = 'c2'")
    assert (str(shown.event_date), clock(shown.changed_at), shown.queues_lost) == ("2026-01-05", "00:00:01", 1)

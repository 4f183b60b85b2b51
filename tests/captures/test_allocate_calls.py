"""Every allocate call that real clients made: computed again from its inputs, and predicted from snapshots alone."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections import Counter, defaultdict

import pytest

from hindsight.udfs.allocation import MessageQueue, allocate_for
from hindsight.udfs.release_profiles import profile_for
from tests.capture_rounds import CaptureRounds
from tests.conftest import CAPTURES

CONSUMERS = CAPTURES / "consumers"


@pytest.fixture(scope="module")
def calls():
    with gzip.open(CONSUMERS / "allocate.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def release(client_id: str) -> str:
    """Instance names begin with it here; the two members that were killed and frozen have none and run 4.9.8."""
    name = client_id.rpartition("@")[2].partition("_")[0]
    return name if name.count(".") == 2 else "4.9.8"


def test_every_call_gives_the_same_queues_in_the_same_order(calls):
    different = []
    for call in calls:
        queues = [MessageQueue(*queue) for queue in call["mq_all"]]
        profile = profile_for(release(call["clientId"])).id
        answer = allocate_for(call["strategy"], call["clientId"], queues, call["cid_all"], profile=profile)
        if [list(queue) for queue in answer or ()] != call["result"]:
            different.append(call)
    assert len(calls) == 2293
    assert different == []


@pytest.fixture(scope="module")
def rounds():
    """Per group and topic the rounds that read it: instant (ms), members, queues with those who claim them."""
    capture, found = CaptureRounds(CONSUMERS / "admin_snapshots.jsonl.gz"), defaultdict(list)
    for group in capture.groups:
        for row in capture.of_group(group):
            if row["row_kind"] != "round":
                continue
            full = row["round"]()
            for topic in full["topics"]:
                if topic["shares"] is not None:
                    claims = topic["shares"].claimants
                    found[group, topic["topic"]].append((row["at"].timestamp() * 1000, full["members"], claims))
    return found


def predicted(rounds, call) -> str:
    """Whether the latest round before the call says what it answered, else why not."""
    read = rounds.get((call["group"], call["mq_all"][0][0]), [])
    if not read:
        return "the topic's route was not collected"
    latest = bisect_right(read, call["ts"], key=lambda r: r[0]) - 1
    if latest < 0:
        return "made before the first round that read the group"
    _, members, claims = read[latest]
    if {queue for queue, by in claims.items() if call["clientId"] in by} == {(b, q) for _, b, q in call["result"]}:
        return "agrees"
    if sorted(call["cid_all"]) != sorted(members):
        return "the client had another list of members"
    if {(b, q) for _, b, q in call["mq_all"]} != claims.keys():
        return "the client had another route"
    return "unexplained"


def test_the_snapshots_alone_predict_what_clients_answered_where_their_views_were_the_same(calls, rounds):
    """Retry topics have no collected route; members differ most in g_idle, which is read every fourth round."""
    assert Counter(predicted(rounds, call) for call in calls) == {
        "agrees": 670,
        "the topic's route was not collected": 1120,
        "the client had another list of members": 309,
        "made before the first round that read the group": 194,
    }

"""Client logs of a real cluster: what is found in them equals what grep finds, and what the clients recorded."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from datetime import UTC
from functools import cache, partial
from random import Random

import pytest

from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.random_examples import SOAKING
from tests.readers.line_checks import GOLDEN, check, check_bytes, counts, lines_of, raw_lines

CAPTURES = GOLDEN / "captures"
CONSUMERS = sorted(CAPTURES.glob("consumers/client_logs/*/*.gz"))
PRODUCERS = sorted(CAPTURES.glob("producers/client_logs/*/*.gz"))
TABLES = FORMATS["client_log"].tables
parse = partial(parse_client_log, zone=UTC)

# What grep finds in a message of each kind, apart from the templates.
GREP = {
    "client_event queue_added": rb"doRebalance, [^,]*, add a new mq, M",
    "client_event queue_began": rb"doRebalance, [^,]*, add a new pull request ",
    "client_event queue_removed": rb"- doRebalance, [^,]*, remove unnecessary mq",
    "client_event queue_pull_expired": rb"\[BUG\]doRebalance",
    "client_event queue_dropped": rb"\]\] is dropped\.|because it's dropped",
    "client_event queue_unlocked": rb"unlock messageQueue",
    "client_event lock_acquired": rb"message queue lock(ed)? OK",
    "client_event lock_failed": rb"message queue lock(ed)? Failed|because lock failed",
    "client_event member_not_listed": rb"not in cidAll",
    "client_event members_changed": rb"receive broker's notification",
    "client_event member_list_failed": rb"getConsumerIdListByGroup exception|get consumer id list failed",
    "client_event broadcast_queues_changed": rb"messageQueueChanged ",
    "client_event rebalance_applied": rb"Rebalance changed, also",
    "client_event route_changed": rb"route info changed",
    "client_event route_missing": rb"RouteInfoFromNameServer is not exist value",
    "client_event route_read_failed": rb"updateTopicRouteInfoFromNameServer( E|, get)",
    "client_event broker_offline": rb"is offline, remove it",
    "client_event heartbeat_sent": rb"send heart beat to broker.*success",
    "client_event heartbeat_failed": rb"send heart beat to broker.*failed",
    "client_event send_failed": rb"sendKernelImpl exception",
    "client_event failed_message": rb"WARN RocketmqClient - Message\{",
    "client_event async_send_retried": rb"async send msg by retry",
    "client_event broker_isolated": rb"will be isolated for",
    "client_event broker_unreachable": rb"is unreachable, it will",
    "client_event broker_reachable": rb"is reachable now",
    "client_event client_created": rb"Created a new client Instance",
    "client_event client_started": rb"the client factory .* start OK",
    "client_event client_stopped": rb"the client factory .* shutdown OK",
    "client_event pull_failed": rb"execute the pull request exception|the subscription is not latest, group=",
    "client_event pull_suspended": rb"pull message later because not locked in broker",
    "client_event offset_stored": rb"\[persist\] Group: ",
    "client_event offset_first_read": rb"the first time to pull message, so fix offset from broker",
    "rebalance_result": rb"rebalanced result changed",
}


@cache
def read(path):
    """What is found in each line of a log."""
    return check(parse, lines_of(path), TABLES)


@pytest.mark.parametrize("path", [*CONSUMERS, *PRODUCERS], ids=lambda p: "-".join(p.parts[-4:-1:3]) + p.parts[-2])
def test_every_kind_is_found_as_often_as_grep_finds_it(path):
    found = counts(read(path))
    stamped = [line for line in raw_lines(path) if re.match(rb"\d{4}-\d\d-\d\d ", line)]
    grepped = {kind: sum(1 for line in stamped if re.search(pattern, line)) for kind, pattern in GREP.items()}
    assert found == {kind: n for kind, n in grepped.items() if n}


def test_each_result_of_a_log_is_an_allocate_call_of_the_same_client_at_that_time():
    calls = defaultdict(list)
    for text in gzip.decompress((CAPTURES / "consumers/allocate.jsonl.gz").read_bytes()).decode().splitlines():
        call = json.loads(text)
        result = frozenset((broker, queue) for _, broker, queue in call["result"] or [])
        seen = (call["mq_all"][0][0], len(call["mq_all"]), len(call["cid_all"]))
        calls[call["group"], call["clientId"], call["strategy"], *seen, result].append(call["ts"])
    matched = 0
    for path in CONSUMERS:
        for parsed in read(path):
            for row in (r.row for r in parsed.records if r.table == "rebalance_result"):
                result = frozenset((q["broker_name"], q["queue_id"]) for q in row["queues"])
                seen = (row["topic"], row["queue_count"], row["member_count"])
                ts = calls[row["consumer_group"], row["client_id"], row["strategy"], *seen, result]
                assert any(-200 <= row["logged_at"] - t <= 1000 or abs(row["logged_at"] - t) < 1000 for t in ts), row
                matched += 1
    assert matched == 254


@pytest.mark.random
@pytest.mark.parametrize("path", [*CONSUMERS, *PRODUCERS], ids=lambda p: p.parts[-2])
def test_a_log_that_is_cut_tells_the_same_and_nothing_twice(path):
    """Cut anywhere between records: equal lines of one instant in two files are copies of each other."""
    lines, rng = raw_lines(path), Random(20261123)
    places = [i for i, line in enumerate(lines) if i and line.startswith(b"20")]
    whole = logged_rows(read(path))
    for _ in range(3 if SOAKING and len(lines) <= 5_000 else 1):
        at = rng.choice(places)
        halves = (check_bytes(parse, b"".join(half), TABLES) for half in (lines[:at], lines[at:]))
        parts = set().union(*map(logged_rows, halves))
        assert parts <= whole
        assert {row for row, _ in parts} == {row for row, _ in whole}


def logged_rows(parsed: list[ParsedLine]) -> set[tuple[str, int]]:
    """What each line tells, and which of the equal lines of its instant it is."""
    made = [r.row for p in parsed for r in p.records]
    return {(str({name: row[name] for name in row if name != "occurrence"}), row["occurrence"]) for row in made}


def test_the_13_members_that_were_not_listed_name_the_list_they_were_not_in():
    events = [
        r.row for path in CONSUMERS for p in read(path) for r in p.records if r.row.get("kind") == "member_not_listed"
    ]
    assert len(events) == 13
    assert all(e["members"] and e["client_id"] not in e["members"] for e in events)


def test_every_failed_send_of_a_log_has_its_exception_its_latency_and_its_broker():
    failed = [r.row for path in PRODUCERS for p in read(path) for r in p.records if r.row.get("kind") == "send_failed"]
    assert len(failed) == 139 + 94 + 129
    assert all(f["exception"].startswith(("org.apache.rocketmq.", "java.")) for f in failed)
    assert all(f["latency_ms"] >= 0 and f["broker_name"] and f["invoke_id"] for f in failed)
    assert all("\tat org.apache.rocketmq." in f["stack_trace"] for f in failed)

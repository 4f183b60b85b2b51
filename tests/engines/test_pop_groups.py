"""A POP group of a real cluster, as recorded, with what its brokers say of how they hand out queues.

The capture was taken before collectors asked for that: what `setMessageRequestMode` had set is added to it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from contextlib import closing
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, ingest_consumer_snapshots
from hindsight.jobs.asking.asking import spark_asker
from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.explaining.explain_row import explain
from hindsight.jobs.report.report_page import page
from hindsight.jobs.report.report_queries import report_data
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES
from tests.conftest import CAPTURES
from tests.pipeline.undisturbed_runs import run_on_spark

LINES = CAPTURES / "scope" / "admin_snapshots" / "cluster=scope"
BROKERS = ("broker-a", "broker-b")
OWN = {"defaultMessageRequestMode": "PULL", "defaultPopShareQueueNum": "-1", "serverLoadBalancerEnable": "true"}
ALL = {"g_pop": {"mode": "POP", "popShareQueueNum": -1}}
NAMES = ("group_round", "broker_assignment", "allocation_drift", "drift_incident", "message_request_mode")
LEFT_S, GONE_S = 82, 137  # when o2 and o1 left, seconds after the first line
REVIVE = {"consumer_group": "CID_RMQ_SYS_REVIVE_GROUP", "topic": "rmq_sys_REVIVE_LOG_Real"}


DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "broker-assignment.md"
RECIPE = re.compile(r"```sql\n([^`]+)```\n\n\|.+\|\n\|[-|]+\|\n((?:\|.+\|\n)+)")


def cells(table):
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]


def shown(value):
    return ", ".join(value) if isinstance(value, list) else str(value).lower() if value is True else str(value)


def recorded():
    """The lines of g_pop, by file, and when the first was written."""
    found = {}
    for path in sorted(LINES.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found[path.stem] = [
                line
                for line in map(json.loads, lines)
                if line["kind"] == "round"
                or line.get("subject", "").startswith("g_pop")
                or (line["kind"] == "topicRoute" and line["subject"] in ("ScopePop", "%RETRY%g_pop"))
            ]
    return found, min(line["ts"] for lines in found.values() for line in lines)


def told_modes(begin, modes, *, brokers=BROKERS, own=OWN):
    """What each broker says when the collector begins, and every 300 s."""
    lines = []
    for broker in brokers:
        for at in range(begin, begin + 400_000, 300_000):
            of_broker = {"messageRequestModeMap": {"ScopePop": modes} if modes else {}}
            said = (("messageRequestModes", of_broker), ("brokerConfig", own))
            lines += [{"ts": at, "kind": kind, "broker": broker, "raw": json.dumps(raw)} for kind, raw in said]
    return lines


@pytest.fixture
def judged(tmp_path):
    def judge(more=(), only=None, parts=1):
        """``parts``: so many runs, each with the lines of a stretch of time."""
        found, begin = recorded()
        more = more(begin) if callable(more) else more
        root = tmp_path / f"in_{parts}"
        lake = LocalLake(str(root / "lake"), retention_days=7)
        with LocalRunner(1) as runner:
            for part in range(parts):
                landing = root / "landing" / "admin_snapshots" / "cluster=scope" / f"part-{part}"
                landing.mkdir(parents=True)
                first = begin + 360_000 * part // parts
                last = begin + 360_000 * (part + 1) // parts if part + 1 < parts else math.inf
                for name, lines in {**found, "modes.jsonl": more}.items():
                    kept = [line for line in lines if only is None or only(line)]
                    own = [line for line in kept if first <= line["ts"] < last]
                    (landing / name).write_text("".join(json.dumps(line) + "\n" for line in own))
                for job in (ingest_consumer_snapshots, flag_allocation_drift):
                    job.run_on(lake, runner, load_settings(None), RunContext(str(root / "landing")))
        judge.lake = lake
        return begin, {name: lake.rows(TABLES[name], TABLES[name].contract_columns).to_pylist() for name in NAMES}

    return judge


def seconds(begin, at):
    return at.timestamp() - begin / 1000


def verdicts(begin, tables, first, last):
    rounds = [r for r in tables["group_round"] if r["topic"] == "ScopePop"]
    return {r["verdict"] for r in rounds if first <= seconds(begin, r["round_at"]) < last}


def test_members_that_pop_what_the_brokers_hand_out_are_right(judged):
    begin, tables = judged(lambda begin: told_modes(begin, ALL))
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"ok"}
    assert {r["scope_reason"] for r in tables["group_round"] if seconds(begin, r["round_at"]) < GONE_S - 5} == {None}
    assert {f["code"] for f in tables["allocation_drift"]} == {"GROUP_DOWN"}
    stretches = [row for row in tables["broker_assignment"] if row["topic"] == "ScopePop"]
    assert {row["client_id"][-2:] for row in stretches} == {"o1", "o2"}
    every = [
        {"mode": "POP", "broker_name": broker, "queue_id": -1, "certain": True} for broker in ("broker-a", "broker-b")
    ]
    assert all(row["agrees"] and row["handed_out"] == row["taken"] == every for row in stretches)
    (o2,) = (row for row in stretches if row["client_id"].endswith("o2"))
    assert LEFT_S - 10 < seconds(begin, o2["until_at"]) < LEFT_S + 10
    retries = [row for row in tables["broker_assignment"] if row["topic"] == "%RETRY%g_pop" and row["taken"]]
    assert {queue["mode"] for row in retries for queue in row["taken"]} == {"PULL"}


def test_what_brokers_hand_out_and_nobody_takes_is_a_finding(judged):
    """The brokers share each member's queues with no other; members go on popping all."""
    begin, tables = judged(lambda begin: told_modes(begin, {"g_pop": {"mode": "PULL", "popShareQueueNum": 0}}))
    assert {f["code"] for f in tables["allocation_drift"]} == {"GROUP_DOWN", "POP_ASSIGNMENT_DIFFERS"}
    found = [f for f in tables["allocation_drift"] if f["code"] == "POP_ASSIGNMENT_DIFFERS"]
    assert {(f["topic"], f["client_id"][-2:]) for f in found} == {("ScopePop", "o1"), ("ScopePop", "o2")}
    first = next(f["sentence"] for f in found if f["client_id"].endswith("o1"))
    assert first == (
        "127.0.0.1@5.3.3_o1 takes all queues of broker-a, broker-b by POP of ScopePop in g_pop; the brokers hand out "
        "broker-a:0, broker-a:1, broker-a:2, broker-a:3 by pull to it."
    )
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"drift"}
    (incident,) = (i for i in tables["drift_incident"] if "POP_ASSIGNMENT_DIFFERS" in i["codes"])
    assert incident["root_cause"] == "UNEXPLAINED"


def test_without_the_brokers_word_nothing_is_expected(judged):
    begin, tables = judged()
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"unknown"}
    reasons = {r["scope_reason"] for r in tables["group_round"] if r["scope_reason"]}
    assert any("message request mode: not known of broker-a, broker-b" in reason for reason in reasons)
    assert {row["agrees"] for row in tables["broker_assignment"]} == {None}


def test_one_broker_whose_word_lacks_leaves_it_unknown(judged):
    begin, tables = judged(lambda begin: told_modes(begin, ALL, brokers=("broker-a",)))
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"unknown"}
    assert "POP_ASSIGNMENT_DIFFERS" not in {f["code"] for f in tables["allocation_drift"]}


def test_brokers_that_differ_hand_out_what_either_does(judged):
    def modes(begin):
        pulled = {"g_pop": {"mode": "PULL", "popShareQueueNum": 0}}
        return told_modes(begin, ALL, brokers=("broker-a",)) + told_modes(begin, pulled, brokers=("broker-b",))

    begin, tables = judged(modes)
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"ok"}
    queues = [q for row in tables["broker_assignment"] if row["topic"] == "ScopePop" for q in row["handed_out"] or ()]
    assert {(q["mode"], q["certain"]) for q in queues} == {("POP", False), ("PULL", False)}


def test_the_brokers_own_mode_counts_where_none_was_set(judged):
    begin, tables = judged(lambda begin: told_modes(begin, None, own=OWN | {"defaultMessageRequestMode": "POP"}))
    assert verdicts(begin, tables, 10, GONE_S - 5) == {"ok"}


@pytest.mark.soak
def test_however_the_lines_arrive_the_rows_are_the_same(judged):
    pulled = {"g_pop": {"mode": "PULL", "popShareQueueNum": 0}}

    def modes(begin):
        first = [line for line in told_modes(begin, ALL) if line["ts"] == begin]
        return first + [line | {"ts": line["ts"] + 60_000} for line in told_modes(begin, pulled)]

    (_, whole), (_, pieces) = judged(modes), judged(modes, parts=3)
    for name in ("broker_assignment", "drift_incident", "message_request_mode"):
        assert sorted(map(repr, without_sources(whole[name]))) == sorted(map(repr, without_sources(pieces[name])))
    assert {row["agrees"] for row in whole["broker_assignment"]} >= {True, False}


@pytest.mark.soak
def test_both_engines_say_the_same(judged, spark, settings):
    def more(begin):
        pulled = {"g_pop": {"mode": "PULL", "popShareQueueNum": 0}}
        later = [line | {"ts": line["ts"] + 60_000} for line in told_modes(begin, pulled)]
        return told_modes(begin, ALL) + later + status(begin, "%RETRY%g_pop+ScopePop", 4, 4, 9)

    judged(more)
    root = Path(judged.lake.root).parent
    for job in (ingest_consumer_snapshots, flag_allocation_drift):
        run_on_spark(job, spark, settings, RunContext(str(root / "landing")), root / "spark")
    by_spark = LocalLake(str(root / "spark"), retention_days=7)
    for name in NAMES:
        found = [lake.rows(TABLES[name], TABLES[name].contract_columns).to_pylist() for lake in (judged.lake, by_spark)]
        assert sorted(map(repr, found[0])) == sorted(map(repr, found[1])), name
        assert found[0], name
    askers = LocalAsker(judged.lake), spark_asker(spark, by_spark.root, settings)
    for view in ("assigned_member", "pop_repeats"):
        told = [sorted(map(repr, records(asker, f"SELECT * FROM {view}"))) for asker in askers]
        assert told[0] == told[1] and told[0]
    where = "topic = 'ScopePop' AND client_id LIKE '%o2' AND agrees AND rounds > 3"
    told = [[(s.title, s.text()) for s in explain(asker, "broker_assignment", where)] for asker in askers]
    assert told[0][1:] == told[1][1:] and len(told[0]) > 3  # the row itself has the time of its run
    spark.sql("USE default")


def without_sources(rows):
    return [
        {name: value for name, value in row.items() if name not in ("source_file", "source_line", "evidence")}
        for row in rows
    ]


def status(begin, topic, *offsets):
    """Highest offsets of queue 0 of a topic at broker-a, each minute."""
    queue = f'{{"brokerName":"broker-a","queueId":0,"topic":"{topic}"}}'
    return [
        {
            "ts": begin + minute * 60_000,
            "kind": "topicStatus",
            "subject": topic,
            "broker": "broker-a",
            "raw": f'{{"offsetTable":{{{queue}:{{"minOffset":0,"maxOffset":{highest},"lastUpdateTimestamp":0}}}}}}',
        }
        for minute, highest in enumerate(offsets)
    ]


def test_who_asks_is_told_what_was_handed_out_and_what_came_back(judged):
    pulled = {"g_pop": {"mode": "PULL", "popShareQueueNum": 0}}

    def more(begin):
        popped_in_vain = status(begin, "%RETRY%g_pop+ScopePop", 4, 4, 9) + status(begin, "%RETRY%g_pop_ScopePop", 1, 3)
        return told_modes(begin, pulled) + popped_in_vain + status(begin, "%RETRY%g_push", 1, 50)

    judged(more)
    documented = [(query, cells(told)) for query, told in RECIPE.findall(DOCUMENT.read_text(encoding="utf-8"))]
    with closing(LocalAsker(judged.lake)) as asker:
        repeats = "SELECT consumer_group, topic, broker_name, SUM(came_back) AS came FROM pop_repeats GROUP BY ALL"
        assert [list(row.values()) for row in records(asker, repeats)] == [["g_pop", "ScopePop", "broker-a", 7]]
        members = records(
            asker,
            "SELECT DISTINCT client_id, handed_out, taken, agrees FROM assigned_member WHERE topic = 'ScopePop' "
            "ORDER BY client_id, SIZE(handed_out)",
        )
        assert members[0] == {
            "client_id": "127.0.0.1@5.3.3_o1",
            "handed_out": [f"PULL broker-a:{queue}" for queue in range(4)],
            "taken": ["POP broker-a:all", "POP broker-b:all"],
            "agrees": False,
        }
        where = "topic = 'ScopePop' AND client_id LIKE '%o2' AND agrees IS NOT NULL"
        sections = explain(asker, "broker_assignment", where)
        assert [bool(section.rows) for section in sections] == [True] * 5
        finding = f"code = 'POP_ASSIGNMENT_DIFFERS' AND {where.partition(' AND agrees')[0]} ORDER BY round_at"
        titles = [section.title for section in explain(asker, "allocation_drift", f"{finding} LIMIT 1 --")]
        assert "How the brokers hand out the queues (message_request_mode)" in titles
        html = page(report_data(asker, load_settings(None).report)).replace("<wbr>", "")
        for query, promised in documented:
            answer = [[shown(value) for value in row.values()] for row in records(asker, query)]
            assert [row for row in promised if row not in answer] == [], answer
    assert len(documented) == 2
    assert "Groups whose brokers assign the queues" in html and "POP broker-a:all" in html


def revives(begin, offsets):
    """A revive queue's offsets, (broker's, group's), each minute."""
    name = '{"brokerName":"broker-a","queueId":0,"topic":"' + REVIVE["topic"] + '"}'
    return [
        {
            "ts": begin + minute * 60_000,
            "kind": "consumeStats",
            "subject": REVIVE["consumer_group"],
            "broker": "broker-a",
            "raw": f'{{"offsetTable":{{{name}:{{"brokerOffset":{took},"consumerOffset":{gave},"lastTimestamp":0}}}}}}',
        }
        for minute, (took, gave) in enumerate(offsets)
    ]


def no_group(line):
    return line["kind"] == "consumeStats" and line["subject"] == REVIVE["consumer_group"]


QUIET = [(100, 90)] * 40
ACKED_LATER = [(100, 90)] * 3 + [(104, 90)] * 40
HEALTHY = [(100 + 10 * minute, max(90, 90 + 10 * (minute - 5))) for minute in range(40)]
AFTER_A_QUIET_TIME = [(100, 90)] * 20 + [(110, 90)] * 5 + [(120, 105)] * 15
STUCK = [(100 + 10 * minute, 90) for minute in range(40)]


@pytest.mark.parametrize(
    ("offsets", "is_found"),
    [(QUIET, False), (ACKED_LATER, False), (HEALTHY, False), (AFTER_A_QUIET_TIME, False), (STUCK, True)],
    ids=["quiet", "acknowledged later", "healthy", "after a quiet time", "stuck"],
)
def test_a_revive_queue_lags_where_what_was_popped_long_ago_does_not_come_back(judged, offsets, is_found):
    _, tables = judged(lambda begin: revives(begin, offsets), no_group)
    assert {f["code"] for f in tables["allocation_drift"]} == ({"REVIVE_LAG"} if is_found else set())
    assert [i["state"] for i in tables["drift_incident"]] == (["OPEN"] if is_found else [])
    assert tables["group_round"] == []
    if is_found:
        first = min(tables["allocation_drift"], key=lambda f: f["round_at"])
        assert (first["broker_name"], first["queue_id"], first["topic"]) == ("broker-a", 0, REVIVE["topic"])
        assert "has not moved for 780 s while 130 messages came" in first["sentence"]


def test_a_stuck_revive_queue_stays_found_while_reads_of_it_fail(judged):
    def lines(begin):
        failed = {"kind": "consumeStats", "subject": REVIVE["consumer_group"], "broker": "broker-b", "error": "no"}
        return [*revives(begin, STUCK[:20]), {**failed, "ts": begin + 19 * 60_000 + 30_000}]

    _, tables = judged(lines, no_group)
    last = max(tables["allocation_drift"], key=lambda f: f["round_at"])
    assert last["code"] == "REVIVE_LAG" and last["evidence"]


def test_a_revive_queue_that_moves_on_ends_the_finding(judged):
    _, tables = judged(lambda begin: revives(begin, STUCK[:30] + [(400, 395)] * 10), no_group)
    assert [i["state"] for i in tables["drift_incident"]] == ["RESOLVED"]

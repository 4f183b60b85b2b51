"""Snapshots as operators have them, a cluster a case, from the landing folder to verdicts and incidents."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import datetime, timedelta

import pytest

from tests.conftest import GOLDEN
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.readers.mqadmin_printer import RELEASES, status

CASES = GOLDEN / "field_cases"
OF_MQADMIN, OF_COLLECTORS = ("c14", "c14ok", "c15", "c16"), ("c16ok", "c20", "c20ok", "c21")
T0 = datetime(2026, 11, 20, 10, 0)
# What differs between two ways to write the same facts down: where it stands, when and by which run it was read.
ABOUT_THE_ROW = {"cluster", "source_file", "source_line", "ingested_at", "computed_at", "run_id", "evidence"}
ABOUT_THE_ROW |= {"incident_id"}  # made of the cluster's name too


@pytest.fixture(scope="module")
def taken(settings, tmp_path_factory):
    """Rows of a table of the lake, by cluster, after one run of the pipeline's jobs on all cases."""
    root = tmp_path_factory.mktemp("field_cases")
    for name, cases in (("mqadmin", OF_MQADMIN), ("admin_snapshots", OF_COLLECTORS)):
        for case in cases:
            shutil.copytree(CASES / case / f"cluster={case}", root / "landing" / name / f"cluster={case}")
    without_queues(root / "landing/mqadmin/cluster=status")
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    rows = LakeRows(root / "lake")
    return lambda table, cluster: rows(table, f"cluster = '{cluster}'")


def without_queues(cluster):
    """c14 as it is where the files that consumerStatus wrote were not kept: what it printed was."""
    shutil.copytree(CASES / "c14/cluster=c14", cluster, ignore=shutil.ignore_patterns("17951*"))
    folder = cluster / "run"
    commands = [json.loads(line) for line in (folder / "commands.jsonl").read_text().splitlines()]
    connections = [command for command in commands if command["args"].startswith("consumerConnection")]
    for number, command in enumerate(connections):
        group = command["args"].split()[-1]
        commands.append(command | {"file": f"status_{number}.txt", "args": f"consumerStatus -g {group}"})
        (folder / f"status_{number}.txt").write_text(status(RELEASES[-1]))
    (folder / "commands.jsonl").write_text("".join(json.dumps(command) + "\n" for command in commands))


def facts(rows):
    return sorted((_facts(row) for row in rows), key=repr)


def _facts(told):
    if isinstance(told, dict):
        return {name: _facts(value) for name, value in told.items() if name not in ABOUT_THE_ROW}
    return [_facts(value) for value in told] if isinstance(told, list) else told


@pytest.mark.parametrize("case", [*OF_MQADMIN, *OF_COLLECTORS])
def test_nothing_of_a_case_is_refused(taken, case):
    assert taken("quarantine", case) == []


@pytest.mark.parametrize("case", ["c14", "c14ok"])
def test_four_sweeps_are_four_rounds_that_show_the_orphan(taken, case):
    rounds = taken("group_round", case)
    assert sorted({r.round_at for r in rounds}) == [T0 + timedelta(minutes=m) for m in range(4)]
    of_topic = [r for r in rounds if r.topic == "order_event"]
    assert {(tuple(r.members), r.message_model) for r in of_topic} == {
        (("10.1.2.3@7#11", "10.1.2.4@7#12"), "CLUSTERING")
    }
    (expected,) = taken("expected_allocation", case)
    assert len(expected.allocation) == 8
    found = taken("allocation_drift", case)
    assert {(d.code, d.topic, d.broker_name, d.queue_id) for d in found} == {
        ("ORPHAN_QUEUE", "order_event", "broker-b", 3)
    }
    (incident,) = taken("drift_incident", case)
    assert (incident.codes, incident.severity, incident.state) == (["ORPHAN_QUEUE"], "CRITICAL", "OPEN")


def test_running_infos_that_were_asked_for_and_not_kept_are_said_to_be_ignored(taken):
    of_topic = [r for r in taken("group_round", "status") if r.topic == "order_event"]
    assert len(of_topic) == 4
    for row in of_topic:
        (ignored,) = [text for text in row.missing_inputs if text.startswith("running infos: ")]
        assert ignored.startswith("running infos: asked and ignored: consumerStatus -g")
        assert row.verdict == "unknown"
    # What stands beside queues that are read shows without them: c14 tells for certain that it has no owner.
    (orphan,) = {(d.topic, d.broker_name, d.queue_id) for d in taken("allocation_drift", "c14")}
    found = [(d.code, d.trust, (d.topic, d.broker_name, d.queue_id)) for d in taken("allocation_drift", "status")]
    assert found == [("UNSERVED_QUEUE", "possible", orphan)] * 3


@pytest.mark.parametrize(
    "table",
    [
        "collection_round",
        "snapshot_capture",
        "consumer_heartbeat",
        "queue_ownership",
        "queue_progress",
        "topic_route",
        "group_round",
        "expected_allocation",
        "allocation_drift",
        "drift_incident",
    ],
)
def test_warnings_and_other_line_ends_change_nothing(taken, table):
    noisy, plain = facts(taken(table, "c14")), facts(taken(table, "c14ok"))
    assert noisy == plain
    assert plain != []


def test_both_subscriptions_of_an_old_release_stand_in_the_row(taken):
    captures = [c for c in taken("snapshot_capture", "c15") if c.kind == "consumerConnection"]
    assert len(captures) == 3
    for capture in captures:
        told = {s.topic: s.sub_string for s in capture.subscriptions}
        assert told == {"pay_event": "TagA || TagB", "%RETRY%g_pay": "*"}
    members = Counter(h.client_id for h in taken("consumer_heartbeat", "c15"))
    assert members == {"10.1.2.3@7": 3, "10.1.2.4@7": 3}


@pytest.mark.parametrize("case", ["c16", "c16ok"])
def test_a_command_that_failed_is_a_read_that_failed(taken, case):
    listings = [c for c in taken("snapshot_capture", case) if c.kind == "consumerConnection"]
    told = [(c.subject, c.answered, c.error_code) for c in sorted(listings, key=lambda c: c.captured_at)]
    assert told == [("g_face", True, None)] * 2 + [("g_face", False, 206)] * 6
    assert len({c.round_at for c in listings}) == 8
    assert {"the consumer group[g_face] not online" in (c.error or "") for c in listings if not c.answered} == {True}


def test_the_dashboards_answers_are_those_of_the_brokers(taken):
    for table in ("snapshot_capture", "consumer_heartbeat", "queue_ownership", "topic_route", "group_round"):
        wrapped, pasted = facts(taken(table, "c20")), facts(taken(table, "c20ok"))
        assert wrapped == pasted
        assert pasted != []
    assert {c.answered for c in taken("snapshot_capture", "c20")} == {True}


def test_queues_that_go_clients_drop_are_nobodys(taken):
    owned = taken("queue_ownership", "c21")
    assert {row.dropped for row in owned} == {True, False}
    assert {r.verdict for r in taken("group_round", "c21") if r.topic == "seq"} == {"ok"}
    assert taken("allocation_drift", "c21") == []


@pytest.mark.parametrize("case", ["c16", "c16ok"])
def test_a_group_that_nobody_consumes_is_down_once_that_has_shown_for_a_minute(taken, case):
    """Its last members were listed at 10:01; from 10:02 on no broker knows any, and no offset moves."""
    (incident,) = taken("drift_incident", case)
    told = (incident.consumer_group, incident.root_cause, incident.severity, incident.state)
    assert told == ("g_face", "GROUP_DOWN", "CRITICAL", "OPEN")
    assert incident.opened_at.replace(second=0, microsecond=0) == T0 + timedelta(minutes=3)
    verdicts = {r.round_at: r.verdict for r in taken("group_round", case) if r.topic == "face_event"}
    assert [verdicts[at] for at in sorted(verdicts)] == ["ok"] * 2 + ["unknown"] + ["drift"] * 5

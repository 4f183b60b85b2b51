"""A group of a Java, a Go and a C++ member from the collector's lines to the incident: its cause is found."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hindsight.conf.settings import ClientFamily
from hindsight.jobs import render_report
from hindsight.jobs.running.run_context import RunContext
from hindsight.udfs.consumer.client_balance import queues_pulled
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.test_incidents_over_midnight import AVG, capture, ms

BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)
JAVA, GO, CPP = "10.0.0.1@1", "10.0.0.2@DEFAULT", "10.0.0.3@3#DEFAULT"
MEMBERS = {JAVA: ("JAVA", 409), GO: ("GO", 317), CPP: ("CPP", 333)}
QUEUE_DATAS = [{"brokerName": name, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6} for name in ("a", "b")]


def held(client_id: str, profile: str) -> list[dict]:
    queues = queues_pulled(QUEUE_DATAS, [*MEMBERS], client_id, "AVG", topic="T", profile=profile)
    return [{"brokerName": q.broker_name, "queueId": q.queue_id, "topic": q.topic} for q in sorted(queues)]


def running_info(at: datetime, client_id: str, profile: str) -> str:
    """As each language's client writes it: only Java's names its strategy, C++ writes numbers as text."""
    now = ms(at)
    if client_id == CPP:
        now, extra = str(now), {"PROP_CLIENT_VERSION": "V4_6_0", "PROP_CLIENT_CORE_VERSION": "CPP CORE VERSION: 2.2.0"}
    else:
        extra = {"PROP_CLIENT_VERSION": "v2.0.0-alpha3", "PROP_CONSUME_TYPE": "push"}
    if client_id == JAVA:
        extra = {"PROP_CLIENT_VERSION": "V4_9_8", "messageModel": "CLUSTERING", "allocateMessageQueueStrategy": AVG}
    dropped = "dropped" if client_id == GO else "droped"
    own = {dropped: False, "cachedMsgCount": 0, "lastConsumeTimestamp": now, "lastPullTimestamp": now, "locked": False}
    table = ",".join(f"{json.dumps(queue)}:{json.dumps(own)}" for queue in held(client_id, profile))
    said = {
        "properties": {"PROP_CONSUMER_START_TIMESTAMP": str(ms(BEGIN - timedelta(hours=3))), **extra},
        "subscriptionSet": [{"topic": "T", "subString": "*", "expressionType": "TAG", "tagsSet": []}],
    }
    return json.dumps(said)[:-1] + f',"mqTable":{{{table}}}}}'


def one_round(at: datetime, profiles: dict[str, str]) -> list[dict]:
    brokers = [{"brokerAddrs": {"0": f"{name}:1"}, "brokerName": name} for name in ("a", "b")]
    members = [
        {"clientAddr": f"{client_id.partition('@')[0]}:1", "clientId": client_id, "language": said, "version": number}
        for client_id, (said, number) in MEMBERS.items()
    ]
    listing = {"connectionSet": members, "messageModel": "CLUSTERING", "subscriptionTable": {}}
    return [
        {"ts": ms(at), "kind": "round"},
        capture(at, "topicRoute", "T", json.dumps({"brokerDatas": brokers, "queueDatas": QUEUE_DATAS})),
        capture(at, "consumerConnection", "g", json.dumps(listing)),
        *(
            capture(at, "consumerRunningInfo", f"g|{client_id}", running_info(at, client_id, profile))
            for client_id, profile in profiles.items()
        ),
    ]


@pytest.fixture(scope="module")
def lake(settings, tmp_path_factory):
    """Rows of a table after ten rounds; cluster ``drifts``: Go's member is rc1, ``agrees``: it is rc2; ``declared``:
    it is rc1, and the settings say so.
    """
    root = tmp_path_factory.mktemp("mixed")
    told = ClientFamily(cluster="declared", client_id="10.0.0.2@*", family="G1", strategy="AVG")
    settings = settings.model_copy(update={"drift": settings.drift.model_copy(update={"client_family": (told,)})})
    for cluster, go in (("drifts", "G1"), ("agrees", "G2"), ("declared", "G1")):
        profiles = {JAVA: "P498", GO: go, CPP: "C1"}
        lines = [line for n in range(10) for line in one_round(BEGIN + timedelta(seconds=30 * n), profiles)]
        path = Path(root / f"landing/admin_snapshots/cluster={cluster}/a.jsonl")
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    rows = LakeRows(root / "lake")

    def of(table: str, cluster: str) -> list:
        return rows(table, f"cluster = '{cluster}'")

    of.asker = rows.asker
    return of


def test_what_drifts_comes_of_the_go_member_that_shares_backwards(lake):
    (incident,) = lake("drift_incident", "drifts")
    assert (incident.root_cause, incident.state) == ("MIXED_CLIENTS", "OPEN")
    assert {"DOUBLE_OWNED", "MIXED_CLIENTS", "ORPHAN_QUEUE"} <= set(incident.codes)
    assert "upgrade of the Go clients" in incident.sentence
    found = lake("allocation_drift", "drifts")
    assert {row.root_cause for row in found} == {"MIXED_CLIENTS"}
    orphans = {(row.broker_name, row.queue_id) for row in found if row.code == "ORPHAN_QUEUE"}
    doubles = {(row.broker_name, row.queue_id) for row in found if row.code == "DOUBLE_OWNED"}
    assert (orphans, doubles) == ({("a", 2), ("b", 0)}, {("a", 0), ("b", 2)})


def test_a_family_that_the_settings_name_is_the_members(lake):
    for row in lake("group_round", "declared"):
        told = {rule.client_id: (rule.profile, rule.strategy, rule.source) for rule in row.member_rules}
        assert told[GO] == ("G1", "AVG", "settings") and told[JAVA] == ("P498", "AVG", "running_info")
    (incident,) = lake("drift_incident", "declared")
    assert incident.root_cause == "MIXED_CLIENTS"


def test_of_the_same_version_text_a_later_release_agrees_with_the_others(lake):
    assert lake("allocation_drift", "agrees") == [] and lake("drift_incident", "agrees") == []
    assert {row.verdict for row in lake("group_round", "agrees")} == {"ok"}


def test_each_round_names_the_family_of_each_member(lake):
    for cluster in ("drifts", "agrees"):
        assert lake("quarantine", cluster) == []
        for row in lake("group_round", cluster):
            told = {rule.client_id: (rule.profile, rule.strategy, rule.source) for rule in row.member_rules}
            assert told == {
                JAVA: ("P498", "AVG", "running_info"),
                GO: ("G1|G2", None, None),
                CPP: ("C1", "AVG", "release"),
            }


def test_the_view_and_the_page_name_each_members_family(lake, settings):
    rows = lake("member_families", "drifts")
    told = {(row.client_id, row.profile, row.strategy, row.rounds) for row in rows}
    assert told == {(JAVA, "P498", "AVG", 10), (GO, "G1|G2", None, 10), (CPP, "C1", "AVG", 10)}
    page = Path(render_report.written(lake.asker, settings, RunContext("landing"))).read_text().replace("<wbr>", "")
    assert f">{GO} G1|G2<" in page and f">{CPP} C1<" in page and f"{JAVA} P498" not in page

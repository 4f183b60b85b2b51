"""Go and C++ producers' lines and their topics' routes, from the landing folder to verdicts, view and findings."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import pytest

from hindsight.jobs import ingest_consumer_snapshots, ingest_send_records, rebuild_availability
from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import RunContext
from tests.kernels.test_family_choices import misled
from tests.pipeline.test_incidents_over_midnight import capture
from tests.random_producers import START_MS
from tests.recorded_rows import at
from tests.turn_producers import NO_FAILURES, Producer


def producers() -> list[Producer]:
    """Of Go 2.1.2 and C++ 2.2.0 one each that goes by its turns, and one of Go that once does not."""
    fit = [p for n in range(60) if len((p := Producer("2.1.2", n, answers=NO_FAILURES)).queues) > 3]
    made = [fit[0], Producer("2.2.0", 1), fit[1]]
    for number, one in enumerate(made):
        one.topic, one.client_id = f"T{number}", f"10.0.0.{number}@7"
        one.lines = [line | {"topic": one.topic, "clientId": one.client_id} for line in one.lines]
    made[2].lines, _ = misled(made[2], random.Random(5))
    return made


def route_lines(producer: Producer, until: datetime) -> list[dict]:
    brokers = [{"brokerName": d["brokerName"], "brokerAddrs": {"0": f"{d['brokerName']}:1"}} for d in producer.route]
    queues = [data | {"readQueueNums": 9} for data in producer.route]
    raw = json.dumps({"brokerDatas": brokers, "queueDatas": queues})
    begin = at(START_MS)
    minutes = range(2 + int((until - begin).total_seconds() // 60))
    return [capture(begin + timedelta(minutes=n), "topicRoute", producer.topic, raw) for n in minutes]


@pytest.fixture(scope="module")
def made():
    return producers()


@pytest.fixture(scope="module")
def asker(made, settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("sends")
    until = at(max(line["endMs"] for producer in made for line in producer.lines))
    files = {
        "producer_hook": [line for producer in made for line in (producer.start(), *producer.lines)],
        "admin_snapshots": [line for producer in made for line in route_lines(producer, until)],
    }
    for name, lines in files.items():
        path = root / f"landing/{name}/cluster=c/a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lake = LocalLake(str(root / "lake"), retention_days=settings.delta.retention_days)
    with LocalRunner(1) as runner:
        for job in (ingest_send_records, ingest_consumer_snapshots, rebuild_availability):
            job.run_on(lake, runner, settings, RunContext(str(root / "landing")))
    return LocalAsker(lake)


def test_each_attempt_has_its_verdict_and_nobody_a_window(asker, made):
    go, cpp, wrong = made
    rows = records(asker, "SELECT * FROM send_verdict")
    told = {p.client_id: [row for row in rows if row["client_id"] == p.client_id] for p in made}
    assert {client: len(own) for client, own in told.items()} == {p.client_id: len(p.lines) for p in made}
    assert {row["profile"] for row in told[go.client_id]} == {"G6"}
    assert {row["profile"] for row in told[cpp.client_id]} == {"C1"}
    for one in (go, cpp):
        assert {row["verdict"] for row in told[one.client_id]} <= {"consistent", "possible"}
    assert [row["verdict"] for row in told[wrong.client_id]].count("impossible") == 1
    for table in ("broker_availability_window", "fault_item_state"):
        assert records(asker, f"SELECT * FROM {table}") == []
    assert records(asker, "SELECT DISTINCT verdict FROM producer_replay") == [{"verdict": "not_applicable"}]


def test_the_one_out_of_its_turn_is_a_finding_and_stands_in_the_view(asker, made):
    (finding,) = records(asker, "SELECT * FROM producer_finding")
    assert (finding["code"], finding["client_id"]) == ("IMPOSSIBLE_CHOICE", made[2].client_id)
    (seen,) = records(asker, "SELECT * FROM send_choice WHERE verdict = 'impossible'")
    assert (seen["client_id"], seen["rule"]) == (finding["client_id"], "round_robin")
    assert seen["reason"] in finding["sentence"]

"""``hindsight lint``: each fault seeded once beside a clean cluster, and what is no fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from hindsight.jobs.asking.config_lint import RULES, LintFoundError, lint, refuse, told
from hindsight.jobs.asking.open_drift import judged_until, not_judged
from hindsight.jobs.command_line import app_of
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.explaining.explain_row import explain
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    CONSUMER_HEARTBEAT,
    DRIFT_INCIDENT,
    GROUP_ROUND,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    SUBSCRIPTION_GROUP,
    TOPIC_ROUTE,
    Table,
)
from hindsight.schemas.arrow_types import arrow_schema
from tests.pipeline.test_quality_gate import sound

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
HELD = {"cluster": "prod", "event_date": AT.date(), "collector": "c"}
READ = HELD | {"captured_at": AT}
GROUP = READ | {"consumer_group": "cg", "broker_name": "broker-a", "consume_enable": True}
GROUP |= {"notify_consumer_ids_changed": True, "retry_queue_nums": 1, "retry_max_times": 16}
ROUTE = READ | {"topic": "Orders", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "name_server": "n"}
OTHER = ROUTE | {"broker_name": "broker-b"}
ROUTE |= {"broker_name": "broker-a"}
QUEUES = [{"broker_name": "broker-a", "queue_id": n} for n in range(2)]
ROUND = HELD | {"consumer_group": "cg", "topic": "Orders", "round_at": AT, "message_model": "CLUSTERING"}
ROUND |= {"members": ["c1", "c2"], "queues": QUEUES, "scope_reason": None}
LADDER = [50, 100, 550, 1800, 3000, 5000, 15000], [0, 0, 2000, 5000, 6000, 10000, 30000]
PRODUCER = HELD | {"producer_group": "pg", "client_id": "p1", "client_version": "5.3.3", "profile": "P533"}
PRODUCER |= {"latency_fault_enabled": True, "detector_enabled": False}
PRODUCER |= {"latency_max_ms": LADDER[0], "not_available_ms": LADDER[1]}
PRODUCER["recorded"] = {"send_timeout_ms": 3000, "retry_times_sync": 2}
SENT = HELD | {"producer_group": "pg", "client_id": "p1", "outcome": "SEND_OK", "mode": "SYNC", "latency_ms": 9}
MEMBER = READ | {"consumer_group": "cg", "client_id": "c1", "language": "JAVA", "client_version": 479}
INCIDENT = HELD | {"consumer_group": "cg", "state": "OPEN", "root_cause": "CONSUMES_NOTHING", "sentence": "so"}
CLEAN: list[tuple[Table, dict]] = [
    *((SUBSCRIPTION_GROUP, GROUP | {"broker_name": name}) for name in ("broker-a", "broker-b")),
    (TOPIC_ROUTE, ROUTE),
    (TOPIC_ROUTE, OTHER),
    (GROUP_ROUND, ROUND),
    (PRODUCER_REPLAY, PRODUCER),
    (SEND_ATTEMPT, SENT),
    (CONSUMER_HEARTBEAT, MEMBER),
    (DRIFT_INCIDENT, INCIDENT),
]
LATER = {"captured_at": AT + timedelta(minutes=5)}


@contextmanager
def asked(folder, rows) -> Iterator[LocalAsker]:
    lake = LocalLake(str(folder), retention_days=7)
    for table in {table.name: table for table, _ in rows}.values():
        own = [{n: v for n, v in row.items() if n in table.schema.names} for of, row in rows if of is table]
        lake.append(table, pa.Table.from_pylist([sound(table, **row) for row in own], arrow_schema(table)))
    with closing(LocalAsker(lake)) as asker:
        yield asker


def found(folder, seeded=(), base=CLEAN) -> list[dict]:
    with asked(folder, [*base, *seeded]) as asker:
        return lint(asker, ())


def producer(**changes) -> tuple[Table, dict]:
    return PRODUCER_REPLAY, PRODUCER | {"producer_group": "pg2", "client_id": "p2"} | changes


SLOW = SENT | {"producer_group": "pg2", "client_id": "p2", "latency_ms": 1500}
SEEDED = {
    "CONSUME_OFF": [(SUBSCRIPTION_GROUP, GROUP | LATER | {"consume_enable": False})],
    "NO_RETRY_QUEUE": [(SUBSCRIPTION_GROUP, GROUP | LATER | {"consumer_group": "g2", "retry_queue_nums": 0})],
    "NO_RETRIES": [(SUBSCRIPTION_GROUP, GROUP | {"consumer_group": "g2", "retry_max_times": 0})],
    "NOTIFY_OFF": [(SUBSCRIPTION_GROUP, GROUP | LATER | {"notify_consumer_ids_changed": False})],
    "BROKERS_DIFFER": [(SUBSCRIPTION_GROUP, GROUP | LATER | {"retry_max_times": 3})],
    "FEWER_QUEUES_THAN_MEMBERS": [
        (GROUP_ROUND, ROUND | {"round_at": AT + timedelta(minutes=5), "members": ["c1", "c2", "c3"]})
    ],
    "MORE_WRITE_THAN_READ_QUEUES": [
        (TOPIC_ROUTE, row | LATER | {"read_queue_nums": 2} if row is ROUTE else row | LATER) for row in (ROUTE, OTHER)
    ],
    "QUEUES_ON_ONE_BROKER": [(TOPIC_ROUTE, ROUTE | {"topic": "Alone"})],
    "CLIENT_ID_TWICE": [(DRIFT_INCIDENT, INCIDENT | {"root_cause": "DUPLICATE_CLIENT_ID"})],
    "SUBSCRIPTIONS_DIFFER": [(DRIFT_INCIDENT, INCIDENT | {"root_cause": "SUBSCRIPTION_INCONSISTENT"})],
    "STRATEGIES_DIFFER": [(DRIFT_INCIDENT, INCIDENT | {"root_cause": "MIXED_STRATEGY"})],
    "TIMEOUT_UNDER_THE_LADDER": [producer(recorded={"send_timeout_ms": 500, "retry_times_sync": 2})],
    "RETRIES_DO_NOT_FIT": [producer(), (SEND_ATTEMPT, SLOW)],
    "FAULT_SWITCH_WITHOUT_DETECTOR": [producer(profile="P514", client_version="5.1.4")],
    "RETRIES_GO_BACK": [producer(profile="P43", client_version="4.7.1")],
    "COUNTER_STICKS": [producer(profile="P49a", client_version="4.9.1")],
    "IDS_BY_PID": [(CONSUMER_HEARTBEAT, MEMBER | {"client_id": "10.0.0.1@8279", "client_version": 355})],
}


def moved(row: dict, cluster: str) -> dict:
    """The same of another cluster, whose records ended nine days before."""
    of = timedelta(days=9)
    moved = {name: value - of for name, value in row.items() if isinstance(value, datetime)}
    return row | moved | {"cluster": cluster, "event_date": row["event_date"] - of}


def test_each_cluster_has_its_own_last_date(tmp_path):
    there = [(table, moved(row, code)) for code in SEEDED for table, row in [*CLEAN, *SEEDED[code]]]
    told = {(one["cluster"], one["code"]) for one in found(tmp_path, there)}
    assert told == {(code, code) for code in SEEDED} | {("CONSUME_OFF", "BROKERS_DIFFER")}


def test_files_of_earlier_dates_stay_closed(tmp_path):
    of, day = timedelta(days=9), AT.date() - timedelta(days=9)
    before = [(table, row | {"event_date": day}) for table, row in CLEAN if table is not DRIFT_INCIDENT]
    at = {"window_start": AT, "window_end": AT + timedelta(seconds=1), "end_reason": "expired", "profile": "P533"}
    window = (BROKER_AVAILABILITY_WINDOW, SENT | at | {"broker_name": "broker-a", "started_at": None})
    with asked(tmp_path, [*CLEAN, *before, window]) as asker:
        closed = [f for f in tmp_path.glob(f"*/event_date={AT.date() - of}/*") if f.parts[-3] != "producer_replay"]
        assert len(closed) == 5
        for file in closed:
            file.unlink()
        assert lint(asker, ()) == []
        assert not_judged(asker) == []
        assert judged_until(asker) == AT.replace(tzinfo=None)
        assert explain(asker, window[0].name, "client_id = 'p1'")[-1].rows[-1]["what"] == "last attempt"
        assert asker.lake.counted(SEND_ATTEMPT, ["event_date"]).to_pylist() == [
            {"event_date": day, "rows": 1},
            {"event_date": AT.date(), "rows": 1},
        ]


def test_a_clean_cluster_gives_nothing(tmp_path):
    assert found(tmp_path) == []
    assert list(told([])) == ["Nothing is set wrongly in what has landed"]


def test_every_rule_is_seeded():
    assert set(SEEDED) == {rule.code for rule in RULES}


NO_FAULT = {
    "a cluster of one broker": [row for row in CLEAN if row[1] is not OTHER],
    "queues that are taken away": [
        *CLEAN,
        (TOPIC_ROUTE, ROUTE | LATER | {"write_queue_nums": 2}),
        (TOPIC_ROUTE, OTHER | LATER),
    ],
    "a retry topic": [*CLEAN, (TOPIC_ROUTE, ROUTE | {"topic": "%RETRY%cg", "read_queue_nums": 1})],
    "RocketMQ's own group": [
        *CLEAN,
        (SUBSCRIPTION_GROUP, GROUP | {"consumer_group": "TOOLS_CONSUMER", "retry_queue_nums": 0}),
    ],
    "broadcasting": [
        *CLEAN,
        (GROUP_ROUND, ROUND | {"topic": "News", "message_model": "BROADCASTING", "queues": QUEUES[:1]}),
    ],
    "an incident that is over": [
        *CLEAN,
        (DRIFT_INCIDENT, INCIDENT | {"root_cause": "MIXED_STRATEGY", "state": "RESOLVED"}),
    ],
    "a producer without the switch": [*CLEAN, producer(profile="P43", latency_fault_enabled=False)],
    "what was set right since": [
        (SUBSCRIPTION_GROUP, GROUP | {"consume_enable": False}),
        *((t, r | LATER) for t, r in CLEAN),
    ],
    "an old client with a name of its own": [
        *CLEAN,
        (CONSUMER_HEARTBEAT, MEMBER | {"client_id": "10.0.0.1@orders-1", "client_version": 355}),
    ],
    "a client of Go with a small number": [
        *CLEAN,
        (CONSUMER_HEARTBEAT, MEMBER | {"language": "GO", "client_version": 1}),
    ],
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> Iterator[LocalAsker]:
    """A lake in which each case is a cluster, named after it: clusters are judged by themselves, as told above."""
    of_each = {code: [*CLEAN, *seeded] for code, seeded in SEEDED.items()} | NO_FAULT
    rows = [(table, row | {"cluster": name}) for name, own in of_each.items() for table, row in own]
    with asked(tmp_path_factory.mktemp("cases"), rows) as asker:
        yield asker


@pytest.fixture(scope="module")
def linted(cases) -> dict[str, list[dict]]:
    """What is found in each case."""
    seen = lint(cases, ())
    return {name: [one for one in seen if one["cluster"] == name] for name in (*SEEDED, *NO_FAULT)}


@pytest.mark.parametrize("code", SEEDED)
def test_each_fault_is_found_alone_and_says_what_to_change(linted, code):
    assert {one["code"] for one in linted[code]} == {"CONSUME_OFF": {code, "BROKERS_DIFFER"}}.get(code, {code})
    one = next(one for one in linted[code] if one["code"] == code)
    assert one["subject"] and one["detail"]
    assert "{subject}" not in one["change"] and one["subject"] in one["change"]


def test_what_is_accepted_by_its_code_and_subject_is_not_found(cases, linted):
    assert lint(cases, [f"{one['code']}:{one['subject']}" for seen in linted.values() for one in seen]) == []


@pytest.mark.parametrize("name", NO_FAULT)
def test_what_is_no_fault(linted, name):
    assert linted[name] == []


def test_a_level_refuses_what_is_as_bad(tmp_path):
    seen = found(tmp_path, SEEDED["NOTIFY_OFF"])
    refuse(seen, "HIGH")
    with pytest.raises(LintFoundError):
        refuse(seen, "MEDIUM")
    words = ["lint", "--lake", str(tmp_path), "--fail-on", "medium"]
    done = CliRunner().invoke(app_of("lint"), words)
    assert "NOTIFY_OFF" in done.output and isinstance(done.exception, LintFoundError)
    (tmp_path / "own.toml").write_text('[lint]\naccept = ["NOTIFY_*"]\n')
    assert CliRunner().invoke(app_of("lint"), [*words, "--settings", str(tmp_path / "own.toml")]).exit_code == 0

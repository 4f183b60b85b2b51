"""Findings of producers that come of a broker that is down, or that the fleet finds slow, are told with their cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from hindsight.jobs.engines.sql_views import views
from hindsight.udfs.telling.event_forms import events_of, rows_of
from hindsight.udfs.telling.incident_news import Clock, news, told_by
from hindsight.udfs.telling.told_incidents import (
    as_one,
    drift_incidents,
    effects_of,
    producer_incidents,
    with_incidents,
    with_own_cause,
)

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


def at(seconds):
    return None if seconds is None else AT + timedelta(seconds=seconds)


def finding(code, begin, end=None, broker="broker-b", group="pg"):
    own = {"producer_group": None if code == "FLEET_SLOW" else group, "broker_name": broker, "broker_names": None}
    return {"cluster": "c", "code": code, "from": at(begin), "to": at(end), "sentence": "isolated", **own}


def all_isolated(begin, end, *brokers):
    return finding("ALL_ISOLATED", begin, end, broker=None) | {"broker_names": list(brokers)}


def incident(begin, last, group="", cause="BROKER_NOT_ANSWERING", broker="broker-b"):
    of = {"cluster": "c", "consumer_group": group, "root_cause": cause, "cause_key": broker}
    return {**of, "first_seen_at": at(begin), "last_seen_at": at(last)}


DOWN = [incident(300, 400)]
EFFECTS = [
    finding("FLEET_SLOW", 240, 420),
    finding("LONG_ISOLATION", 295, 900),
    finding("OVER_ISOLATION", 410, 480),
    all_isolated(310, 400, "broker-a", "broker-b"),
    all_isolated(310, 400, "broker-b"),
]
OWN = [
    finding("LONG_ISOLATION", 100, 200),  # it was well again before
    finding("LONG_ISOLATION", 500, 600),  # and has been for longer
    finding("LONG_ISOLATION", 310, 400, broker="broker-a"),
    finding("NOT_RETURNING", 400, 500),  # the producer's own
    finding("BROKER_REFUSES", 310, 400),  # who refuses answers
    # Not of the broker that is down, or long after it.
    all_isolated(310, 400, "broker-a", "broker-bb"),
    all_isolated(500, 600, "broker-a", "broker-b"),
]
OF_GROUPS = [
    {"incident_id": one, "cluster": "c", "consumer_group": group, "topic": "T", "broker_name": "b", "queue_id": queue}
    for one, group, queue in (
        *(("i1", "g1", None), ("i1", "g1", None), ("i1", "", None)),
        *(("i2", "g1", 0), ("i2", "g1", 0), ("i2", "g1", 1), ("i2", "g2", 0), ("i2", "g3", None), ("i4", "", 0)),
    )
]
OF_PRODUCERS = [
    {"incident_id": one, "producer_group": group, "client_id": client}
    for one, group, client in (
        *(("i2", "pg", "c1"), ("i2", "pg", "c1"), ("i2", None, None)),
        *(("i3", "pg", "c1"), ("i3", "pg", "c2"), ("i5", None, None)),
    )
]


def test_how_much_came_of_a_servers_incident_is_counted():
    assert effects_of(OF_GROUPS, OF_PRODUCERS) == {
        "i1": "It showed in 1 group.",
        "i2": "It showed in 3 groups (2 queues) and 1 producer.",
        "i3": "It showed in 2 producers.",
    }


def test_isolations_of_a_broker_that_is_down_are_its_effects():
    assert with_own_cause([*EFFECTS, *OWN], DOWN) == OWN


def test_the_view_joins_them_as_events_do():
    """``producer_finding_with_incident`` gives readers in SQL what the kernel gives events."""
    database = duckdb.connect()
    keys = {**dict.fromkeys(("client_id", "started_at", "topic", "kind", "severity", "subject", "certainty"), "x")}
    rows = [{"place": place, "event_date": AT.date(), **row, **keys} for place, row in enumerate([*EFFECTS, *OWN])]
    names = pa.field("broker_names", pa.list_(pa.string()))
    found = pa.Table.from_pylist([{**row, "kind": str(row["place"])} for row in rows])
    at_names = found.schema.get_field_index("broker_names")
    database.register("producer_finding", found.set_column(at_names, names, found["broker_names"].cast(names.type)))
    database.register("drift_incident", pa.Table.from_pylist([{"incident_id": "i", **one} for one in DOWN]))
    [view] = (one for one in views() if one.name == "producer_finding_with_incident")
    joined = database.execute(f"SELECT code, incident_id, began_at FROM ({view.query})").fetchall()
    told = [(row["code"], one and "i", row["from"]) for row, one in with_incidents([*EFFECTS, *OWN], DOWN)]
    assert sorted(joined, key=str) == sorted(told, key=str)


@pytest.mark.parametrize("other", [incident(300, 400, group="g"), incident(300, 400, cause="BROKER_READ_ONLY")])
def test_other_incidents_explain_no_isolation(other):
    assert with_own_cause(EFFECTS[1:], [other]) == EFFECTS[1:]


@pytest.mark.parametrize(("lasted", "pause", "incidents"), [(10, 150, 2), (10, 100, 1), (120, 500, 1), (120, 700, 2)])
def test_a_fault_soon_after_a_flutter_is_told_by_itself(lasted, pause, incidents):
    rows = [finding("LONG_ISOLATION", 0, lasted), finding("LONG_ISOLATION", lasted + pause, lasted + pause + 90)]
    more = {"topic": None, "client_id": "c1", "started_at": None, "severity": "MEDIUM"}
    found = producer_incidents(
        [{**row, **more, "event_date": AT.date()} for row in rows], [], {"c": at(5000)}, timedelta(minutes=10)
    )
    assert len(found) == incidents


def test_where_nobody_collects_the_fleet_is_the_cause_of_what_its_producers_show():
    slow = finding("FLEET_SLOW", 240, 420)
    single = [finding("LONG_ISOLATION", 200, 260, group="a"), finding("LONG_ISOLATION", 300, group="b")]
    assert with_own_cause([slow, *single], []) == [slow]
    later = finding("LONG_ISOLATION", 421, 500)
    assert with_own_cause([slow, later], []) == [slow, later]


def seen(incident_id, opened, resolved, severity="HIGH", last=None, **of):
    own = incident(opened, resolved or last, **of)
    more = {"severity": severity, "codes": [own["root_cause"]], "reopened": 0, "sentence": "it is silent."}
    return {**own, **more, "incident_id": incident_id, "opened_at": at(opened), "resolved_at": at(resolved)}


def test_what_shards_see_of_one_server_at_one_time_is_one_incident():
    first = [seen("s2", 12, 90), seen("s1", 10, 80, "CRITICAL"), seen("s3", 80, 100)]
    again = [seen("s4", 200, None, last=230), seen("s5", 210, 220)]
    others = [seen("b", 12, 90, broker="broker-a"), seen("g", 12, 90, group="g1"), seen("h", 12, 90, group="g1")]
    found, became = as_one([*first, *again, *others])
    assert [row["incident_id"] for row in found] == ["s1", "s4", "b", "g", "h"]
    assert became == {"s1": "s1", "s2": "s1", "s3": "s1", "s4": "s4", "s5": "s4", "b": "b", "g": "g", "h": "h"}
    spans = [(row["opened_at"], row["resolved_at"], row["last_seen_at"], row["severity"]) for row in found[:2]]
    assert spans == [(at(10), at(100), at(100), "CRITICAL"), (at(200), None, at(230), "HIGH")]


def test_it_is_open_and_certain_as_long_as_it_is_for_one_of_them_and_stands_where_that_one_stands():
    over = seen("s1", 10, 80) | {"state": "RESOLVED", "trust": "possible"}
    lasts = seen("s2", 12, None, last=99) | {"state": "OPEN", "trust": "certain"}
    ends = seen("s3", 14, None, last=98) | {"state": "CLEARING", "trust": "possible"}
    other = seen("b", 20, None, last=90, broker="broker-a") | {"state": "OPEN", "trust": "possible"}
    for order in ([lasts, ends, other, over], [ends, lasts, other, over]):
        found, _ = as_one(order)
        assert [row["incident_id"] for row in found] == ["s1", "b"]
        assert (found[0]["state"], found[0]["trust"], found[0]["resolved_at"]) == ("OPEN", "certain", None)
    found, _ = as_one([over, {**ends, "state": "RESOLVED", "resolved_at": at(98)}])
    assert (found[0]["state"], found[0]["trust"], found[0]["resolved_at"]) == ("RESOLVED", "possible", at(98))


def test_a_gap_of_one_collector_is_its_own():
    gaps = [seen(f"s{n}", 10, 80, cause="DATA_GAP", broker="") for n in (1, 2)]
    assert as_one(gaps)[0] == gaps


def test_what_came_of_a_server_is_counted_once_for_all_who_saw_it():
    assert effects_of(OF_GROUPS, OF_PRODUCERS, {"i1": "i2", "i3": "i2"}) == {
        "i2": "It showed in 3 groups (2 queues) and 2 producers."
    }


def test_what_was_told_for_each_shard_goes_on_as_one():
    """As a lake has it that noted events before its collectors' incidents became one."""
    rows = [seen(f"s{n}", 10 * n, None, last=60) | {"collector": f"collector-{n}-of-3"} for n in (1, 2, 3)]
    clock = Clock(at(100), timedelta(hours=1))
    each = [
        one._replace(line=one.line._replace(collector=c["collector"]))
        for one, c in zip(drift_incidents(rows, {}), rows, strict=True)
    ]
    noted = rows_of(news([], each, clock), 1)
    assert [row["collector"] for row in noted] == [row["collector"] for row in rows]
    found = news(told_by(events_of(noted)), drift_incidents(as_one(rows)[0], {}), clock)
    told = sorted((event.what, event.told.incident.standing.opened_at) for event in found)
    assert told == [("withdrawn", at(20)), ("withdrawn", at(30))]

"""Routes over time: route_change beside a comparison of each read with the one before; route_missing case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import CLIENT_EVENT, SEND_ATTEMPT, SNAPSHOT_CAPTURE, TOPIC_ROUTE
from tests.pipeline.random_tables import one_row

START = datetime(2026, 1, 5, 23, 58, tzinfo=UTC)
SLAVES = ((), (), (1,), (1, 2), None)
MASTERS = (None, "h:1", "h:2")


def read_rows(topic, name_server, at, route, *, answered=True, error_code=None):
    """A read of a name server: rows of snapshot_capture and topic_route; ``route``: entry by broker."""
    own = {"cluster": "c", "event_date": at.date(), "collector": "", "name_server": name_server, "topic": topic}
    own |= {"captured_at": at, "round_at": at}
    capture = own | {"kind": "topicRoute", "subject": topic, "broker_name": "", "answered": answered}
    entries = [one_row(TOPIC_ROUTE, **own, broker_name=name, **entry) for name, entry in route.items()]
    return [one_row(SNAPSHOT_CAPTURE, **capture, error_code=error_code)], entries


def entry(perm=6, queues=4, master="h:1", order=None, slaves=()):
    return {
        "perm": perm, "read_queue_nums": queues, "write_queue_nums": queues, "has_master": master is not None,
        "master_address": master, "order_topic_conf": order,
        "slaves": None if slaves is None else [{"broker_id": i, "address": f"s:{i}"} for i in slaves],
    }  # fmt: skip


def asker_of(root, rows):
    lake = LocalLake(str(root), retention_days=7)
    for table, own in rows.items():
        if own:
            lake.append(table, pa.concat_tables(own))
    return LocalAsker(lake)


def what(before, now):
    """What became of an entry, in the order of what matters most; None: nothing."""
    if before is None or now is None:
        return None if before is now else "broker_added" if before is None else "broker_gone"
    was, is_ = before["master_address"], now["master_address"]
    if was != is_:
        return "master_gone" if is_ is None else "master_back" if was is None else "master_moved"
    if before["perm"] != now["perm"]:
        return "perm"
    if before["write_queue_nums"] != now["write_queue_nums"]:
        return "queues"
    if before["order_topic_conf"] != now["order_topic_conf"]:
        return "order"
    was, is_ = before["slaves"], now["slaves"]
    return "slaves" if None not in (was, is_) and was != is_ else None


@pytest.mark.parametrize("seed", range(8))
def test_changes_are_those_between_each_read_and_the_one_before(tmp_path, seed):
    dice, told = Random(seed), []
    rows = {SNAPSHOT_CAPTURE: [], TOPIC_ROUTE: []}
    for topic in ("T", "U"):
        for name_server in (None, "n1", "n2"):
            before, at = None, START
            for _ in range(12):
                at += timedelta(seconds=dice.choice((1, 30, 60)))
                failed = dice.random() < 0.2
                route = {
                    name: entry(
                        dice.choice((6, 6, 4)),
                        dice.choice((4, 4, 8)),
                        dice.choice(MASTERS),
                        dice.choice((None, None, "a:4")),
                        dice.choice(SLAVES),
                    )
                    for name in "ab"
                    if dice.random() < 0.8
                }
                if not failed and before is not None:
                    changes = {name: what(before[1].get(name), route.get(name)) for name in "ab"}
                    told += [
                        (topic, name_server, name, before[0], at, change) for name, change in changes.items() if change
                    ]
                captured, entries = read_rows(topic, name_server, at, {} if failed else route, answered=not failed)
                rows[SNAPSHOT_CAPTURE] += captured
                rows[TOPIC_ROUTE] += entries
                before = before if failed else (at, route)
    names = "topic, name_server, broker_name, unchanged_until, changed_at, what"
    found = records(asker_of(tmp_path, rows), f"SELECT {names} FROM route_change")
    naive = [tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row) for row in told]
    assert len(told) > 40
    assert sorted(map(repr, (tuple(row.values()) for row in found))) == sorted(map(repr, naive))


def test_a_topic_that_the_name_server_does_not_know_any_more_is_a_route_without_brokers(tmp_path):
    first, last = START, START + timedelta(minutes=1)
    rows = {SNAPSHOT_CAPTURE: [], TOPIC_ROUTE: []}
    for at, route, code in ((first, {"a": entry()}, None), (last, {}, 17)):
        captured, entries = read_rows("T", "n1", at, route, answered=code is None, error_code=code)
        rows[SNAPSHOT_CAPTURE] += captured
        rows[TOPIC_ROUTE] += entries
    (row,) = records(asker_of(tmp_path, rows), "SELECT * FROM route_change")
    assert (row["what"], row["perm_before"], row["perm"]) == ("broker_gone", 6, None)


@pytest.mark.parametrize(
    ("reads", "say"),
    [
        ([], "not_recorded"),
        ([(-200, "n1", 1), (200, "n1", 1)], "not_recorded"),
        ([(-30, "n1", 0), (30, "n1", 0)], "no_route"),
        ([(-30, "n1", 0), (30, "n1", 1)], "route_later"),
        ([(30, "n1", 1)], "route_later"),
        ([(-30, "n1", 1), (30, "n1", 0)], "route"),
        ([(-30, "n1", 1), (-20, "n2", 0)], "differ"),
    ],
)
@pytest.mark.parametrize("said_by", ["route_missing", "send"])
def test_what_name_servers_said_as_a_client_got_no_route(tmp_path, reads, say, said_by):
    at = START + timedelta(minutes=1, seconds=20)
    rows = {SNAPSHOT_CAPTURE: [], TOPIC_ROUTE: [], CLIENT_EVENT: [], SEND_ATTEMPT: []}
    for seconds, name_server, brokers in reads:
        route = {"a": entry(), "readable": entry(perm=4)} if brokers else {"readable": entry(perm=4)}
        captured, entries = read_rows("T", name_server, at + timedelta(seconds=seconds), route)
        rows[SNAPSHOT_CAPTURE] += captured
        rows[TOPIC_ROUTE] += entries
    own = {"cluster": "c", "event_date": at.date(), "topic": "T", "client_id": "p"}
    if said_by == "send":
        error = "No route info of this topic: T"
        rows[SEND_ATTEMPT].append(one_row(SEND_ATTEMPT, **own, begin_at=at, error=error))
    else:
        rows[CLIENT_EVENT].append(one_row(CLIENT_EVENT, **own, logged_at=at, kind="route_missing", log_folder="f"))
    (row,) = records(asker_of(tmp_path, rows), "SELECT * FROM route_missing")
    assert (row["said_by"], row["times"], row["name_servers_say"]) == (said_by, 1, say)
    assert row["minute"] == at.replace(second=0, tzinfo=None)

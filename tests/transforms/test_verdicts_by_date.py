"""Small producers, each a case: both dates rebuilt at once, and one by one from the attempts that matter."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from jobs.delta_tables import Lake
from jobs.publication import Stretch
from jobs.rebuild_availability import compute
from jobs.run_context import RunContext
from jobs.transforms.frames import ClusterDate
from schemas import FAULT_ITEM_STATE, PRODUCER_INSTANCE, PRODUCER_REPLAY, SEND_ATTEMPT, TABLES, TOPIC_ROUTE

DAYS = {5: date(2026, 1, 5), 6: date(2026, 1, 6)}
TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
WHERE_FROM = {"source": "test", "source_file": "f", "source_line": 1}
COMPARED = ("producer_replay", "fault_item_state", "broker_availability_window", "send_verdict", "producer_finding")
CASES: dict[str, Case] = {}
ATTEMPTS: list[dict] = []
STARTS: list[dict] = []
ROUTES: list[dict] = []


def at(day: int, clock: str) -> datetime:
    return datetime.fromisoformat(f"{DAYS[day]}T{clock}").replace(tzinfo=UTC)


class Case:
    """A producer of its own; its topics are its own too. ``version`` None: no start of it is on record."""

    def __init__(self, name: str, version: str | None = "5.3.3", *, switch: bool | None = True) -> None:
        CASES[name] = self
        self.who = {"cluster": "c", "producer_group": "g", "client_id": name}
        if version is not None:
            start = {"started_at": at(5, "09:00:00"), "client_version": version, "latency_fault_enabled": switch}
            STARTS.append({**self.who, "event_date": DAYS[5], **start, **WHERE_FROM})

    def send(
        self,
        day: int,
        clock: str,
        broker: str,
        *,
        took: int = 3,
        failed: bool = False,
        topic: str = "T",
        outcome: str = "SEND_OK",
        msg: str | None = None,
        **columns,
    ) -> Case:
        answer = {"outcome": "EXCEPTION", "exception": TIMEOUT} if failed else {"outcome": outcome}
        begin = at(day, clock)
        told = {"thread": "t", "mode": "SYNC", "attempt": 0, "queue_id": 0, "phase": "result"}
        times = {"begin_at": begin, "end_at": begin + timedelta(milliseconds=took), "latency_ms": took}
        names = {"topic": f"{topic} of {self.who['client_id']}", "broker_name": broker, "broker_named_as": broker}
        ATTEMPTS.append(
            {
                **self.who,
                "event_date": DAYS[day],
                "msg_id": msg or f"{clock} {broker}",
                "exceptions_observable": True,
                **WHERE_FROM,
                **names,
                **times,
                **told,
                **answer,
                **columns,
            }
        )
        return self

    def route(self, day: int, clock: str, *brokers: str, order: str | None = None) -> Case:
        topic = {"topic": f"T of {self.who['client_id']}", "order_topic_conf": order, "is_static_topic": False}
        nums = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "has_master": True}
        seen = {"cluster": "c", "event_date": DAYS[day], "collector": "k", "captured_at": at(day, clock)}
        ROUTES.extend({**seen, **topic, **nums, **WHERE_FROM, "broker_name": broker} for broker in brokers)
        return self


# -- what a date knows ---------------------------------------------------------------------------------------------

# Only the second date shows that there is a broker c.
new_broker = Case("new broker", "4.7.1").send(5, "10:00:00", "a", took=10, failed=True)
new_broker.send(5, "10:00:01", "b", took=20, failed=True).send(5, "10:00:05", "a").send(6, "10:00:00", "c")

# The fallback surely forgets d, which the topic's recorded route lacks; on the second date no route is recorded.
gone = Case("surely forgotten", "4.7.1").route(5, "23:59:20", "a", "b")
gone.send(5, "23:59:00", "d", took=10, failed=True, topic="other").send(5, "23:59:01", "a", took=20, failed=True)
gone.send(5, "23:59:02", "b", took=30, failed=True).send(5, "23:59:30", "b", took=30, failed=True)
gone.send(6, "00:00:10", "a")

# The fallback may have forgotten d, which ties with a, on the first date, and again on the second.
perhaps = Case("perhaps forgotten", "4.7.1").send(5, "23:55:00", "d", took=10, failed=True, topic="other")
perhaps.send(5, "23:55:01", "a", took=10, failed=True).send(5, "23:55:02", "b", took=30, failed=True)
perhaps.send(5, "23:56:00", "a", took=10, failed=True).send(6, "00:01:00", "a")

# Held until just before midnight and chosen just after it, and the other way round.
edges = Case("edges", "4.7.1").send(5, "23:49:59.989", "a", took=10, failed=True).send(5, "23:59:59.999", "b")
edges.send(6, "00:00:00.001", "a").send(6, "00:00:00.000", "b", took=0, failed=True)

# Held to the very midnight, and anew from that instant on.
for version, held in (("4.9.8", "23:49:59.990"), ("5.1.4", "23:59:49.990"), ("5.3.3", "23:59:49.990")):
    anew = Case(f"anew {version}", version).send(5, held, "a", took=10, failed=True)
    anew.send(5, "23:59:59.990", "a", took=10, failed=True).send(6, "00:00:03", "a")

# -- orderTopicConf ------------------------------------------------------------------------------------------------

# It names a alone: a is chosen again though it is held, for it is reachable. Or it names c, which has no entry.
for name, brokers, order in (("ordered", "ab", "a:4"), ("not ordered", "ab", None), ("elsewhere", "a", "a:4;b:0;c:1")):
    Case(name).route(5, "10:00:00", *brokers, order=order).send(5, "10:00:10", "a", took=1800).send(
        5, "10:00:12.800", "a"
    )

# -- the last broker of a retry ------------------------------------------------------------------------------------


def retried(name, version="5.3.3", **start):
    """A retry to a, which is held, whose line does not name its last broker."""
    case = Case(name, version, **start).route(5, "10:00:00", "a", "b", "c").send(5, "10:00:10", "a", failed=True)
    return case.send(5, "10:00:12.003", "a", attempt=1, msg="m")


FLUSHED_LATE = {"outcome": "FLUSH_DISK_TIMEOUT", "msg": "m"}
retried("told by the attempt before").send(5, "10:00:12", "b", **FLUSHED_LATE).send(5, "10:00:11", "c", failed=True)
retried("not told")
retried("told twice").send(5, "10:00:12", "b", **FLUSHED_LATE).send(5, "10:00:11", "c", **FLUSHED_LATE)
retried("not looked at", "4.9.8")
retried("not told, off", switch=False)
midnight = (
    Case("told the day before").send(5, "23:59:58", "a", failed=True).send(5, "23:59:59.999", "b", **FLUSHED_LATE)
)
midnight.send(6, "00:00:00.002", "a", attempt=1, msg="m").send(6, "00:00:01", "b")

# -- the switch ----------------------------------------------------------------------------------------------------

# Through 4.7.1 a client that is switched on goes back to the broker that just failed; one that is not never does.
for switch in (False, None):
    case = Case(f"switch {switch}", "4.7.1", switch=switch).route(5, "10:00:00", "a", "b")
    case.send(5, "10:00:09", "b").send(5, "10:00:12", "b").send(5, "10:00:10", "a", failed=True, msg="m").send(
        5, "10:00:10.003", "a", attempt=1, last_broker_name="a", msg="m"
    )

# -- what lines say, without a start on record ---------------------------------------------------------------------


def said(version: str, switch: bool = True) -> dict:
    return {"client_version": version, "latency_fault_enabled": switch}


def told_by_lines(name: str, before: dict, after: dict) -> Case:
    """Held over midnight by what lines say ``before``; on the next date they say ``after``."""
    case = Case(name, None).send(5, "23:55:00", "a", took=10, failed=True, **before)
    case.send(5, "23:59:59.990", "b", took=20, failed=True, **before).send(6, "00:00:01", "a", **after)
    return case.send(6, "10:00:00", "a", took=10, failed=True, **after).send(6, "10:00:05", "a", **after)


told_by_lines("another release", said("4.9.8"), said("5.3.3"))
told_by_lines("older release", said("5.3.3"), said("4.7.1"))
told_by_lines("unknown release", said("4.9.8"), said("9.9.9"))
told_by_lines("same family", said("4.9.4"), said("4.9.5"))
told_by_lines("switched off", said("4.9.8"), said("4.9.8", switch=False))
told_by_lines("nothing more said", said("4.9.8"), {})
changed = told_by_lines("changed on a date", said("4.9.8"), said("5.3.3"))
changed.send(5, "10:00:00", "c", **said("5.3.3", switch=False)).send(6, "09:00:00", "c", **said("4.9.8", switch=False))


@pytest.fixture(scope="module")
def rebuilt(spark, settings, tmp_path_factory):
    """Rows of both dates at once, and of one after the other from the attempts that matter: table, case -> rows."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")), retention_days=1)
    context = RunContext("")
    lineage = {"ingested_at": context.started_at, "run_id": "r"}
    for table, rows in ((SEND_ATTEMPT, ATTEMPTS), (PRODUCER_INSTANCE, STARTS), (TOPIC_ROUTE, ROUTES)):
        stored = [tuple({**row, **lineage}.get(name) for name in table.columns.names) for row in rows]
        lake.append(table, spark.createDataFrame(stored, table.columns))
    both = [ClusterDate("c", day) for day in DAYS.values()]
    few = settings.model_copy(
        update={"pruning": settings.pruning.model_copy(update={"from_attempts": 0, "below_share": 1.0})}
    )

    def of(dates, previous, following, chosen):
        known = ({"c": DAYS[previous]} if previous else {}, {"c": DAYS[following]} if following else {})
        sources = frozenset({"producer_hook"})
        return compute(
            Stretch(lake, context, dates, *known, {"c": DAYS[6]}, frozenset(both), frozenset(), sources), chosen
        )

    together = _by_case(of(both, None, None, settings))
    first = of(both[:1], None, 6, few)
    for table in (PRODUCER_REPLAY, FAULT_ITEM_STATE):
        lake.append(table, first[table.name])
    second = of(both[1:], 5, None, few)
    return together, _by_case({name: first[name].unionByName(second[name]) for name in COMPARED})


def _by_case(made):
    found = {}
    for name in COMPARED:
        contract = F.to_json(F.struct(*TABLES[name].contract_columns))
        for row in made[name].select("client_id", contract.alias("row")).collect():
            found.setdefault((name, row.client_id), []).append(row.row)
    return {key: sorted(rows) for key, rows in found.items()}


@pytest.fixture
def rows(rebuilt):
    def of(name, case):
        return [json.loads(row) for row in rebuilt[0].get((name, case), [])]

    return of


@pytest.fixture
def last_verdict(rows):
    def of(case):
        """Verdict on the case's last choice in doubt, with its admissible brokers and the reason."""
        row = max(rows("send_verdict", case), key=lambda row: row["begin_at"])
        return row["verdict"], row.get("admissible"), row.get("reason")

    return of


@pytest.mark.parametrize("case", CASES)
def test_both_dates_at_once_give_what_one_after_the_other_gives(rebuilt, case):
    together, one_by_one = ({name: made.get((name, case), []) for name in COMPARED} for made in rebuilt)
    assert one_by_one == together
    assert together["producer_replay"]


def test_a_broker_that_only_a_later_date_shows_is_none_to_choose(last_verdict):
    assert last_verdict("new broker") == ("consistent", ["a"], None)


def test_a_broker_that_was_surely_forgotten_the_day_before_is_none_to_choose(last_verdict):
    assert last_verdict("surely forgotten") == ("consistent", ["a"], None)


@pytest.mark.parametrize("case", ["anew 4.9.8", "anew 5.1.4", "anew 5.3.3"])
def test_a_window_that_ends_at_midnight_does_not_go_on_in_the_one_that_begins_then(rows, case):
    made = [row for row in rows("broker_availability_window", case) if row["state"] == "unavailable"]
    shown = sorted((row["window_start"], row["end_reason"], row["continues_previous"]) for row in made)
    assert [(start[8:19], going_on) for start, _, going_on in shown[1:]] == [("06T00:00:00", False)]
    assert shown[0][1:] == ("expired", False)


def test_an_order_topic_conf_says_which_brokers_are_listed(last_verdict):
    assert last_verdict("not ordered") == ("impossible", ["b"], None)
    assert last_verdict("ordered") == ("consistent", ["a"], None)
    assert last_verdict("elsewhere") == ("impossible", ["c"], None)


def test_what_an_order_topic_conf_lists_is_all_that_there_is_to_isolate(rows):
    told = {case: [r for r in rows("producer_finding", case) if r["code"] == "ALL_ISOLATED"] for case in CASES}
    assert [row["certainty"] for row in told["ordered"]] == ["certain"]
    assert not told["not ordered"] and not told["elsewhere"]


@pytest.mark.parametrize("case", ["told by the attempt before", "told the day before"])
def test_a_retry_without_last_broker_has_that_of_the_attempt_before_it(rows, case):
    (row,) = (row for row in rows("send_verdict", case) if row["attempt"] == 1)
    assert (row["verdict"], row["last_broker_name"]) == ("consistent", "b")


@pytest.mark.parametrize("case", ["not told", "told twice", "not told, off"])
def test_a_retry_whose_last_broker_nothing_tells_is_not_judged(last_verdict, case):
    reason = "last_broker_name of a retry is not recorded, and no one attempt before it tells it"
    assert last_verdict(case) == ("unknown", None, reason)


def test_a_release_that_does_not_look_at_the_last_broker_needs_none(last_verdict):
    assert last_verdict("not looked at") == ("impossible", ["b", "c"], None)


def test_without_a_recorded_switch_no_choice_is_impossible(last_verdict, rows):
    assert last_verdict("switch False") == ("impossible", ["b"], None)
    assert [row["code"] for row in rows("producer_finding", "switch False")] == ["IMPOSSIBLE_CHOICE"]
    reason = "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"
    assert last_verdict("switch None") == ("unknown", None, reason)
    assert rows("producer_finding", "switch None") == []


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        ("another release", [("P498", "replayed"), ("P533", "replayed")]),
        ("older release", [("P533", "replayed"), ("P43", "replayed")]),
        ("unknown release", [("P498", "replayed"), (None, "unknown")]),
        ("same family", [("P49c", "replayed"), ("P49c", "replayed")]),
        ("switched off", [("P498", "replayed"), ("P498", "off")]),
        ("nothing more said", [("P498", "replayed"), ("P498", "replayed")]),
        ("changed on a date", [("P498", "replayed"), ("P533", "replayed")]),
    ],
)
def test_each_date_is_replayed_under_what_lines_last_said(rows, case, rules):
    found = sorted((r["event_date"], r.get("profile"), r["verdict"]) for r in rows("producer_replay", case))
    assert [(profile, verdict) for day, profile, verdict in found if day <= "2026-01-06"] == rules


def test_what_another_release_held_is_gone(rows):
    def over_midnight(case):
        return [r for r in rows("broker_availability_window", case) if r["continues_previous"]]

    assert over_midnight("same family") and over_midnight("nothing more said")
    assert not over_midnight("another release") and not over_midnight("switched off")

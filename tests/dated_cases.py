"""Small producers on two dates, each a case: rows of send_attempt, producer_instance and topic_route."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

DAYS = {5: date(2026, 1, 5), 6: date(2026, 1, 6)}
TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
WHERE_FROM = {"source": "test", "source_file": "f", "source_line": 1}
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

# It names a alone: a is chosen again though it is held, for it is reachable. Or it names c, which has no entry. Or no
# client can read it, so that none goes by the route and nothing tells of b.
for name, brokers, order in (
    ("ordered", "ab", "a:4"),
    ("not ordered", "ab", None),
    ("ordered by nothing", "ab", ""),
    ("elsewhere", "a", "a:4;b:0;c:1"),
    ("unreadable order", "ab", "a:4;b"),
):
    Case(name).route(5, "10:00:00", *brokers, order=order).send(5, "10:00:10", "a", took=1800).send(
        5, "10:00:12.800", "a"
    )

# The route that the client may still hold has no b beside a, the one after it has.
earlier = Case("an earlier route").route(5, "10:00:00", "a").route(5, "10:00:05", "a", "b")
earlier.send(5, "10:00:10", "a", took=1800).send(5, "10:00:12.800", "a")

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

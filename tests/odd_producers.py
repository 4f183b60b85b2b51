"""Producers of whom much is missing or odd, over dates with a gap, as rows of the tables.

Traces without mode or broker, lines that tell the release and change what they tell, starts in a row, switches that
nobody recorded, exceptions of every kind, ladders that no client should have, midnights, silence, and recorded routes.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

from tests.random_examples import SOAKING

DAYS = [date(2026, 4, 1), date(2026, 4, 2), date(2026, 4, 4), date(2026, 4, 14)]
DAY_MS = 86_400_000
BROKERS = ["a", "b", "c"]
RELEASES = ["4.2.0", "4.7.1", "4.8.0", "4.9.8", "5.0.0", "5.1.1", "5.1.4", "5.2.0", "5.3.3", "9.9.9", None]
EXCEPTIONS = [
    ("org.apache.rocketmq.remoting.exception.RemotingTimeoutException", None),
    ("org.apache.rocketmq.remoting.exception.RemotingConnectException", "connect to <10.0.0.1:10911> failed"),
    ("org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException", "sendDefaultImpl call timeout"),
    ("org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException", "sendKernelImpl call timeout"),
    ("org.apache.rocketmq.client.exception.MQBrokerException", "CODE: 2  DESC: [TIMEOUT_CLEAN_QUEUE]"),
    ("org.apache.rocketmq.client.exception.MQClientException", "The broker[a] not exist"),
    ("InterruptedException", None),
    ("java.lang.IllegalStateException", "no"),
]
LADDERS = [
    (None, None),
    ([10, 20], [0, 45_000]),
    ([550, 50, 0], [2_000, 0, 700]),
    ([0, 550], [0, 2**63 - 1]),
    ([0, 10, 20], [0, 5]),
]
WHERE = {"source_file": "f", "source_line": 1}


def at(day: date, ms: int) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(milliseconds=ms)


class Odd:
    """One producer: its rows."""

    def __init__(self, number: int, dice: random.Random) -> None:
        self.number, self.dice = number, dice
        self.kind = dice.choice(["hook", "hook", "hook", "lines", "lines", "trace"])
        self.who = {"cluster": "c", "producer_group": f"g{number % 4}", "client_id": f"p{number:03d}"}
        self.mode = dice.choice(["SYNC", "SYNC", "ASYNC", "ONEWAY"])

    def starts(self):
        if self.kind != "hook":
            return
        release, ladder = self.dice.choice(RELEASES), self.dice.choice(LADDERS)
        for day in self.dice.sample(DAYS, self.dice.choice((1, 1, 2, 3))):
            for ms in self.dice.sample([0, 5_000, 5_001, 36_000_000, DAY_MS - 1], self.dice.choice((1, 1, 2, 3))):
                yield {
                    **self.who,
                    **WHERE,
                    "event_date": day,
                    "source": "producer_hook",
                    "started_at": at(day, ms),
                    "client_version": release if self.dice.random() < 0.9 else None,
                    "latency_fault_enabled": self.dice.choice((True, True, True, True, False, None)),
                    "detector_enabled": self.dice.choice((True, False, None)),
                    "latency_max_ms": ladder[0],
                    "not_available_ms": ladder[1],
                }

    def attempts(self):
        says = [self.dice.choice(RELEASES[:-1]) for _ in range(2)]
        for day in self.dice.sample(DAYS, self.dice.choice((1, 2, 3, 4))):
            begins = [self.dice.choice((0, 4_990, 36_000_000, DAY_MS - 1_500)) for _ in range(4)]
            now = 0
            for serial in range(self.dice.choice((3, 12, 25))):
                now = self.dice.choice((now, now + self.dice.choice((0, 1, 3, 40, 2_000, 31_000)), *begins))
                now = min(now, DAY_MS - 1)
                row = self.attempt(day, now, serial, says[day >= DAYS[2]])
                yield row
                if row["exception"] and self.kind != "trace" and self.mode == "SYNC":
                    again = self.attempt(day, min(now + 3, DAY_MS - 1), serial, row["client_version"])
                    known = row["broker_name"] if self.dice.random() < 0.5 else None
                    yield again | {"attempt": 1, "topic": row["topic"], "last_broker_name": known}

    def attempt(self, day, begin, serial, said):
        took = self.dice.choice((0, 1, 2, 3, 9, 60, 549, 550, 700, 2_500, 16_000, -20))
        trace, asynchronous = self.kind == "trace", self.mode == "ASYNC" and self.kind != "trace"
        failed = not trace and self.dice.random() < 0.4
        exception, error = self.dice.choice(EXCEPTIONS) if failed else (None, None)
        broker = self.dice.choice(BROKERS)
        called_back = asynchronous and self.dice.random() < 0.9
        outcome = "EXCEPTION" if failed else "SUBMITTED" if self.mode == "ONEWAY" and not trace else "SEND_OK"
        return {
            **self.who,
            **WHERE,
            "event_date": day,
            "source": "trace_topic" if trace else "producer_hook",
            "topic": self.dice.choice(("orders", "bills")),
            "thread": None if trace else self.dice.choice(("t0", "t1", None)),
            "msg_id": f"m{self.number}-{day}-{serial}",
            "mode": None if trace else self.mode,
            "attempt": None if asynchronous or trace else 0,
            "broker_name": None if trace and self.dice.random() < 0.2 else broker,
            "broker_named_as": broker,
            "exceptions_observable": not trace,
            "queue_id": None if trace else self.dice.randrange(4),
            "queue_selected_by": self.dice.choice((None, None, None, "client", "selector")),
            "begin_at": at(day, begin),
            "end_at": at(day, begin + took),
            "latency_ms": took,
            "outcome": outcome,
            "exception": exception,
            "error": error,
            "phase": "callback" if called_back else "result",
            "submit_end_at": at(day, begin + 1) if asynchronous and self.dice.random() < 0.9 else None,
            "callback_end_at": at(day, begin + took) if called_back else None,
            "client_version": said if self.kind == "lines" and self.dice.random() < 0.8 else None,
            "latency_fault_enabled": self.dice.choice((True, True, True, False)) if self.kind == "lines" else None,
        }


def odd(seed=7, count=120 if SOAKING else 40):
    """Attempts, starts and routes of so many producers."""
    dice = random.Random(seed)
    producers = [Odd(number, dice) for number in range(count)]
    starts = [row for producer in producers for row in producer.starts()]
    attempts = [row for producer in producers for row in producer.attempts()]
    return attempts, starts, list(_routes(dice))


def _routes(dice):
    for day in DAYS[:3]:
        for ms in (0, 2_000, 5_000, 30_000, 36_000_000, 36_020_000, DAY_MS - 20_000):
            order = dice.choice((None, None, None, "a:4;b:0;", "b:1"))
            for broker in dice.sample(BROKERS, dice.choice((1, 2, 3))):
                yield {
                    **WHERE,
                    "source": "admin",
                    "cluster": "c",
                    "event_date": day,
                    "collector": "k",
                    "captured_at": at(day, ms),
                    "topic": "orders",
                    "broker_name": broker,
                    "order_topic_conf": order,
                    "is_static_topic": False,
                    "read_queue_nums": 4,
                    "write_queue_nums": dice.choice((0, 4)),
                    "perm": dice.choice((4, 6, 6)),
                    "has_master": dice.random() < 0.8,
                }


OVERRIDES = (
    {
        "cluster": "c*",
        "producer_group": "g1",
        "client_version": "5.3.3",
        "latency_fault_enabled": True,
        "detector_enabled": None,
        "latency_max_ms": None,
        "not_available_ms": None,
    },
    {
        "cluster": "*",
        "producer_group": "g?",
        "client_version": "4.9.8",
        "latency_fault_enabled": None,
        "detector_enabled": None,
        "latency_max_ms": (50, 100),
        "not_available_ms": (0, 9_000),
    },
)

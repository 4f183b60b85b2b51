"""A producer's attempts as a hook records them, and what the fold makes of its sends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests import dated_cases
from tests.folded import OPTIONS, cut_at, folded, rows_of

CONNECT = "org.apache.rocketmq.remoting.exception.RemotingConnectException"
TIMEOUT = dated_cases.TIMEOUT
BROKER = "org.apache.rocketmq.client.exception.MQBrokerException"
SETTINGS = {"retry_times_sync": 2, "retry_times_async": 2, "retry_another_broker": False, "send_timeout_ms": 3000}


def at(day, clock):
    return datetime.fromisoformat(f"2026-01-0{day}T{clock}").replace(tzinfo=UTC)


class Producer:
    """One producer's attempts and start."""

    def __init__(self, version="4.9.8", **settings):
        who = {"cluster": "c", "producer_group": "g", "client_id": "p"}
        where = {"source": "producer_hook", "source_file": "f", "source_line": 1}
        self.common = {**who, **where}
        self.attempts = []
        self.starts = [
            {
                **self.common,
                **(SETTINGS | settings),
                "event_date": at(5, "00:00:00").date(),
                "started_at": at(5, "00:00:00"),
                "client_version": version,
                "latency_fault_enabled": False,
            }
        ]

    def send(self, begin, broker, outcome, *, msg="m", number=0, took=10, mode="SYNC", **columns):
        is_thrown = "." in outcome
        end = begin + timedelta(milliseconds=took)
        self.attempts.append(
            {
                **self.common,
                "event_date": begin.date(),
                "topic": "T",
                "thread": "t",
                "msg_id": msg,
                "mode": mode,
                "attempt": number,
                "broker_name": broker,
                "broker_named_as": broker,
                "queue_id": 1,
                "begin_at": begin,
                "end_at": end,
                "latency_ms": took,
                "outcome": "EXCEPTION" if is_thrown else outcome,
                "exception": outcome if is_thrown else None,
                "exceptions_observable": True,
                "phase": "result",
                **columns,
            }
        )
        return self

    def others(self, *days):
        """Plain sends much later, so that the producer's record goes on."""
        for day in days:
            self.send(at(day, "20:00:00"), "a", "SEND_OK", msg=f"later {day}")
        return self

    def calls(self, cuts=()):
        cut = {"cut": cut_at(cuts)} if cuts else {}
        return folded(rows_of(self.attempts, self.starts), OPTIONS, **cut)["send_call"].to_pylist()

    def call(self):
        (row,) = self.calls()
        return row


def over_midnight():
    sent = Producer().send(at(5, "23:59:59.990"), "a", CONNECT, took=5)
    sent.send(at(5, "23:59:59.995"), "b", CONNECT, number=1, took=4)
    return sent.send(at(6, "00:00:00.005"), "c", "SEND_OK", number=2).others(5, 6)

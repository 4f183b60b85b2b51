"""A producer that chooses by its family's own rule, counters and all, while brokers are slow or fail; what a hook sees.

The rule is written anew, queue by queue and step by step, as MQFaultStrategy and TopicPublishInfo have it; of the
product it shares the fault table alone, which the real classes' outputs guard.
"""

from __future__ import annotations

import heapq
import random
from datetime import UTC, datetime, timedelta

from hindsight.udfs.fault_tolerance import FaultTable
from hindsight.udfs.producer.attempt_updates import fault_update

DAY = datetime(2026, 1, 5, tzinfo=UTC)
BEGIN = DAY + timedelta(minutes=12)  # more than lines may wait for each other after the midnight
TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
REFUSED = "org.apache.rocketmq.client.exception.MQBrokerException"
UNKNOWN = "org.apache.rocketmq.client.exception.MQClientException"
TIMES, SEND_TIMEOUT_MS = 3, 3000


class Client:
    """One producer of a family, its topic's queues and its threads' counters."""

    def __init__(self, profile, dice, *, enabled, queues):
        self.profile, self.dice, self.enabled = profile, dice, enabled
        self.table = FaultTable(profile, enabled=enabled)
        self.queues, self.counters = [*queues], {}
        self.sizes = {name: sum(broker == name for broker, _ in queues) for name, _ in queues}

    def step(self, thread):
        """ThreadLocalIndex#incrementAndGet, far from its overflow."""
        self.counters[thread] = self.counters.get(thread, self.dice.randrange(1000)) + 1
        return self.counters[thread]

    def plain(self, thread):
        return self.queues[self.step(thread) % len(self.queues)]

    def others(self, thread, last, fits=lambda name: True):
        for _ in self.queues:
            queue = self.plain(thread)
            if queue[0] != last and fits(queue[0]):
                return queue
        return None

    def choose(self, thread, last, now):
        """selectOneMessageQueue."""
        if not self.enabled:
            return self.plain(thread) if last is None else self.others(thread, last) or self.plain(thread)
        if self.profile.last_broker_rule == "filter":
            if last is not None:
                self.counters[thread] = self.dice.randrange(1000)
            available = self.others(thread, last, lambda name: self.table.is_available(name, now))
            return available or self.others(thread, last, self.table.is_reachable) or self.plain(thread)
        first = self.step(thread)
        for step in range(len(self.queues)):
            queue = self.queues[(first + step) % len(self.queues)]
            if self.takes(queue[0], last) and self.table.is_available(queue[0], now):
                return queue
        return self.fallen_back(thread, now)

    def takes(self, name, last):
        rule = self.profile.last_broker_rule
        return last is None or rule == "none" or (rule == "equals") == (name == last)

    def fallen_back(self, thread, now):
        picks = sorted(self.table.pick_one_at_least(now))
        if not picks:
            return self.plain(thread)
        picked = self.dice.choice(picks)
        place = self.step(thread) % len(self.queues)
        queue = (picked, self.step(thread) % self.sizes[picked])
        if self.profile.mutates_queue_list:
            self.queues[place] = queue
        return queue


def faults_of(dice, brokers, seconds):
    """By broker stretches in which it is slow, dead, refuses, or is not known to the client."""
    found = {name: [] for name in brokers}
    now = 0
    while now < seconds * 1000:
        now += dice.randrange(2_000, 25_000)
        length = dice.choice((400, 1_500, 4_000, 12_000, 40_000))
        for name in dice.sample(brokers, dice.choice((1, 1, 1, 2, len(brokers)))):
            found[name].append((now, now + length, dice.choice(("slow", "slow", "dead", "refuses", "unknown"))))
    return found


def ended(dice, faults, now):
    """Latency and exception of an attempt."""
    kind = next((kind for since, until, kind in faults if since <= now < until), None)
    if kind == "slow":
        return dice.randrange(200, 4_500), None
    if kind == "dead":
        return dice.choice((5, 3_000)), TIMEOUT
    if kind is not None:
        return dice.randrange(1, 300), REFUSED if kind == "refuses" else UNKNOWN
    return dice.randrange(1, 12), None


def recorded(profile, seed, *, enabled=True, detector=False, seconds=300, threads=3, brokers=3, lost=0.0, between=60):
    """What the hook records of one producer, rows of send_attempt in order of their ends; ``lost``: share of lines."""
    dice = random.Random(f"{profile.id} {seed} {enabled}")
    names = [f"broker-{letter}" for letter in "abcdef"[:brokers]]
    queues = [(name, number) for name in names for number in range(dice.choice((1, 2, 4)))]
    client, faults = Client(profile, dice, enabled=enabled, queues=queues), faults_of(dice, names, seconds)
    events = [(dice.randrange(1, 50), number, "begin", None) for number in range(threads)]
    rows, sent = [], 0
    while events:
        now, thread, what, told = heapq.heappop(events)
        if what == "end":
            told = _end(client, thread, now, told, rows, detector)
            if told is None:
                if now < seconds * 1000:
                    heapq.heappush(events, (now + dice.randrange(1, between), thread, "begin", None))
                continue
        sent += told is None
        told = told or {"number": 0, "first": now, "last": None, "msg": f"{sent:06}"}
        broker, queue = client.choose(thread, told["last"], now)
        took, exception = ended(dice, faults[broker], now)
        started = {**told, "begin": now, "broker": broker, "queue": queue, "exception": exception}
        heapq.heappush(events, (now + took, thread, "end", started))
        if detector and profile.has_reachable and dice.random() < 0.01:
            up = [name for name in names if all(kind == "slow" or not s <= now < u for s, u, kind in faults[name])]
            client.table.detect(now_ms=now, up=up, resolvable=names)
    return [row for row in rows if dice.random() >= lost]


def _end(client, thread, now, told, rows, detector):
    """An attempt ends; what the next one of its send goes by, None: there is none."""
    update = fault_update(
        client.profile, mode="SYNC", phase="result", exception=told["exception"], error=None, detector_enabled=detector
    )
    latency = now - told["begin"]
    client.table.update(told["broker"], latency_ms=latency, now_ms=now, **update._asdict())
    rows.append(_row(client, thread, now, told))
    retried = told["exception"] is not None and told["number"] + 1 < TIMES
    spent = now - (told["first"] if client.profile.attempts_share_timeout else told["begin"]) >= SEND_TIMEOUT_MS
    if not retried or spent:
        return None
    return {"number": told["number"] + 1, "first": told["first"], "last": told["broker"], "msg": told["msg"]}


def _row(client, thread, now, told):
    begin = BEGIN + timedelta(milliseconds=told["begin"])
    return {
        "cluster": "c",
        "event_date": begin.date(),
        "producer_group": "g",
        "client_id": "p",
        "thread": f"t{thread}",
        "topic": "T",
        "broker_name": told["broker"],
        "broker_named_as": told["broker"],
        "exceptions_observable": True,
        "queue_id": told["queue"],
        "mode": "SYNC",
        "attempt": told["number"],
        "last_broker_name": told["last"],
        "begin_at": begin,
        "end_at": BEGIN + timedelta(milliseconds=now),
        "latency_ms": now - told["begin"],
        "outcome": "EXCEPTION" if told["exception"] else "SEND_OK",
        "exception": told["exception"],
        "response_code": 1 if told["exception"] == REFUSED else None,
        "msg_id": told["msg"],
        "phase": "result",
        "source": "producer_hook",
        "source_file": "f",
        "source_line": len(told["msg"]),
    }

"""Stretches that ended and the sends after them in; brokers that did not come back out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hindsight.udfs.producer.attempt_columns import DAY_MS
from hindsight.udfs.producer.held_stretches import Held
from hindsight.udfs.producer.minute_counts import MINUTE_MS
from hindsight.udfs.producer.producer_finding import (
    NO_SENDS,
    Finding,
    Fleet,
    Observed,
    Sends,
    Thresholds,
    clock,
    iso,
    producer_name,
    seconds,
    tenths,
    window_doubt,
)
from hindsight.udfs.release_profiles import profile_named
from hindsight.udfs.values.arrays import BoolArray, IntArray

_ENDED = ("expired", "overwritten", "removed", "reachable_again")
_NANO = 10**9


class Watch(NamedTuple):
    """How long a broker is watched after it came free, ms of the date: at least, and at most (exclusive)."""

    held: Held
    least: int
    most: int


def watches(stretches: Sequence[Held], limits: Thresholds) -> Iterable[Watch]:
    """The stretches after which their broker can be watched for long enough.

    It is watched within its date and the producer's record, and until the broker is not available again.
    """
    again: dict[tuple[int, str], Held] = {}
    for held in sorted(stretches, key=lambda each: each.since, reverse=True):
        after = again.get((held.process, held.broker_name))
        again[held.process, held.broker_name] = held
        if held.until is None or held.end_reason not in _ENDED:
            continue
        most = min(DAY_MS, held.last_attempt, held.until + int(1000 * limits.not_returning_within_s))
        most = most if after is None else min(most, after.since)
        least = held.until + int(1000 * limits.not_returning_s)
        if most >= least:
            yield Watch(held, least, most)


def shares_of(queues: Mapping[str, Mapping[str, int | None]]) -> dict[str, dict[str, int]]:
    """By topic and broker, its share of the topic's queues, in thousand millionths, rounded down.

    Whole numbers: their sum does not depend on the order in which they are added.
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for topic, brokers in queues.items():
        known = {name: seen for name, seen in brokers.items() if seen is not None}
        whole = sum(known.values())
        found[topic] = {name: seen * _NANO // whole for name, seen in known.items()}
    return found


def not_returning(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """After a window's end the broker got less than 10 % of the sends that its share of the queues would bring it.

    It is watched from the window's end for 60 s, and on until 50 sends are expected. Retries, and queues that somebody
    else chose, do not count. Not proven where no producer sent to the broker in that time: it may have left the route.
    """
    for watch in watches(given.held, limits):
        expected, observed, last = given.sends_after.get(watch.held, NO_SENDS)
        poor = observed * 1000 * 100 < expected * limits.not_returning_max_percent
        if expected >= 1000 * limits.not_returning_expected_sends and poor:
            yield _told(given, fleet, watch, expected, observed, max(watch.least, last))


class Sent(NamedTuple):
    """Sends while a broker was watched: begin, ms of the date, its share of their topics, and whether it got them."""

    begin: IntArray
    nano: IntArray
    own: BoolArray


def counted(watch: Watch, sent: Sent, limits: Thresholds) -> Sends:
    """What the sends say up to the instant from which on enough were expected; ``sent``: in any order."""
    order = np.argsort(sent.begin, kind="stable")
    begin, nano, own = (column[order] for column in sent)
    total = np.append(0, np.cumsum(nano))
    before = total[np.searchsorted(begin, begin)]
    enough = (begin >= watch.least) & (_thousandths(before) >= 1000 * limits.not_returning_expected_sends)
    end = int(np.argmax(enough)) if enough.any() else len(begin)
    return Sends(int(_thousandths(total[end])), int(own[:end].sum()), int(begin[end - 1]) if end else 0)


def _thousandths(nano: IntArray) -> IntArray:
    """Thousand millionths of a send as thousandths: what rounding shares down took away comes back."""
    return (nano + 500_000) // 1_000_000


def _told(given: Observed, fleet: Fleet, watch: Watch, expected: int, observed: int, until: int) -> Finding:
    held, day = watch.held, given.day
    since = held.until or 0
    who, rewrites = producer_name(day.processes[held.process]), profile_named(held.profile).mutates_queue_list
    minutes = range(-(-since // MINUTE_MS), until // MINUTE_MS + 1)
    served = any((held.broker_name, minute) in fleet.served for minute in minutes)
    doubts = [
        None if served else "nobody is recorded to have sent to it then, it may have left the route",
        window_doubt(held.certainty, held.reasons),
    ]
    why = ": its release rewrites its queue list when every broker is isolated" if rewrites else ""
    return Finding(
        "NOT_RETURNING",
        process=held.process,
        topic=None,
        broker_name=held.broker_name,
        kind="queue_list_rewritten" if rewrites else "not_chosen",
        since=since,
        until=until,
        certainty="possible" if not served and held.certainty in ("certain", "inferred") else held.certainty,
        doubt="; ".join(doubt for doubt in doubts if doubt) or None,
        subject=f"{who}, {held.broker_name}",
        evidence=f"broker_availability_window: client_id={day.processes[held.process].producer[1]}, "
        f"broker_name={held.broker_name}, window_end={iso(day, since)}",
        sentence=f"{who} could use {held.broker_name} again from {clock(since)} on, but in the next "
        f"{seconds(until - since)} it sent {observed} messages to it where its share of the queues is "
        f"{tenths(expected)}{why}",
    )

"""Stretches that ended and the sends after them in; brokers that did not come back out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import NEVER, attempts_of
from hindsight.udfs.producer.fault_fold import joined, taken
from hindsight.udfs.producer.kept_fold import CannotGoOnError
from hindsight.udfs.producer.minute_counts import MINUTE_MS, MINUTES, Held, Tally
from hindsight.udfs.producer.producer_finding import (
    NO_SENDS,
    Finding,
    Fleet,
    Observed,
    Sends,
    Thresholds,
    also_doubted,
    clock,
    iso,
    producer_name,
    seconds,
    tenths,
)
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.release_profiles import profile_named
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

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
    may_have_left = "nobody is recorded to have sent to it then, it may have left the route"
    why = ": its release rewrites its queue list when every broker is isolated" if rewrites else ""
    return Finding(
        "NOT_RETURNING",
        process=held.process,
        broker_name=held.broker_name,
        kind="queue_list_rewritten" if rewrites else "not_chosen",
        since=since,
        until=until,
        **also_doubted([held], None if served else may_have_left),
        evidence=f"broker_availability_window: client_id={day.processes[held.process].producer[1]}, "
        f"broker_name={held.broker_name}, window_end={iso(day, since)}",
        sentence=f"{who} could use {held.broker_name} again from {clock(since)} on, but in the next "
        f"{seconds(until - since)} it sent {observed} messages to it where its share of the queues is "
        f"{tenths(expected)}{why}",
    )


Queues = Mapping[str, Mapping[str, int | None]]


class KnownSends(NamedTuple):
    """What was counted of watches (``_name``), None: nothing was sent, by these shares of topics.

    Attributes:
        since: before this instant, ms of the date, no attempt is read again.
        until: watches that ended by then are counted for good.
    """

    shares: Mapping[str, Mapping[str, int]]
    sends: Mapping[tuple[Any, ...], Sends | None]
    since: int = NEVER
    until: int = NEVER

    def sends_after(self, watched: Sequence[Watch]) -> dict[Held, Sends]:
        """Of each watch what was sent, if anything was."""
        found = ((watch.held, self.sends[_name(watch)]) for watch in watched)
        return {held: sends for held, sends in found if sends is not None}


NOTHING_KNOWN = KnownSends({}, {})


def known_sends(
    watched: Sequence[Watch],
    known: KnownSends,
    parts: Iterable[pa.Table],
    day: Day,
    queues: Queues,
    routes: RecordedRoutes,
    limits: Thresholds,
) -> KnownSends:
    """What is counted of the watches; see ``sends_after``. Those that had ended before are not counted again.

    Raises: CannotGoOnError: some are to be counted of attempts that are not read.
    """
    of_topics = shares_of(queues)
    shares = {topic: of_topics[topic] for topic in day.topics if topic in of_topics}
    over = {_name(watch) for watch in watched if watch.most <= known.until} & {*known.sends}
    rest = [watch for watch in watched if _name(watch) not in over]
    if (known.sends and shares != known.shares) or any((watch.held.until or 0) < known.since for watch in rest):
        raise CannotGoOnError
    fresh = sends_after(rest, parts, day, queues, routes, limits) if rest else {}
    sends = {name: known.sends[name] for name in over} | {_name(watch): fresh.get(watch.held) for watch in rest}
    return KnownSends(shares, sends)


def _name(watch: Watch) -> tuple[Any, ...]:
    return watch.held.process, watch.held.broker_name, watch.held.since, watch.held.until, watch.least, watch.most


def worth_watching(held: Sequence[Held], chosen: Tally, queues: Queues, limits: Thresholds) -> list[Watch]:
    """The watches in which enough sends may have been expected: known from the counts per minute, without an attempt.

    ``chosen``: sends whose queue the client chose, by ``process * 1440 + minute``.
    """
    most: dict[str, int] = defaultdict(int)
    for brokers in shares_of(queues).values():
        for name, share in brokers.items():
            most[name] = max(most[name], share)
    every = list(watches(held, limits))
    first = np.array([w.held.process * MINUTES + (w.held.until or 0) // MINUTE_MS for w in every], np.int64)
    last = np.array([w.held.process * MINUTES + (w.most - 1) // MINUTE_MS for w in every], np.int64)
    total = np.concatenate([[0], np.cumsum(chosen.counts)])
    since, until = np.searchsorted(chosen.numbers, first), np.searchsorted(chosen.numbers, last, side="right")
    sends = (total[until] - total[since]).tolist()
    enough = limits.not_returning_expected_sends * 10**9
    return [w for w, n in zip(every, sends, strict=True) if n * (most[w.held.broker_name] + 1) >= enough]


def sends_after(
    watched: Sequence[Watch],
    parts: Iterable[pa.Table],
    day: Day,
    queues: Queues,
    routes: RecordedRoutes,
    limits: Thresholds,
) -> dict[Held, Sends]:
    """Of each watch what the sends of its process say, until it lasted long enough and enough were expected.

    A send counts where the routes of that time list the broker for its topic, or none is recorded.

    Args:
        parts: as the date was folded.
    """
    found: dict[Watch, list[Sent]] = {watch: [] for watch in watched}
    if watched:
        shares = _shares(queues, day)
        for table in parts:
            _add_sends(found, table, day, shares, routes, int(limits.not_returning_expected_sends * 10**9))
    return {watch.held: counted(watch, joined(*sent), limits) for watch, sent in found.items() if sent}


def _shares(queues: Queues, day: Day) -> dict[str, IntArray]:
    """By broker its share of each topic of the date, as ``shares_of``; -1: it has none that is known."""
    of_topics = shares_of(queues)
    own = [of_topics.get(topic, {}) for topic in day.topics]
    return {name: np.array([each.get(name, -1) for each in own], np.int64) for name in day.brokers}


def _is_listed(routes: RecordedRoutes, day: Day, broker: str, topic: IntArray, begin: IntArray) -> BoolArray:
    """Whether every route that a client may have held when each send began lists the broker for its topic."""
    listed = np.ones(len(topic), np.bool_)
    for code in np.unique(topic).tolist():
        own = np.flatnonzero(topic == code)
        edges = np.array(routes.edges(day.topics[code]), np.int64) - day.midnight_ms
        place, of = np.unique(np.searchsorted(edges, begin[own], side="right"), return_inverse=True)
        first = [int(begin[own[of == n]].min()) for n in range(len(place))]
        held = [routes.held(day.topics[code], at + day.midnight_ms) for at in first]
        listed[own] = np.array([all(r.entry(broker).is_listed() for r in each) for each in held], np.bool_)[of]
    return listed


def _add_sends(
    found: Mapping[Watch, list[Sent]],
    table: pa.Table,
    day: Day,
    shares: Mapping[str, IntArray],
    routes: RecordedRoutes,
    enough: int,
) -> None:
    a = attempts_of(table, day.midnight_ms)
    process, broker, topic = day.codes_of(a)
    of = np.zeros(len(day.processes) + 1, np.bool_)
    of[[watch.held.process for watch in found]] = True
    rows = np.flatnonzero(of[process] & (process >= 0) & a.on_date & (broker >= 0) & (a.attempt <= 0) & ~a.pinned)
    shift = 1 << 28  # more than a date, in ms
    keys = process[rows] * shift + a.begin[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    begin, topic, broker = a.begin[rows], topic[rows], broker[rows]
    codes = {name: code for code, name in enumerate(day.brokers)}
    for watch, sent in found.items():
        low, high = (watch.held.process * shift + at for at in (watch.held.until or 0, watch.most))
        own, name = slice(*np.searchsorted(keys, [low, high])), watch.held.broker_name
        nano = shares[name][topic[own]]
        counts = (nano >= 0) & _is_listed(routes, day, name, topic[own], begin[own])
        sends = taken(Sent(begin[own], nano, broker[own] == codes[name]), counts)
        expected = np.searchsorted(np.cumsum(sends.nano), enough)
        if expected < len(sends.begin):
            last = max(int(sends.begin[expected]), watch.least)
            sends = taken(sends, slice(np.searchsorted(sends.begin, last, side="right")))
        if len(sends.begin):
            sent.append(sends)

"""Attempts and routes of a date in, a verdict on each choice of Go and C++ producers out: rows of send_verdict.

Each of their attempts has a row. A process's attempts of a date to a topic are looked at together: whether one was out
of its turn, or others are not recorded, shows by those behind it. Nothing is handed on to the next date.

These producers take queues in turn, so the route says which queue is next. An example: a topic has two queues on
broker-a, and Go's master (G7) begins with index 1. It sends to 1, 0, 1, and then to 1 again. That attempt is out of its
turn, unless one attempt between them is not recorded:

>>> entry = {"topic": "T", "captured_ms": 0, "broker_name": "broker-a", "write_queue_nums": 2, "perm": 6,
...          "has_master": True, "order_topic_conf": None, "place_in_answer": 0}
>>> routes = RecordedRoutes([entry], stale_ms=31_000, valid_ms=300_000)
>>> def sent(queue_id, at):
...     return Attempt(Sent(("broker-a", queue_id), at, at, at + 2, "main", "SYNC", send=str(at)), number=0)
>>> attempts = [sent(queue_id, 10 * (i + 1)) for i, queue_id in enumerate([1, 0, 1, 1, 0, 1, 0])]
>>> go = Sender(("G7",), retries=None, began_with_these=True)
>>> [told.reason or told.verdict for told in verdicts_of(attempts, "T", go, routes, tolerance_ms=3)]
['consistent', 'consistent', 'consistent', 'unseen_attempts', 'consistent', 'consistent', 'consistent']

Without a route of that time nothing is claimed:

>>> no_routes = RecordedRoutes([], stale_ms=31_000, valid_ms=300_000)
>>> {told.reason for told in verdicts_of(attempts, "T", go, no_routes, tolerance_ms=3)}
{'no route of the topic is recorded at that time'}
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.client_families import CLIENT_FAMILIES, families_of, family_of_release
from hindsight.udfs.clients.client_kinds import names_each_attempt
from hindsight.udfs.producer.attempt_columns import ASYNC, ATTEMPTS, NEVER, Attempts, attempts_of
from hindsight.udfs.producer.producer_lives import Producer, with_epoch_ms
from hindsight.udfs.producer.producer_rows import VERDICT, told_rows
from hindsight.udfs.producer.recorded_routes import RecordedRoutes, Route
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.send_turns import Kind, Turn, turns_of
from hindsight.udfs.release_profiles import RESPONSE_CODE, STATUSES
from hindsight.udfs.turns.turn_rules import Sent, publish_queues
from hindsight.udfs.values.columns import BoolArray, IntArray
from hindsight.udfs.values.message_queues import MessageQueue

_MOST_CPP_ATTEMPTS = 15  # setRetryTimes holds no more


class Ended(NamedTuple):
    """How an attempt ended: its ``outcome``, and the text of its error, None without one."""

    outcome: str | None
    error: str | None


def why_not_retried(profile: str, before: Ended) -> str | None:
    """Why no release of the family tries again after an attempt that ended so; None: it may.

    Go takes every answer for final, but for some codes from 2.1.2 on; C++ tries again whatever is not SEND_OK.
    Source: ``go_send``, ``cpp_send``.
    """
    family = CLIENT_FAMILIES[profile]
    if family.retried_codes is None:
        return f"a retry after {before.outcome}" if before.outcome == STATUSES[0] else None
    if before.outcome in (*STATUSES, "SUBMITTED"):
        return f"a retry after {before.outcome}"
    code = RESPONSE_CODE.search(before.error or "")
    if code is None or int(code[1]) in family.retried_codes:
        return None
    return f"a retry after the broker's answer {code[1]}"


def why_too_many(profile: str, attempt: int, retries: int | None) -> str | None:
    """Why the attempt, 0 for the first, is one too many; ``retries``: as the producer's start says; None: unknown."""
    most = _MOST_CPP_ATTEMPTS if CLIENT_FAMILIES[profile].language == "CPP" else None
    allowed = most if retries is None else 1 + retries
    return f"attempt {attempt + 1} of at most {allowed}" if allowed is not None and attempt >= allowed else None


UNSEEN, CONCURRENT, ACTIVE, STALE = "unseen_attempts", "concurrent_sends", "active_mode", "stale_route"
NO_RELEASE = "the release is not recorded"
NO_ROUTE = "no route of the topic is recorded at that time"
ROUTE_CHANGED = "the route changed: which one the client held is not recorded"
NO_ORDER = "the order of the client's list of queues is not known"
NO_EARLIER = "the attempt before it in its send is not recorded"
OTHER_SELECTOR = "its release takes queues by a key of the message, or at random"
NO_LIST = "how 2.0.0-alpha1 and alpha2 make their list of queues is not known"
# So few brokers follow each other in one way only, or in that and its reverse, whatever their order is.
_FEW_BROKERS = 3
_MOST_OUT = 3  # to one attempt out of its turn so many in turn at least, else the record is not of a round robin
_UNLIKELY = 3  # so many attempts would have to be missing around one, and nowhere else

_OUT_OF_TURN: tuple[Kind, ...] = ("out_of_turn", "uncounted", "out_of_send")

Lists = tuple[tuple[MessageQueue, ...], ...]


class Attempt(NamedTuple):
    """One attempt, instants in epoch ms.

    Attributes:
        number: 0 for the first of its send; None: not told.
        before: how the attempt before it in its send ended; None: not recorded, or it is the first.
    """

    sent: Sent
    number: int | None
    before: Ended | None = None


class Verdict(NamedTuple):
    """What is said of a choice, as ``send_verdict`` has it; ``profile``: the family, None: not known."""

    verdict: str
    rule: str | None
    reason: str | None
    admissible: list[str] | None
    profile: str | None


class Sender(NamedTuple):
    """Whose attempts they are.

    Attributes:
        families: the ones that it may be of (``producer_families``).
        retries: as its start says; None: it does not.
        began_with_these: the first of the attempts is the first that it made to the topic.
    """

    families: tuple[str, ...]
    retries: int | None
    began_with_these: bool


def producer_families(stated: str | None) -> tuple[str, ...]:
    """The families of a producer by what its start says (``GO 2.1.2``, ``GO v2.1.1``); none where it says no release.

    Go's own PROP_CLIENT_VERSION lags behind: with a ``v`` the text may be that one, or the module's version.
    """
    language, _, release = (stated or "").partition(" ")
    if not release:
        return ()
    if release in CLIENT_FAMILIES:
        return (release,)
    own = family_of_release(language, release)
    told = families_of(language, client_version=release) if language == "GO" and release.startswith("v") else ()
    lagging = told if len(told) < len(families_of("GO")) else ()
    return tuple(name for name in CLIENT_FAMILIES if name in {own, *lagging})


def verdicts_of(
    attempts: Sequence[Attempt], topic: str, producer: Sender, routes: RecordedRoutes, *, tolerance_ms: int
) -> list[Verdict]:
    """A verdict on each attempt, given in order of their begin."""
    if not producer.families:
        return [_unknown(NO_RELEASE)] * len(attempts)
    by_family = [
        _OfFamily(profile, topic, producer, routes, tolerance_ms).verdicts(attempts) for profile in producer.families
    ]
    return [_agreed(each) for each in zip(*by_family, strict=True)]


def _agreed(each: Sequence[Verdict]) -> Verdict:
    if len({told.verdict for told in each}) == 1:
        return each[0] if len(each) == 1 else each[0]._replace(profile="|".join(str(told.profile) for told in each))
    names = ", ".join(str(told.profile) for told in each)
    return _unknown(f"the record does not tell which of the families {names} it is of")


def _unknown(reason: str, profile: str | None = None) -> Verdict:
    return Verdict("unknown", None, reason, None, profile)


class _OfFamily:
    """Judges one producer's attempts to one topic by the rules of one family."""

    def __init__(self, profile: str, topic: str, producer: Sender, routes: RecordedRoutes, tolerance_ms: int) -> None:
        self.profile, self.topic, self.producer, self.tolerance_ms = profile, topic, producer, tolerance_ms
        self._routes, self._edges = routes, routes.edges(topic)
        self._lists: dict[int, Lists | str] = {}

    def verdicts(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """By stretches in which the client held one list."""
        never = {"G0": NO_LIST, "G1": OTHER_SELECTOR}.get(self.profile)
        if never is not None:
            return [_unknown(never, self.profile)] * len(attempts)
        told: list[Verdict] = []
        while len(told) < len(attempts):
            first = len(told)
            lists = self._lists_at(attempts[first].sent.begin_ms)
            end = first + 1
            while end < len(attempts) and self._lists_at(attempts[end].sent.begin_ms) == lists:
                end += 1
            own = attempts[first:end]
            told += self._of_lists(own, lists, is_whole=first == 0 and self.producer.began_with_these)
        return told

    def _lists_at(self, now_ms: int) -> Lists | str:
        """The lists that the client may have counted then, of one route; or why none is known."""
        place = bisect_right(self._edges, now_ms)
        if place not in self._lists:
            self._lists[place] = self._lists_of(self._routes.held(self.topic, now_ms))
        return self._lists[place]

    def _lists_of(self, held: Sequence[Route]) -> Lists | str:
        if not held:
            return NO_ROUTE
        found = [lists_of_route(route, self.topic, self.profile) for route in held]
        if not all(found):
            return NO_ORDER
        every = dict.fromkeys(one for lists in found for one in lists)
        # Name servers may order the same brokers differently.
        return tuple(every) if len({frozenset(one) for one in every}) == 1 else ROUTE_CHANGED

    def _of_lists(self, own: Sequence[Attempt], lists: Lists | str, *, is_whole: bool) -> list[Verdict]:
        if isinstance(lists, str):
            return [_unknown(lists, self.profile)] * len(own)
        sends = [attempt.sent for attempt in own]
        ways = []
        for queues in lists:
            told = turns_of(sends, queues, self.profile, is_whole=is_whole, tolerance_ms=self.tolerance_ms)
            ways.append((queues, *told))
            if not told[1]:
                break  # nothing is cheaper
        queues, turns, _ = min(ways, key=lambda way: way[2])
        blamed = _blamed(own, [turn.kind for turn in turns], len(queues))
        return [
            self._retried_wrongly(attempt) or self._of_turn(attempt.sent, turn, queues, blamed)
            for attempt, turn in zip(own, turns, strict=True)
        ]

    def _retried_wrongly(self, attempt: Attempt) -> Verdict | None:
        if not attempt.sent.is_retry or attempt.number is None:
            return None
        why = why_too_many(self.profile, attempt.number, self.producer.retries)
        if why is None and attempt.before is not None:
            why = why_not_retried(self.profile, attempt.before)
        return None if why is None else Verdict("impossible", "retry", why, [], self.profile)

    def _of_turn(self, sent: Sent, turn: Turn, queues: Sequence[MessageQueue], blamed: set[Kind]) -> Verdict:
        if turn.kind == "lost":
            return _unknown(NO_EARLIER, self.profile)
        if turn.kind == "first":
            return self._told("consistent", None, {queue.broker_name for queue in queues})
        expected = None if turn.place is None else queues[turn.place]
        admissible = set() if expected is None else {expected.broker_name}
        if turn.kind == "in_turn":
            return self._told("consistent", None, admissible)
        if turn.kind in _OUT_OF_TURN:
            if expected is not None and turn.kind in blamed:
                next_one = f"queue {expected.queue_id} of {expected.broker_name} was next"
                return self._told("impossible", next_one, admissible)
            listed = MessageQueue(self.topic, *sent.queue) in queues
            return self._told("possible", UNSEEN if listed else STALE, admissible | {sent.queue[0]})
        reason = {"concurrent": CONCURRENT, "active_mode": ACTIVE, "gap": UNSEEN}[turn.kind]
        return self._told("possible", reason, admissible | {sent.queue[0]})

    def _told(self, verdict: str, reason: str | None, admissible: set[str]) -> Verdict:
        return Verdict(verdict, "round_robin", reason, sorted(admissible), self.profile)


def _blamed(own: Sequence[Attempt], kinds: Sequence[Kind], size: int) -> set[Kind]:
    """Which attempts out of their turn no client made: none, where the record shows that it lacks others.

    Such an attempt is in its turn if others are missing around it, nearly a turn of the list. That is unlikely where
    none is missing elsewhere, and cannot be told where the order of most is in doubt. A C++ retry goes by its own send.
    """
    amiss = {"gap", "lost", "active_mode"}.intersection(kinds)
    if amiss or any(attempt.sent.is_retry and attempt.before is None for attempt in own):
        return set()
    out, in_turn = (sum(kind in which for kind in kinds) for which in (_OUT_OF_TURN, ("first", "in_turn")))
    if in_turn < _MOST_OUT * out or 2 * in_turn < len(kinds):
        return {"out_of_send"}
    missing: dict[Kind, int] = {"out_of_send": _UNLIKELY, "out_of_turn": size, "uncounted": size - 1}
    return {kind for kind, number in missing.items() if number >= _UNLIKELY}


def lists_of_route(route: Route, topic: str, profile: str) -> Lists:
    """The lists that a client of the family may count, the likeliest first; empty: the order is not known.

    Before Go's master several producers of one process, or another route, turn the order of brokers round.
    """
    rows = list(route.entries.values())
    places = [row.get("place_in_answer") for row in rows]
    ordered = all(place is not None for place in places)
    if ordered:
        rows.sort(key=lambda row: row["place_in_answer"])
    queues = publish_queues(
        [
            {"brokerName": row["broker_name"], "writeQueueNums": row["write_queue_nums"], "perm": row["perm"]}
            for row in rows
        ],
        topic=topic,
        profile=profile,
        masters={row["broker_name"] for row in rows if row["has_master"]},
        order_topic_conf=next((row["order_topic_conf"] for row in rows if row["order_topic_conf"]), ""),
    )
    if not queues:
        return ()
    if CLIENT_FAMILIES[profile].publish_order == "by_name":
        return (tuple(queues),)
    brokers = list(dict.fromkeys(queue.broker_name for queue in queues))
    if not ordered and len(brokers) > _FEW_BROKERS:
        return ()
    turned = [queue for name in brokers[::-1] for queue in queues if queue.broker_name == name]
    return (tuple(queues),) if turned == queues else (tuple(queues), tuple(turned))


# -- the rows of a date ----------------------------------------------------------------------------------------------

# By producer and start, epoch ms: retryTimesWhenSendFailed.
Retries = Mapping[tuple[Producer, int], int | None]


def retries_of(rows: pa.Table) -> Retries:
    """retryTimesWhenSendFailed of each start."""
    told = with_epoch_ms(rows, "started_at") if "retry_times_sync" in rows.column_names else []
    return {((row["producer_group"], row["client_id"]), row["started_at"]): row["retry_times_sync"] for row in told}


def family_verdict_rows(
    day: Day,
    tables: Callable[[], Iterable[pa.Table]],
    routes: RecordedRoutes,
    retries: Retries,
    *,
    tolerance_ms: int,
) -> pa.Table:
    """Rows of send_verdict; ``tables`` gives the attempts with an instant on the date, where there is such a producer.

    Memory: the attempts of such producers.
    """
    if not day.by_turns.any():
        return VERDICT.empty_table()
    a, process = _counted(tables(), day)
    facts, rows = _facts(a, day.midnight_ms), list[int]()
    told: list[Verdict] = []
    by_topic: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row, fact in enumerate(facts):
        by_topic[int(process[row]), fact["topic"]].append(row)
    for (place, topic), own in sorted(by_topic.items()):
        own.sort(key=lambda row: [facts[row][name] for name in ("begin", "end", "msg_id", "at")])
        own_ids = names_each_attempt(day.processes[place].rules.settings.client_version)
        attempts = _linked([facts[row] for row in own], own_ids=own_ids)
        rows += own
        told += verdicts_of(attempts, topic, _sender(day, place, retries), routes, tolerance_ms=tolerance_ms)
    columns = {name: [getattr(verdict, name) for verdict in told] for name in Verdict._fields}
    place_of = np.array(rows, np.int64)
    return told_rows(day, process[place_of], a.table.take(pa.array(place_of)), columns)


def _counted(tables: Iterable[pa.Table], day: Day) -> tuple[Attempts, IntArray]:
    """The attempts begun on the date whose client chose their queue in its turn, and the process of each."""
    own = [ATTEMPTS.empty_table()]
    for table in tables:
        a = attempts_of(table, day.midnight_ms)
        own.append(table.filter(pa.array(_is_counted(a, day.process_of(a), day))).cast(ATTEMPTS))
    a = attempts_of(pa.concat_tables(own), day.midnight_ms)
    return a, day.process_of(a)


def _is_counted(a: Attempts, process: IntArray, day: Day) -> BoolArray:
    counts = a.on_date & (process >= 0) & ~a.pinned & a.flags("exceptions_observable")
    counts &= a.texts("broker_name").codes >= 0
    counts[counts] = day.by_turns[process[counts]]
    return counts


_TEXTS = ("topic", "thread", "msg_id", "mode", "broker_name", "last_broker_name", "outcome", "error")
_OK = "SEND_OK"


def _facts(a: Attempts, midnight_ms: int) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = {name: a.table[name].cast(pa.string()).to_pylist() for name in _TEXTS}
    columns |= {"queue_id": a.table["queue_id"].to_pylist(), "number": a.table["attempt"].to_pylist()}
    columns["at"] = a.attempt.tolist()
    # An ASYNC send chooses before it is handed over; a callback may come much later.
    submitted = np.where(a.submit_end == NEVER, a.begin, a.submit_end)
    chosen = np.where(a.texts("mode").are(ASYNC), submitted, a.end)
    for name, ms in (("begin", a.begin), ("chosen", np.maximum(chosen, a.begin)), ("end", a.end)):
        columns[name] = (ms + midnight_ms).tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _linked(facts: list[dict[str, Any]], *, own_ids: bool) -> list[Attempt]:
    """Each attempt with the one before it in its send: of the same message id.

    ``own_ids``: its client makes an id for each attempt: then it is the one before it on its thread, if that failed.
    """
    by_id: dict[str, dict[str, Any]] = {}
    by_thread: dict[str, dict[str, Any]] = {}
    found = []
    for fact in facts:
        before = by_id.get(fact["msg_id"])
        if before is None and own_ids:
            before = by_thread.get(fact["thread"])
            before = None if before is None or before["outcome"] == _OK else before
        is_before = before is not None and (before["at"] < fact["at"])
        found.append(_attempt(fact, before if is_before else None))
        by_id[fact["msg_id"]] = fact
        if fact["thread"] is not None:
            by_thread[fact["thread"]] = fact
    return found


def _attempt(fact: dict[str, Any], before: dict[str, Any] | None) -> Attempt:
    number = fact["number"]
    last_broker = fact["last_broker_name"] or (before["broker_name"] if before else None)
    follows = before is not None and before["number"] == number - 1
    sent = Sent(
        (fact["broker_name"], fact["queue_id"]),
        fact["begin"],
        fact["chosen"],
        fact["end"],
        fact["thread"],
        fact["mode"],
        fact["msg_id"],
        bool(number),
        last_broker,
        (before["broker_name"], before["queue_id"]) if before is not None else None,
        before is not None and not follows,
        fact["outcome"] not in (_OK, "SUBMITTED"),
    )
    return Attempt(sent, number, Ended(before["outcome"], before["error"]) if before is not None and follows else None)


def _sender(day: Day, process: int, retries: Retries) -> Sender:
    known = day.processes[process]
    started = known.life.started_ms
    return Sender(
        producer_families(known.rules.settings.client_version),
        None if started is None else retries.get((known.producer, started)),
        started is not None and started >= day.midnight_ms,
    )

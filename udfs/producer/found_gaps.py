"""Attempts of a date in; gaps that they themselves show out: a clock that stepped back, settings, two processes.

**The clock stepped back.** What the clock showed twice stands mixed in the record: an update of the first time may come
after one of the second. Message ids show it. Their last digits count the messages of a process (MessageClientIDSetter,
4.0.0 to 5.5.0), so of two sends that begin one after the other the later one has the higher number, but for threads
that overtake each other by an instant. Numbers that go back all the time count something else, and say nothing.

**Settings changed.** Switch and ladders can be set while a producer runs, and no line says so. A client that stopped to
go by its table takes brokers that it should avoid as often as the others: so often that of the sends that had another
choice at least half as many went to avoided brokers as the shares of brokers would bring them. A client that goes by it
takes none, and a few choices that somebody else made for it are far fewer: they stay impossible.

**Two processes** under one producer group and client id. Each has a fault table of its own, so attempts of two must not
be replayed as one. Two things show them, where ids of containers on bridged networks are alike (before 4.9.0:
``172.17.0.2@1``):

- message ids. What stands before their last 12 digits (host, pid and class loader: MessageClientIDSetter, 4.0.0 to
  5.5.0) is one process's own. Two such heads that take turns are two processes; one that ends before the other begins
  is a process that was started anew;
- a start in the middle, where ids do not say so: threads that send shortly before it and shortly after it go on, and
  no process starts so soon.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import (
    Attempts,
    Producers,
    attempts_of,
    compact,
    producers_of,
    sent_by,
    texts,
)
from hindsight.udfs.producer.attempt_facts import MIDNIGHT_ALONE, Cuts
from hindsight.udfs.producer.fault_fold import Stretches, taken, within
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import CLOCK_STEP, SETTINGS_CHANGED, TWO_PROCESSES, Gap, merged_gaps
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

_DIGITS = 8  # that an id ends in at least; the last four of them count
_WRAPS = 1 << 16
_OVERTAKES_MS, _OVERTAKES = 10, 64  # how far threads overtake each other, in ms and in messages
_PAUSE_MS = 5_000  # after a longer one it may be another process
_MOST_BACK = 0.25  # of all sends; more are no steps
_AROUND_MS = 3_000  # what was under way as the clock stepped may have ended on its other side
_HEX = np.full(256, -1, np.int64)
_HEX[[ord(c) for c in "0123456789ABCDEF"]] = np.arange(16)
_SEVERAL = 5  # fewer choices show nothing
_MIN_SHARE = 0.5
_CLIENT_S_OWN = "[0-9A-F]{12}$"
_TAIL = 12  # hexadecimal digits of a message id that tell the messages of one process apart
_MOST_HEADS = 8  # more are no processes: ids that somebody else made
_TOO_MANY = "*"  # in place of so many
_GOES_ON_MS = 5_000  # sooner no process sends after the last send of the one before it
_WHO = ("producer_group", "client_id")
TRACES = pa.schema(
    [
        *((name, pa.string()) for name in _WHO),
        ("head", pa.string()),
        ("thread", pa.string()),
        *((name, pa.int64()) for name in ("after", "attempts", "first", "last")),
    ]
)
_MERGED = {"attempts": "sum", "first": "min", "last": "max"}
_KEYS = [name for name in TRACES.names if name not in _MERGED]


# -- the clock stepped back ------------------------------------------------------------------------------------------


class ClockSteps:
    """What the parts of a date have shown so far; they come in the order of their attempts."""

    def __init__(self, midnight_ms: int, cuts: Cuts) -> None:
        """``cuts``: of the date; a process that starts counts anew."""
        self._midnight_ms, self._cuts = midnight_ms, cuts
        self._sends: dict[Producer, int] = {}
        self._last: dict[Producer, tuple[int, int]] = {}
        self._back: dict[Producer, list[IntArray]] = {}  # both instants of sends that went back: two rows

    def copied(self) -> ClockSteps:
        """The same, to go on from."""
        other = ClockSteps(self._midnight_ms, self._cuts)
        other._sends, other._last = dict(self._sends), dict(self._last)
        other._back = {name: list(parts) for name, parts in self._back.items()}
        return other

    def add(self, a: Attempts) -> None:
        """The next part."""
        whose, rows, begin, number = _sends_of(a)
        # By producer, begin and number; of all three the row is left out, because hardly any is looked at.
        keys = np.sort((whose.codes[rows] << 43) | (begin << 16) | (number % _WRAPS))
        edges = np.searchsorted(keys >> 43, np.arange(len(whose.names) + 1)).tolist()
        for code, name in enumerate(whose.names):
            own = keys[edges[code] : edges[code + 1]]
            back = self._went_back(name, (own >> 16) & ((1 << 27) - 1), own % _WRAPS)
            if back.shape[1]:
                self._back.setdefault(name, []).append(back)
            self._sends[name] = self._sends.get(name, 0) + len(own)

    def _went_back(self, name: Producer, begin: IntArray, number: IntArray) -> IntArray:
        """Both instants of each pair of sends, one after the other, of which the later has the lower number."""
        if not len(begin):
            return np.zeros((2, 0), np.int64)
        before = self._last.get(name, (int(begin[0]), int(number[0])))
        self._last[name] = int(begin[-1]), int(number[-1])
        begins, numbers = (np.append(first, each) for first, each in zip(before, (begin, number), strict=True))
        step, apart = (np.diff(numbers) + _WRAPS // 2) % _WRAPS - _WRAPS // 2, np.diff(begins)
        back = (step < 0) & ((apart > _OVERTAKES_MS) | (step < -_OVERTAKES)) & (apart <= _PAUSE_MS)
        if back.any():
            cuts = self._cuts.get(name, MIDNIGHT_ALONE)
            back &= np.diff(np.searchsorted(cuts, begins, side="right")) == 0
        return np.stack([begins[:-1][back], begins[1:][back]])

    def doubtful(self) -> set[Producer]:
        """The producers of whom some sends went back; also where that says nothing."""
        return {*self._back}

    def gaps(self, parts: Iterable[pa.Table]) -> dict[Producer, Gap]:
        """When clocks stepped back, by producer; ``parts``: all that were added, looked at where some may have."""
        found = {}
        for name, repeated in (_repeats(parts, self._midnight_ms, self._back) if self._back else {}).items():
            back = np.concatenate(self._back[name], axis=1)
            back = back[:, ~np.isin(back[1], repeated)]
            if back.shape[1] and back.shape[1] <= max(1, _MOST_BACK * self._sends[name]):
                since, until = int(back.min()) - _AROUND_MS, int(back.max()) + _AROUND_MS
                found[name] = Gap(since + self._midnight_ms, until + self._midnight_ms, CLOCK_STEP)
        return found


def _repeats(parts: Iterable[pa.Table], midnight_ms: int, names: Collection[Producer]) -> dict[Producer, IntArray]:
    """By producer when it sent messages that it had sent before: an application kept their ids."""
    sent: dict[Producer, list[IntArray]] = {name: [] for name in names}
    for table in parts:
        whose, rows, begin, number = _sends_of(attempts_of(sent_by(table, names), midnight_ms))
        for code, name in enumerate(whose.names):
            if name in sent:
                own = whose.codes[rows] == code
                sent[name].append(np.stack([begin[own], number[own]]))
    found = {}
    for name, of_parts in sent.items():
        begin, number = np.concatenate(of_parts, axis=1)
        order = np.argsort(begin, kind="stable")
        again = np.ones(len(order), np.bool_)
        again[np.unique(number[order], return_index=True)[1]] = False
        found[name] = begin[order[again]]
    return found


def _sends_of(a: Attempts) -> tuple[Producers, IntArray, IntArray, IntArray]:
    """Who made attempts; rows of the date's sends whose ids are numbers, with their begins and these numbers."""
    number, counts = _numbers(a)
    rows = np.flatnonzero(counts & a.on_date & (a.attempt <= 0))
    return producers_of(a), rows, a.begin[rows], number[rows]


def _numbers(a: Attempts) -> tuple[IntArray, BoolArray]:
    """The number that the last digits of each message id are, and of which ids they surely are one."""
    ids = a.table["msg_id"].cast(pa.string()).combine_chunks()
    if not len(ids):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    ends = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset + 1 : ids.offset + len(ids) + 1]
    long = pc.greater_equal(pc.fill_null(pc.binary_length(ids), 0), _DIGITS).to_numpy(zero_copy_only=False)
    text = np.frombuffer(ids.buffers()[2] or b"\0", np.uint8)
    places = np.maximum(ends.astype(np.int64)[:, None] - np.arange(_DIGITS, 0, -1), 0)
    digits = _HEX[text[np.minimum(places, len(text) - 1)]]
    number: IntArray = digits @ (16 ** np.arange(_DIGITS - 1, -1, -1))
    return number, long & (digits >= 0).all(axis=1)


# -- settings changed ------------------------------------------------------------------------------------------------


def changed_settings(
    day: Day, impossible: Sequence[Mapping[str, Any]], held: Stretches, parts: Iterable[pa.Table]
) -> dict[int, int]:
    """The processes whose settings must have changed, by place, with the first choice that shows it, ms of the date.

    Args:
        impossible: rows of send_verdict with the place of their ``process``, ``begin_at`` in ms of the date.
        held: the stretches of the date in which isAvailable was false.
        parts: the attempts of the date.
    """
    counts = Counter(row["process"] for row in impossible if day.replayed[row["process"]])
    asked = {place for place, count in counts.items() if count >= _SEVERAL}
    if not asked:
        return {}
    first = {place: min(row["begin_at"] for row in impossible if row["process"] == place) for place in sorted(asked)}
    tallies = {place: np.zeros(2) for place in first}
    names = [day.processes[place].producer for place in first]
    for table in parts:
        for place, own in _of_part(day, sent_by(table, names), first, held):
            tallies[place] += own
    of_each = ((place, *tally.tolist()) for place, tally in tallies.items())
    return {p: first[p] for p, against, expected in of_each if expected and against >= _MIN_SHARE * expected}


def _of_part(
    day: Day, table: pa.Table, first: Mapping[int, int], held: Stretches
) -> Iterable[tuple[int, tuple[float, float]]]:
    """By process, of sends that had another choice: those that went to avoided brokers, and how many shares bring."""
    a = attempts_of(table, day.midnight_ms)
    process, broker, topic = day.codes_of(a)
    size = max(len(day.brokers), 1)
    for place, since in first.items():
        own = (process == place) & a.on_date & (a.begin >= since) & (a.attempt <= 0) & ~a.pinned & (broker >= 0)
        rows = np.flatnonzero(own)
        for code in np.unique(topic[rows]).tolist():
            sent = rows[topic[rows] == code]
            brokers = _brokers_of(day, place, code)
            avoided = np.stack([_is_held(held, place * size + b, a.begin[sent]) for b in brokers], axis=1)
            has_choice = avoided.any(axis=1) & ~avoided.all(axis=1)
            taken_one = avoided[np.arange(len(sent)), np.searchsorted(brokers, broker[sent])]
            yield place, (float(taken_one[has_choice].sum()), float(avoided[has_choice].mean(axis=1).sum()))


def _brokers_of(day: Day, process: int, topic: int) -> IntArray:
    """Codes of the brokers that a process used for a topic on the date, in order."""
    size = len(day.brokers)
    lowest = (process * len(day.topics) + topic) * size
    since, until = np.searchsorted(day.uses, [lowest, lowest + size])
    codes: IntArray = day.uses[since:until] - lowest
    return codes


def _is_held(held: Stretches, item: int, at: IntArray) -> BoolArray:
    own = taken(held, held.item == item)
    order = np.argsort(own.since)
    # What begins in the very millisecond may have begun after it.
    return within(own.since[order] + 1, np.maximum.accumulate(np.minimum(own.until[order], DAY_MS)), at)


def with_changes(day: Day, changes: Mapping[int, int]) -> Day:
    """The date, nothing of these processes certain any more."""
    processes = list(day.processes)
    for place in changes:
        process = processes[place]
        gap = Gap(None, process.last_attempt_ms, SETTINGS_CHANGED)
        processes[place] = process._replace(gaps=merged_gaps((*process.gaps, gap)))
    return day._replace(processes=processes) if changes else day


def explained(verdicts: pa.Table, rows: Sequence[Mapping[str, Any]], changes: Mapping[int, int]) -> pa.Table:
    """The verdicts, those of these processes possible that were impossible; ``rows``: the impossible ones, in order."""
    if not changes:
        return verdicts
    impossible = pc.equal(verdicts["verdict"], "impossible")
    told = np.zeros(len(verdicts), np.bool_)
    told[np.flatnonzero(np.asarray(impossible))] = [row["process"] in changes for row in rows]
    which = pa.array(told)
    for name, value in (("verdict", "possible"), ("reason", SETTINGS_CHANGED)):
        place = verdicts.schema.get_field_index(name)
        column = pc.if_else(which, pa.scalar(value), verdicts[name])
        verdicts = verdicts.set_column(place, verdicts.schema.field(name), column)
    return verdicts


# -- two processes under one id --------------------------------------------------------------------------------------


def traces_of(a: Attempts, cuts: Cuts) -> pa.Table:
    """Which heads of ids, and near a start which threads, sent between when and when (``TRACES``).

    ``after``: the start, ms of the date, that the attempts follow, of producers with one; else of no meaning.
    """
    return pa.concat_tables([_of_heads_sent(a), _near_starts(a, cuts)])


def _of_heads_sent(a: Attempts) -> pa.Table:
    """The heads of each producer; what is said of an attempt goes by its own id, so any cut of a date says the same."""
    rows = np.flatnonzero(a.on_date)
    if not len(rows):
        return TRACES.empty_table()
    whose, ids = producers_of(a), a.table["msg_id"].take(pa.array(rows)).cast(pa.string())
    # A head tells something only before what a client itself made.
    is_own = pc.fill_null(pc.match_substring_regex(ids, _CLIENT_S_OWN), False)
    named = pc.if_else(is_own, pc.utf8_slice_codeunits(ids, 0, -_TAIL), pa.scalar(None, pa.string()))
    heads = texts(named.dictionary_encode().unify_dictionaries())
    size = len(heads.values) + 1
    place, distinct = compact(whose.codes[rows] * size + heads.codes + 1, len(whose.names) * size)
    counted = pa.table({"place": place, "at": a.begin[rows]}).group_by("place")
    told = counted.aggregate([("at", "count"), ("at", "min"), ("at", "max")])
    found = distinct[told["place"].to_numpy()]
    of, head = found // size, pa.array([None, *heads.values], pa.string()).take(pa.array(found % size))
    many = np.bincount(of[found % size > 0], minlength=len(whose.names))[of] > _MOST_HEADS
    names = [whose.names[code] for code in of.tolist()]
    made = pa.table(
        [
            [group for group, _ in names],
            [client for _, client in names],
            pc.if_else(pa.array(many), _TOO_MANY, head),
            pa.nulls(len(found), pa.string()),
            np.zeros(len(found), np.int64),
            *(told[f"at_{how}"] for how in ("count", "min", "max")),
        ],
        names=TRACES.names,
    ).cast(TRACES)
    return merged_traces([made])


def _near_starts(a: Attempts, cuts: Cuts) -> pa.Table:
    """The attempts so near to a start that their threads say whether the process before it went on."""
    whose = producers_of(a)
    starts = [(code, at) for code, name in enumerate(whose.names) for at in cuts.get(name, ()) if at]
    near = [np.flatnonzero((whose.codes == code) & (np.abs(a.begin - at) <= _GOES_ON_MS)) for code, at in starts]
    after = [np.full(len(each), at) for (_, at), each in zip(starts, near, strict=True)]
    none = np.zeros(0, np.int64)
    rows = np.concatenate([none, *near])
    made = {
        **a.strings(rows, *_WHO, "thread"),
        "head": pa.nulls(len(rows), pa.string()),
        "after": np.concatenate([none, *after]),
        "attempts": np.ones(len(rows), np.int64),
        "first": a.begin[rows],
        "last": a.begin[rows],
    }
    return merged_traces([pa.table({name: made[name] for name in TRACES.names}).cast(TRACES)])


def merged_traces(parts: Sequence[pa.Table]) -> pa.Table:
    """Traces of several parts of a date as those of the whole."""
    grouped = pa.concat_tables(parts).group_by(_KEYS).aggregate(list(_MERGED.items()))
    return grouped.rename_columns([*_KEYS, *_MERGED]).select(TRACES.names).cast(TRACES)


def overlaps_of(traces: pa.Table, midnight_ms: int) -> dict[Producer, list[Gap]]:
    """When two processes sent under one id, by producer."""
    heads: dict[Producer, list[Mapping[str, Any]]] = defaultdict(list)
    threads: dict[Producer, list[Mapping[str, Any]]] = defaultdict(list)
    for row in traces.filter(_is_telling(traces)).to_pylist():
        who = row["producer_group"], row["client_id"]
        (heads if row["thread"] is None else threads)[who].append(row)
    found = {who: _of_heads(rows) for who, rows in heads.items()}
    for who, rows in threads.items():
        found[who] = [*found.get(who, ()), *_of_threads(rows, heads.get(who, ()))]
    return {
        who: [Gap(since + midnight_ms, until + midnight_ms, TWO_PROCESSES) for since, until in stretches]
        for who, stretches in found.items()
        if stretches
    }


def _is_telling(traces: pa.Table) -> pa.ChunkedArray:
    """Rows of producers with more than one head, or with a start."""
    counts = traces.group_by(list(_WHO)).aggregate([("attempts", "count")])
    several = counts.filter(pc.greater(counts["attempts_count"], 1))
    key, wanted = (pc.binary_join_element_wise(*(t[name] for name in _WHO), "\0") for t in (traces, several))
    return pc.is_in(key, wanted)


def _of_heads(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Stretches in which two heads took turns; of each more than one attempt."""
    heads = {row["head"] for row in rows if row["head"]}
    if _TOO_MANY in heads or len(heads) > _MOST_HEADS:
        return []
    own = sorted((row["first"], row["last"]) for row in rows if row["head"] and row["attempts"] > 1)
    return [
        (max(one[0], other[0]), min(one[1], other[1]))
        for place, one in enumerate(own)
        for other in own[place + 1 :]
        if other[0] < one[1]
    ]


def _of_threads(rows: Sequence[Mapping[str, Any]], heads: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, int]]:
    """Stretches from a start on that threads went on over, up to the producer's last attempt."""
    last = max((row["last"] for row in heads), default=0)
    for start in sorted({row["after"] for row in rows}):
        own = (row for row in rows if row["after"] == start and row["thread"])
        goes_on = any(row["first"] < start <= row["last"] for row in own)
        if goes_on and not _is_told_by_heads(heads, start):
            yield start, max(last, start)


def _is_told_by_heads(heads: Collection[Mapping[str, Any]], start: int) -> bool:
    """Whether the ids show that one process ended before the start, and another began with it."""
    known = [row for row in heads if row["head"] and len(row["head"]) > _TAIL // 2]
    return bool(known) and not any(row["first"] < start <= row["last"] for row in known)

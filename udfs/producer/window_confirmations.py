"""Lines in which clients tell of their own fault tables, and replayed windows in; which line shows which window, out.

A log names neither the client nor the topic, and may be that of several clients. The line's thread tells: a sending
thread's line is of a producer that sends on it, any other line is of an ASYNC callback, or of the detector.
Source: LatencyFaultToleranceImpl.updateFaultItem and detectByOneRound, 5.1.4 on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import DAY_MS, instants
from hindsight.udfs.producer.producer_rows import WINDOW
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.values.row_hashes import BoolArray, IntArray

# Kinds of client_event that tell of the fault table, with the state of the window they can show.
STATES = {"broker_isolated": "unavailable", "broker_unreachable": "unreachable", "broker_reachable": "unreachable"}
_FACTS = ("log_folder", "thread", "broker_name", "kind", "duration_ms")
LINE = ("cluster", "event_date", "logged_at", "line_digest", "occurrence", *_FACTS)
WRITER = pa.schema([(name, pa.string()) for name in ("producer_group", "client_id", "writer")])
OWN_THREAD = ""  # of the client itself: callbacks and the detector

_PROFILES = [profile.id for profile in PROFILES.values() if profile.has_reachable]  # of clients that write such lines
_KEY = ("producer_group", "client_id", "started_at", "window_start")
_JUDGED = ("event_date", "broker_name", "state", "window_end", "continues_previous", "not_available_ms")
NO_WINDOWS = WINDOW.empty_table().select([*_KEY, *_JUDGED])
_SHOWS = ("opened", "ended", "lasted", "nothing")
_OPENED, _ENDED, _LASTED, _NOTHING = range(len(_SHOWS))
_MINUTE_MS = 60_000
_NO_LENGTH = -1


class _Pairs(NamedTuple):
    """Lines beside windows of which they may tell: places of both, instants in epoch ms.

    Attributes:
        writes: the line's thread is one of the window's producer.
    """

    line: IntArray
    window: IntArray
    at: IntArray
    start: IntArray
    until: IntArray
    kind: IntArray
    duration: IntArray
    length: IntArray
    continues: BoolArray
    writes: BoolArray


def tells_of_faults(events: pa.Table) -> pa.Table:
    """The rows of client_event that tell of a fault table, with the columns ``LINE``."""
    return events.filter(pc.is_in(events["kind"], value_set=pa.array([*STATES]))).select(LINE)


def windows_of_writers(windows: pa.Table) -> pa.Table:
    """The windows of clients that write such lines, with the columns of ``NO_WINDOWS``."""
    own = windows.filter(pc.is_in(windows["profile"], value_set=pa.array(_PROFILES)))
    return own.select(NO_WINDOWS.column_names)


def window_confirmations(lines: pa.Table, windows: pa.Table, writers: pa.Table, *, within_ms: int) -> pa.Table:
    """Each line, with the one window that it shows, if any.

    A line is of one client: of several that it fits, the one whose replayed instant is nearest.

    Args:
        lines: of one cluster, with the columns ``LINE``.
        windows: of its processes, with the columns of ``NO_WINDOWS``.
        writers: of its processes, the threads that may write their lines (``WRITER``); '' for the client's own.
        within_ms: how far the instants of one event may lie apart, in the log and in the replay.
    """
    pairs = _pairs(lines, windows, writers, within_ms)
    shows, offset = _shown(pairs, within_ms), pairs.at - np.where(pairs.kind == 2, pairs.until, pairs.start)
    fits = shows != _NOTHING
    line, window, shows, offset = pairs.line[fits], pairs.window[fits], shows[fits], offset[fits]
    order = np.lexsort((_ranks(windows)[window], np.abs(offset), shows == _LASTED, line))
    best = order[np.diff(line[order], prepend=-1) != 0]
    of_line = np.full(len(lines), len(best), np.int64)
    of_line[line[best]] = np.arange(len(best))
    none = of_line == len(best)
    chosen = pa.array(np.append(window[best], 0)[of_line], mask=none)
    made = lines.select(LINE)
    for name in _KEY:
        made = made.append_column(name, windows[name].take(chosen))
    told = np.append(shows[best], _NOTHING)[of_line]
    made = made.append_column("shows", pa.array(_SHOWS).take(pa.array(told)))
    apart = np.append(offset[best], 0)[of_line]
    made = made.append_column("offset_ms", pa.array(apart, pa.int64(), mask=none | (told == _LASTED)))
    candidates = np.bincount(line[shows != _LASTED], minlength=len(lines))
    return made.append_column("candidates", pa.array(candidates, pa.int32()))


def _pairs(lines: pa.Table, windows: pa.Table, writers: pa.Table, within_ms: int) -> _Pairs:
    start = instants(windows["window_start"], 0)
    midnight = (pc.cast(windows["event_date"], pa.int32()).to_numpy().astype(np.int64) + 1) * DAY_MS
    open_end = pc.is_null(windows["window_end"]).to_numpy()
    until = np.where(open_end, midnight, instants(windows["window_end"], 0))
    at = instants(lines["logged_at"], 0)
    kind = pc.index_in(lines["kind"], value_set=pa.array([*STATES])).to_numpy().astype(np.int64)
    states = pa.array([*STATES.values()]).take(pa.array(kind))
    of_line, of_window = _codes([lines["broker_name"], states], [windows["broker_name"], windows["state"]])
    line, window = _meeting(of_line, at, of_window, start - within_ms, until + within_ms)
    writes = _writes(lines, windows, writers, line, window)
    length = pc.fill_null(windows["not_available_ms"], _NO_LENGTH - 1).to_numpy()
    duration = pc.fill_null(lines["duration_ms"], _NO_LENGTH).to_numpy()
    continues = windows["continues_previous"].to_numpy().astype(np.bool_)
    of_pair = (at[line], start[window], until[window], kind[line], duration[line], length[window], continues[window])
    return _Pairs(line, window, *of_pair, writes)


def _shown(p: _Pairs, within_ms: int) -> IntArray:
    """What a line shows of a window: that it opened, that it lasted, that it ended; or nothing: of another one."""
    since = p.at - p.start
    lasts = (since >= -within_ms) & (p.at + np.maximum(p.duration, 0) <= p.until + within_ms)
    of_opening = (p.kind == 1) | (p.duration == p.length)
    opens = p.writes & (np.abs(since) <= within_ms) & of_opening & ~p.continues
    # The detector finds a broker reachable for any producer of its process.
    is_end = p.kind == 2
    found: IntArray = np.select(
        [is_end & lasts, ~is_end & opens, ~is_end & p.writes & lasts], [_ENDED, _OPENED, _LASTED], _NOTHING
    )
    return found


def _meeting(
    of_line: IntArray, at: IntArray, of_window: IntArray, since: IntArray, until: IntArray
) -> tuple[IntArray, IntArray]:
    """The places of lines and windows of equal codes, where a line lies in a minute that its window touches."""
    minutes = until // _MINUTE_MS - since // _MINUTE_MS + 1
    window = np.repeat(np.arange(len(since)), minutes)
    nth = np.arange(len(window)) - np.repeat(np.cumsum(minutes) - minutes, minutes)
    minute = since[window] // _MINUTE_MS + nth
    order = np.lexsort((minute, of_window[window]))
    window, minute = window[order], minute[order]
    sorted_keys = np.rec.fromarrays([of_window[window], minute])
    keys = np.rec.fromarrays([of_line, at // _MINUTE_MS], dtype=sorted_keys.dtype)
    first, end = (np.searchsorted(sorted_keys, keys, side) for side in ("left", "right"))
    count = end - first
    line = np.repeat(np.arange(len(at)), count)
    place = np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return line, window[place]


def _writes(lines: pa.Table, windows: pa.Table, writers: pa.Table, line: IntArray, window: IntArray) -> BoolArray:
    sends = pc.is_in(lines["thread"], value_set=writers["writer"].combine_chunks().drop_null())
    thread = pc.if_else(sends, lines["thread"], OWN_THREAD)
    who = ("producer_group", "client_id")
    takers = [windows[name].take(pa.array(window)) for name in who]
    pairs, known = _codes([*takers, thread.take(pa.array(line))], [writers[name] for name in (*who, "writer")])
    found: BoolArray = np.isin(pairs, known)
    return found


def _codes(some: list[pa.ChunkedArray], others: list[pa.ChunkedArray]) -> tuple[IntArray, IntArray]:
    """Rows of two tables as numbers that are equal where the texts of all columns are."""
    count = len(some[0])
    codes = np.zeros(count + len(others[0]), np.int64)
    for one, other in zip(some, others, strict=True):
        every = pa.chunked_array([*_chunks(one), *_chunks(other)], pa.string()).combine_chunks().dictionary_encode()
        own = every.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes * (len(every.dictionary) + 1) + own, return_inverse=True)[1]
    return codes[:count], codes[count:]


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _ranks(windows: pa.Table) -> IntArray:
    """The places of windows in the order of their keys, a process without a start first."""
    order = pc.sort_indices(windows, [(name, "ascending", "at_start") for name in _KEY])
    ranks = np.empty(len(windows), np.int64)
    ranks[order.to_numpy()] = np.arange(len(windows))
    return ranks

"""Lines in which clients tell of their own fault tables, and replayed windows in; which line shows which window, out.

A log names neither the client nor the topic, and may be that of several clients. The line's thread tells: a sending
thread's line is of a producer that sends on it, any other line is of an ASYNC callback, or of the detector.
Source: LatencyFaultToleranceImpl.updateFaultItem and detectByOneRound, 5.1.4 on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import NEVER, instants, order_of, spread
from hindsight.udfs.producer.producer_rows import WINDOW
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

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
    line, window = _meeting(lines, windows, within_ms)
    shows, offset = _shown(lines, windows, line, window, _writes(lines, windows, writers, line, window), within_ms)
    fits = shows != _NOTHING
    line, window, shows, offset = line[fits], window[fits], shows[fits], offset[fits]
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


def _meeting(lines: pa.Table, windows: pa.Table, within_ms: int) -> tuple[IntArray, IntArray]:
    """Places of lines and windows of one broker and state, where a line lies in a minute that its window touches."""
    start, until = _edges(windows)
    first = (start - within_ms) // _MINUTE_MS
    window, nth = spread((until + within_ms) // _MINUTE_MS - first + 1)
    touched = windows.select(["broker_name", "state"]).take(pa.array(window))
    touched = touched.append_column("minute", pa.array(first[window] + nth)).append_column("window", pa.array(window))
    states = pa.array([*STATES.values()]).take(pc.index_in(lines["kind"], value_set=pa.array([*STATES])))
    minute, place = pa.array(instants(lines["logged_at"], 0) // _MINUTE_MS), pa.array(np.arange(len(lines)))
    told = pa.table([lines["broker_name"], states, minute, place], names=["broker_name", "state", "minute", "line"])
    met = told.join(touched, ["broker_name", "state", "minute"], join_type="inner")
    return met["line"].to_numpy(), met["window"].to_numpy()


def _edges(windows: pa.Table) -> tuple[IntArray, IntArray]:
    """When each window begins and ends, epoch ms; without a known end with its date."""
    midnight = (pc.cast(windows["event_date"], pa.int32()).to_numpy().astype(np.int64) + 1) * DAY_MS
    until = instants(windows["window_end"], 0)
    return instants(windows["window_start"], 0), np.where(until == NEVER, midnight, until)


def _shown(
    lines: pa.Table, windows: pa.Table, line: IntArray, window: IntArray, writes: BoolArray, within_ms: int
) -> tuple[IntArray, IntArray]:
    """What a line shows of a window: that it opened, that it lasted, that it ended; or nothing: of another one.

    And how far apart their instants are, ms. ``writes``: the line's thread is one of the window's producer.
    """
    start, until = (edge[window] for edge in _edges(windows))
    at = instants(lines["logged_at"], 0)[line]
    kind = pc.index_in(lines["kind"], value_set=pa.array([*STATES])).to_numpy()[line]
    duration = pc.fill_null(lines["duration_ms"], _NO_LENGTH).to_numpy()[line]
    length = pc.fill_null(windows["not_available_ms"], _NO_LENGTH - 1).to_numpy()[window]
    continues = windows["continues_previous"].to_numpy().astype(np.bool_)[window]
    since, is_end = at - start, kind == 2
    lasts = (since >= -within_ms) & (at + np.maximum(duration, 0) <= until + within_ms)
    opens = writes & (np.abs(since) <= within_ms) & ((kind == 1) | (duration == length)) & ~continues
    # The detector finds a broker reachable for any producer of its process.
    found: IntArray = np.select(
        [is_end & lasts, ~is_end & opens, ~is_end & writes & lasts], [_ENDED, _OPENED, _LASTED], _NOTHING
    )
    return found, at - np.where(is_end, until, start)


def _writes(lines: pa.Table, windows: pa.Table, writers: pa.Table, line: IntArray, window: IntArray) -> BoolArray:
    sends = pc.is_in(lines["thread"], value_set=writers["writer"].combine_chunks().drop_null())
    writer = pc.if_else(sends, lines["thread"], OWN_THREAD).take(pa.array(line))
    pairs = windows.select(WRITER.names[:2]).take(pa.array(window)).append_column(WRITER.names[2], writer)
    pairs = pairs.append_column("pair", pa.array(np.arange(len(line))))
    found = np.zeros(len(line), np.bool_)
    found[pairs.join(writers, WRITER.names, join_type="left semi")["pair"].to_numpy()] = True
    return found


def _ranks(windows: pa.Table) -> IntArray:
    """The places of windows in the order of their keys, a process without a start first."""
    ranks = np.empty(len(windows), np.int64)
    ranks[order_of({name: windows[name] for name in _KEY})] = np.arange(len(windows))
    return ranks

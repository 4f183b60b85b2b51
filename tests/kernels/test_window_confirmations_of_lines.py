"""Which window a line of a client's log shows, against each line held beside each window, one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.producer.producer_rows import WINDOW
from hindsight.udfs.producer.window_confirmations import (
    LINE,
    NO_WINDOWS,
    STATES,
    WRITER,
    tells_of_faults,
    window_confirmations,
    windows_of_writers,
)
from hindsight.udfs.release_profiles import PROFILES

DAY = date(2026, 1, 5)
MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
WITHIN_MS = 50
INSTANT = pa.timestamp("us", "UTC")
EVENT = pa.schema(
    {name: pa.string() for name in LINE}
    | {"event_date": pa.date32(), "logged_at": INSTANT, "occurrence": pa.int32(), "duration_ms": pa.int64()}
)
WRITES = next(p.id for p in PROFILES.values() if p.has_reachable)
SILENT = next(p.id for p in PROFILES.values() if not p.has_reachable)
KEY = ("producer_group", "client_id", "started_at", "window_start")


def at(ms: int, micros: int = 0) -> datetime:
    return MIDNIGHT + timedelta(milliseconds=ms, microseconds=micros)


# Few instants, near each other, near minutes and near midnight.
NEAR = st.sampled_from([0, 50, 51, 30_000, 30_049, 59_990, 60_040, 86_399_960])
INSTANTS = st.builds(at, NEAR, st.sampled_from([0, 0, 0, 999]))
LENGTHS = st.sampled_from([None, 0, 30_000, 30_000])

LINES = st.builds(
    lambda n, **facts: facts | {"line_digest": f"{n}"},
    st.uuids(),
    cluster=st.just("c"),
    event_date=st.just(DAY),
    logged_at=INSTANTS,
    occurrence=st.just(1),
    log_folder=st.just("f"),
    thread=st.sampled_from([None, "", "t1", "t1", "t2"]),
    broker_name=st.sampled_from("aaab"),
    kind=st.sampled_from([*STATES, "connect_failed"]),
    duration_ms=LENGTHS,
)
WINDOWS = st.fixed_dictionaries(
    {
        "event_date": st.just(DAY),
        "producer_group": st.sampled_from("gh"),
        "client_id": st.just("x"),
        "started_at": st.sampled_from([None, MIDNIGHT]),
        "broker_name": st.sampled_from("aaab"),
        "state": st.sampled_from(["unavailable", "unreachable"]),
        "window_start": INSTANTS,
        "window_end": st.none() | INSTANTS,
        "continues_previous": st.booleans(),
        "not_available_ms": LENGTHS,
        "profile": st.sampled_from([WRITES] * 4 + [SILENT]),
    }
).filter(lambda w: w["window_end"] is None or w["window_end"] >= w["window_start"])
THREADS = st.sets(st.tuples(st.sampled_from("gh"), st.just("x"), st.sampled_from(["", "t1"])), min_size=2)


@given(st.lists(LINES, min_size=10, max_size=20), st.lists(WINDOWS, min_size=10, max_size=20), THREADS)
def test_a_line_shows_what_it_shows_of_the_nearest_window(lines, windows, threads):
    writers = [dict(zip(WRITER.names, who, strict=True)) for who in threads]
    made = window_confirmations(
        tells_of_faults(pa.Table.from_pylist(lines, EVENT)),
        windows_of_writers(pa.Table.from_pylist(windows, WINDOW)),
        pa.Table.from_pylist(writers, WRITER),
        within_ms=WITHIN_MS,
    )
    told = [line for line in lines if line["kind"] in STATES]
    assert made.select(LINE).to_pylist() == [{name: line[name] for name in LINE} for line in told]
    own = [window for window in windows if window["profile"] == WRITES]
    expected = [one_by_one(line, own, threads) for line in told]
    assert made.drop_columns(LINE).to_pylist() == expected


def one_by_one(line, windows, threads):
    sends = any(thread == line["thread"] for _, _, thread in threads)
    writer = line["thread"] if sends else ""
    fits = []
    for window in windows:
        who = (window["producer_group"], window["client_id"], writer)
        what, offset = shown(line, window, who in threads)
        if what:
            key = tuple(window[name] for name in KEY)
            order = (what == "lasted", abs(offset), *((value is not None, value or MIDNIGHT) for value in key))
            fits.append((order, key, what, None if what == "lasted" else offset))
    nothing = ((), (None,) * len(KEY), "nothing", None)
    _, key, what, offset = min(fits, default=nothing, key=lambda each: each[0])
    candidates = sum(each[2] != "lasted" for each in fits)
    return dict(zip(KEY, key, strict=True)) | {"shows": what, "offset_ms": offset, "candidates": candidates}


def shown(line, window, writes):
    if (line["broker_name"], STATES[line["kind"]]) != (window["broker_name"], window["state"]):
        return None, 0
    logged, start, until = (ms(t) for t in (line["logged_at"], window["window_start"], window["window_end"]))
    since = logged - start
    lasts = since >= -WITHIN_MS and logged + (line["duration_ms"] or 0) <= until + WITHIN_MS
    if line["kind"] == "broker_reachable":
        return ("ended" if lasts else None), logged - until
    same_length = line["duration_ms"] is not None and line["duration_ms"] == window["not_available_ms"]
    of_opening = line["kind"] == "broker_unreachable" or same_length
    if writes and abs(since) <= WITHIN_MS and of_opening and not window["continues_previous"]:
        return "opened", since
    return ("lasted" if writes and lasts else None), since


def ms(instant: datetime | None) -> int:
    return 86_400_000 if instant is None else (instant - MIDNIGHT) // timedelta(milliseconds=1)


@pytest.mark.parametrize("thread", ["t1", None])
def test_without_windows_or_writers_a_line_shows_nothing(thread):
    line = dict.fromkeys(EVENT.names) | {"kind": "broker_isolated", "broker_name": "a", "logged_at": at(5)}
    lines = tells_of_faults(pa.Table.from_pylist([line | {"thread": thread}], EVENT))
    made = window_confirmations(lines, NO_WINDOWS, WRITER.empty_table(), within_ms=WITHIN_MS)
    assert (made["shows"].to_pylist(), made["candidates"].to_pylist()) == (["nothing"], [0])

"""The attempts of many lines, split into files, blocks and runs anyhow, versus one careful pass over all of them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from hindsight.jobs.lake.table_schema import stored_schema
from hindsight.schemas import SEND_ATTEMPT, Table
from hindsight.udfs.landing.landing_formats import HOOK
from hindsight.udfs.landing.rival_rows import (
    LineNumbers,
    are_among,
    halves_joined,
    rival_hashes,
    settled,
    without,
)
from hindsight.udfs.values.row_hashes import row_hashes
from tests.random_examples import examples

SCHEMA = pa.schema([(field.name, field.type) for field in to_arrow_schema(stored_schema(SEND_ATTEMPT), timezone="UTC")])
KEYED = SEND_ATTEMPT
AT = datetime(2026, 1, 5, 1, tzinfo=UTC)
FILES = ("producer_hook/c/a", "producer_hook/c/é", "producer_hook/c/z", "canonical_sends/c/a", "trace_topic/c/t")

NUMBERS = LineNumbers({name: number for number, name in enumerate(FILES)})
NONE = np.zeros(0, np.uint64)


def instant(ms: int) -> datetime:
    return AT + timedelta(milliseconds=ms)


@st.composite
def line(draw, source: str) -> dict:
    """What a reader makes of a line, of a handful of attempts; values differ so that it shows which line won."""
    phase = draw(st.sampled_from(["submit", "submit", "callback", "result"]))
    end = draw(st.integers(1, 2))
    return {
        "cluster": "c",
        "producer_group": "g",
        "client_id": draw(st.sampled_from(["1", "1", "2"])),
        "msg_id": draw(st.sampled_from(["m", "m", "n"])),
        "mode": "SYNC" if phase == "result" else "ASYNC",
        "attempt": draw(st.sampled_from([None, 0])) if phase == "result" else None,
        "broker_name": "b",
        "broker_named_as": "b",
        "queue_id": draw(st.sampled_from([None, 0])) if source == "trace_topic" else 0,
        "begin_at": AT,
        "event_date": date(2026, 1, 5),
        "topic": "T",
        "source": source,
        "thread": draw(st.sampled_from([None, "t0", "t1"])),
        "phase": phase,
        "end_at": instant(end),
        "latency_ms": end,
        "outcome": {"submit": "SUBMITTED"}.get(phase, "SEND_OK"),
        "callback_outcome": draw(st.sampled_from(["SEND_OK", None])) if phase == "callback" else None,
        "doubts": draw(st.sampled_from([None, ["A"], ["A", "B"]])),
        "exceptions_observable": True,
    }


@st.composite
def landed(draw) -> dict[str, list[dict]]:
    """Files and what their lines bring; a line of another format than the hooks' brings up to two rows."""
    files = {}
    for name in draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=3, unique=True)):
        lines = draw(st.lists(line(name.partition("/")[0]), min_size=1, max_size=9))
        per_line = rows_a_line(name)
        files[name] = [one | {"source_file": name, "source_line": at // per_line + 1} for at, one in enumerate(lines)]
    return files


def rows_a_line(file: str) -> int:
    return 1 if file.startswith(HOOK) else 2


def ordered(row: dict, columns: list[str]) -> tuple:
    """Null before all else, texts by their bytes."""
    return tuple(
        (value is not None, value.encode() if isinstance(value, str) else value or 0)
        for value in (row[name] for name in columns)
    )


def careful_pass(files: dict[str, list[dict]]) -> dict[tuple, dict]:
    """Each attempt once, from its definition: line by line, in plain Python."""
    found: dict[tuple, dict[str, list]] = {}
    for lines in files.values():
        seen: Counter = Counter()
        for one in lines:
            key = tuple(one[name] for name in SEND_ATTEMPT.key)
            place = {"end_at": one["end_at"], "file": one["source_file"], "line": one["source_line"]}
            half, row = {"callback": "callback", "submit": "submit"}.get(one["phase"]), one
            if half == "submit":
                seen[key, one["end_at"]] += 1
                if seen[key, one["end_at"]] > 2:
                    continue
                if seen[key, one["end_at"]] == 2:
                    half = "callback" if one["source"] == HOOK else None
                    row = one | ({"phase": "no_result", "outcome": "UNKNOWN"} if half else {})
            rivals = found.setdefault(key, {"row": [], "submit": [], "callback": []})
            rivals["row"].append(row)
            if half:
                rivals[half].append(place | {"callback_outcome": one["callback_outcome"]})
    return {key: attempt(rivals) for key, rivals in found.items()}


def attempt(rivals: dict[str, list]) -> dict:
    row = min(rivals["row"], key=lambda one: ordered(one, ["phase", "source_file", "source_line"]))
    of_halves = ("submit_end_at", "callback_end_at", "callback_outcome")
    row = {name: value for name, value in row.items() if name not in of_halves}
    for half in ("submit", "callback"):
        if rivals[half]:
            best = min(
                rivals[half],
                key=lambda one: (
                    half == "callback" and one["callback_outcome"] is None,
                    ordered(one, ["file", "line"]),
                ),
            )
            row |= {f"{half}_{name}": best[name] for name in ("end_at", "file", "line")}
            if half == "callback":
                row["callback_outcome"] = best["callback_outcome"]
    return dict.fromkeys(SCHEMA.names) | row


def rows_of(table: pa.Table) -> dict[tuple, dict]:
    return by_key(table, KEYED)


def take_in(blocks: list[pa.Table], stored: pa.Table) -> tuple[pa.Table, Counter]:
    """A run over blocks of lines, each of one file; gives what is stored then, and how many lines of each file are."""
    table, named = settle([halves_joined(lines, KEYED.key) for lines in blocks], stored, KEYED, hook=HOOK)
    return table, Counter(file for file, _ in named)


def settle(read: list[pa.Table], stored: pa.Table, keyed: Table, *, hook: str | None) -> tuple[pa.Table, set[tuple]]:
    """What is stored after a run that read these rows, and the lines read of which a row or a part of one is."""
    hashes = [row_hashes(rows, keyed.key) for rows in read]
    of_stored = row_hashes(stored, keyed.key)
    rivals = rival_hashes(np.concatenate([NONE, *hashes]), of_stored)
    parts = [without(rows, are_among(of_rows, rivals)) for rows, of_rows in zip(read, hashes, strict=True)]
    alone = [rows for rows, _ in parts]
    at_stake = pa.concat_tables([stored.slice(0, 0), *(rows for _, rows in parts)])
    held = stored.filter(pa.array(are_among(of_stored, rivals)))
    done = settled(at_stake, held, keyed, NUMBERS, hook=hook)
    now = by_key(stored, keyed) | by_key(done.changed, keyed)
    assert len(now) == stored.num_rows, "a row that is not stored was changed"
    added = by_key(pa.concat_tables([*alone, done.inserted]), keyed)
    assert added.keys().isdisjoint(now), "a row that is stored was added"
    table = pa.Table.from_pylist([*now.values(), *added.values()], schema=stored.schema)
    lines = np.concatenate([done.lines, *(NUMBERS.of(rows, keyed) for rows in alone)])
    return table, {
        (FILES[at], int(line) & (1 << 40) - 1) for at, line in zip(NUMBERS.file_of(lines), lines, strict=True)
    }


def by_key(table: pa.Table, keyed: Table) -> dict[tuple, dict]:
    rows = table.to_pylist()
    found = {tuple(row[name] for name in keyed.key): row for row in rows}
    assert len(found) == len(rows), "a key is stored twice"
    return found


def table_of(lines: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(lines, schema=SCHEMA)


@st.composite
def arrivals(draw):
    """Runs of files of blocks; a file may come again, with more lines than before; each comes whole in the end."""
    files = draw(landed())
    runs = []
    for _ in range(draw(st.integers(0, 2))):
        some = draw(st.lists(st.sampled_from(sorted(files)), unique=True))
        runs.append({name: files[name][: draw(st.integers(1, 9)) * rows_a_line(name)] for name in some})
    again = draw(st.booleans())
    runs += [{name: files[name]} for name in draw(st.permutations(sorted(files)))] if again else [files]
    return files, [
        [block for name, lines in run.items() for block in between_lines(draw, lines)] for run in runs if run
    ]


def between_lines(draw, lines: list[dict]) -> list[list[dict]]:
    step = rows_a_line(lines[0]["source_file"])
    cuts = sorted(step * cut for cut in draw(st.sets(st.integers(1, 8), max_size=3)))
    return [part for begin, end in pairwise([0, *cuts, len(lines)]) if (part := lines[begin:end])]


@examples(20, 800)
@given(arrivals())
def test_any_split_into_blocks_files_and_runs_stores_what_one_careful_pass_finds(arrived):
    files, runs = arrived
    stored = SCHEMA.empty_table()
    for blocks in runs:
        stored, counts = take_in([table_of(block) for block in blocks], stored)
        assert counts == lines_that_are_stored(stored, blocks)
    assert rows_of(stored) == careful_pass(files)


def test_a_submit_beside_a_callback_in_a_later_block_keeps_its_own_result():
    """Two equal submits and a callback: the second submit says of a callback only that it ran."""
    of = dict.fromkeys(SEND_ATTEMPT.key) | {"cluster": "c", "producer_group": "g", "client_id": "1", "msg_id": "m"}
    of |= {"mode": "ASYNC", "broker_named_as": "b", "queue_id": 0, "begin_at": AT, "event_date": AT.date()}
    of |= {"source": HOOK, "source_file": FILES[0], "end_at": instant(1), "callback_outcome": None}
    phases = (("submit", "SUBMITTED", None), ("submit", "SUBMITTED", None), ("callback", "SEND_OK", "SEND_OK"))
    lines = [
        of | {"source_line": number, "phase": phase, "outcome": outcome, "callback_outcome": of_callback}
        for number, (phase, outcome, of_callback) in enumerate(phases, 1)
    ]
    stored, _ = take_in([table_of(lines[:1]), table_of(lines[1:])], SCHEMA.empty_table())
    assert rows_of(stored) == careful_pass({FILES[0]: lines})
    assert stored.column("callback_line").to_pylist() == [3]


def lines_that_are_stored(stored: pa.Table, blocks: list[list[dict]]) -> Counter:
    named = {
        (row[f"{part}_file"], row[f"{part}_line"])
        for row in stored.to_pylist()
        for part in ("source", "submit", "callback")
    }
    read = {(one["source_file"], one["source_line"]) for block in blocks for one in block}
    return Counter(file for file, _ in read & named)


@examples(13, 100)
@given(arrivals())
def test_what_is_stored_does_not_rest_on_hashes_that_differ(arrived):
    """Every row has every other one's hash: all are compared whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hindsight.udfs.values.row_hashes.mixed", np.zeros_like)
        files, runs = arrived
        stored = SCHEMA.empty_table()
        for blocks in runs:
            stored, _ = take_in([table_of(block) for block in blocks], stored)
        assert rows_of(stored) == careful_pass(files)

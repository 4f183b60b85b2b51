"""From the bytes of landing files to rows: in blocks and by hashes, versus line by line in plain Python."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.landing_lines import ENDS_FILE
from jobs.table_keys import keyed_by
from jobs.table_schema import stored_schema
from schemas import MESSAGE_TRACE, PRODUCER_INSTANCE, SEND_ATTEMPT, Table
from tests.captures.test_damaged_lines import LINES
from tests.readers.line_checks import damaged
from tests.readers.test_send_intake import SCHEMA, careful_pass, rows_of, settle
from udfs.archive_blocks import cut
from udfs.bounded_lines import read_blocks, read_lines
from udfs.door import judged, severities
from udfs.landed_sends import COUNTS, HASH, REFUSED, TOLD, Landed, Rules, TableShape, landed_sends
from udfs.landing_formats import FORMATS
from udfs.plain_rows import LineReader, LinesRead
from udfs.rows_by_key import merged
from udfs.send_halves import halves_apart

TABLES = (SEND_ATTEMPT, PRODUCER_INSTANCE, MESSAGE_TRACE)
OTHERS = (PRODUCER_INSTANCE, MESSAGE_TRACE)
FLAGGED = frozenset(table.name for table in TABLES)
FORMAT_NAMES = ("producer_hook", "canonical_sends", "trace_topic")
AT = datetime(2026, 1, 5, tzinfo=UTC)
MOST = 1 << 20


def with_more(lines: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Also: a line of no kind that is stored, attempts over midnight, and traces of several records."""
    sent = json.loads(lines["canonical_sends"][0])
    hook = next(line for line in map(json.loads, lines["producer_hook"]) if line["type"] == "attempt")
    midnight = hook["beginMs"] - hook["beginMs"] % 86_400_000
    over_midnight = {"beginMs": midnight - 2, "endMs": midnight + 1, "msgId": "over midnight"}
    traces = [trace for line in lines["trace_topic"] if "body" in (trace := json.loads(line))]
    both = [one | {"body": one["body"] + other["body"]} for one, other in pairwise(traces)]
    more = {
        "producer_hook": [{"type": "select", "ts": 1}, hook | over_midnight],
        "canonical_sends": [sent | {"begin_at": midnight - 2, "end_at": midnight + 1}],
        "trace_topic": both,
    }
    return {name: [*lines[name], *(json.dumps(one).encode() + b"\n" for one in more[name])] for name in more}


REAL = with_more(LINES)


def schema_of(table: Table) -> pa.Schema:
    return pa.schema([(f.name, f.type) for f in to_arrow_schema(stored_schema(table), timezone="UTC")])


SHAPES = {table.name: TableShape(schema_of(table), table.key, table.date_of) for table in TABLES}
RULES = Rules(SHAPES, ENDS_FILE, 40)


def pieces_of(name: str, raw: bytes, block_bytes: int) -> dict[str, list[pa.Table]]:
    """What comes of a file, read in blocks."""
    of_format = FORMATS[name.partition("/")[0]]
    gzipped = name.endswith(".gz")
    careful = partial(of_format.parse, zone=UTC)
    if of_format.plain is None:
        lines = read_lines([raw], gzipped=gzipped, max_line_bytes=MOST)
        read = iter([LinesRead(pa.table({}), judged(careful(lines), severities({}), FLAGGED), 0)])
    else:
        blocks = read_blocks(cut([raw], block_bytes), gzipped=gzipped, max_line_bytes=MOST, block_bytes=block_bytes)
        read = LineReader(of_format.plain, careful, severities({}), FLAGGED).read(blocks)
    found: dict[str, list[pa.Table]] = {}
    for table, rows in landed_sends(read, Landed("c", of_format.name, name, AT, "run"), RULES):
        found.setdefault(table, []).append(rows)
    return found


def lines_of(name: str, raw: bytes) -> list:
    """The same line by line."""
    lines = read_lines([raw], gzipped=name.endswith(".gz"), max_line_bytes=MOST)
    return list(judged(FORMATS[name.partition("/")[0]].parse(lines, UTC), severities({}), FLAGGED))


def instant(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def records_of(name: str, lines: list) -> dict[str, list[dict]]:
    """Rows by table as they are stored, one a record."""
    found: dict[str, list[dict]] = {table.name: [] for table in TABLES}
    for one in lines:
        for table, record in one.records:
            schema = SHAPES[table].schema
            row = {
                key: instant(v) if v and pa.types.is_timestamp(schema.field(key).type) else v
                for key, v in record.items()
            }
            row["event_date"] = row[SHAPES[table].date_of].date()
            shared = {"cluster": "c", "source": name.partition("/")[0], "ingested_at": AT, "run_id": "run"}
            shared |= {"source_file": name, "source_line": one.line.number}
            found[table].append(dict.fromkeys(schema.names) | row | shared)
    return found


def smallest(rows: list[dict], table: Table) -> dict[tuple, dict]:
    found: dict[tuple, dict] = {}
    for row in sorted(rows, key=lambda row: (row["source_file"].encode(), row["source_line"]), reverse=True):
        found[tuple(row[name] for name in table.key)] = row
    return found


@st.composite
def landing(draw) -> dict[str, bytes]:
    """Files of the producers' formats, with lines that come often, some of them damaged, some files cut off."""
    random = draw(st.randoms(use_true_random=True))
    files = {}
    for number in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(FORMAT_NAMES))
        some = random.sample(REAL[name], min(len(REAL[name]), 5))
        count = draw(st.integers(1, 25))
        lines = [damaged(random, some) if random.random() < 0.1 else random.choice(some) for _ in range(count)]
        ending = draw(st.sampled_from([".jsonl", ".jsonl", ".jsonl.gz"]))
        raw = b"".join(lines)
        files[f"{name}/cluster=c/{number}{ending}"] = cut_gzip(draw, raw) if ending.endswith("gz") else raw
    return files


def cut_gzip(draw, raw: bytes) -> bytes:
    packed = gzip.compress(raw)
    return packed[: draw(st.sampled_from([len(packed), len(packed) - 9, 30]))]


@settings(max_examples=150)
@given(
    files=landing(),
    block_bytes=st.sampled_from([400, 3_000, MOST]),
    runs=st.integers(1, 3),
    again=st.booleans(),
    most=st.sampled_from([1, 7, 200_000]),
)
def test_files_give_the_rows_refusals_and_counts_of_their_lines_one_by_one(files, block_bytes, runs, again, most):
    names = sorted(files)
    together = [names[start::runs] for start in range(runs)] + ([names] if again else [])
    stored = {table.name: SHAPES[table.name].schema.empty_table() for table in TABLES}
    for run in filter(None, together):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("udfs.landed_sends._PIECE_ROWS", most)
            pieces = {name: pieces_of(name, files[name], block_bytes) for name in run}
        stored, named = taken_in(list(pieces.values()), stored)
        for name in run:
            lines = lines_of(name, files[name])
            check_file(name, lines, pieces[name])
            read = {(name, one.line.number) for one in lines if not one.refusal}
            assert {place for place in named if place[0] == name} == read & places_in(stored)
    careful = [records_of(name, lines_of(name, raw)) for name, raw in files.items()]
    by_file = {name: one["send_attempt"] for name, one in zip(files, careful, strict=True)}
    assert rows_of(stored["send_attempt"]) == careful_pass(by_file)
    for table in OTHERS:
        rows = [row for one in careful for row in one[table.name]]
        found = {tuple(row[name] for name in table.key): row for row in stored[table.name].to_pylist()}
        assert found == smallest(rows, table)


def test_a_line_of_several_attempts_of_which_one_has_a_rival_is_counted_once():
    traces = [json.loads(line) for line in LINES["trace_topic"] if b'"body":"Pub' in line]
    first, second = (one["body"].partition("\x02")[0] + "\x02" for one in traces[:2])
    lines = [traces[0] | {"body": body} for body in (first + second, second)]
    name = "trace_topic/cluster=c/a.jsonl"
    pieces = pieces_of(name, b"".join(json.dumps(line).encode() + b"\n" for line in lines), MOST)
    stored, named = taken_in([pieces], {table.name: SHAPES[table.name].schema.empty_table() for table in TABLES})
    assert stored["send_attempt"].num_rows == 2
    assert named == {(name, 1)}


def taken_in(files: list[dict[str, list[pa.Table]]], stored: dict[str, pa.Table]):
    """What is stored after a run over these files, and the lines that are named there."""
    sends = [rows for file in files for rows in file.get("send_attempt", ())]
    told = [rows.column(HASH).to_numpy() for file in files for rows in file.get(TOLD, ())]
    hashes = [rows.column(HASH).to_numpy() for rows in sends]
    read = [rows.drop_columns(HASH) for rows in sends] or [SCHEMA.empty_table()]
    attempts, named = settle(read, hashes or [told_nothing()], told, stored["send_attempt"])
    now, lines = {"send_attempt": attempts}, {tuple(line.values()) for line in named.to_pylist()}
    for table in OTHERS:
        rows = [rows for file in files for rows in file.get(table.name, ())]
        done = merged(stored[table.name], pa.concat_tables([stored[table.name][:0], *rows]), keyed_by(table))
        keys = {tuple(row[name] for name in table.key) for row in done.changed.to_pylist()}
        kept = [r for r in stored[table.name].to_pylist() if tuple(r[name] for name in table.key) not in keys]
        rest = pa.Table.from_pylist(kept, schema=stored[table.name].schema)
        now[table.name] = pa.concat_tables([rest, done.inserted, done.changed])
        read_now = {(row["source_file"], row["source_line"]) for part in rows for row in part.to_pylist()}
        lines |= read_now & {(row["source_file"], row["source_line"]) for row in now[table.name].to_pylist()}
    return now, lines


def told_nothing():
    return pa.array([], pa.uint64()).to_numpy()


def places_in(stored: dict[str, pa.Table]) -> set[tuple]:
    """The lines from which rows, or parts of them, are."""
    parts = [(table, part.line) for table in TABLES for part in table.row_parts]
    rows = {table.name: stored[table.name].to_pylist() for table in TABLES}
    return {(row[file], row[line]) for table, (file, line) in parts for row in rows[table.name]}


def drop_hashes(tables: Iterable[pa.Table]) -> list[pa.Table]:
    return [rows.select([name for name in rows.column_names if name != HASH]) for rows in tables]


def check_file(name: str, lines: list, pieces: dict[str, list[pa.Table]]) -> None:
    (counts,) = (row for table in pieces[COUNTS] for row in table.to_pylist())
    refused = [one for one in lines if one.refusal]
    with_records = {one.line.number for one in lines if one.records and not one.refusal}
    assert counts["read"] == len(lines)
    assert counts["quarantined"] == len(refused)
    assert counts["with_records"] == len(with_records) == counts["read"] - counts["quarantined"] - counts["ignored"]
    assert counts["complete"] == (not any(one.refusal.code in ENDS_FILE for one in refused))
    assert [tuple(row.values()) for table in pieces.get(REFUSED, ()) for row in table.to_pylist()] == [
        (one.line.number, one.line.byte_start, one.line.byte_end, *one.refusal, one.line.text[:40]) for one in refused
    ]
    rows = records_of(name, lines)
    for table, of_table in rows.items():
        found = pa.concat_tables([SHAPES[table].schema.empty_table(), *drop_hashes(pieces.get(table, ()))])
        found = halves_apart(found) if table == SEND_ATTEMPT.name else found
        assert sorted(found["source_line"].to_pylist()) == sorted(row["source_line"] for row in of_table)
    expected = {(table, "own_dates"): {row["event_date"] for row in of} for table, of in rows.items() if of}
    if sends := rows["send_attempt"]:
        expected["send_attempt", "end_dates"] = {row["end_at"].date() for row in sends}
    assert {(one["table"], one["kind"]): set(one["dates"]) for one in counts["dates"]} == expected

"""From the bytes of landing files to rows: in blocks and by hashes, versus line by line in plain Python."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from hindsight.jobs.lake.table_schema import stored_schema
from hindsight.jobs.landing.landing_lines import ENDS_FILE
from hindsight.schemas import MESSAGE_TRACE, PRODUCER_INSTANCE, QUARANTINE, SEND_ATTEMPT, Table
from hindsight.udfs.formats.plain_rows import LineReader, LinesRead
from hindsight.udfs.landing.landed_rows import COUNTS, HASH, REFUSED, Landed, Reach, Rules, landed_rows
from hindsight.udfs.landing.landing_formats import HOOK
from hindsight.udfs.landing.parsers import PARSERS, PLAIN
from hindsight.udfs.landing.rival_rows import LineNumbers
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.lines.archive_blocks import cut
from hindsight.udfs.lines.bounded_lines import read_blocks, read_lines
from tests.captures.test_damaged_lines import LINES
from tests.random_examples import examples
from tests.readers.line_checks import damaged
from tests.readers.test_rival_rows import careful_pass, rows_of, settle

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


AROUND = Reach(("begin_at", "end_at"), before_s=3_600, after_s=90_000)
OF_NAME = {table.name: table for table in TABLES}
REACH = {SEND_ATTEMPT.name: AROUND, PRODUCER_INSTANCE.name: Reach(), MESSAGE_TRACE.name: None}
RULES = Rules(REACH, ENDS_FILE, 40)
Pieces = dict[str, list[pa.Table]]


def pieces_of(files: dict[str, bytes], block_bytes: int) -> Pieces:
    """What comes of files that are read one after the other, in blocks."""
    read = ((Landed("c", n.partition("/")[0], n, AT, "run"), read_of(n, raw, block_bytes)) for n, raw in files.items())
    found: Pieces = {}
    for table, rows in landed_rows(read, RULES):
        found.setdefault(table, []).append(rows)
    return found


def read_of(name: str, raw: bytes, block_bytes: int) -> Iterator[LinesRead]:
    of_format = name.partition("/")[0]
    gzipped = name.endswith(".gz")
    careful = partial(PARSERS[of_format], zone=UTC)
    if of_format not in PLAIN:
        lines = read_lines([raw], gzipped=gzipped, max_line_bytes=MOST)
        return iter([LinesRead(pa.table({}), judged(careful(lines), severities({}), FLAGGED), 0)])
    blocks = read_blocks(cut([raw], block_bytes), gzipped=gzipped, max_line_bytes=MOST, block_bytes=block_bytes)
    return LineReader(PLAIN[of_format](), careful, severities({}), FLAGGED).read(blocks)


def lines_of(name: str, raw: bytes) -> list:
    """The same line by line."""
    lines = read_lines([raw], gzipped=name.endswith(".gz"), max_line_bytes=MOST)
    return list(judged(PARSERS[name.partition("/")[0]](lines, UTC), severities({}), FLAGGED))


def instant(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def records_of(name: str, lines: list) -> dict[str, list[dict]]:
    """Rows by table as they are stored, one a record."""
    found: dict[str, list[dict]] = {table.name: [] for table in TABLES}
    for one in lines:
        for table, record in one.records:
            schema = schema_of(OF_NAME[table])
            row = {
                key: instant(v) if v and pa.types.is_timestamp(schema.field(key).type) else v
                for key, v in record.items()
            }
            row["event_date"] = row[OF_NAME[table].date_of].date()
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


@examples(5, 150)
@given(
    files=landing(),
    block_bytes=st.sampled_from([400, 3_000, MOST]),
    runs=st.integers(1, 3),
    again=st.booleans(),
    together=st.booleans(),
    most=st.sampled_from([1, 7, 200_000]),
)
def test_files_give_the_rows_refusals_and_counts_of_their_lines_one_by_one(
    files, block_bytes, runs, again, together, most
):
    names = sorted(files)
    stored = {table.name: schema_of(table).empty_table() for table in TABLES}
    for run in filter(None, [names[start::runs] for start in range(runs)] + ([names] if again else [])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hindsight.udfs.landing.landed_rows._PIECE_ROWS", most)
            portions = [run] if together else [[name] for name in run]
            pieces = [pieces_of({name: files[name] for name in portion}, block_bytes) for portion in portions]
        stored, named = taken_in(pieces, stored)
        counts = {row["file"]: row for piece in pieces for table in piece[COUNTS] for row in table.to_pylist()}
        refused = [row for piece in pieces for table in piece.get(REFUSED, ()) for row in table.to_pylist()]
        assert counts.keys() == {*run}
        for name in run:
            lines = lines_of(name, files[name])
            check_file(name, lines, counts[name], [row for row in refused if row["source_file"] == name])
            read = {(name, one.line.number) for one in lines if not one.refusal}
            assert {place for place in named if place[0] == name} == read & places_in(stored)
    careful = [records_of(name, lines_of(name, raw)) for name, raw in files.items()]
    by_file = {name: one["send_attempt"] for name, one in zip(files, careful, strict=True)}
    assert rows_of(stored["send_attempt"]) == careful_pass(by_file)
    for table in OTHERS:
        rows = [row for one in careful for row in one[table.name]]
        found = {tuple(row[name] for name in table.key): row for row in stored[table.name].to_pylist()}
        assert found == smallest(rows, table)


def taken_in(pieces: list[Pieces], stored: dict[str, pa.Table]) -> tuple[dict[str, pa.Table], set[tuple]]:
    """What is stored after a run over these files, and the lines that are named there."""
    now, lines = {}, set()
    for table in TABLES:
        read = [rows.drop_columns(HASH) for piece in pieces for rows in piece.get(table.name, ())]
        hook = HOOK if table is SEND_ATTEMPT else None
        files = sorted({file for rows in read for file in rows["source_file"].to_pylist()})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.readers.test_rival_rows.FILES", files)
            patch.setattr("tests.readers.test_rival_rows.NUMBERS", LineNumbers({f: n for n, f in enumerate(files)}))
            now[table.name], named = settle(read, stored[table.name], table, hook=hook)
        lines |= named
    return now, lines


def places_in(stored: dict[str, pa.Table]) -> set[tuple]:
    """The lines from which rows, or parts of them, are."""
    parts = [(table, part.line) for table in TABLES for part in table.row_parts]
    rows = {table.name: stored[table.name].to_pylist() for table in TABLES}
    return {(row[file], row[line]) for table, (file, line) in parts for row in rows[table.name]}


def check_file(name: str, lines: list, counts: dict, rows_refused: list[dict]) -> None:
    refused = [one for one in lines if one.refusal]
    with_records = {one.line.number for one in lines if one.records and not one.refusal}
    assert counts["read"] == len(lines)
    assert counts["quarantined"] == len(refused)
    assert counts["with_records"] == len(with_records) == counts["read"] - counts["quarantined"] - counts["ignored"]
    assert counts["complete"] == (not any(one.refusal.code in ENDS_FILE for one in refused))
    shared = {"cluster": "c", "format": name.partition("/")[0], "source_file": name, "ingested_at": AT, "run_id": "run"}
    columns = ("line_number", "byte_start", "byte_end", "reason_code", "detail", "raw_text")
    said = [(o.line.number, o.line.byte_start, o.line.byte_end, *o.refusal, o.line.text[:40]) for o in refused]
    assert rows_refused == [
        dict.fromkeys(QUARANTINE.columns.names) | shared | dict(zip(columns, s, strict=True)) for s in said
    ]
    rows = {table: of for table, of in records_of(name, lines).items() if of}
    told = {of_table["table"]: of_table for of_table in counts["tables"]}
    assert {table: of_table["rows"] for table, of_table in told.items()} == {t: len(of) for t, of in rows.items()}
    for table, of in rows.items():
        assert set(told[table]["own"]) == {row["event_date"] for row in of}
        assert set(told[table]["reached"]) == reached_by(of, REACH[table])


def reached_by(rows: list[dict], reach: Reach | None) -> set[date]:
    if reach is None:
        return set()
    around = [timedelta(seconds=s) for s in (-reach.before_s, 0, reach.after_s)]
    moved = {(row[name] + by).date() for row in rows for name in reach.instants if row[name] for by in around}
    return {row["event_date"] for row in rows} | moved

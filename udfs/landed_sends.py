"""What was read of a landing file in; rows for the tables, hashes of keys, refused lines and counts out, in pieces.

A producer's landing file gives rows of ``send_attempt``, halves joined where they stand together, and of other tables
as its lines have them. Nothing is decided here that other files can change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from udfs.parsed_line import ParsedLine
from udfs.plain_rows import LINE_NUMBER, LinesRead
from udfs.send_halves import halves_joined
from udfs.send_intake import hashes_read

HASH = "key_hash"
TOLD, REFUSED, COUNTS = "key_hashes", "quarantine", "file_counts"
_SENDS = "send_attempt"
_DAY_MS = 86_400_000
_PIECE_ROWS, _PIECE_BYTES = 200_000, 128 << 20


class TableShape(NamedTuple):
    """A table's columns as Arrow has them, its key, and the column whose UTC date ``event_date`` is."""

    schema: pa.Schema
    key: tuple[str, ...]
    date_of: str


class Landed(NamedTuple):
    """What every row of a landing file shares."""

    cluster: str
    format: str
    file: str
    ingested_at: datetime
    run_id: str


class Rules(NamedTuple):
    """Plain values: the tables that a file may feed, by name; refusals that end a file; how much of a line is kept."""

    tables: Mapping[str, TableShape]
    ends_file: frozenset[str]
    max_raw_text_chars: int


Piece = tuple[str, pa.Table]


def landed_sends(read: Iterable[LinesRead], landed: Landed, rules: Rules) -> Iterator[Piece]:
    """Tables by name, as many pieces of each as keep memory bounded.

    ``send_attempt``: with a column ``key_hash``. ``key_hashes``: what ``rival_hashes`` is to be told of these rows.
    Another table: one row for each line that brings one. ``quarantine``: refused lines. ``file_counts``: one row, last:
    ``read``, ``ignored`` and ``quarantined`` lines, those ``with_records``, whether the file is ``complete``, and
    by table the dates on which its rows fall (``own_dates``) and those of their results (``end_dates``).
    """
    heap = _Heap(landed, rules)
    for some in read:
        heap.take_plain(some.rows, some.ignored)
        for one in some.others:
            heap.take(one)
            if heap.is_full():
                yield from heap.pieces()
        if heap.is_full():
            yield from heap.pieces()
    yield from heap.pieces()
    yield COUNTS, heap.counts()


class _Heap:
    """What was read and not given out yet, and what is counted."""

    def __init__(self, landed: Landed, rules: Rules) -> None:
        self.landed = landed
        self.rules = rules
        self.plain: list[pa.Table] = []
        self.records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.refused: list[dict[str, Any]] = []
        self.rows = self.weight = 0
        self.tally = dict.fromkeys(("read", "ignored", "quarantined", "with_records"), 0)
        self.is_complete = True
        self.dates: dict[tuple[str, str], set[int]] = defaultdict(set)

    def take_plain(self, rows: pa.Table, ignored: int) -> None:
        count = rows.num_rows
        self._count(read=count + ignored, ignored=ignored, with_records=count)
        if count:
            self.plain.append(rows)
            self.rows += count
            self.weight += rows.nbytes

    def take(self, one: ParsedLine) -> None:
        line, records, refusal = one
        self._count(read=1)
        self.rows += 1
        self.weight += len(line.text)
        if refusal is not None:
            self._count(quarantined=1)
            self.is_complete &= refusal.code not in self.rules.ends_file
            self.refused.append(
                {
                    "line_number": line.number,
                    "byte_start": line.byte_start,
                    "byte_end": line.byte_end,
                    "reason_code": refusal.code,
                    "detail": refusal.detail,
                    "raw_text": line.text[: self.rules.max_raw_text_chars],
                }
            )
        else:
            self._count(**{"with_records" if records else "ignored": 1})
        for table, row in records:
            self.records[table].append({**row, LINE_NUMBER: line.number})

    def _count(self, **more: int) -> None:
        for name, number in more.items():
            self.tally[name] += number

    def is_full(self) -> bool:
        return self.rows >= _PIECE_ROWS or self.weight >= _PIECE_BYTES

    def pieces(self) -> Iterator[Piece]:
        """What is held, as tables; then nothing is held any more."""
        for name, shape in self.rules.tables.items():
            parts = [*(self.plain if name == _SENDS else ()), _as_read(self.records[name], shape)]
            rows = pa.concat_tables(_of_table(part, shape, self.landed) for part in parts)
            if rows.num_rows:
                self._note_dates(name, rows)
                yield from _sends(rows, shape) if name == _SENDS else [(name, rows)]
        if self.refused:
            yield REFUSED, pa.Table.from_pylist(self.refused)
        self.plain, self.refused, self.rows, self.weight = [], [], 0, 0
        self.records.clear()

    def _note_dates(self, table: str, rows: pa.Table) -> None:
        self.dates[table, "own_dates"].update(pc.unique(rows.column("event_date")).to_pylist())
        if table == _SENDS:
            ends = pc.unique(pc.cast(rows.column("end_at"), pa.date32(), safe=False))
            self.dates[table, "end_dates"].update(ends.to_pylist())

    def counts(self) -> pa.Table:
        """One row: what was counted, and the dates."""
        dates = [{"table": table, "kind": kind, "dates": sorted(days)} for (table, kind), days in self.dates.items()]
        return pa.Table.from_pylist([{**self.tally, "complete": self.is_complete, "dates": dates}], schema=_COUNTED)


_COUNTED = pa.schema(
    [
        *((name, pa.int64()) for name in ("read", "ignored", "quarantined", "with_records")),
        ("complete", pa.bool_()),
        ("dates", pa.list_(pa.struct({"table": pa.string(), "kind": pa.string(), "dates": pa.list_(pa.date32())}))),
    ]
)


def _sends(rows: pa.Table, shape: TableShape) -> Iterator[Piece]:
    joined = halves_joined(rows, shape.key)
    hashes, told = hashes_read(joined, shape.key)
    yield _SENDS, joined.append_column(HASH, pa.array(hashes))
    yield TOLD, pa.table({HASH: told})


def _as_read(records: list[dict[str, Any]], shape: TableShape) -> pa.Table:
    """Records of lines as columns; instants are epoch milliseconds, as in what is read together."""
    fields = [
        (field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type)
        for field in shape.schema
        if field.name not in ("event_date", "source_line")
    ]
    return pa.Table.from_pylist(records, schema=pa.schema([*fields, (LINE_NUMBER, pa.int64())]))


def _of_table(rows: pa.Table, shape: TableShape, landed: Landed) -> pa.Table:
    """Rows as the table has them, with what they share; an absent column is null."""
    count = rows.num_rows
    shared = {**landed._asdict(), "source": landed.format, "source_file": landed.file}
    there = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    there["source_line"] = there[LINE_NUMBER]
    there["event_date"] = pc.divide(there[shape.date_of], _DAY_MS).cast(pa.int32()).view(pa.date32())
    columns = []
    for field in shape.schema:
        if field.name in shared:
            columns.append(pa.repeat(pa.scalar(shared[field.name], field.type), count))
        elif field.name not in there:
            columns.append(pa.nulls(count, field.type))
        elif pa.types.is_timestamp(field.type):
            columns.append(pc.multiply(there[field.name], 1000).view(field.type))
        else:
            columns.append(there[field.name])
    return pa.table(columns, schema=shape.schema)

"""What was read of landing files in; rows for the tables, refused lines and a file's counts out, in pieces.

Halves of ASYNC attempts that were read together are joined. Nothing is decided here that other files can change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.schemas import QUARANTINE, TABLES, Table
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.formats.plain_rows import LINE_NUMBER, LinesRead
from hindsight.udfs.landing.rival_rows import halves_joined
from hindsight.udfs.lines.bounded_lines import Line, Refusal
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.values.row_hashes import row_hashes

HASH = "key_hash"
REFUSED, COUNTS = "quarantine", "file_counts"
_SENDS = "send_attempt"
_DAY_MS = 86_400_000
_PIECE_ROWS, _PIECE_BYTES = 200_000, 128 << 20
_EPOCH = date(1970, 1, 1).toordinal()
# What a reader never says of a row, whatever it reads.
_NOT_READ = frozenset(
    ("cluster", "event_date", "round_at", "source", "source_file", "source_line", "ingested_at", "run_id")
)


class Reach(NamedTuple):
    """Which dates a stored row can change beside its own: those of its instants, and of these seconds around them."""

    instants: tuple[str, ...] = ()
    before_s: int = 0
    after_s: int = 0


class Landed(NamedTuple):
    """What every row of a landing file shares."""

    cluster: str
    format: str
    file: str
    ingested_at: datetime
    run_id: str


class Rules(NamedTuple):
    """Plain values: by name of the tables that files may feed, which dates their rows can change (None: no derived
    table rests on them); refusals that end a file; how much of a line is kept.
    """

    reach: Mapping[str, Reach | None]
    ends_file: frozenset[str]
    max_raw_text_chars: int


Piece = tuple[str, pa.Table]


def landed_rows(read: Iterable[tuple[Landed, Iterable[LinesRead]]], rules: Rules) -> Iterator[Piece]:
    """Tables by name, as many pieces of each as keep memory bounded.

    Rows have the table's columns and a column ``key_hash``. ``quarantine``: refused lines. ``file_counts``: one row a
    file: ``read``, ``ignored`` and ``quarantined`` lines, those ``with_records``, whether the file is ``complete``, and
    by table the number of its ``rows``, the ``first`` of the instants that date them, the dates on which these fall
    (``own``) and those that they ``reached``.
    """
    heap = _Heap(rules)
    counts = []
    for landed, lines in read:
        file = _File(landed, rules)
        for some in lines:
            file.take_plain(some.rows, some.ignored)
            for one in some.others:
                if file.take(one) and heap.is_full(file):
                    yield from heap.emptied(file)
            if heap.is_full(file):
                yield from heap.emptied(file)
        heap.add(file)
        counts.append(file.counted())
    yield from heap.emptied()
    yield COUNTS, pa.Table.from_pylist(counts, schema=COUNTED)


_DATES = pa.list_(pa.date32())
_OF_TABLE = pa.struct(
    {"table": pa.string(), "rows": pa.int64(), "first": pa.timestamp("us", "UTC"), "own": _DATES, "reached": _DATES}
)
COUNTED = pa.schema(
    [
        ("file", pa.string()),
        *((name, pa.int64()) for name in ("read", "ignored", "quarantined", "with_records")),
        ("complete", pa.bool_()),
        ("tables", pa.list_(_OF_TABLE)),
    ]
)


class _Heap:
    """What was read of files and not given out yet, as the tables have it."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.parts: dict[str, list[pa.Table]] = defaultdict(list)
        self.refused: list[dict[str, Any]] = []
        self.rows = self.weight = 0

    def is_full(self, file: _File) -> bool:
        return self.rows + file.rows >= _PIECE_ROWS or self.weight + file.weight >= _PIECE_BYTES

    def add(self, file: _File) -> None:
        """What is held of a file; then it holds nothing any more."""
        self.rows += file.rows
        self.weight += file.weight
        self.refused += file.refused
        for name, rows in file.tables():
            self.parts[name].append(rows)

    def emptied(self, *files: _File) -> Iterator[Piece]:
        """All that is held, as pieces."""
        for file in files:
            self.add(file)
        for name, parts in sorted(self.parts.items()):
            rows, key = pa.concat_tables(parts), TABLES[name].key
            if name == _SENDS:
                rows = halves_joined(rows, key)
            yield name, rows.append_column(HASH, pa.array(row_hashes(rows, key)))
        if self.refused:
            yield REFUSED, pa.Table.from_pylist(self.refused, schema=row_schema(QUARANTINE))
        self.parts.clear()
        self.refused, self.rows, self.weight = [], 0, 0


class _File:
    """What was read of a file and is not in the heap yet, and what is counted."""

    def __init__(self, landed: Landed, rules: Rules) -> None:
        self.landed = landed
        self.rules = rules
        self.read = self.ignored = self.quarantined = self.with_records = 0
        self.is_complete = True
        self.counts: dict[str, int] = defaultdict(int)
        self.first: dict[str, datetime] = {}
        self.own: dict[str, set[date]] = defaultdict(set)
        self.reached: dict[str, set[date]] = defaultdict(set)
        self._forget()

    def _forget(self) -> None:
        self.plain: list[pa.Table] = []
        self.records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.refused: list[dict[str, Any]] = []
        self.rows = self.weight = 0

    def take_plain(self, rows: pa.Table, ignored: int) -> None:
        count = rows.num_rows
        self.read += count + ignored
        self.ignored += ignored
        self.with_records += count
        if count:
            self.plain.append(rows)
            self.rows += count
            self.weight += rows.nbytes

    def take(self, one: ParsedLine) -> bool:
        """Whether anything is kept of the line."""
        line, records, refusal = one
        self.read += 1
        if refusal is not None:
            self._refuse(line, refusal)
        elif not records:
            self.ignored += 1
            return False
        else:
            self.with_records += 1
        for table, row in records:
            self.records[table].append({**row, LINE_NUMBER: line.number})
        self.rows += 1 + len(records)
        self.weight += len(line.text)
        return True

    def _refuse(self, line: Line, refusal: Refusal) -> None:
        self.quarantined += 1
        self.is_complete &= refusal.code not in self.rules.ends_file
        self.refused.append(
            {
                **self.landed._asdict(),
                "source_file": self.landed.file,
                "line_number": line.number,
                "byte_start": line.byte_start,
                "byte_end": line.byte_end,
                "reason_code": refusal.code,
                "detail": refusal.detail,
                "raw_text": line.text[: self.rules.max_raw_text_chars],
            }
        )

    def tables(self) -> Iterator[Piece]:
        """What is held, as the tables have it; then nothing is held any more."""
        plain = [(_SENDS, rows) for rows in self.plain]
        schemas = {name: columns_read(TABLES[name]).append(pa.field(LINE_NUMBER, pa.int64())) for name in self.records}
        others = ((name, pa.Table.from_pylist(rows, schemas[name])) for name, rows in self.records.items())
        for name, rows in chain(plain, others):
            of_table = _of_table(rows, TABLES[name], self.landed)
            self.counts[name] += of_table.num_rows
            self._note_dates(name, of_table)
            yield name, of_table
        self._forget()

    def _note_dates(self, name: str, rows: pa.Table) -> None:
        if rows.num_rows:
            first = pc.min(rows.column(TABLES[name].date_of)).as_py()
            self.first[name] = min(first, self.first.get(name, first))
        self.own[name].update(pc.unique(rows.column("event_date")).to_pylist())
        reach = self.rules.reach[name]
        if reach is not None:
            self.reached[name] |= self.own[name]
            for instant in reach.instants:
                self.reached[name] |= _dates_around(rows.column(instant), reach)

    def counted(self) -> dict[str, Any]:
        """What was counted, and the dates."""
        tables = [
            {
                "table": name,
                "rows": rows,
                "first": self.first.get(name),
                "own": sorted(self.own[name]),
                "reached": sorted(self.reached[name]),
            }
            for name, rows in sorted(self.counts.items())
        ]
        tally = {name: getattr(self, name) for name in ("read", "ignored", "quarantined", "with_records")}
        return {"file": self.landed.file, **tally, "complete": self.is_complete, "tables": tables}


def _dates_around(instants: pa.ChunkedArray, reach: Reach) -> set[date]:
    ms = np.unique(instants.drop_null().cast(pa.int64()).to_numpy() // 1_000)
    days = {
        day for seconds in (-reach.before_s, 0, reach.after_s) for day in np.unique((ms + seconds * 1_000) // _DAY_MS)
    }
    return {date.fromordinal(_EPOCH + int(day)) for day in days}


def columns_read(table: Table) -> pa.Schema:
    """What a reader can set of a table's row: no lineage, instants as epoch milliseconds."""
    return pa.schema(
        (field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type)
        for field in row_schema(table)
        if field.name not in _NOT_READ or field.name == table.date_of
    )


def _of_table(rows: pa.Table, table: Table, landed: Landed) -> pa.Table:
    """Rows as the table has them, with what they share; an absent column is null."""
    count = rows.num_rows
    shared = {**landed._asdict(), "source": landed.format, "source_file": landed.file}
    there = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    there["source_line"] = there[LINE_NUMBER]
    there["event_date"] = pc.divide(there[table.date_of], _DAY_MS).cast(pa.int32()).view(pa.date32())
    schema, columns = row_schema(table), []
    for field in schema:
        if field.name in shared:
            columns.append(pa.repeat(pa.scalar(shared[field.name], field.type), count))
        elif field.name not in there:
            columns.append(pa.nulls(count, field.type))
        elif pa.types.is_timestamp(field.type):
            columns.append(pc.multiply(there[field.name], 1000).view(field.type))
        else:
            columns.append(there[field.name])
    return pa.table(columns, schema=schema)

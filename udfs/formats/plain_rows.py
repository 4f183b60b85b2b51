"""Blocks of a file's lines in, rows as Arrow columns out; each line that is not plain as its careful reader reads it.

A format whose lines stand by themselves may have a reader of many lines at once. It may leave any line over; the
careful reader of the format then reads that line, so together they give what the careful reader alone gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.limits.column_door import sound
from hindsight.udfs.limits.door import judged
from hindsight.udfs.limits.door_rules import Severity
from hindsight.udfs.lines.bounded_lines import Block, Line
from hindsight.udfs.lines.json_blocks import PLAIN_BYTES, read_together
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.logs.secret_ids import masked, without_secrets
from hindsight.udfs.values.arrays import BoolArray, IntArray

LINE_NUMBER = "line_number"


class PlainRows(NamedTuple):
    """What is surely known of n lines: which are a row, which hold nothing, and the columns, of all lines."""

    is_row: BoolArray
    is_ignored: BoolArray
    columns: Mapping[str, pa.Array]


class PlainFormat(NamedTuple):
    """How the lines of a format are read together.

    Attributes:
        table: whose rows they are.
        members: of each line's object.
        columns: of a plain line's row.
        read: from the members of n lines.
    """

    table: str
    members: pa.Schema
    columns: pa.Schema
    read: Callable[[pa.Table], PlainRows]


class LinesRead(NamedTuple):
    """What came of some lines of a file.

    Attributes:
        rows: of the plain lines, in order, with their ``line_number``.
        others: the careful reader's lines, in order, read as they are asked for.
        ignored: how many lines that are in neither hold nothing for the tables.
    """

    rows: pa.Table
    others: Iterator[ParsedLine]
    ignored: int


class LineReader(NamedTuple):
    """A format's two readers and the rules of the door, as plain values that travel to a worker."""

    plain: PlainFormat
    careful: Callable[[Iterable[Line]], Iterator[ParsedLine]]
    severity_of: Mapping[str, Severity]
    flagged_tables: frozenset[str]

    def read(self, blocks: Iterable[Block | Line]) -> Iterator[LinesRead]:
        """The lines of a file, each once and in order of the blocks."""
        for block in blocks:
            yield self._of_line(block) if isinstance(block, Line) else self._of_block(block)

    def _of_line(self, line: Line) -> LinesRead:
        return LinesRead(self._schema().empty_table(), self._carefully([line]), 0)

    def _of_block(self, block: Block) -> LinesRead:
        members, at, begin, end = read_together(
            block.data, self.plain.members, most_bytes=min(PLAIN_BYTES, block.form.max_line_bytes)
        )
        is_left = np.ones(len(begin), dtype=np.bool_)
        rows, ignored = self._schema().empty_table(), 0
        if len(at):
            is_row, is_ignored, columns = self.plain.read(members)
            is_row &= sound(columns, self.plain.table, self.severity_of)
            is_row &= ~_carry_secrets(block.data, begin[at], end[at])
            is_left[at[is_row | is_ignored]] = False
            ignored = int(is_ignored.sum())
            numbered = [*(columns[name] for name in self.plain.columns.names), pa.array(at + block.number)]
            rows = pa.table(numbered, schema=self._schema())
            if not is_row.all():
                rows = rows.filter(pa.array(is_row))
        left = np.flatnonzero(is_left).tolist()
        others = self._carefully(block.line(i, int(begin[i]), int(end[i])) for i in left)
        return LinesRead(rows, others, ignored)

    def _carefully(self, lines: Iterable[Line]) -> Iterator[ParsedLine]:
        return judged(self.careful(masked(lines)), self.severity_of, self.flagged_tables)

    def _schema(self) -> pa.Schema:
        return self.plain.columns.append(pa.field(LINE_NUMBER, pa.int64()))


def _carry_secrets(data: bytes, begin: IntArray, end: IntArray) -> BoolArray:
    """Which of these lines hold keys that are masked before anybody reads them: few do, and few hold a | at all."""
    found = np.zeros(len(begin), dtype=np.bool_)
    if b"|" in data:
        for i, (since, until) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            if data.find(b"|", since, until) >= 0:
                text = data[since:until].decode("utf-8", "replace")
                found[i] = without_secrets(text) is not text
    return found

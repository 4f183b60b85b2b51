"""Blocks of a file's lines in, rows as Arrow columns out; each line that is not plain as its careful reader reads it.

A format whose lines stand by themselves may have a reader of many lines at once. It may leave any line over; the
careful reader of the format then reads that line, so together they give what the careful reader alone gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyarrow import json as arrow_json

from hindsight.udfs.limits.door import judged, sound
from hindsight.udfs.limits.door_rules import Severity
from hindsight.udfs.lines.bounded_lines import Block, Line
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.lines.text_guess import is_utf_8
from hindsight.udfs.logs.log_wrappers import masked
from hindsight.udfs.logs.secret_ids import without_secrets
from hindsight.udfs.values.columns import BoolArray, IntArray

# A longer line is left over. Whatever is nested too deeply for a reader, or a number of too many digits, is longer.
PLAIN_BYTES = 2_000
_NEWLINE, _RETURN, _OPENING, _CLOSING = b"\n\r{}"
# Arrow takes more words for numbers than Python does.
_ODD_NUMBER = re.compile(rb"[^0-9A-Za-z_](?:NaN|Inf)")


def _read_together(
    block: bytes, wanted: pa.Schema, most_bytes: int
) -> tuple[pa.Table, IntArray, tuple[IntArray, IntArray]]:
    """The lines of a block that are one JSON object each whose wanted members have the wanted type, or are null.

    Some such lines may be left over; what is read is what ``json.loads`` reads. Of each wanted member its values, null
    where it is null or absent; which line of the block each row is, in order; where each line of the block begins and
    ends in its bytes, its ``\\n`` left out.

    Args:
        block: whole lines, without the last one's terminator.
        wanted: members of type string, int64 or bool; others are passed over.
        most_bytes: of a line; a longer one is left over.
    """
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    begin, end = np.concatenate([[0], newlines + 1]), np.append(newlines, len(block))
    may_be = _may_be_objects(block, begin, end, most_bytes)
    at = np.flatnonzero(may_be)
    if len(at) < len(begin):
        lines = [block[begin[i] : end[i]] for i in at.tolist()]
        columns = _by_arrow(b"\n".join(lines), len(at), wanted)
    else:
        columns = _by_arrow(block, len(at), wanted)
        lines = block.split(b"\n") if columns is None else []
    if columns is None:
        columns, fitting = _one_by_one(lines, wanted)
        at = at[fitting]
    return columns, at, (begin, end)


def _may_be_objects(block: bytes, begin: IntArray, end: IntArray, most_bytes: int) -> BoolArray:
    """Which lines begin and end as an object does, are short, and hold nothing that Arrow takes for something else.

    Between two such lines an object must end, so as many objects as lines means one a line.
    """
    data = np.frombuffer(block + b"\n", np.uint8)
    last = end - 1 - ((end > begin) & (data[end - 1] == _RETURN))
    size = end - begin
    found: BoolArray = (size > 1) & (size <= most_bytes) & (data[begin] == _OPENING) & (data[last] == _CLOSING)
    if any(_may_hold(data, word[1:]) and word in block for word in (b"NaN", b"Inf")):
        odd = [match.end() - 1 for match in _ODD_NUMBER.finditer(block)]
        found[np.searchsorted(begin, odd, side="right") - 1] = False
    if not (block.isascii() or is_utf_8(block)):
        for i in np.flatnonzero(found).tolist():
            found[i] = is_utf_8(block[begin[i] : end[i]])
    return found


def _may_hold(data: np.ndarray[Any, np.dtype[np.uint8]], two: bytes) -> bool:
    """Whether two bytes stand side by side; a sixth of the time that ``in`` takes."""
    (pair,) = np.frombuffer(two, np.uint16)
    return any((data[i : len(data) - (len(data) - i) % 2].view(np.uint16) == pair).any() for i in (0, 1))


def _by_arrow(lines: bytes, count: int, wanted: pa.Schema) -> pa.Table | None:
    """The columns; None where Arrow finds anything wrong with any line."""
    if not count:
        return wanted.empty_table()
    options = arrow_json.ParseOptions(
        explicit_schema=wanted, newlines_in_values=False, unexpected_field_behavior="ignore"
    )
    whole = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), read_options=whole, parse_options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table.combine_chunks() if table.num_rows == count else None


def _one_by_one(lines: Iterable[bytes], wanted: pa.Schema) -> tuple[pa.Table, list[int]]:
    """The columns of the lines that fit, and which these are."""
    kinds = [(field.name, _PYTHON[field.type]) for field in wanted]
    fitting: list[int] = []
    objects: list[dict[str, Any]] = []
    for index, line in enumerate(lines):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if type(value) is dict and all(
            (found := value.get(name)) is None
            or (type(found) is kind and (not isinstance(found, int) or -(2**63) <= found < 2**63))
            for name, kind in kinds
        ):
            fitting.append(index)
            objects.append(value)
    columns = [pa.array([value.get(field.name) for value in objects], field.type) for field in wanted]
    return pa.table(columns, schema=wanted), fitting


_PYTHON = {pa.string(): str, pa.int64(): int, pa.bool_(): bool}
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
            if isinstance(block, Line):
                yield LinesRead(_no_rows(self.plain.columns), self._carefully([block]), 0)
            else:
                yield self._of_block(block)

    def _of_block(self, block: Block) -> LinesRead:
        most_bytes = min(PLAIN_BYTES, block.form.max_line_bytes)
        members, at, (begin, end) = _read_together(block.data, self.plain.members, most_bytes)
        is_left = np.ones(len(begin), dtype=np.bool_)
        rows, ignored = _no_rows(self.plain.columns), 0
        if len(at):
            is_row, is_ignored, columns = self.plain.read(members)
            is_row &= sound(columns, self.plain.table, self.severity_of)
            is_row &= ~_carry_secrets(block.data, begin[at], end[at])
            is_left[at[is_row | is_ignored]] = False
            ignored = int(is_ignored.sum())
            numbered = [*(columns[name] for name in self.plain.columns.names), pa.array(at + block.number)]
            rows = pa.table(numbered, schema=rows.schema)
            if not is_row.all():
                rows = rows.filter(pa.array(is_row))
        left = np.flatnonzero(is_left).tolist()
        others = self._carefully(block.line(i, int(begin[i]), int(end[i])) for i in left)
        return LinesRead(rows, others, ignored)

    def _carefully(self, lines: Iterable[Line]) -> Iterator[ParsedLine]:
        return judged(self.careful(masked(lines)), self.severity_of, self.flagged_tables)


@cache
def _no_rows(columns: pa.Schema) -> pa.Table:
    return columns.append(pa.field(LINE_NUMBER, pa.int64())).empty_table()


def _carry_secrets(data: bytes, begin: IntArray, end: IntArray) -> BoolArray:
    """Which of these lines hold keys that are masked before anybody reads them: few do, and few hold a | at all."""
    found = np.zeros(len(begin), dtype=np.bool_)
    if b"|" in data:
        for i, (since, until) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            if data.find(b"|", since, until) >= 0:
                text = data[since:until].decode("utf-8", "replace")
                found[i] = without_secrets(text) is not text
    return found

"""A block of JSON lines in, the wanted members of its objects out as Arrow columns, and which lines are left over.

Arrow's JSON reader takes many lines at once, but it is neither as strict as a reader of single lines nor does it say
which line it stumbled over. So only lines that both readers surely take alike are given to it; where it refuses a
block all the same, each line is read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyarrow import json as arrow_json

from hindsight.udfs.values.arrays import BoolArray, IntArray

# A longer line is left over. Whatever is nested too deeply for a reader, or a number of too many digits, is longer.
PLAIN_BYTES = 2_000
_NEWLINE, _RETURN, _OPENING, _CLOSING = b"\n\r{}"
# Arrow takes more words for numbers than Python does.
_ODD_NUMBER = re.compile(rb"[^0-9A-Za-z_](?:NaN|Inf)")


class JsonRows(NamedTuple):
    """The lines that could be read together, by their index in the block: ``at``, in order.

    Attributes:
        columns: of each wanted member its values; null where it is null or absent.
        at: which line of the block each row is.
        begin, end: where each line of the block lies in its bytes, its ``\\n`` left out.
    """

    columns: pa.Table
    at: IntArray
    begin: IntArray
    end: IntArray


def read_together(block: bytes, wanted: pa.Schema, *, most_bytes: int = PLAIN_BYTES) -> JsonRows:
    """The lines of a block that are one JSON object each whose wanted members have the wanted type, or are null.

    Some such lines may be left over; what is read is what ``json.loads`` reads.

    Args:
        block: whole lines, without the last one's terminator.
        wanted: members of type string, int64 or bool; others are passed over.
        most_bytes: of a line; a longer one is left over.
    """
    begin, end = _places(block)
    may_be = _may_be_objects(block, begin, end, min(most_bytes, PLAIN_BYTES))
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
    return JsonRows(columns, at, begin, end)


def _places(block: bytes) -> tuple[IntArray, IntArray]:
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    return np.concatenate([[0], newlines + 1]), np.append(newlines, len(block))


def _may_be_objects(block: bytes, begin: IntArray, end: IntArray, most_bytes: int) -> BoolArray:
    """Which lines begin and end as an object does, are short, and hold nothing that Arrow takes for something else.

    Between two such lines an object must end, so as many objects as lines means one a line.
    """
    data = np.frombuffer(block + b"\n", np.uint8)
    last = end - 1 - ((end > begin) & (data[end - 1] == _RETURN))
    size = end - begin
    found: BoolArray = (size > 1) & (size <= most_bytes) & (data[begin] == _OPENING) & (data[last] == _CLOSING)
    if b"NaN" in block or b"Inf" in block:
        odd = [match.end() - 1 for match in _ODD_NUMBER.finditer(block)]
        found[np.searchsorted(begin, odd, side="right") - 1] = False
    if not _is_text(block):
        for i in np.flatnonzero(found).tolist():
            found[i] = _is_text(block[begin[i] : end[i]])
    return found


def _is_text(raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


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
            (found := value.get(name)) is None or (type(found) is kind and _fits(found)) for name, kind in kinds
        ):
            fitting.append(index)
            objects.append(value)
    columns = [pa.array([value.get(field.name) for value in objects], field.type) for field in wanted]
    return pa.table(columns, schema=wanted), fitting


_PYTHON = {pa.string(): str, pa.int64(): int, pa.bool_(): bool}


def _fits(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63

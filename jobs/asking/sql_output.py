"""The answer to a query in, what a person or a machine reads out: a table, JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from hindsight.jobs.engines.asker import as_records
from hindsight.jobs.running.terminal import columns, json_text, laid_out, legible, plain, upright, widths_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
Format = Literal["table", "json", "csv", "parquet"]


class NotForTerminalsError(ValueError):
    """Raised where bytes that nobody can read would be written to a terminal."""


def write_answer(rows: pa.RecordBatchReader, form: Format, to: Path | None, *, most: int | None = None) -> None:
    """Write an answer to a file or to stdout. ``most``: rows of a table to show; it says whether there are more.

    Raises: NotForTerminalsError: Parquet, and stdout is a terminal.
    """
    if form == "parquet":
        _write_parquet(rows, to)
        return
    lines = _FORMS[form](rows) if form != "table" else table(rows.read_all(), most, None if to else columns())
    if to is not None:
        with to.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines)
        return
    # What a terminal would obey stands as text; a pipe gets what was stored.
    shown = legible if form == "table" or sys.stdout.isatty() else str
    sys.stdout.writelines(f"{shown(line)}\n" for line in lines)


def table(rows: pa.Table, most: int | None = None, width: int | None = None) -> list[str]:
    """Rows in columns, framed as Spark frames them; upright where they are wider than ``width``."""
    shown = rows if most is None else rows.slice(0, most)
    lines = cells(shown)
    more = [f"only showing top {most} row{'s' if most != 1 else ''}"] if len(rows) > len(shown) else []
    widths = widths_of(lines)
    if width is not None and sum(widths) + len(widths) + 1 > width:
        return [*upright(lines), *more]
    frame = "+" + "+".join("-" * each for each in widths) + "+"
    head, *body = (f"|{line}|" for line in laid_out(lines, widths, "|"))
    return [frame, head, frame, *body, frame, *more]


def cells(rows: pa.Table) -> list[list[str]]:
    """The names of columns, then each row, as texts that a terminal can show."""
    return [
        list(map(legible, rows.column_names)),
        *([legible(_cell(value)) for value in row.values()] for row in as_records(rows)),
    ]


def _cell(value: Any, *, is_nested: bool = False) -> str:
    """A value as Spark's table has it."""
    if value is None:
        return "null" if is_nested else "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return str(value).rstrip("0").rstrip(".") if value.microsecond else str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(_cell(each, is_nested=True) for each in value.values()) + "}"
    return f"[{', '.join(_cell(each, is_nested=True) for each in value)}]" if isinstance(value, list) else str(value)


def _json_lines(rows: pa.RecordBatchReader) -> Iterator[str]:
    for record in _records(rows):
        yield json_text(record)


def _csv_lines(rows: pa.RecordBatchReader) -> Iterator[str]:
    """A header and a line a row; what is nested stands as JSON, an instant as ISO 8601 has it."""
    yield _csv_line(rows.schema.names)
    for record in _records(rows):
        yield _csv_line([_field(value) for value in record.values()])


def _csv_line(fields: list[Any]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"  # a spreadsheet would run it
    return plain(value) if isinstance(value, date) else value


def _records(rows: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in rows:
        yield from as_records(pa.Table.from_batches([batch]))


def _write_parquet(rows: pa.RecordBatchReader, to: Path | None) -> None:
    if to is None and sys.stdout.isatty():
        raise NotForTerminalsError("Parquet is not for a terminal; name a file with --output, or send it into a pipe.")
    with pq.ParquetWriter(to or sys.stdout.buffer, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


_FORMS: dict[str, Callable[[pa.RecordBatchReader], Iterator[str]]] = {"json": _json_lines, "csv": _csv_lines}

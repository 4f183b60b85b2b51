"""One command's output of ``mqadmin``, and what every reader of one makes of it: capture, lines, printed times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from udfs.admin_answers import read_answer
from udfs.bounded_lines import Refusal
from udfs.parsed_line import EARLIEST_MS, LATEST_MS, RefusedLineError

COLLECTOR = "mqadmin"

# What was read off some lines of an output; a record belongs to the line by whose index it stands.
Rows = list[tuple[int, str, dict[str, Any]]]


class Output(NamedTuple):
    """One command's output and what is known of it."""

    texts: list[str]
    zone: tzinfo
    captured_at: int
    subject: str | None

    def group(self) -> str:
        """The group asked for, by name or by its retry topic; refused: NO_SUBJECT."""
        if self.subject:
            return self.subject
        for text in self.texts:
            word = next((word for word in text.split() if word.startswith("%RETRY%")), "")
            if word.removeprefix("%RETRY%"):
                return word.removeprefix("%RETRY%")
        raise no_subject("group")


def no_subject(what: str) -> RefusedLineError:
    """Refusal of an output that does not say of which group or topic it is."""
    return RefusedLineError("NO_SUBJECT", f"neither the output nor the file's name says of which {what} it is")


def each_line_of(
    output: Output, refusals: dict[int, Refusal], read: Callable[[str], Iterable[tuple[str, dict[str, Any]]]]
) -> Rows:
    """The rows of each line; a line that cannot be read is refused by itself."""
    rows: Rows = []
    for index, text in enumerate(output.texts):
        try:
            rows += [(index, table, row) for table, row in read(text)]
        except RefusedLineError as refused:
            refusals[index] = refused.refusal
    return rows


def capture_row(output: Output, kind: str, subject: str, **more: Any) -> tuple[int, str, dict[str, Any]]:
    """The row of ``snapshot_capture``, which belongs to the first line that is not empty."""
    first = next(index for index, text in enumerate(output.texts) if text.strip())
    row = {"kind": kind, "subject": subject, "answered": True, **place(output), **more}
    return first, "snapshot_capture", row


def place(output: Output) -> dict[str, Any]:
    """Who took it, and when: columns of every row."""
    return {"collector": COLLECTOR, "captured_at": output.captured_at}


def as_answered(output: Output, kind: str, subject: str, raw: Mapping[str, Any], asked: dict[str, Any]) -> Rows:
    """The rows that the admin API's own answer gives, all of the output's first line."""
    said, rows = read_answer(kind, raw, asked)
    first, table, capture = capture_row(output, kind, subject, **asked, **said)
    return [(first, table, capture), *((first, table, place(output) | row) for table, row in rows)]


def printed_time(text: str, layout: str, zone: tzinfo) -> int | None:
    """Epoch ms; None for the time of a 0, which means never."""
    try:
        at = int(datetime.strptime(text, layout).replace(tzinfo=zone).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise RefusedLineError("BAD_TIMESTAMP", f"{text[:40]!r} is no time as mqadmin prints it") from None
    return at if EARLIEST_MS <= at < LATEST_MS else None

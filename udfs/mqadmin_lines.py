"""Text that ``mqadmin`` printed in, rows of the consumer-side tables out; for those who have a cron job and no more.

One file is one command's output. What it is shows in the text itself, in the column layouts of 4.x and 5.x:
``consumerConnection``, ``consumerProgress -g``, ``topicRoute`` (JSON, or the list of ``-l``), and the running-info
files that ``consumerStatus`` writes (named by their client, in a folder named by epoch ms). Others are ignored whole.
Widths are minimums, so rows are split at white space, which no name holds.

No output says when it was taken, and most do not say of what. ``ran_at`` and ``args`` of ``LandedFile`` say both;
without them the time is a 13-digit epoch ms in the file's name or else its folder's, and the subject stands in the
name: ``<command>_<subject>[_<epoch ms>].txt``. A group is found in its ``%RETRY%`` topic as well.
Times that mqadmin printed are in the zone of its JVM.
Source: ConsumerConnectionSubCommand, ConsumerProgressSubCommand, TopicRouteSubCommand,
ConsumerRunningInfo#formatString, 4.0.0 to 5.3.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain

from udfs.bounded_lines import Line, Refusal
from udfs.mqadmin_output import Output, Rows
from udfs.mqadmin_outputs import reader_of
from udfs.mqadmin_running_info import running_info
from udfs.parsed_line import (
    EARLIEST_MS,
    LATEST_MS,
    LandedFile,
    ParsedLine,
    Record,
    RefusedLineError,
    instant,
    json_object,
    text_field,
)

MOST_LINES = 50_000  # of one output; a group of 1,000 queues has as many


MOST_CHARS = 16 << 20


_EPOCH_MS = re.compile(r"(?<!\d)(\d{13})(?!\d)")


_OPTION = re.compile(r" -([gt]) (\S++)")


_NAMED = re.compile(r"([A-Za-z]++)_(.++)")


def parse_mqadmin(lines: Iterable[Line], *, zone: tzinfo, file: LandedFile) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per line of the output, in order; ``zone``: of the JVM that printed it.

    Refused as a whole (each line that is not empty): NO_CAPTURE_TIME, NO_SUBJECT, BAD_RAW, OUTPUT_TOO_LONG.
    """
    held, rest = _held(iter(lines))
    texts = [line.text if line.refusal is None else "" for line in held]
    refusals: dict[int, Refusal] = {}
    rows: Rows = []
    whole: Refusal | None = None
    try:
        if rest is not None:
            raise RefusedLineError("OUTPUT_TOO_LONG", f"more than {MOST_LINES} lines or {MOST_CHARS} characters")
        read = reader_of(texts)
        if read is running_info:  # its name is a client id, which may hold 13 digits
            folder, _, client_id = file.path.rpartition("/")
            rows = read(Output(texts, zone, _captured_at(LandedFile(folder, None, file.ran_at)), client_id), refusals)
        elif read is not None:
            rows = read(Output(texts, zone, _captured_at(file), _subject(file)), refusals)
    except RefusedLineError as refused:
        whole = refused.refusal
    records: dict[int, list[Record]] = {}
    for index, table, row in rows:
        records.setdefault(index, []).append(Record(table, row))
    for index, line in enumerate(chain(held, rest or ())):
        refusal = line.refusal or refusals.get(index) or (whole if line.text.strip() else None)
        yield ParsedLine(line, refusal=refusal) if refusal else ParsedLine(line, tuple(records.get(index, ())))


def with_command(file: LandedFile, commands: Iterable[Line]) -> LandedFile:
    """What a list of commands beside a file says of it.

    ``commands`` are the lines of a ``commands.jsonl`` in the file's folder: ``{"ts": <epoch ms>, "file": <name>,
    "args": <the command line after mqadmin>}``. The last line of that name counts; lines that are no such are left out.
    """
    name = file.path.rpartition("/")[2].removesuffix(".gz")
    for line in commands:
        try:
            fields = json_object(line.text) if line.refusal is None else {}
            if fields.get("file") == name:
                file = file._replace(args=text_field(fields, "args"), ran_at=instant(fields, "ts"))
        except (RefusedLineError, RecursionError):
            continue
    return file


def _held(lines: Iterator[Line]) -> tuple[list[Line], Iterator[Line] | None]:
    """The lines of an output, and the rest where they are too many."""
    held: list[Line] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line.text)
        if len(held) > MOST_LINES or size > MOST_CHARS:
            return held, lines
    return held, None


def _captured_at(file: LandedFile) -> int:
    if file.ran_at is not None:
        return file.ran_at
    for part in reversed(file.path.split("/")):
        for found in _EPOCH_MS.findall(part):
            if EARLIEST_MS <= int(found) < LATEST_MS:
                return int(found)
    raise RefusedLineError(
        "NO_CAPTURE_TIME", f"neither the name of {file.path!r:.200} nor a list of commands says when"
    )


def _subject(file: LandedFile) -> str | None:
    if file.args is not None:
        options = dict(_OPTION.findall(f" {file.args}"))
        return options.get("g") or options.get("t")
    stem = file.path.rpartition("/")[2].removesuffix(".gz").removesuffix(".txt")
    named = _NAMED.fullmatch(_EPOCH_MS.sub("", stem).strip("_"))
    return named[2].removesuffix("_list").strip("_") or None if named else None

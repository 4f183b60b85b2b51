"""Text that ``mqadmin`` printed in, rows of the consumer-side tables out; for those who have a cron job and no more.

A file is the output of a command, or of several (``mqadmin_sessions``): ``consumerConnection``, ``consumerProgress``,
``topicRoute``, ``producerConnection``, ``brokerConsumeStats``, ``consumerStatus``, and the running-info files that it
writes. What it is shows in the text itself, wherever in it: warnings before and between the lines are passed over.
Other commands are ignored whole.

No output says when it was taken, and most do not say of what. ``ran_at`` and ``args`` of ``LandedFile`` say both;
without them the time is a 13-digit epoch ms in the file's name or else its folder's, and the subject stands in the
name: ``<command>_<subject>[_<epoch ms>].txt``. A group is found in its ``%RETRY%`` topic as well.
Times that mqadmin printed are in the zone of its JVM.

A command that failed, that printed nothing, or nothing of its own, is a read that failed: one row of
``snapshot_capture``, of the question that it put. ``.stderr`` and ``.err`` hold the error output of the ``.txt`` beside
them. An output that ends too early is refused as a whole: its last lines may be those that matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain
from typing import Any

from hindsight.udfs.formats.mqadmin_command import (
    Command,
    command_of,
    failed_command,
    question_of,
    question_of_a_member,
)
from hindsight.udfs.formats.mqadmin_output import (
    CUT_SHORT,
    Failure,
    Output,
    Rows,
    failed_read,
    failed_whole,
    failure_in,
    unexplained,
)
from hindsight.udfs.formats.mqadmin_outputs import reader_of, running_info
from hindsight.udfs.formats.mqadmin_sessions import ToldOutput, outputs_of
from hindsight.udfs.lines.bounded_lines import Line, Refusal
from hindsight.udfs.lines.parsed_line import (
    EARLIEST_MS,
    LATEST_MS,
    UNREADABLE,
    LandedFile,
    ParsedLine,
    Record,
    RefusedLineError,
    asked_in_vain,
    instant,
    json_object,
    text_field,
)

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Of what a program tells the terminal: one operation with its numbers, a title, a set of characters, a single letter.
_SEQUENCE = re.compile(
    r"\x1b\[(?P<numbers>[0-9;:?>=!]*+)[ -/]*+(?P<letter>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)?|\x1b[()*+#%][ -~]|\x1b[ -~]?"
)
_OTHER_ROW = "ABEFdfST"
_WRAPPED = re.compile(r"(?<=[^\r\n]{40}) \r(?=[^\r\n])")  # how a shell goes on in the next row
_MOST_CHARS = 100_000
_MOST_COLUMNS = 1_000  # of a terminal


def as_shown(text: str) -> str:
    """The line without what is no text of it; keys that were taken back are gone."""
    if text.isprintable() or _CONTROLS.search(text) is None:
        return text
    line: list[str] = []
    column = place = 0
    text = _WRAPPED.sub("", text[:_MOST_CHARS]).rstrip("\r")
    while place < len(text):
        sequence = _SEQUENCE.match(text, place)
        if sequence is not None:
            column = _moved(line, column, sequence["letter"], sequence["numbers"] or "")
            place = sequence.end()
            continue
        char = text[place]
        place += 1
        if char == "\r":
            column = 0
        elif char == "\b":
            column = max(column - 1, 0)
        elif char == "\t" or (char >= " " and char != "\x7f"):
            line[column : column + 1] = [char]
            column += 1
    return "".join(line)


def moves_over_screen(text: str) -> bool:
    """Whether a program draws in other rows than the next."""
    if "\x1b" not in text:
        return False
    return any(
        sequence["letter"] and (sequence["letter"] in _OTHER_ROW or (sequence["letter"] == "H" and sequence["numbers"]))
        for sequence in _SEQUENCE.finditer(text)
    )


def _moved(line: list[str], column: int, letter: str | None, numbers: str) -> int:
    """Carry out an operation on the line; the column after it."""
    count = int(numbers) if numbers.isdigit() and len(numbers) < 5 else 1
    if letter == "C":
        column = max(column, min(column + count, _MOST_COLUMNS))
        line += [" "] * (column - len(line))
        return column
    if letter == "D":
        return max(column - count, 0)
    if letter == "K" and numbers in ("", "0"):
        del line[column:]
    elif letter == "P":
        del line[column : column + count]
    elif letter == "@":
        line[column:column] = [" "] * count
    elif letter == "H" or (letter == "J" and numbers in ("2", "3")):
        line.clear()
        return 0
    return column


MOST_LINES = 50_000  # of one output; a group of 1,000 queues has as many


MOST_CHARS = 16 << 20


_EPOCH_MS = re.compile(r"(?<!\d)(\d{13})(?!\d)")


_QUESTION = ("kind", "subject", "broker_name", "name_server", "captured_at")
_DRAWN = "a program that moves over the screen drew it, such as watch: keep what the command prints itself"
_ERROR_OUTPUT = (".stderr", ".err")
_NO_ANSWER = (CUT_SHORT, "BAD_RAW")
# A line that is refused and holds an address or a release was a member, and no noise.
_A_MEMBER = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\bV[345]_\d")


def parse_mqadmin(lines: Iterable[Line], *, zone: tzinfo, file: LandedFile) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per line of the output, in order; ``zone``: of the JVM that printed it.

    Refused as a whole (each line that is not empty, or the first): NO_CAPTURE_TIME, NO_SUBJECT, BAD_RAW,
    OUTPUT_TOO_LONG, OUTPUT_CUT_SHORT. A file without any line counts as one empty line where that tells something.
    """
    held, rest = _held(iter(lines))
    texts = [as_shown(line.text) if line.refusal is None else "" for line in held]
    refusals: dict[int, Refusal] = {}
    rows: Rows = []
    too_long = None
    if rest is not None:
        too_long = Refusal("OUTPUT_TOO_LONG", f"more than {MOST_LINES} lines or {MOST_CHARS} characters")
        rows, refusals = _asked(texts, zone, file, too_long), _each(texts, too_long)
    else:
        moved = {index for index, line in enumerate(held) if moves_over_screen(line.text)}
        rows = _of_outputs(outputs_of(texts, zone, file), texts, zone, refusals, moved)
    if not held and (rows or refusals):
        held = [Line(1, 0, 0, "", None)]
    records: dict[int, list[Record]] = {}
    for index, table, row in rows:
        records.setdefault(index, []).append(Record(table, row))
    for index, line in enumerate(chain(held, rest or ())):
        refusal = line.refusal or refusals.get(index) or (too_long if line.text.strip() else None)
        yield ParsedLine(line, tuple(records.get(index, ())), refusal)


def _of_outputs(
    outputs: Iterable[ToldOutput], texts: list[str], zone: tzinfo, refusals: dict[int, Refusal], moved: set[int]
) -> Rows:
    """The rows of all outputs of a file, each read as if it stood in one of its own."""
    rows: Rows = []
    seen: set[Any] = set()
    for output in outputs:
        own, of_output = _of_output(output, texts, zone, seen, not moved.isdisjoint(range(output.begins, output.end)))
        begins = output.begins
        rows += [(begins + index, table, row) for index, table, row in own]
        refusals.update((begins + index, refusal) for index, refusal in of_output.items())
    return rows


def _of_output(
    output: ToldOutput, texts: list[str], zone: tzinfo, seen: set[Any], is_drawn: bool
) -> tuple[Rows, dict[int, Refusal]]:
    """The rows of one output and what of it is refused; ``seen``: what was asked, and when, of those before it."""
    texts = texts[output.begins : output.end]
    refusals: dict[int, Refusal] = {}
    try:
        if is_drawn:
            raise RefusedLineError("OUTPUT_CUT_SHORT", _DRAWN)
        if output.refused:
            raise RefusedLineError("OUTPUT_CUT_SHORT", output.refused)
        rows = _rows(texts, zone, output.file, refusals)
        asked = {tuple(row.get(name) for name in _QUESTION) for _, table, row in rows if table == "snapshot_capture"}
        if seen & asked:
            raise RefusedLineError("NO_CAPTURE_TIME", "the same was asked before, and nothing says when it was again")
        seen |= asked
        lost = [refusal for index, refusal in refusals.items() if _A_MEMBER.search(texts[index])]
        rows = _in_vain(rows, lost[0].code) if lost else rows
        return [row for row in rows if row[0] not in refusals], refusals
    except RefusedLineError as refused:
        whole = refused.refusal
        rows = _asked(texts, zone, output.file, whole)
        return rows, {**_each(texts, whole), **refusals}


def _each(texts: list[str], refusal: Refusal) -> dict[int, Refusal]:
    """The refusal of an output as a whole, by its lines; of one without any, of its first."""
    return {index: refusal for index, text in enumerate(texts) if text.strip()} or {0: refusal}


def _in_vain(rows: Rows, code: str) -> Rows:
    """The rows, a list of members among them as one that could not be read: it lacks one of them."""
    made: Rows = []
    for index, table, row in rows:
        trace = asked_in_vain([Record(table, row)], code) if row.get("kind") == "consumerConnection" else ()
        made += [(index, one.table, one.row) for one in trace] or [(index, table, row)]
    return made


def _asked(texts: list[str], zone: tzinfo, file: LandedFile, refusal: Refusal) -> Rows:
    """The read that an output which is refused as a whole stands for, as one in vain; none where nothing says which."""
    first = next((index for index, text in enumerate(texts) if text.strip()), 0)
    try:
        command = command_of(file)
        output = Output(texts, zone, _captured_at(file), command)
        return failed_read(output, question_of(command), Failure(first, f"{UNREADABLE}{refusal.code}"))
    except RefusedLineError:
        return []


def _rows(texts: list[str], zone: tzinfo, file: LandedFile, refusals: dict[int, Refusal]) -> Rows:
    folder, _, name = file.path.rpartition("/")
    command = command_of(file)
    if name.removesuffix(".gz").endswith(_ERROR_OUTPUT):
        failure = failure_in(texts)
        return _failed(texts, zone, file, command, failure) if failure else []
    read = reader_of(texts, command)
    if read is None:
        if "@" in name and file.args is None and not command.is_taken:
            raise RefusedLineError(CUT_SHORT, "the running info of a client, which does not even say of which group")
        return _failed(texts, zone, file, command, failure_in(texts))
    # The name of a running info is a client id, which may hold 13 digits.
    dated = LandedFile(folder, None, file.ran_at) if read is running_info else file
    try:
        return read(Output(texts, zone, _captured_at(dated), command, name), refusals)
    except RefusedLineError as refused:
        failure = failure_in(texts) if refused.refusal.code in _NO_ANSWER else None
        if failure is None:
            raise
        refusals.clear()
        return _failed(texts, zone, file, command, failure)


def _failed(texts: list[str], zone: tzinfo, file: LandedFile, known: Command, failure: Failure | None) -> Rows:
    """The row of a read that failed; none where the command is one that is not taken, or there is no sign of any."""
    command = known if file.args is not None else failed_command(known, texts)
    if not command.is_taken and (command.name or failure is None):
        return []
    # What consumerStatus printed beside its table tells of a member; without one it tells of the command.
    beside = file.path.removesuffix(".gz").endswith(_ERROR_OUTPUT) and not failed_whole(texts)
    of_member = beside and command.name == "consumerStatus" and command.group and not command.client_id
    question = question_of_a_member(command) if of_member else question_of(command)
    return failed_read(Output(texts, zone, _captured_at(file), command), question, failure or unexplained(texts))


def with_command(file: LandedFile, commands: Iterable[Line]) -> LandedFile:
    """What a list of commands beside a file says of it.

    ``commands`` are the lines of a ``commands.jsonl`` in the file's folder: ``{"ts": <epoch ms>, "file": <name>,
    "args": <the command line after mqadmin>}``. The last line of that name counts; lines that are no such are left out.
    An error output is told of by its own name or, else, by that of its ``.txt``.
    """
    name = file.path.rpartition("/")[2].removesuffix(".gz")
    beside = next((f"{name.removesuffix(end)}.txt" for end in _ERROR_OUTPUT if name.endswith(end)), name)
    found = {name: file, beside: file}
    for line in commands:
        try:
            fields = json_object(line.text) if line.refusal is None else {}
            if fields.get("file") in found:
                told = file._replace(args=text_field(fields, "args"), ran_at=instant(fields, "ts"))
                found[text_field(fields, "file")] = told
        except (RefusedLineError, RecursionError):
            continue
    return found[name] if found[name] is not file else found[beside]


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

"""One command's output of ``mqadmin``, and what every reader of one makes of it: capture, lines, printed times.

Lines that ``mqadmin`` printed in; which are no part of an answer, and what they say went wrong, out.

Before and between its lines stand warnings of the JVM, of SLF4J and of RocketMQ's own logger. A command that fails
prints an exception, on the error output or, where both go to one file, among the rest; 4.0.0 prints its stack, later
releases wrap it (``SubCommandException: ...SubCommand command failed``).

What ``consumerConnection`` and ``producerConnection`` printed in; who is connected, and what they subscribe to, out.

4.0.0 to 4.9.2 and 5.0.0-PREVIEW number the lines and have no header; they end ``Below is subscription:`` without a line
end, so that the first subscription stands in the same line. 4.9.3 and 5.0.0 on have headers and line ends. Producers
are numbered, without a header, in every release. Source: ConsumerConnectionSubCommand, ProducerConnectionSubCommand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from hindsight.udfs.formats.admin_answers import read_answer
from hindsight.udfs.formats.answer_parts import error_code
from hindsight.udfs.formats.mqadmin_command import Command, Question, question_of
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import EARLIEST_MS, ERROR_CHARS, LATEST_MS, RefusedLineError

PRINTED_NOTHING = "mqadmin printed nothing"

_NOISE = re.compile(
    r"""\s*+(?:
      RocketMQLog: | SLF4J | log4j: | logback | WARNING: | Picked\ up\ | NOTE:
    | (?:OpenJDK|Java\ HotSpot|Eclipse\ OpenJ9)\b.*\bwarning:
    | \[\d++[.,]\d++s\]\[                                   # the JVM's own log
    | \[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d | \d\d:\d\d:\d\d[.,]\d{3}\b       # a logger's line
    | \[?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b
    | Caused\ by: | Suppressed: | at\ [\w.$/<>]++\( | \.\.\.\ \d++\ (?:more|common\ frames)
    | Exception\ in\ thread\b | [\w.$]*(?:Exception|Error)(?::|\s*+$)
    | For\ more\ information,\ please\ visit | See\ https?:
    )""",
    re.VERBOSE,
)
_CODE = re.compile(r"\bCODE: -?\d{1,9}\b")
_EXCEPTION = re.compile(r"\s*+(?:Caused by: |Exception in thread \"[^\"]*+\" )?([\w.$]*(?:Exception|Error)\b.*+)")
_COMMAND_FAILED = re.compile(r"SubComm(?:and|ad) command failed")
COLLECTOR = "mqadmin"

# What was read off some lines of an output; a record belongs to the line by whose index it stands.
Rows = list[tuple[int, str, dict[str, Any]]]


CUT_SHORT = "OUTPUT_CUT_SHORT"
_CUT_WIDTHS = (32, 64)  # to which a release may cut names: a retry topic as long may name half a group
SUBSCRIPTIONS = "Below is subscription:"

_RELEASE = re.compile(r"V([45])_(\d)_(\d)(_SNAPSHOT)?")
_INDEX = re.compile(r"\d{3,4}")
_ADDRESS = re.compile(r"\S*:\d{1,5}")
_LANGUAGE = re.compile(r"[A-Z_]{1,20}")
_VERSION = re.compile(r"[A-Z][A-Z0-9_]{1,40}")
_TRAILERS = ("ConsumeType", "MessageModel", "ConsumeFromWhere")
_OLD_SUBSCRIPTION = re.compile(r"\s*+\d{3,} +Topic: (\S++) +SubExpression:(.*+)")
_TOPIC = re.compile(r"([%|a-zA-Z0-9_+-]++) ++(\S.*+)")
_EXPRESSION = "#SubExpression"
_SQUEEZED = len("#Topic ")  # where the header's second column begins once white space was squeezed


class Failure(NamedTuple):
    """What went wrong, in the program's words; ``line``: the index of that which says so."""

    line: int
    error: str


def is_noise(text: str) -> bool:
    """Whether a line is a warning, a logger's line, or part of a stack trace."""
    return _NOISE.match(text) is not None


def failure_in(texts: list[str]) -> Failure | None:
    """The exception that an output holds; of several the one that names RocketMQ's code, else the innermost cause."""
    found = [(i, match[1]) for i, text in enumerate(texts) if (match := _EXCEPTION.match(text))]
    coded = next(((i, text) for i, text in enumerate(texts) if _CODE.search(text)), None)
    if coded is not None:
        told = _EXCEPTION.match(coded[1])
        return Failure(coded[0], (told[1] if told else coded[1].strip())[:ERROR_CHARS])
    causes = [one for one in found if texts[one[0]].lstrip().startswith("Caused by:")]
    index, error = (causes or found or [(0, "")])[-1 if causes else 0]
    return Failure(index, error.strip()[:ERROR_CHARS]) if found else None


def unexplained(texts: list[str]) -> Failure:
    """Of an output that holds neither answer nor exception: its first line that is no noise, or that it is empty."""
    for index, text in enumerate(texts):
        if text.strip() and not is_noise(text):
            return Failure(index, text.strip()[:ERROR_CHARS])
    return Failure(0, PRINTED_NOTHING)


def failed_whole(texts: list[str]) -> bool:
    """Whether the command says that it failed, rather than one of several reads that it made."""
    return any(_COMMAND_FAILED.search(text) for text in texts)


class Output(NamedTuple):
    """One command's output and what is known of it; ``name``: of the file."""

    texts: list[str]
    zone: tzinfo
    captured_at: int
    command: Command
    name: str = ""

    def group(self) -> str:
        """The group asked for, by name or by its retry topic; refused: NO_SUBJECT."""
        asked, retry = self.command.group, named_group(self.texts)
        found = asked if self.command.is_taken and asked else retry or asked
        if not found:
            raise no_subject("group")
        return found


Reader = Callable[[Output, dict[int, Refusal]], Rows]


def named_group(texts: Iterable[str]) -> str | None:
    """The group whose retry topic an output names; None: it names none."""
    for text in texts:
        word = next((word for word in text.split() if word.startswith("%RETRY%")), "") if "%RETRY%" in text else ""
        if word.removeprefix("%RETRY%") and len(word) not in _CUT_WIDTHS:
            return word.removeprefix("%RETRY%")
    return None


def no_subject(what: str) -> RefusedLineError:
    """Refusal of an output that does not say of which group or topic it is."""
    return RefusedLineError("NO_SUBJECT", f"neither the output nor the file's name says of which {what} it is")


def must_hold(output: Output, last: str) -> None:
    """Refuse an output that ends before what every whole one ends with: what is not there would count as not being."""
    if not any(text.startswith(last) for text in output.texts):
        raise RefusedLineError(CUT_SHORT, f"the output ends before {last!r}, with which a whole one ends")


def header_in(output: Output, begins: str) -> int:
    """Index of the first line that begins so; -1 without one."""
    return next((index for index, text in enumerate(output.texts) if text.startswith(begins)), -1)


def each_line_of(
    output: Output,
    refusals: dict[int, Refusal],
    table: str,
    read: Callable[[str], dict[str, Any] | None],
    *,
    header: int = -1,
) -> Rows:
    """The rows of a table, by the lines below the header that are not blank; ``read``: of a line, None: it has no row.

    One that cannot be read is refused by itself, or is noise.
    """
    rows: Rows = []
    for index, text in enumerate(output.texts[header + 1 :], header + 1):
        try:
            row = read(text) if text.strip() else None
            rows += [] if row is None else [(index, table, place(output) | row)]
        except RefusedLineError as refused:
            if not is_noise(text):
                refusals[index] = refused.refusal
    return rows


def capture_row(
    output: Output, refusals: Mapping[int, Refusal], question: Question, **more: Any
) -> tuple[int, str, dict[str, Any]]:
    """The row of ``snapshot_capture``, which belongs to the first line that is neither empty, noise nor refused."""
    texts = enumerate(output.texts)
    first = next((i for i, text in texts if text.strip() and i not in refusals and not is_noise(text)), 0)
    return first, "snapshot_capture", _asked(output, question) | {"answered": True, **more}


def failed_read(output: Output, question: Question, failure: Failure) -> Rows:
    """The read that failed, as a row of the line that says why."""
    said = {"answered": False, "error": failure.error, "error_code": error_code(failure.error)}
    return [(failure.line, "snapshot_capture", _asked(output, question) | said)]


def place(output: Output) -> dict[str, Any]:
    """Who took it, and when: columns of every row."""
    return {"collector": COLLECTOR, "captured_at": output.captured_at}


def _asked(output: Output, question: Question) -> dict[str, Any]:
    """The question, as columns of a capture; a broker is named by its address. Answers of two servers are two views."""
    of_server = {"broker_name": output.command.broker, "name_server": output.command.name_server}
    return {"kind": question.kind, "subject": question.subject, **place(output), **of_server, **question.columns}


def as_answered(output: Output, refusals: Mapping[int, Refusal], question: Question, raw: Mapping[str, Any]) -> Rows:
    """The rows that the admin API's own answer gives, all of the output's first line."""
    said, rows = read_answer(question.kind, raw, question.columns)
    first, table, capture = capture_row(output, refusals, question, **said)
    return [(first, table, capture), *((first, table, place(output) | row) for table, row in rows)]


def printed_time(text: str, layout: str, zone: tzinfo) -> int | None:
    """Epoch ms; None for the time of a 0, which means never."""
    try:
        at = int(datetime.strptime(text, layout).replace(tzinfo=zone).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise RefusedLineError("BAD_TIMESTAMP", f"{text[:40]!r} is no time as mqadmin prints it") from None
    return at if EARLIEST_MS <= at < LATEST_MS else None


def topic_of(output: Output) -> str:
    """The topic that was asked for, which only the command tells."""
    if not output.command.topic:
        raise no_subject("topic")
    return output.command.topic


def consumer_connection(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The group's members and, of whichever sent the last heartbeat, its subscriptions."""
    group = output.group()
    must_hold(output, _TRAILERS[0])
    said = {name: told.strip() for name, _, told in (text.partition(": ") for text in output.texts)}
    of_group = {"consume_type": said.get("ConsumeType") or None, "message_model": said.get("MessageModel") or None}
    of_member = {"consumer_group": group, "consume_from_where": said.get("ConsumeFromWhere") or None}
    of_member |= {"broker_name": output.command.broker, **of_group}
    column = next((text.index(_EXPRESSION) for text in output.texts if _EXPRESSION in text), None)
    subscriptions: list[dict[str, Any]] = []
    below = False

    def read(text: str) -> dict[str, Any] | None:
        nonlocal below
        if text.startswith(SUBSCRIPTIONS):
            below, text = True, text.removeprefix(SUBSCRIPTIONS)
        if not text.strip() or text.startswith("#") or text.partition(":")[0] in _TRAILERS:
            return None
        if not below:
            return of_member | _client(text)
        subscriptions.append(_subscription(text, column))
        return None

    rows = each_line_of(output, refusals, "consumer_heartbeat", read, header=header_in(output, "#ClientId"))
    question = Question("consumerConnection", group, {"consumer_group": group})
    return [capture_row(output, refusals, question, **of_group, subscriptions=subscriptions), *rows]


def producer_connection(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The producers of a group that the broker asked has."""
    question = question_of(output.command)
    rows = each_line_of(output, refusals, "producer_connection", lambda text: question.columns | _client(text))
    return [capture_row(output, refusals, question), *rows]


def is_client(text: str) -> bool:
    """Whether a line lists a connection."""
    words = text.split()
    return (
        len(words) > 3
        and _ADDRESS.fullmatch(words[-3]) is not None
        and _LANGUAGE.fullmatch(words[-2]) is not None
        and _VERSION.fullmatch(words[-1]) is not None
    )


def _client(text: str) -> dict[str, Any]:
    """``[index] clientId address language version``: the last three tell where the id ends."""
    words = text.split()
    if not is_client(text):
        raise RefusedLineError("BAD_ROW", f"{' '.join(words)[:120]!r} is no client id, address, language and version")
    client = words[1:-3] if len(words) > 4 and _INDEX.fullmatch(words[0]) else words[:-3]
    return {
        "client_id": " ".join(client),
        "address": words[-3],
        "language": words[-2],
        "client_version": version_ordinal(words[-1]),
    }


def version_ordinal(name: str) -> int | None:
    """The MQVersion ordinal of ``V4_9_8``, 409; None for a name that is not of 4.x or 5.x.

    From 4.0.0 (213) on each minor release takes 20 and each patch 2, a snapshot comes one before its release.
    """
    release = _RELEASE.fullmatch(name)
    if release is None:
        return None
    major, minor, patch = (int(part) for part in release.groups()[:3])
    return 213 + 200 * (major - 4) + 20 * minor + 2 * patch - (release[4] is not None)


def _subscription(text: str, column: int | None) -> dict[str, Any]:
    """A topic and its expression; ``column``: where expressions begin below a header, None without one."""
    if column is None:
        found = _OLD_SUBSCRIPTION.fullmatch(text.rstrip())
        is_printed = found is not None
    else:
        found = None if is_noise(text) else _TOPIC.fullmatch(text)
        # In its column, or one blank behind a longer topic: what stands elsewhere was printed by another program.
        least = column if column > _SQUEEZED else 0
        is_printed = found is not None and found.start(2) == max(least, len(found[1]) + 1)
    if found is None or not is_printed:
        raise RefusedLineError("BAD_ROW", f"{text[:120]!r} is no topic and expression")
    return {"topic": found[1], "expression_type": None, "sub_string": found[2].strip() or None, "tags": []}

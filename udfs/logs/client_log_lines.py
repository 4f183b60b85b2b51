"""Lines of ``rocketmq_client.log``, or of an application's log, in; rows of two tables out.

``rebalance_result``: "rebalanced result changed" (through 4.9.8) and "client rebalanced result changed" (5.0.0 on) of
RebalanceImpl#rebalanceByTopic. ``client_event``: the messages registered in ``client_log_events``.
Wanted messages are looked for anywhere in a line, under whatever wraps it (``log_wrappers``). A line that holds one is
read by its head (``log_layouts``) or refused, and so is a line in which another language's client tells the like.

A line of a stack trace continues the line before. The beginning of the trace becomes part of that line's row; its own
lines count as ignored, since one row came of all of them and names the first as its source. What a trace quotes is no
message, but for exceptions that end a send (``send_given_up``): the client prints them nowhere, so they are read where
an application prints them, once for each of its records, with that record's time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from functools import partial
from typing import Any

from hindsight.udfs.allocation import MessageQueue, sort_queues
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import (
    ERROR_CHARS,
    ClientLogLayout,
    ParsedLine,
    Record,
    RefusedLineError,
    ignored,
    java_number,
)
from hindsight.udfs.logs.client_log_events import (
    GIVEN_UP,
    MESSAGES,
    RETURNED,
    is_plain,
    read_event,
    tell_nothing,
    tells_nothing,
)
from hindsight.udfs.logs.grpc_client_logs import GRPC, read_grpc
from hindsight.udfs.logs.log_layouts import (
    LogHead,
    LogReading,
    Occurrences,
    begins_record,
    continues_trace,
    identify,
    line_digest,
    read_head,
    reading_of,
    stamp,
    time_of_line,
    without_colours,
    written_at,
)
from hindsight.udfs.logs.log_stamps import Look
from hindsight.udfs.logs.log_templates import Template
from hindsight.udfs.logs.log_wrappers import Unwrapper
from hindsight.udfs.logs.other_client_logs import (
    CPP,
    OtherLine,
    head_of_cpp,
    is_other_client,
    queues_below,
    read_other,
    refuse_foreign,
    result_row,
)

TRACE_CHARS = 4000  # of a stack trace, as stored
TRACE_LINES = 100  # that are held until their end is seen; those after them are only counted
_HELD_CHARS = 256 * 1024  # as many at most, and one line more
_RESPONSE_CODE = re.compile(r"\bCODE: (-?\d{1,9})\b")
# Whom a failed request was for: RemotingConnectException, -SendRequestException, -TimeoutException, MQBrokerException.
_ADDRESSED = re.compile(
    r"(?:channel|connect to|send request to|BROKER:|call the addr) ?[<\[/]{0,2}"
    r"([^\s<>\[\]/,]{1,255}:\d{1,5})(?![\w.])"
)
_GIVEN = re.compile(r"\btimeout,? (\d{1,9}) ?\(?ms\b")
_OVER = re.compile(r"\bcall (?:the addr\[[^\]]*+\] )?timeout\b")
_THROWN = re.compile(r"(?:Caused by: )?([A-Za-z_][\w$]*+(?:\.[\w$]++)++)(?:: (.*+))?", re.DOTALL)


Finish = Callable[[dict[str, Any], list[str]], dict[str, Any]]  # a row, with what the lines below its own tell


class Held:
    """A line below which more may follow that tells of it, and what has followed so far."""

    def __init__(self, head: ParsedLine, finish: Finish) -> None:
        self.head = head
        self.finish = finish
        self.trace: list[tuple[Line, str]] = []
        self.size = 0

    def takes(self, line: Line, text: str) -> bool:
        """Hold a further line; false: this is full, and it is not held."""
        if len(self.trace) >= TRACE_LINES or self.size >= _HELD_CHARS:
            return False
        self.trace.append((line, text))
        self.size += len(text)
        return True

    def release(self) -> Iterator[ParsedLine]:
        """The first line with what followed it, or refused by that, and the lines that came of it."""
        ((table, row),) = self.head.records
        try:
            whole = self.head._replace(records=(Record(table, self.finish(row, [text for _, text in self.trace])),))
        except RefusedLineError as refused:
            whole = ParsedLine(self.head.line, refusal=refused.refusal)
        yield whole
        for line, _ in self.trace:
            if line is not self.head.line:
                yield ignored(line)


def _with_trace(row: dict[str, Any], trace: list[str]) -> dict[str, Any]:
    told = _stack_trace(trace)
    return row | {name: value for name, value in told.items() if value is not None or name not in row}


def _stack_trace(trace: list[str]) -> dict[str, Any]:
    """The exception and the beginning of its trace, blank lines before it left out; nothing where no line followed."""
    first = next((i for i, text in enumerate(trace) if text.strip()), len(trace))
    trace = trace[first:]
    if not trace:
        return {}
    thrown = _THROWN.fullmatch(trace[0])
    error = thrown[2] if thrown and thrown[2] else None
    code = _RESPONSE_CODE.search(error) if error else None
    kept, room = [], TRACE_CHARS
    for text in trace:
        kept.append(text[:room])
        room -= len(text) + 1
        if room <= 0:
            break
    return {
        "exception": thrown[1][:ERROR_CHARS] if thrown else None,
        "error": error[:ERROR_CHARS] if error else None,
        "response_code": int(code[1]) if code else None,
        **_failed_request(trace),
        "stack_trace": "\n".join(kept),
    }


def _failed_request(trace: list[str]) -> dict[str, Any]:
    """Whom the request was for that failed, and how much time it was given, as the exception or its causes say."""
    said = [trace[0], *(text for text in trace[1:] if text.startswith("Caused by: "))]
    address = next((found[1] for text in said if (found := _ADDRESSED.search(text))), None)
    given = next((int(found[1]) for text in said if (found := _GIVEN.search(text))), None)
    if given is None and any(_OVER.search(text) for text in said):
        given = 0  # the time was over before the request left
    told = {"failed_address": address, "time_left_ms": given}
    return {name: value for name, value in told.items() if value is not None}


_MARK = "rebalanced result changed. allocateMessageQueueStrategyName="
_FIELDS = ("group", "topic", "clientId", "mqAllSize", "cidAllSize", "rebalanceResultSize", "rebalanceResultSet")
_QUEUE = re.compile(r"MessageQueue \[topic=([^,\]]++), brokerName=([^,\]]++), queueId=(\d{1,10}+)\](?:, )?")
RESULT = "rebalance_result"
_RECENT = 8  # lines, within which a record begins whose trace names an exception
_MOST_OF_EXCEPTION = 2048
_MOST_TOGETHER = 24
_LONG = 2048  # characters of a line
_FRAMES = ("\tat ", "\t... ")  # how most lines of a trace begin


def parse_client_log(
    lines: Iterable[Line],
    *,
    zone: tzinfo,
    file: str = "",
    layout: ClientLogLayout | None = None,
    look: Look | None = None,
) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per log line, in order.

    Args:
        lines: of one file.
        zone: the JVM's, for layouts that write local time without naming it.
        file: the file's path inside its cluster's folder; its folder names the log in rows that name no client.
        layout: what the settings say of this log.
        look: gives the lines anew; None: they can be read only once.
    """
    reader = _Reader(reading_of(layout, zone, file, look), file.rpartition("/")[0])
    unwrapper = Unwrapper()
    remember, counts_days = reader.recent.append, reader.counts_days
    for some in _together(iter(lines), reader):
        nothing = not counts_days and tell_nothing([line[3] for line in some])
        for line in some:
            text = line[3]
            is_nothing = text.startswith(_FRAMES) or (nothing and is_plain(text))
            # Where lines tell the days, each has its say.
            if line[4] is None and (is_nothing or (not counts_days and tells_nothing(text))):
                held = reader.held
                if text[:1] != "\t":
                    remember(text)
                if held is None:
                    yield ignored(line)  # most lines end here, or in the trace of the line before
                elif not (text[:1] == "\t" and held.takes(line, text)):
                    yield from reader.follow(line, text)
            else:
                for entry, inner in unwrapper.take(line):
                    yield from reader.take(entry, inner)
    for entry, inner in unwrapper.rest():
        yield from reader.take(entry, inner)
    yield from reader.release()


def _together(lines: Iterator[Line], reader: _Reader) -> Iterator[list[Line]]:
    """Lines that are asked at once whether they tell anything; none is read ahead of a long one, or a held one."""
    some: list[Line] = []
    for line in lines:
        some.append(line)
        if len(some) == _MOST_TOGETHER or len(line[3]) > _LONG or reader.held is not None:
            yield some
            some = []
    if some:
        yield some


class _Reader:
    """Reads lines; holds one while its stack trace may follow, and remembers which lines this instant has had."""

    def __init__(self, reading: LogReading, folder: str) -> None:
        self.reading = reading
        self.counts_days = reading.days is not None
        self.folder = folder
        self.held: Held | None = None
        self.finish: Finish | None = None  # of the line that was read last; None: nothing below it tells of it
        self.recent: deque[str] = deque(maxlen=_RECENT)  # lines that are no frames of a trace, the last as the last
        self.given_up = ("", "")  # the record and exception of the last send that was given up
        self.occurrences = Occurrences()

    def take(self, line: Line, text: str | None) -> Iterator[ParsedLine]:
        """A line with the text that its process wrote; None: it goes on in a later line."""
        if text is None:
            yield from self.release()
            yield ignored(line)
            return
        first, *below = text.split("\n")
        self.recent.append(first)
        days = self.reading.days
        if days is not None and (seen := time_of_line(first, self.reading)) is not None:
            days.see(seen.day_ms)
        parsed = self.wanted(line, first)
        while parsed is None and below:
            parsed = self.wanted(line, below.pop(0))
        if parsed is None:
            yield from self.follow(line, first)
            return
        yield from self.release()
        if parsed.records and self.finish is not None:
            self.held = Held(parsed, self.finish)
            for one in below:
                self.held.takes(line, one)
        else:
            yield parsed

    def follow(self, line: Line, text: str) -> Iterator[ParsedLine]:
        """A line that tells nothing by itself: part of the trace before it, or the end of it."""
        begins = not text.startswith(_FRAMES) and begins_record(text)
        if self.held is None or begins or not self.held.takes(line, text):
            yield from self.release()
            yield ignored(line)

    def release(self) -> Iterator[ParsedLine]:
        """The line that is held, with its trace."""
        if self.held is not None:
            held, self.held = self.held, None
            yield from held.release()

    def wanted(self, line: Line, text: str) -> ParsedLine | None:
        """What comes of a line that may hold a wanted message; None: it holds none, or quotes it in a stack trace."""
        if line.refusal is not None:
            return ParsedLine(line, refusal=line.refusal)
        if tells_nothing(text):
            return None
        text = without_colours(text)
        found = MESSAGES.search(text)
        try:
            if found is not None and found[1].kind == GIVEN_UP:
                return self._given_up(line, text, *found)
            if continues_trace(text):
                return None
            if is_other_client(text):
                other = read_other(text, self.reading.zone)
                return self._other(line, text, other) if other else self._in_java_s_words(line, text, found)
            if found is None:
                grpc = read_grpc(text, self.reading)
                if grpc is not None:
                    return self._other(line, text, grpc)
                refuse_foreign(text)
                return None
            return self._own(line, text, *found)
        except RefusedLineError as refused:
            return ParsedLine(line, refusal=refused.refusal)

    def _own(self, line: Line, text: str, start: int, form: Template) -> ParsedLine | None:
        """What comes of a message of Java's client; None: a SendResult, of which the line does not say when.

        An application prints a SendResult however it likes.
        """
        if form.kind == RETURNED:
            head = written_at(text, self.reading)
            return head and self._told(line, read_event(form, text[start:]), head, text, text[start:])
        head = read_head(text, start, self.reading)
        declared = self.reading.declared
        message = text[start : declared.message_end(text, start)] if declared else text[start:]
        if form.kind == RESULT:
            strategy, *said, printed = _split_fields(message[message.index(_MARK) + len(_MARK) :])
            return self._result(line, result_row(said, _queues(printed), strategy), head, text)
        is_words = form.traced and message.rstrip() == form.starts
        row = read_event(form, message)
        return self._told(line, row, head, text, message, is_traced=form.traced, is_words=is_words)

    def _other(self, line: Line, text: str, other: OtherLine) -> ParsedLine:
        """What comes of a line of a Go, C++ or gRPC client."""
        row = {**other.row, "language": other.language}
        if other.is_result:
            finish = partial(queues_below, message=other.message) if other.language == CPP else None
            return self._result(line, row, other.head, text, finish)
        is_traced = other.language == GRPC and row["kind"] in ("send_failed", "heartbeat_failed")
        return self._told(line, row, other.head, text, other.message, is_traced=is_traced)

    def _in_java_s_words(self, line: Line, text: str, found: tuple[int, Template] | None) -> ParsedLine | None:
        """What comes of a line of C++ that says what Java's client would, as its branch re_dev does."""
        told = head_of_cpp(text, self.reading.zone)
        if found is None or told is None or not told[1].startswith(found[1].starts) or found[1].kind == RESULT:
            return None
        head, message = told
        return self._told(line, {**read_event(found[1], message), "language": CPP}, head, text, message)

    def _given_up(self, line: Line, text: str, start: int, form: Template) -> ParsedLine | None:
        """What comes of an exception that ended a send; None: its record has told it, or is of one attempt."""
        record = next((one for one in reversed(self.recent) if begins_record(one)), text)
        message = text[start : start + _MOST_OF_EXCEPTION]
        if not begins_record(text):
            of_attempt = MESSAGES.search(record)
            told, before = self.given_up
            is_told = told is record and before == message  # an equal record is another
            if is_told or (of_attempt is not None and of_attempt[1].kind != GIVEN_UP):
                return None
        head = written_at(record, self.reading)
        if head is None:
            raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no line before it says when: {text[:40]!r}")
        self.given_up = (record, message)
        return self._told(line, read_event(form, message), head, f"{record}\n{text}", message, is_traced=True)

    def _result(
        self, line: Line, row: dict[str, Any], head: LogHead, text: str, finish: Finish | None = None
    ) -> ParsedLine:
        """A row of ``rebalance_result``."""
        row |= {"logged_at": head.at_ms, "resolution_ms": head.resolution_ms}
        row["occurrence"] = self.occurrences.count(line_digest(text))
        self.finish = finish
        return ParsedLine(line, (Record("rebalance_result", row),))

    def _told(
        self,
        line: Line,
        row: dict[str, Any],
        head: LogHead,
        text: str,
        message: str,
        *,
        is_traced: bool = False,
        is_words: bool = False,
    ) -> ParsedLine:
        """A row of ``client_event``; ``text``: what tells it from others of its instant, ``is_words``: it does not."""
        row |= {"log_folder": self.folder, "pid": head.pid}
        stamp(row, head, text, message, None if is_words else self.occurrences)
        self.finish = partial(self._of_words, text) if is_words else _with_trace if is_traced else None
        return ParsedLine(line, (Record("client_event", row),))

    def _of_words(self, text: str, row: dict[str, Any], trace: list[str]) -> dict[str, Any]:
        """Of a line of fixed words alone only the exception below it tells it from others of its instant."""
        whole = _with_trace(row, trace)
        exception = (whole.get("stack_trace") or "").partition("\n")[0]
        identify(whole, f"{text}\n{exception}" if exception else text, self.occurrences)
        return whole


def _split_fields(text: str) -> list[str]:
    """The strategy's value and those of ``_FIELDS``, which stand in this order in every release."""
    values = []
    for name in _FIELDS:
        value, found, text = text.partition(f", {name}=")
        if not found or not value:
            raise RefusedLineError("BAD_REBALANCE_LINE", f"field {name!r} or the value before it is missing")
        values.append(value)
    return [*values, text]


def _queues(printed: str) -> list[MessageQueue]:
    if not (printed.startswith("[") and printed.endswith("]")):
        raise RefusedLineError("BAD_REBALANCE_LINE", "the printed set is cut off")
    inner, position, queues = printed[1:-1], 0, []
    while position < len(inner):
        queue = _QUEUE.match(inner, position)
        if queue is None:
            raise RefusedLineError("BAD_REBALANCE_LINE", f"no message queue at {inner[position : position + 60]!r}")
        topic, broker_name, queue_id = queue.groups()
        queues.append(MessageQueue(topic, broker_name, java_number(queue_id, 32)))
        position = queue.end()
    return sort_queues(queues)

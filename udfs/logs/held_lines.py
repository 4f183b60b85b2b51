"""A line of a client log and what follows it in, the row of all of them out: a stack trace, or a list of queues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import ERROR_CHARS, ParsedLine, Record, RefusedLineError, ignored
from hindsight.udfs.logs.logged_lines import Occurrences, identify
from hindsight.udfs.logs.other_client_logs import queues_below

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


class Held:
    """A line whose stack trace may follow, and what has followed so far."""

    def __init__(self, head: ParsedLine) -> None:
        self.head = head
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
        """The first line with what followed it, and the lines that came of it."""
        ((table, row),) = self.head.records
        told = _stack_trace([text for _, text in self.trace])
        told = {name: value for name, value in told.items() if value is not None or name not in row}
        yield self.head._replace(records=(Record(table, row | told),))
        for line, _ in self.trace:
            yield ignored(line)


class HeldWords(Held):
    """A line of fixed words alone: only the exception below it tells it from others of its instant."""

    def __init__(self, head: ParsedLine, text: str, occurrences: Occurrences) -> None:
        super().__init__(head)
        self.text = text
        self.occurrences = occurrences

    def release(self) -> Iterator[ParsedLine]:
        """As for any trace."""
        first, *rest = super().release()
        row = first.records[0].row
        exception = (row.get("stack_trace") or "").partition("\n")[0]
        identify(row, f"{self.text}\n{exception}" if exception else self.text, self.occurrences)
        yield first
        yield from rest


class HeldQueues(Held):
    """The first line of a C++ client's rebalance result, and the queues below it."""

    def __init__(self, head: ParsedLine, message: str) -> None:
        super().__init__(head)
        self.message = message

    def release(self) -> Iterator[ParsedLine]:
        """As for a trace; refused where no counts follow."""
        ((table, row),) = self.head.records
        try:
            whole = queues_below(row, self.message, [text for _, text in self.trace])
            yield self.head._replace(records=(Record(table, whole),))
        except RefusedLineError as refused:
            yield ParsedLine(self.head.line, refusal=refused.refusal)
        for line, _ in self.trace:
            yield ignored(line)


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

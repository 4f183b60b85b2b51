"""Lines of ``rocketmq_client.log`` in, rows of ``rebalance_result`` and ``client_event`` out.

``rebalance_result``: "rebalanced result changed" (through 4.9.8) and "client rebalanced result changed" (5.0.0 on) of
RebalanceImpl#rebalanceByTopic. ``client_event``: the messages registered in ``client_log_events``.
Layouts: ``log_layouts``, all that carry an instant.

A line that begins with no stamp continues the one before. The beginning of a stack trace becomes part of its line's
row; its own lines count as ignored, since one row came of all of them and names the first as its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from udfs.allocation import MessageQueue, sort_queues
from udfs.bounded_lines import Line
from udfs.client_log_events import find_template, read_event
from udfs.log_layouts import STAMP, STAMPLESS, message_start, read_head, without_colours
from udfs.log_templates import Template
from udfs.logged_lines import Occurrences, line_digest, stamp
from udfs.parsed_line import ERROR_CHARS, ParsedLine, Record, RefusedLineError, ignored, java_number

TRACE_CHARS = 4000  # of a stack trace, as stored
TRACE_LINES = 100  # that are held until their end is seen; those after them are only counted
_HELD_CHARS = 256 * 1024  # as many at most, and one line more

_HEAD_STARTS = frozenset("2\x1b%")  # of a year, a colour, and 4.0.0's broken stamp
_begins_as_head = re.compile(rf"{STAMP}|\x1b\[|{re.escape(STAMPLESS)}").match
_MARK = "rebalanced result changed. allocateMessageQueueStrategyName="
_STARTS = (_MARK, f"client {_MARK}")
_FIELDS = (
    "group",
    "topic",
    "clientId",
    "mqAllSize",
    "cidAllSize",
    "rebalanceResultSize",
    "rebalanceResultSet",
)
_QUEUE = re.compile(r"MessageQueue \[topic=([^,\]]++), brokerName=([^,\]]++), queueId=(\d{1,10}+)\](?:, )?")
_RESPONSE_CODE = re.compile(r"\bCODE: (-?\d{1,9})\b")
_THROWN = re.compile(r"(?:Caused by: )?([A-Za-z_][\w$]*+(?:\.[\w$]++)++)(?:: (.*+))?", re.DOTALL)
# A line that continues another never holds one of these: it is a record in a layout that is not known.
_FOREIGN = re.compile(r"rebalanced result changed\. allocate|doRebalance, |sendKernelImpl exception, |not in cidAll: ")


def parse_client_log(lines: Iterable[Line], *, zone: tzinfo, file: str = "") -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per log line, in order.

    Args:
        lines: of one file.
        zone: the JVM's, for layouts that write local time without naming it.
        file: the file's path inside its cluster's folder; its folder names the log in rows that name no client.
    """
    reader = _Reader(zone, file.rpartition("/")[0])
    held: _Held | None = None
    for line in lines:
        _, _, _, text, refusal = line
        first = text[:1]
        if refusal is None and (first not in _HEAD_STARTS or not _begins_as_head(text)):
            if held is None:
                yield ignored(line) if first == "\t" else reader.continuation(line)
            elif not held.takes(line):
                yield from held.release()
                held = None
                yield ignored(line)
            continue
        if held is not None:
            yield from held.release()
            held = None
        parsed = ParsedLine(line, refusal=refusal) if refusal is not None else reader.head(line)
        if reader.may_be_traced:
            held = _Held(parsed)
            reader.may_be_traced = False
        else:
            yield parsed
    if held is not None:
        yield from held.release()


@dataclass
class _Held:
    """A line whose stack trace may follow, and what has followed so far."""

    head: ParsedLine
    trace: list[Line] = field(default_factory=list)
    size: int = 0

    def takes(self, line: Line) -> bool:
        """Hold a further line; false: this is full, and it is not held."""
        if len(self.trace) >= TRACE_LINES or self.size >= _HELD_CHARS:
            return False
        self.trace.append(line)
        self.size += len(line.text)
        return True

    def release(self) -> Iterator[ParsedLine]:
        ((table, row),) = self.head.records
        yield self.head._replace(records=(Record(table, row | _stack_trace(self.trace)),))
        yield from map(ignored, self.trace)


class _Reader:
    """Reads heads; remembers which lines this instant has had."""

    def __init__(self, zone: tzinfo, folder: str) -> None:
        self.zone = zone
        self.folder = folder
        self.may_be_traced = False
        self.occurrences = Occurrences()

    def continuation(self, line: Line) -> ParsedLine:
        text = line.text
        if text[:1] not in ("\t", " ", "") and _FOREIGN.search(text):
            refused = RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no known time stamp at the line's start: {text[:40]!r}")
            return ParsedLine(line, refusal=refused.refusal)
        return ignored(line)

    def head(self, line: Line) -> ParsedLine:
        text = line.text
        if text[0] != "2":
            text = without_colours(text)
        start = message_start(text)
        is_result = text.startswith(_STARTS, start)
        template = None if is_result else find_template(text, start)
        if not is_result and template is None:
            return ignored(line)
        message = text[start:]
        try:
            record = self._result(text, message) if template is None else self._event(text, message, template)
        except RefusedLineError as refused:
            return ParsedLine(line, refusal=refused.refusal)
        self.may_be_traced = template is not None and template.traced
        return ParsedLine(line, (record,))

    def _result(self, text: str, message: str) -> Record:
        head = read_head(text, self.zone)
        row = {
            **_rebalance_result(message),
            "logged_at": head.at_ms,
            "resolution_ms": head.resolution_ms,
            "occurrence": self.occurrences.count(line_digest(text)),
        }
        return Record("rebalance_result", row)

    def _event(self, text: str, message: str, template: Template) -> Record:
        head = read_head(text, self.zone)
        row = read_event(template, message)
        row["log_folder"] = self.folder
        row["pid"] = head.pid
        stamp(row, head, text, message, self.occurrences)
        return Record("client_event", row)


def _stack_trace(trace: list[Line]) -> dict[str, Any]:
    """The exception and the beginning of its trace; nothing where no line followed."""
    if not trace:
        return {}
    thrown = _THROWN.fullmatch(trace[0].text)
    error = thrown[2] if thrown and thrown[2] else None
    code = _RESPONSE_CODE.search(error) if error else None
    kept, room = [], TRACE_CHARS
    for line in trace:
        kept.append(line.text[:room])
        room -= len(line.text) + 1
        if room <= 0:
            break
    return {
        "exception": thrown[1][:ERROR_CHARS] if thrown else None,
        "error": error[:ERROR_CHARS] if error else None,
        "response_code": int(code[1]) if code else None,
        "stack_trace": "\n".join(kept),
    }


def _rebalance_result(message: str) -> dict[str, Any]:
    strategy, *values = _split_fields(message[message.index(_MARK) + len(_MARK) :])
    group, topic, client_id, queue_count, member_count, size, printed = values
    queues = _queues(printed)
    if len(queues) != _count(size):
        raise RefusedLineError("BAD_REBALANCE_LINE", f"rebalanceResultSize is {size}, {len(queues)} queues are printed")
    return {
        "consumer_group": group,
        "topic": topic,
        "client_id": client_id,
        "strategy": strategy,
        "queue_count": _count(queue_count),
        "member_count": _count(member_count),
        "queues": [{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in queues],
        "queues_text": " ".join(f"{q.broker_name}:{q.queue_id}" for q in queues),
    }


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


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise RefusedLineError("BAD_REBALANCE_LINE", f"{text[:40]!r} is no count")
    return int(text)

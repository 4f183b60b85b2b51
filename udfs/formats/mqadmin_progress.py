"""What ``consumerProgress -g`` and ``brokerConsumeStats`` printed in; each queue's offsets, out.

``#Client IP`` stands in 4.1.0 to 4.8.0, and with ``-s`` later; ``#Inflight`` from 5.1.0 on. Names are cut without a
mark (UtilAll#frontStringAtLeast): brokers to 32 characters, topics to 32, from 4.9.3 on to 64; groups are whole. A name
that fills its column is a doubt of its row (``cut_names``). Where two rows of one output name the same queue, a
cut name stands for two, and no row of it is taken: AMBIGUOUS_NAME.
Source: ConsumerProgressSubCommand, BrokerConsumeStatsSubCommad, 4.0.0 to 5.4.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import tzinfo
from typing import Any, NamedTuple

from hindsight.udfs.formats.mqadmin_command import BROKER_MAYBE_CUT, TOPIC_MAYBE_CUT, question_of
from hindsight.udfs.formats.mqadmin_output import Output, Row, Rows, capture_row, each_line_of, place, printed_time
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import RefusedLineError, java_number, lag_between

TOPIC, QUEUE, GROUP, BROKER = "#Topic", "#QID", "#Group", "#Broker Name"
_WIDTHS = (32, 64)  # of topics, up to 4.9.2 and from 4.9.3 on
_BROKER_WIDTH = 32
_TPS = "Consume TPS:"
_IS_RATE = re.compile(r"[0-9]{1,12}[.,][0-9]{1,20}(?:E-?[0-9]{1,3})?").fullmatch
_NONE = ("N/A", "NA", "null", "-")


class _Layout(NamedTuple):
    """The columns of an output; ``topic_widths``: to which of them a topic may have been cut."""

    has_group: bool
    has_client: bool
    has_inflight: bool
    topic_widths: tuple[int, ...]

    @property
    def fixed(self) -> int:
        """Columns before the time."""
        return 6 + self.has_group + self.has_client + self.has_inflight


def is_header(text: str) -> bool:
    """Whether a line is the header of a table of offsets."""
    return text.startswith(TOPIC) and QUEUE in text and "#Diff" in text


def progress(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The progress of one group, all brokers together."""
    group = output.group()
    rows = _rows(output, refusals, group)
    question = question_of(output.command._replace(name="consumerProgress", group=group))
    return [capture_row(output, refusals, question.kind, question.subject, **question.columns), *rows]


def broker_progress(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The progress of all groups at one broker. A group with no lag at the level asked for has no rows."""
    question = question_of(output.command._replace(name="brokerConsumeStats"))
    rows = _rows(output, refusals, None)
    return [capture_row(output, refusals, question.kind, question.subject, **question.columns), *rows]


def _rows(output: Output, refusals: dict[int, Refusal], group: str | None) -> Rows:
    at = next(index for index, text in enumerate(output.texts) if is_header(text))
    header = output.texts[at]
    width = header.index("#", 1) - 2  # two blanks stand between columns
    layout = _Layout(
        GROUP in header, "#Client IP" in header, "#Inflight" in header, (width,) if width in _WIDTHS else _WIDTHS
    )

    is_over = False

    def read(text: str) -> Iterator[Row]:
        nonlocal is_over
        words = text.split()
        if not words or words[0].startswith("#"):
            return
        if words[0] in ("Consume", "Diff"):
            is_over = True
            return
        if is_over:
            raise RefusedLineError("BAD_ROW", f"a row below the end of its table: {text[:120]!r}")
        of_group = words.pop(1) if layout.has_group and len(words) > layout.fixed - 1 else group
        yield "queue_progress", {**place(output), "consumer_group": of_group, **_row(words, layout, output.zone)}

    rows = each_line_of(output, refusals, read, header=at)
    _refuse_names_of_two(rows, refusals)
    tps = _consume_tps(output.texts)
    return [(index, table, {**row, "consume_tps": tps}) for index, table, row in rows]


def _consume_tps(texts: list[str]) -> float | None:
    """The group's rate, from ``Consume TPS: %.2f`` below its queues; in the decimal mark of the JVM's language.

    Early releases print all of its digits.
    """
    told = next((text.removeprefix(_TPS) for text in texts if text.startswith(_TPS)), "").strip()
    return float(told.replace(",", ".")) if _IS_RATE(told) else None


def _row(words: list[str], layout: _Layout, zone: tzinfo) -> dict[str, Any]:
    fixed = layout.fixed - layout.has_group
    time = words[fixed:]
    if len(words) < fixed or len(time) > 2:
        raise RefusedLineError("BAD_ROW", f"{len(words)} words, expected {fixed} and a time: {' '.join(words)[:120]!r}")
    broker, consumer = java_number(words[3], 64), java_number(words[4], 64)
    client_ip = words[5] if layout.has_client else None
    last = " ".join(time)
    java_number(words[fixed - 1], 64)
    topic, broker_name = words[:2]
    doubts = [TOPIC_MAYBE_CUT] * (len(topic) in layout.topic_widths)
    doubts += [BROKER_MAYBE_CUT] * (len(broker_name) == _BROKER_WIDTH)
    return {
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": _queue_id(words[2]),
        "broker_offset": broker,
        "consumer_offset": consumer,
        "lag": lag_between(broker, consumer),
        "client_ip": None if client_ip in _NONE else client_ip,
        "last_timestamp": None if not last or last in _NONE else printed_time(last, "%Y-%m-%d %H:%M:%S", zone),
        "doubts": doubts or None,
    }


def _queue_id(text: str) -> int:
    value = java_number(text, 32)
    if value < 0:
        raise RefusedLineError("NEGATIVE_QUEUE_ID", f"the queue id is {value}; queue ids begin at 0")
    return value


def _refuse_names_of_two(rows: Rows, refusals: dict[int, Refusal]) -> None:
    """Refuse the rows of each name that stands for two: there a queue is told of twice."""

    def name(row: dict[str, Any]) -> tuple[str, str, str]:
        return row["consumer_group"], row["topic"], row["broker_name"]

    times = Counter((*name(row), row["queue_id"]) for _, _, row in rows if row["doubts"])
    twice = {told[:3] for told, count in times.items() if count > 1}
    for index, _, row in rows:
        if row["doubts"] and name(row) in twice:
            said = f"two names begin with {row['topic']!r} at {row['broker_name']!r}: which row is whose is not told"
            refusals[index] = Refusal("AMBIGUOUS_NAME", said)

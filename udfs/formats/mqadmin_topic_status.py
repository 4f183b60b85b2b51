"""What ``topicStatus`` printed in; the first and the next offset of each queue of the topic, out.

The topic stands in the command or in the file's name only. Brokers' names are cut to 32 characters without a mark, and
such a name is a doubt of its row. A queue without a message has no time. From 5.3.3 on ``Topic Put TPS`` follows.
Source: TopicStatusSubCommand, 4.0.0 to 5.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.udfs.formats.cut_names import BROKER_MAYBE_CUT
from hindsight.udfs.formats.mqadmin_command import question_of
from hindsight.udfs.formats.mqadmin_output import (
    Output,
    Row,
    Rows,
    capture_row,
    each_line_of,
    place,
    printed_time,
    topic_of,
)
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import RefusedLineError, java_number

_COLUMNS = ("#Broker Name", "#QID", "#Min Offset", "#Max Offset")
_BROKER_WIDTH = 32
_PUT_TPS = "Topic Put TPS:"


def is_status(text: str) -> bool:
    """Whether a line is the header of a topic's queues."""
    return text.startswith(_COLUMNS[0]) and all(column in text for column in _COLUMNS)


def topic_status(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The queues of one topic, all brokers together."""
    topic = topic_of(output)
    header = next(index for index, text in enumerate(output.texts) if is_status(text))

    def read(text: str) -> Iterator[Row]:
        if text.strip() and not text.startswith(_PUT_TPS):
            yield "topic_status", {**place(output), "topic": topic, **_row(text.split(), output)}

    rows = each_line_of(output, refusals, read, header=header)
    subject = question_of(output.command._replace(name="topicStatus")).subject
    return [capture_row(output, refusals, "topicStatus", subject, topic=topic), *rows]


def _row(words: list[str], output: Output) -> dict[str, object]:
    if len(words) not in (4, 6):
        raise RefusedLineError("BAD_ROW", f"{len(words)} words, expected 4 and a time: {' '.join(words)[:120]!r}")
    queue_id = java_number(words[1], 32)
    if queue_id < 0:
        raise RefusedLineError("NEGATIVE_QUEUE_ID", f"the queue id is {queue_id}; queue ids begin at 0")
    last = " ".join(words[4:])
    return {
        "broker_name": words[0],
        "queue_id": queue_id,
        "min_offset": java_number(words[2], 64),
        "max_offset": java_number(words[3], 64),
        "last_update_at": printed_time(last, "%Y-%m-%d %H:%M:%S,%f", output.zone) if last else None,
        "doubts": [BROKER_MAYBE_CUT] if len(words[0]) == _BROKER_WIDTH else None,
    }

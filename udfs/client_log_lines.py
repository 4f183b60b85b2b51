"""Lines of ``rocketmq_client.log`` in, rows of ``rebalance_result`` out.

Taken in: "rebalanced result changed" (through 4.9.8) and "client rebalanced result changed" (5.0.0 on) of
RebalanceImpl#rebalanceByTopic, under every layout that carries a time:

- 4.1-4.2    ``2026-01-05 10:15:00 INFO thread - text``          GMT+8, one-second resolution
- 4.3-5.0    ``2026-01-05 10:15:00,123 INFO Logger - text``      zone of the JVM, not written
- 5.1 on     ``2026-01-05 10:15:00.123 INFO  [pid] [thread] ...``  GMT+8
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from udfs.allocation import MessageQueue, sort_queues
from udfs.bounded_lines import Line
from udfs.parsed_line import ParsedLine, Record, RefusedLineError

_MARK = "rebalanced result changed. allocateMessageQueueStrategyName="
_OTHER_RULE = "broker rebalanced result changed."  # 5.x broker-side assignment prints other fields
_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})(?:([,.])(\d{3}))? +[A-Z]+ ")
_FIELDS = (
    "group",
    "topic",
    "clientId",
    "mqAllSize",
    "cidAllSize",
    "rebalanceResultSize",
    "rebalanceResultSet",
)
_QUEUE = re.compile(r"MessageQueue \[topic=([^,\]]+), brokerName=([^,\]]+), queueId=(\d{1,10})\](?:, )?")
_GMT8 = timezone(timedelta(hours=8))


def parse_client_log(lines: Iterable[Line], *, zone: tzinfo) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per log line; ``zone``: the JVM's, for layouts that write local time without naming it."""
    seen: Counter[str] = Counter()
    instant_of_seen = ""
    for line in lines:
        if line.refusal is not None:
            yield ParsedLine(line, refusal=line.refusal)
        elif _MARK not in line.text or _OTHER_RULE in line.text:
            yield ParsedLine(line)
        else:
            if line.text[:23] != instant_of_seen:
                seen.clear()
                instant_of_seen = line.text[:23]
            seen[line.text] += 1
            try:
                row = _rebalance_result(line.text, zone) | {"occurrence": seen[line.text]}
                yield ParsedLine(line, (Record("rebalance_result", row),))
            except RefusedLineError as refused:
                yield ParsedLine(line, refusal=refused.refusal)


def _rebalance_result(text: str, zone: tzinfo) -> dict[str, Any]:
    logged_at, resolution_ms = _instant(text, zone)
    strategy, *values = _split_fields(text[text.index(_MARK) + len(_MARK) :])
    group, topic, client_id, queue_count, member_count, size, printed = values
    queues = _queues(printed)
    if len(queues) != _count(size):
        raise RefusedLineError("BAD_REBALANCE_LINE", f"rebalanceResultSize is {size}, {len(queues)} queues are printed")
    return {
        "consumer_group": group,
        "topic": topic,
        "client_id": client_id,
        "logged_at": logged_at,
        "resolution_ms": resolution_ms,
        "strategy": strategy,
        "queue_count": _count(queue_count),
        "member_count": _count(member_count),
        "queues": [{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in queues],
        "queues_text": " ".join(f"{q.broker_name}:{q.queue_id}" for q in queues),
    }


def _instant(text: str, zone: tzinfo) -> tuple[int, int]:
    """Epoch ms and resolution. 4.7.1 prints the seconds again as the fraction: such a fraction tells nothing."""
    stamp = _STAMP.match(text)
    if stamp is None:
        raise RefusedLineError("UNKNOWN_LOG_LAYOUT", f"no known time stamp at the line's start: {text[:40]!r}")
    day_and_time, mark, millis = stamp.groups()
    try:
        written = datetime.fromisoformat(day_and_time)
    except ValueError as error:
        raise RefusedLineError("BAD_TIMESTAMP", f"{day_and_time!r}: {error}") from None
    at = int(written.replace(tzinfo=zone if mark == "," else _GMT8).timestamp()) * 1000
    if millis is None or (mark == "," and int(millis) == written.second):
        return at, 1000
    return at + int(millis), 1


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
        queues.append(MessageQueue(topic, broker_name, int(queue_id)))
        position = queue.end()
    return sort_queues(queues)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise RefusedLineError("BAD_REBALANCE_LINE", f"{text[:40]!r} is no count")
    return int(text)

"""A line of a gRPC client's log in, the row that it makes of ``client_event`` out.

What such a client tells of queues is what a proxy assigned to it, and what it isolates are endpoints, mostly those of
proxies: no rule of ownership and none of fault tables meets these rows. ``language`` is GRPC, whatever the client is
written in.

- Java, C#    ``2026-01-05 10:15:00.123 INFO  [pid] [thread] [class#method:line] - text``, C# with four digits, local
- Go          ``2026-01-05T10:15:00.123+0800\\tINFO\\tfile:line\\ttext\\t{"client_id": "..."}``
- Python      ``2026-01-05 10:15:00,123 [INFO] text``, local
- Node.js     ``2026-01-05 10:15:00,123 INFO pid text``, local
- C++         ``2026-01-05 10:15:00.123 [I] [thread] text file:line``, local
- Rust        ``2026-01-05T10:15:00.123456Z  WARN rocketmq::client: text`` of tracing; JSON of slog (``ts``, ``level``,
              ``msg``)

slog's terminal layout of Rust (``Jan 05 10:15:00.123``) has no year, and is refused. The PHP client writes no log.

Source: ClientImpl, ProducerImpl and PushConsumerImpl of Java, golang/client.go, producer.go and push_consumer.go,
Client.cs and Producer.cs, SendContext.cpp and ClientImpl.cpp of rocketmq-clients, 5.0.0 to master;
rocketmq-python-client 5.1.2, rocketmq-client-nodejs 1.0.8 with egg-logger; client.rs and push_consumer.rs of Rust 5.0.0
and master.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from hindsight.udfs.lines.parsed_line import RefusedLineError, java_number
from hindsight.udfs.logs.log_layouts import LogHead, LogReading, read_head
from hindsight.udfs.logs.log_templates import holds_any
from hindsight.udfs.logs.other_client_logs import OtherLine, instant_of
from hindsight.udfs.values.message_queues import MessageQueue, sort_queues

GRPC = "GRPC"
# One of them stands in each line that is recognised here.
GRPC_NEEDLES = (
    "endpoint",
    "ssignment",
    "it is expired",
    "process queue ",
    " send heartbeat to ",
    "end message exception",
    "d heartbeat failed: ",
    "query route for topic=",
    "eceive messages error: ",
)
_EVENTS: Sequence[tuple[str, str]] = (
    ("endpoint_rejoined", r"[Rr]ejoin endpoints which (?:is|was) isolated before, "),
    ("endpoint_rejoined", r"Removed isolation for endpoint (?P<endpoints>[^ ]++) after successful heartbeat"),
    ("endpoint_isolated", r"Isolated endpoint (?P<endpoints>[^ ]++) after send failure"),
    ("send_failed", r"[Ff]ailed to send (?:transactional )?message(?:\(s\))?[ ,](?=.{0,2000}\bendpoints=)"),
    ("heartbeat_failed", r"[Ff]ailed to send heartbeat, (?=.{0,2000}\bendpoints=)"),
    ("assignments_changed", r"Assignments of topic=[^ ,]++ has changed, "),
    ("assignments_empty", r"(?:Acquired|Attention!!! acquired) empty assignments from remote, "),
    ("queue_removed", r"Drop message queue according to the latest assignmentList, "),
    ("queue_pull_expired", r"Drop message queue because it is expired, "),
    # Python
    ("send_failed", r"send message exception, topic: (?P<topic>[^ ,]++), "),
    (
        "heartbeat_failed",
        r"[A-Z_]++, client_id:(?P<clientId>[^ ]++) send heartbeat to (?P<endpoints>.{1,200}?) (?:error|exception), ",
    ),
    ("flow_control", r"process queue total cached message(?:s| size) exceeds the threshold, "),
    ("queue_pull_expired", r"process queue is idle, idle_duration: "),
    # Rust
    ("heartbeat_failed", r"send heartbeat failed: (?P<reason>.{1,2000})"),
    ("route_read_failed", r"query route for topic=(?P<topic>[^ ]++) failed: (?P<reason>error=.{1,2000})"),
    ("pull_failed", r"receive messages error: (?P<reason>.{1,2000})"),
)
_UNNAMED = [re.sub("[?]P<[A-Za-z]+>", "?:", text) for _, text in _EVENTS]
_ANY = re.compile("|".join(f"(?P<e{n}>{text})" for n, text in enumerate(_UNNAMED)))
_PATTERNS = [re.compile(text) for _, text in _EVENTS]
_FIELD = re.compile(
    r"\b(clientId|endpoints|topic|messageId(?:\(s\))?|mq)=(.*?)(?=,? [A-Za-z]++(?:\(s\))?=| has changed, |\Z)",
    re.DOTALL,
)
_MOST_CHARS = 8192  # of a message
_GO_CLIENT = re.compile(r'\t\{.*?"client_id": "([^"]++)"')
_QUEUE = re.compile(r"messageQueue=([^{}]{1,255})\.([%|\w-]{1,255})\.(-?\d{1,10})\}")
_MQ = re.compile(r"([^{}]{1,255})\.([%|\w-]{1,255})\.(-?\d{1,10})\Z")
_GO_HEAD = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d{4}))\t([A-Z]++)\t(?:[^\t]++\t)?")
_LOCAL_HEAD = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3})\d?+ "
    r"(?:\[([EWIDTC])\] \[ *+(\d++)\] |([A-Z]++) ++\[(\d{1,18})\] \[(\d++)\] \[[^\[\]#]*+\] "
    r"|([A-Z]++) (\d{1,18}) )"  # of Node.js
)
_SLOG = re.compile(r'\{(?=.{0,8192}"msg":)(?=.{0,8192}"ts":)', re.DOTALL)
_RUST_HEAD = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]{8,18}Z) ++([A-Z]++) [\w:]++: ")
_LEVELS = {"E": "error", "W": "warn", "I": "info", "D": "debug", "T": "trace", "C": "critical"}


def read_grpc(text: str, reading: LogReading) -> OtherLine | None:
    """The line as one of a gRPC client; None: it tells nothing wanted. Refused: BAD_TIMESTAMP, UNKNOWN_LOG_LAYOUT."""
    found = _ANY.search(text) if holds_any(text, GRPC_NEEDLES) else None
    if found is None:
        return None
    slog = _SLOG.match(text)
    if slog is not None and (told := _of_slog(text, reading)) is not None:
        head, text = told
        found = _ANY.match(text)
        if found is None:
            return None
    else:
        head = _head(text, found.start(), reading)
    message = text[found.start() : found.start() + _MOST_CHARS].partition("\t")[0].rstrip(" ")
    number = int((found.lastgroup or "e0")[1:])
    row = _row(_EVENTS[number][0], _PATTERNS[number], message)
    go = _GO_CLIENT.search(text, found.end())
    if go is not None:
        row.setdefault("client_id", go[1])
    return OtherLine(GRPC, head, message, row, is_result=False)


def _head(text: str, start: int, reading: LogReading) -> LogHead:
    """Of a line in one of the clients' own layouts, or in any that logs are read in."""
    for pattern in (_RUST_HEAD, _GO_HEAD):
        own = pattern.match(text)
        if own is not None and own.end() == start:
            return LogHead(_instant(own[1], reading), 1, own[2], None, None)
    local = _LOCAL_HEAD.match(text)
    if local is not None and local.end() == start:
        at = _instant(local[1], reading)
        if local[2]:
            return LogHead(at, 1, _LEVELS[local[2]], None, local[3])
        if local[7]:
            return LogHead(at, 1, local[7], int(local[8]), None)
        return LogHead(at, 1, local[4], int(local[5]), local[6])
    return read_head(text, start, reading)


def _of_slog(text: str, reading: LogReading) -> tuple[LogHead, str] | None:
    """The head and message of a line in Rust's JSON; None: it is none."""
    try:
        told = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    stamp, level, message = (told.get(name) for name in ("ts", "level", "msg"))
    if not (isinstance(stamp, str) and isinstance(level, str) and isinstance(message, str)):
        return None
    return LogHead(_instant(stamp, reading), 1, level, None, None), message


def _instant(stamp: str, reading: LogReading) -> int:
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        raise RefusedLineError("BAD_TIMESTAMP", f"{stamp!r} is no time") from None
    return instant_of(at if at.tzinfo else at.replace(tzinfo=reading.zone))


def _row(kind: str, pattern: re.Pattern[str], message: str) -> dict[str, Any]:
    said = pattern.match(message)
    fields = {name.removesuffix("(s)"): value for name, value in _FIELD.findall(message)}
    fields |= {name: value for name, value in (said.groupdict() if said else {}).items() if value}
    ids = fields.get("messageId", "").strip("[]")
    named = {
        "client_id": fields.get("clientId"),
        "topic": fields.get("topic"),
        "broker_address": fields.get("endpoints"),
        "msg_id": ids if "," not in ids and " " not in ids else None,  # of a send of one message
        "detail": fields.get("reason") or (message if kind in ("send_failed", "assignments_empty") else None),
    }
    row: dict[str, Any] = {"kind": kind, "arguments_lost": False}
    row |= {name: value for name, value in named.items() if value}
    if queue := _MQ.match(fields.get("mq", "")):  # Java's ``broker.topic.queueId``; topics hold no points
        row |= {"broker_name": queue[1], "topic": queue[2], "queue_id": java_number(queue[3], 32)}
    if kind == "assignments_changed":
        row |= _assigned(message, row.get("topic"))
    return row


def _assigned(message: str, topic: str | None) -> dict[str, Any]:
    """What was assigned last; Go and C# print no queues. Queue -1 is any of its broker's."""
    _, _, latest = message.partition(" => ")
    queues = sort_queues(MessageQueue(m[2], m[1], java_number(m[3], 32)) for m in _QUEUE.finditer(latest))
    own = [{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in queues]
    return {"topic": topic} | ({"queues": own} if own else {})

"""A line of a Go or C++ client's log in, the row that it makes of ``rebalance_result`` or ``client_event`` out.

- Go, 2.0.0-alpha3 on: ``time="2026-11-25T09:08:02+08:00" level=info msg="text" key=value key="quoted value"``; whole
  seconds, zone written
- C++: ``[2026-11-25 09:31:11.753692](info):text[function:line]``, through 2.0 with the month's name, its master
  ``[2026-01-05 10:15:00.123] [info] text``, its branch re_dev ``[thread@7] - text [file:line (function)]`` behind
  that, mostly in Java's words; local time, no zone

Neither names the strategy nor the process. A C++ message ends after 1,023 bytes: its list of queues may be cut.
Source: rlog/log.go and consumer/consumer.go of Go, 2.0.0-alpha3 to 2.1.2; src/log/Logger.cpp, src/consumer and
src/producer of C++, 1.2.0 to 2.2.0; src/log/Logging.cpp of re_dev.

A line of a client log in, whether another language's client told of queues, locks or sends in it, and how, out.

Lines in the layouts of Go's and C++'s own logs are read (``other_client_logs``). What a Go client's application writes
through a logger of its own is told from Java's by its words, and refused.
Source: rocketmq-client-cpp 1.2.0 to 2.2.0 and its master, rocketmq-client-go 2.0.0-alpha1 to 2.1.2 and its master.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from hindsight.udfs.lines.parsed_line import RefusedLineError, is_instant, java_number
from hindsight.udfs.logs.log_layouts import LogHead
from hindsight.udfs.logs.log_stamps import MONTHS
from hindsight.udfs.logs.log_templates import templates
from hindsight.udfs.values.message_queues import MessageQueue, sort_queues

GO, CPP = "GO", "CPP"
_CPP_BYTES = 1023  # of a message, as written
_GO_LINE = re.compile(r'time="([^"]*+)" level=([a-z]++) msg="([^"\\]*+(?:\\.[^"\\]*+)*)"(.*+)', re.DOTALL)
_GO_PAIR = re.compile(r' ([A-Za-z]++)=(?:"([^"\\]*+(?:\\.[^"\\]*+)*)"|([^ "]*+))(?= |$)', re.DOTALL)
_CPP_LINE = re.compile(
    r"\[(\d{4})-(\d\d|[A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3})\d{0,6}\]"
    r"(?:\(([a-z]{4,7})\):| \[([a-z]{4,8})\] (?:\[thread@\d{1,20}+\] - )?)(.*+)",
    re.DOTALL,
)
# Where in the C++ source the line was written; re_dev names the file, too.
_PLACE = re.compile(r"(?:\[\w++:\d++\]| \[[^\[\]]{1,400}?:\d{1,9}+ \([^\[\]]{1,200}\)\])\Z")
_QUEUE = re.compile(r"MessageQueue \[topic=([^,\]]++), brokerName=([^,\]]++), queueId=(\d{1,10}+)\]")
_TOTALS = re.compile(r"Total Queue :#(\d{1,9}), Total Consumer :#(\d{1,9}), Allocated Queues are: ")
# One of them stands in each line that is recognised here, or one of those of the Java client's messages.
_NEEDLES = (
    *("mq:", " mqs", "defaultConsumer", "for mq", "of mq", "next mq", "range is:", "empty consumer"),
    *("consumer list of", "rIdsChanged", "MessageQueue changed", "clientI", "end failed of", "retrying to send"),
    *("Allocation result", "not in cidAll", "ock MessageQueue", "notification to consumer", "Start to pull"),
    *("unnecessary mq", "in group failed", "heart beat to broker"),
)
_BEGINS = frozenset("[{tTDIWEF\x1b0123456789")  # of a stamp, a level, ``time=``, or JSON
_GO = re.compile(
    r"do balance (?:done|result changed|in group failed)|PullConsumer rebalance result changed|\[BALANCE-SKIP\]"
    r"|remove unnecessary mq (?:when updateProcessQueueTable|because )|do defaultConsumer, (?:add a new mq|mq already)"
    r"|\[BUG\] ConsumerId not in cidAll|get consumer list of group from broker error|\b(?:un)?lock MessageQueue\b"
    r"|receive broker's notification to consumer group|the topic route info changed|\bMessageQueue changed\b"
    r"|send heart beat to broker (?:error|failed|success)|start retrying to send, |fetch offset of mq from broker"
    r"|no broker found for mq|the message queue not be able to consume, because it was dropped"
    r"|pull consumer assign new mqs|delete mq from offset table|get next mq error"
)


class OtherLine(NamedTuple):
    """What a line tells; of a rebalance result of C++ the queues stand in the lines behind it (``queues_below``)."""

    language: str
    head: LogHead
    message: str
    row: dict[str, Any]
    is_result: bool


def read_other(text: str, zone: tzinfo) -> OtherLine | None:
    """The line as one of another language's client; None: it is one that tells nothing wanted.

    ``zone``: of C++'s local times. Refused: BAD_TIMESTAMP, BAD_REBALANCE_LINE, BAD_EVENT_LINE.
    """
    go = _GO_LINE.fullmatch(text)
    if go is not None:
        return _go(*go.groups())
    cpp = _CPP_LINE.fullmatch(text)
    return None if cpp is None else _cpp(cpp, zone)


def is_other_client(text: str) -> bool:
    """Whether a line is written in one of the layouts of Go's and C++'s clients."""
    return bool(_GO_LINE.match(text) or _CPP_LINE.match(text))


def _go(time: str, level: str, message: str, rest: str) -> OtherLine | None:
    told = _unquoted(message)
    read = _GO_MESSAGES.get(told)
    if read is None:
        return None
    fields = {name: _unquoted(quoted or "") or plain or "" for name, quoted, plain in _GO_PAIR.findall(rest)}
    row = read(fields)
    if row is None:
        return None
    return OtherLine(GO, LogHead(_go_instant(time), 1000, level, None, None), told + rest, row, "kind" not in row)


def _go_instant(time: str) -> int:
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        raise RefusedLineError("BAD_TIMESTAMP", f"{time[:40]!r} is no time") from None
    if at.tzinfo is None:
        raise RefusedLineError("BAD_TIMESTAMP", f"{time[:40]!r} has no zone")
    return instant_of(at)


def instant_of(at: datetime) -> int:
    """Epoch ms; refused: BAD_TIMESTAMP."""
    ms = round(at.astimezone(UTC).timestamp() * 1000)
    if not is_instant(ms):
        raise RefusedLineError("BAD_TIMESTAMP", f"{at} is out of range")
    return ms


def _unquoted(quoted: str) -> str:
    """What Go's %q wrote, as far as JSON writes it the same way."""
    if "\\" not in quoted:
        return quoted
    try:
        text: str = json.loads(f'"{quoted}"', strict=False)
    except json.JSONDecodeError:
        return re.sub(r"\\(.)", r"\1", quoted)
    return text


Fields = Mapping[str, str]


def _go_result(fields: Fields) -> dict[str, Any]:
    """Go's ``MessageQueue do balance done``: written where the member's queues changed."""
    names = ("consumerGroup", "topic", "clientID", "mqAllSize", "cidAllSize", "rebalanceResultSize")
    missing = [name for name in names if not fields.get(name)]
    if missing:
        raise RefusedLineError("BAD_REBALANCE_LINE", f"field {missing[0]!r} is missing")
    return result_row([fields[name] for name in names], _queues_in(fields.get("rebalanceResultSet", "")))


def result_row(said: Sequence[str], queues: Sequence[MessageQueue], strategy: str = "") -> dict[str, Any]:
    """A row of ``rebalance_result``.

    ``said``: group, topic, client id, numbers of queues, of members and of ``queues``, as written.
    Refused: BAD_REBALANCE_LINE, where a number is none, or is not that of the queues.
    """
    group, topic, client_id, queue_count, member_count, size = said
    if len(queues) != _count(size):
        raise RefusedLineError("BAD_REBALANCE_LINE", f"rebalanceResultSize is {size}, {len(queues)} queues are printed")
    return {
        "consumer_group": group,
        "topic": topic,
        "client_id": client_id,
        "strategy": strategy,
        "queue_count": _count(queue_count),
        "member_count": _count(member_count),
        **_held(queues),
    }


def _held(queues: Sequence[MessageQueue]) -> dict[str, Any]:
    return {
        "queues": [{"broker_name": q.broker_name, "queue_id": q.queue_id} for q in queues],
        "queues_text": " ".join(f"{q.broker_name}:{q.queue_id}" for q in queues),
    }


def _queues_in(printed: str) -> list[MessageQueue]:
    return sort_queues(MessageQueue(m[1], m[2], java_number(m[3], 32)) for m in _QUEUE.finditer(printed))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise RefusedLineError("BAD_REBALANCE_LINE", f"{text[:40]!r} is no count")
    return int(text)


def _event(kind: str) -> Callable[[Fields], dict[str, Any]]:
    """A reader of a Go line that is an event of this kind."""

    def read(fields: Fields) -> dict[str, Any]:
        queue = _QUEUE.match(fields.get("MessageQueue", ""))
        row: dict[str, Any] = {"kind": kind, "arguments_lost": False}
        row |= {"topic": queue[1], "broker_name": queue[2], "queue_id": java_number(queue[3], 32)} if queue else {}
        named = {
            "consumer_group": fields.get("consumerGroup"),
            "topic": fields.get("topic"),
            "client_id": fields.get("consumerId"),
            "broker_name": fields.get("brokerName"),
            "broker_address": fields.get("brokerAddr") or fields.get("broker"),
            "detail": fields.get("underlayError") or fields.get("remark"),
        }
        return row | {name: value for name, value in named.items() if value}

    return read


def _not_listed(fields: Fields) -> dict[str, Any]:
    return _event("member_not_listed")(fields) | {"members": fields.get("cidAll", "[]").strip("[]").split()}


def _lock(fields: Fields) -> dict[str, Any]:
    return _event("lock_acquired" if fields.get("lockOK") == "true" else "lock_failed")(fields)


def _began(fields: Fields) -> dict[str, Any] | None:
    """A client begins at the offset that it got from the broker; -1: none was stored, and no line says where it began.

    Source: offset_store.go, consumer.go#computePullFromWhereWithException, from 2.1.0-rc4 on.
    """
    offset = java_number(fields.get("offset", ""), 64)
    return None if offset < 0 else _event("queue_began")(fields) | {"offset": offset}


_GO_MESSAGES: Mapping[str, Callable[[Fields], dict[str, Any] | None]] = {
    "MessageQueue do balance done": _go_result,
    "remove unnecessary mq when updateProcessQueueTable": _event("queue_removed"),
    "remove unnecessary mq because unsubscribed": _event("queue_removed"),
    "remove unnecessary mq because pull was paused, prepare to fix it": _event("queue_pull_expired"),
    "remove unnecessary mq because pull was expired, prepare to fix it": _event("queue_pull_expired"),
    "do defaultConsumer, add a new mq": _event("queue_added"),
    "updateProcessQueueTable do defaultConsumer, add a new mq": _event("queue_added"),
    "fecth offset of mq from broker success": _began,
    "fetch offset of mq from broker success": _began,  # from 2.1.1 on
    "do defaultConsumer, add a new mq failed, because lock failed": _event("lock_failed"),
    "do defaultConsumer, add a new mq failed": _event("queue_add_failed"),
    "do balance in group failed, the topic does not exist": _event("topic_unknown"),
    "do balance in group failed, get consumer id list failed": _event("member_list_failed"),
    "get consumer list of group from broker error": _event("member_list_failed"),
    "[BUG] ConsumerId not in cidAll": _not_listed,
    "lock MessageQueue": _lock,
    "unlock MessageQueue": _event("queue_unlocked"),
    "receive broker's notification to consumer group": _event("members_changed"),
    "send heart beat to broker error": _event("heartbeat_failed"),
    "send heart beat to broker failed": _event("heartbeat_failed"),
}


def head_of_cpp(text: str, zone: tzinfo) -> tuple[LogHead, str] | None:
    """The head and the message of a line in C++'s layout; None: it is in another. Refused: BAD_TIMESTAMP."""
    line = _CPP_LINE.fullmatch(text)
    return None if line is None else (_head_of_cpp(line, zone), _PLACE.sub("", line[10]))


def _cpp(line: re.Match[str], zone: tzinfo) -> OtherLine | None:
    message = _PLACE.sub("", line[10])
    found = next(((form.kind, m) for form in _CPP_MESSAGES if (m := form.pattern.match(message))), None)
    if found is None:
        return None
    head = _head_of_cpp(line, zone)
    kind, said = found
    if kind == "rebalance_result":
        row = {"consumer_group": said[1], "topic": said[2], "client_id": said[3], "strategy": "AVG"}
        return OtherLine(CPP, head, message, row, True)
    named = {name: value for name, value in said.groupdict().items() if value}
    named |= {
        name: java_number(named[name], bits) for name, bits in (("queue_id", 32), ("offset", 64)) if name in named
    }
    return OtherLine(CPP, head, message, {"kind": kind, "arguments_lost": not named, **named}, False)


def _head_of_cpp(line: re.Match[str], zone: tzinfo) -> LogHead:
    year, month, day, *time, millisecond, level, spdlog_level, _ = line.groups()
    number = int(month) if month.isdigit() else MONTHS.index(month) + 1 if month in MONTHS else 0
    try:
        hour, minute, second = map(int, time)
        at = datetime(int(year), number, int(day), hour, minute, second, int(millisecond) * 1000, zone)
    except ValueError:
        raise RefusedLineError("BAD_TIMESTAMP", f"{line[0][:30]!r} begins with no time") from None
    return LogHead(instant_of(at), 1, level or spdlog_level, None, None)


def queues_below(row: Mapping[str, Any], lines: Sequence[str], message: str) -> dict[str, Any]:
    """The row of a C++ client's ``Allocation result``, completed by the lines behind its first.

    A list that the client cut has a doubt, CUT_LIST. Refused: BAD_REBALANCE_LINE.
    """
    totals = _TOTALS.match(lines[0]) if lines else None
    if totals is None:
        raise RefusedLineError("BAD_REBALANCE_LINE", "the counts of queues and members do not follow")
    body = _PLACE.sub("", "\n".join(lines))
    counts = {"queue_count": int(totals[1]), "member_count": int(totals[2])}
    is_cut = len(f"{message}\n{body}".encode()) >= _CPP_BYTES
    return {**row, **_held(_queues_in(body)), **counts, **({"doubts": ["CUT_LIST"]} if is_cut else {})}


_CPP_QUEUE = (
    r"MessageQueue \[topic=(?P<topic>[^,\]]++), brokerName=(?P<broker_name>[^,\]]++), "
    r"queueId=(?P<queue_id>\d{1,10}+)\]"
)
# The first that matches the message's beginning counts.
_CPP_MESSAGES = templates(
    r"""
rebalance_result | Allocation result for \[Consumer Group: ([^,]++), Topic: ([^,]++), Current Consumer ID: (.+)\] is
    changed\.
queue_added | [Aa]dd mq:{QUEUE}
# From 1.2.5 on.
queue_began | Start to pull {QUEUE}, offset:(?P<offset>\d{1,19}+), GroupName (?P<consumer_group>.++)
queue_pull_expired | Drop mq:{QUEUE} according Pull timeout
queue_removed | [Dd]rop mq:{QUEUE}
lock_acquired | lock(?:BatchMQ)? success of mq:{QUEUE}
lock_failed | lock(?:BatchMQ)? fails of mq:{QUEUE}
# re_dev, before its lines named the group
lock_acquired | the message queue locked OK, mq:{QUEUE}
lock_failed | the message queue locked Failed, mq:{QUEUE}
queue_unlocked | unlock success of mq:{QUEUE}
members_changed | notifyConsumerIdsChanged(?::|, group:)(?P<consumer_group>.++)
member_list_failed | \[ERROR\] Get empty consumer IDs\. Consumer Group: (?P<consumer_group>[^,]++), Topic:
    (?P<topic>.++)
member_not_listed | could not find clientId from Broker
client_started | MQClient start,groupname:(?P<consumer_group>[^,]++),clientID:(?P<client_id>[^,]++),
send_failed | send failed of times:\d{1,9}+,
    ?brokerName:(?P<broker_name>[^.]++(?:\.(?! exception:)[^.]*+)*)(?:\. exception:(?P<detail>.*+))?
""",
    {"QUEUE": _CPP_QUEUE},
)


def may_be_foreign(text: str) -> bool:
    """False: the line is none of those that are recognised here and hold nothing like a message of Java's client."""
    return text[:1] in _BEGINS and any(needle in text for needle in _NEEDLES)


def refuse_foreign(text: str) -> None:
    """Refused: FOREIGN_CLIENT_LOG, what a Go client tells as Java's does in a wanted line, in a layout not known."""
    if _GO.search(text):
        raise RefusedLineError("FOREIGN_CLIENT_LOG", "a line of the Go client, in a layout that is not read")

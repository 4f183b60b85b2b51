"""What one ``mqadmin`` command printed in; the reader for its layout, out.

The layout is told by the first line that only it has, wherever that stands. Widths are minimums, so rows are split at
white space, which no name holds.

What ``consumerProgress -g`` and ``brokerConsumeStats`` printed in; each queue's offsets, out.

``#Client IP`` stands in 4.1.0 to 4.8.0, and with ``-s`` later; ``#Inflight`` from 5.1.0 on. Names are cut without a
mark (UtilAll#frontStringAtLeast): brokers to 32 characters, topics to 32, from 4.9.3 on to 64; groups are whole. A name
that fills its column is a doubt of its row (``cut_names``). Where two rows of one output name the same queue, a
cut name stands for two, and no row of it is taken: AMBIGUOUS_NAME.
Source: ConsumerProgressSubCommand, BrokerConsumeStatsSubCommad, 4.0.0 to 5.4.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo
from typing import Any, NamedTuple

from hindsight.udfs.formats.answer_parts import master_address, raw_object, slaves_of
from hindsight.udfs.formats.fastjson import ObjectKey
from hindsight.udfs.formats.mqadmin_command import (
    BROKER_MAYBE_CUT,
    TOPIC_MAYBE_CUT,
    Command,
    Question,
    question_of,
    question_of_a_member,
)
from hindsight.udfs.formats.mqadmin_output import (
    SUBSCRIPTIONS,
    Output,
    Reader,
    Rows,
    as_answered,
    capture_row,
    consumer_connection,
    each_line_of,
    failed_read,
    failure_in,
    header_in,
    is_client,
    is_noise,
    must_hold,
    no_subject,
    printed_time,
    producer_connection,
    topic_of,
)
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import Fields, RefusedLineError, java_number, lag_between, text_field

TOPIC, QUEUE, GROUP, BROKER = "#Topic", "#QID", "#Group", "#Broker Name"
_WIDTHS = (32, 64)  # of topics, up to 4.9.2 and from 4.9.3 on
_TPS = "Consume TPS:"
_IS_RATE = re.compile(r"[0-9]{1,12}[.,][0-9]{1,20}(?:E-?[0-9]{1,3})?").fullmatch
_NONE = ("N/A", "NA", "null", "-")
_SUBSCRIPTION_ROW = re.compile(r"\d{3,} +Topic: (\S++) +ClassFilter: \S++ +SubExpression: (.*+)")
_QUEUE_ROW = re.compile(r"(\S++)\s++(\S++)\s++(-?\d{1,10})\s++(?:Pop)?ProcessQueueInfo \[([^\[\]]*+)\]\s*+")
_QUEUE_SECTIONS = {"Consumer MQ Detail": "mqTable", "Consumer Pop Detail": "mqPopTable"}
_LAST_SECTION = "#Consumer RT&TPS#"  # of those that every release writes
_TIMES = ("lastLockTimestamp", "lastPullTimestamp", "lastConsumeTimestamp")
_TIME_DIGITS = 17  # yyyyMMddHHmmssSSS
SAME = ("Same subscription in the same group", "WARN: Different subscription in the same group")
_STATUS_ROW = re.compile(r"0{2,}1 +\S++ +V\d\w*+ +\d{13}/")
_FAILED = re.compile(r"SubComm(?:and|ad) command failed|\A\s*+usage: mqadmin ")
_TABLE = re.compile(r"#[A-Z][\w ]*+ {2,}#[A-Z]|#Consumer [A-Z].*#\s*\Z")


def is_header(text: str) -> bool:
    """Whether a line is the header of a table of offsets."""
    return text.startswith(TOPIC) and QUEUE in text and "#Diff" in text


def progress(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The progress of one group, all brokers together."""
    return _progress(output, refusals, output.command._replace(name="consumerProgress", group=output.group()))


def broker_progress(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The progress of all groups at one broker. A group with no lag at the level asked for has no rows."""
    return _progress(output, refusals, output.command._replace(name="brokerConsumeStats"))


def _progress(output: Output, refusals: dict[int, Refusal], command: Command) -> Rows:
    question = question_of(command)
    at = next(index for index, text in enumerate(output.texts) if is_header(text))
    header = output.texts[at]
    width = header.index("#", 1) - 2  # two blanks stand between columns
    widths = (width,) if width in _WIDTHS else _WIDTHS  # to which a topic may have been cut
    has_client = "#Client IP" in header
    fixed = 6 + has_client + ("#Inflight" in header)  # columns before the time, the group's left out
    is_over = False

    def read(text: str) -> dict[str, Any] | None:
        nonlocal is_over
        words = text.split()
        is_over |= words[0] in ("Consume", "Diff")
        if words[0].startswith("#") or words[0] in ("Consume", "Diff"):
            return None
        if is_over:
            raise RefusedLineError("BAD_ROW", f"a row below the end of its table: {text[:120]!r}")
        is_named = GROUP in header and len(words) > fixed
        group = words.pop(1) if is_named else question.columns.get("consumer_group")
        row = _row_of_progress(words, fixed, widths, output.zone)
        client_ip = words[5] if has_client else None
        return {"consumer_group": group, **row, "client_ip": None if client_ip in _NONE else client_ip}

    rows = each_line_of(output, refusals, "queue_progress", read, header=at)
    _refuse_names_of_two(rows, refusals)
    tps = {"consume_tps": _consume_tps(output.texts)}
    rows = [(index, table, row | tps) for index, table, row in rows]
    return [capture_row(output, refusals, question), *rows]


def _consume_tps(texts: list[str]) -> float | None:
    """The group's rate, from ``Consume TPS: %.2f`` below its queues; in the decimal mark of the JVM's language.

    Early releases print all of its digits.
    """
    told = next((text.removeprefix(_TPS) for text in texts if text.startswith(_TPS)), "").strip()
    return float(told.replace(",", ".")) if _IS_RATE(told) else None


def _row_of_progress(words: list[str], fixed: int, topic_widths: tuple[int, ...], zone: tzinfo) -> dict[str, Any]:
    time = words[fixed:]
    if len(words) < fixed or len(time) > 2:
        raise RefusedLineError("BAD_ROW", f"{len(words)} words, expected {fixed} and a time: {' '.join(words)[:120]!r}")
    broker, consumer = java_number(words[3], 64), java_number(words[4], 64)
    last = " ".join(time)
    java_number(words[fixed - 1], 64)
    topic, broker_name = words[:2]
    doubts = [TOPIC_MAYBE_CUT] * (len(topic) in topic_widths)
    doubts += [BROKER_MAYBE_CUT] * (len(broker_name) == _BROKER_WIDTH)
    return {
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": _queue_id(words[2]),
        "broker_offset": broker,
        "consumer_offset": consumer,
        "lag": lag_between(broker, consumer),
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


def running_info(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """ConsumerRunningInfo#formatString, read back into what it was printed from."""
    properties: dict[str, str] = {}
    subscriptions: list[dict[str, Any]] = []
    tables: dict[str, dict[ObjectKey, dict[str, Any]]] = {"mqTable": {}, "mqPopTable": {}}
    section = ""
    for index, text in enumerate(output.texts):
        if text.startswith("#") and text.rstrip().endswith("#"):
            section = text.strip().strip("#")
        elif section == "Consumer Properties" and ": " in text:
            name, _, told = text.partition(": ")
            properties[name.rstrip()] = told
        elif section == "Consumer Subscription" and (found := _SUBSCRIPTION_ROW.fullmatch(text)):
            subscriptions.append({"topic": found[1], "subString": found[2].strip()})
        elif section in _QUEUE_SECTIONS and not text.startswith("#") and text.strip():
            try:
                queue, process_queue = _queue_row(text, output.zone)
                tables[_QUEUE_SECTIONS[section]][queue] = process_queue
            except RefusedLineError as refused:
                if not is_noise(text):
                    refusals[index] = refused.refusal
    group = text_field(properties, "consumerGroup")
    must_hold(output, _LAST_SECTION)
    client_id = output.command.client_id or output.name.removesuffix(".gz").removesuffix(".txt")
    if not client_id:
        raise no_subject("client")
    raw = {"properties": properties, "subscriptionSet": subscriptions, **tables}
    asked = {"consumer_group": group, "client_id": client_id}
    return as_answered(output, refusals, Question("consumerRunningInfo", f"{group}|{client_id}", asked), raw)


def _queue_row(text: str, zone: tzinfo) -> tuple[ObjectKey, dict[str, Any]]:
    found = _QUEUE_ROW.fullmatch(text)
    if found is None:
        raise RefusedLineError("BAD_ROW", f"no queue and ProcessQueueInfo: {text[:120]!r}")
    topic, broker_name, queue_id, printed = found.groups()
    key = ObjectKey([("brokerName", broker_name), ("queueId", java_number(queue_id, 32)), ("topic", topic)])
    value: dict[str, Any] = {}
    for member in printed.split(", "):
        name, _, told = member.replace(":", "=", 1).partition("=")  # POP's prints colons, and its time as a number
        if name in _TIMES and len(told) == _TIME_DIGITS:
            value[name] = printed_time(f"{told}000", "%Y%m%d%H%M%S%f", zone)
        elif told in ("true", "false"):
            value[name] = told == "true"
        elif told:
            value[name] = java_number(told, 64)
    return key, value


_COLUMNS = (BROKER, QUEUE, "#Min Offset", "#Max Offset")
_BROKER_WIDTH = 32
_PUT_TPS = "Topic Put TPS:"


def is_status(text: str) -> bool:
    """Whether a line is the header of a topic's queues."""
    return text.startswith(BROKER) and all(column in text for column in _COLUMNS)


def topic_status(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The queues of one topic, all brokers together."""
    topic = topic_of(output)
    header = next(index for index, text in enumerate(output.texts) if is_status(text))

    def read(text: str) -> dict[str, Any] | None:
        return None if text.startswith(_PUT_TPS) else {"topic": topic, **_row(text.split(), output)}

    rows = each_line_of(output, refusals, "topic_status", read, header=header)
    return [capture_row(output, refusals, question_of(output.command._replace(name="topicStatus"))), *rows]


def _row(words: list[str], output: Output) -> dict[str, Any]:
    if len(words) not in (4, 6):
        raise RefusedLineError("BAD_ROW", f"{len(words)} words, expected 4 and a time: {' '.join(words)[:120]!r}")
    queue_id, last = _queue_id(words[1]), " ".join(words[4:])
    return {
        "broker_name": words[0],
        "queue_id": queue_id,
        "min_offset": java_number(words[2], 64),
        "max_offset": java_number(words[3], 64),
        "last_update_at": printed_time(last, "%Y-%m-%d %H:%M:%S,%f", output.zone) if last else None,
        "doubts": [BROKER_MAYBE_CUT] if len(words[0]) == _BROKER_WIDTH else None,
    }


_OF_JSON = re.compile(r"\s*+(?:[\"{}\[\]\d,:-]|true\b|false\b|null\b|$)")  # how a line of JSON can begin
_MOST_STARTS = 8
_ROUTE_ROW = re.compile(r"\S++\s++(\S++)\s++\{([^{}]*+)\}\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})\s*+")


def route_list(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The route as a list, a broker a line."""
    topic = topic_of(output)
    must_hold(output, "Total:")

    def read(text: str) -> dict[str, Any] | None:
        if text.startswith(("#", "-", "Total:")):
            return None
        row = _ROUTE_ROW.fullmatch(text)
        if row is None:
            raise RefusedLineError("BAD_ROW", f"no cluster, broker, addresses and counts: {text[:120]!r}")
        addresses = dict(address.partition("=")[::2] for address in row[2].split(", ") if address)
        master = master_address(addresses)
        return {
            "name_server": output.command.name_server,
            "topic": topic,
            "broker_name": row[1],
            "read_queue_nums": int(row[3]),
            "write_queue_nums": int(row[4]),
            "perm": int(row[5]),
            "has_master": master is not None,
            "master_address": master,
            "slaves": slaves_of(addresses),
            "is_static_topic": False,
        }

    rows = each_line_of(output, refusals, "topic_route", read, header=header_in(output, "#ClusterName"))
    return [capture_row(output, refusals, Question("topicRoute", topic, {"topic": topic})), *rows]


def route_json(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The route as JSON; its records belong to the first line of it."""
    first, raw = _object(output)
    if not output.command.name and "queueDatas" not in raw:
        return []
    topic = topic_of(output)
    rows = as_answered(output, refusals, Question("topicRoute", topic, {"topic": topic}), raw)
    server = {"name_server": output.command.name_server}
    return [(first, table, row | server if table == "topic_route" else row) for _, table, row in rows]


def _object(output: Output) -> tuple[int, Fields]:
    """The object, and the line where it begins: not always the first that could be one, as loggers write JSON too."""
    texts = [text if _OF_JSON.match(text) and not is_noise(text) else "" for text in output.texts]
    starts = [index for index, text in enumerate(texts) if text.lstrip().startswith("{")]
    end = max((index for index, text in enumerate(texts) if text.rstrip().endswith("}")), default=len(texts) - 1) + 1
    for start in starts[:_MOST_STARTS]:
        with suppress(RefusedLineError):
            return start, raw_object("\n".join(texts[start:end]))
    return starts[0], raw_object("\n".join(texts[starts[0] : end]))


def _status(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """That the members' running infos were asked for; what they hold is in files of their own."""
    if not output.command.group:
        return []
    failure, question = failure_in(output.texts), question_of_a_member(output.command)
    if failure is not None:
        return failed_read(output, question, failure)
    return [capture_row(output, refusals, question)]


def _of_all_groups(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """``consumerProgress`` without ``-g``: sums over queues, of groups whose names may be cut; nothing is taken."""
    return []


class OutputLayout(NamedTuple):
    """How a command prints, told by a line that only this layout has.

    Attributes:
        command: whose it is; None: of several.
        shows: whether a line is such a line.
        reader: of an output that has the line; None: it shows only where an output begins.
    """

    name: str
    command: str | None
    shows: Callable[[str], bool]
    reader: Reader | None = None


def _begins(*beginnings: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(beginnings)


LAYOUTS = (
    OutputLayout("running info", "consumerStatus", _begins("#Consumer Properties#"), running_info),
    OutputLayout("route list", "topicRoute", _begins("#ClusterName"), route_list),
    OutputLayout(
        "broker progress", "brokerConsumeStats", lambda text: is_header(text) and GROUP in text, broker_progress
    ),
    OutputLayout("progress", "consumerProgress", is_header, progress),
    OutputLayout("topic status", "topicStatus", is_status, topic_status),
    OutputLayout("connection", "consumerConnection", _begins("#ClientId", SUBSCRIPTIONS), consumer_connection),
    OutputLayout("connection", "consumerConnection", lambda text: text.startswith("001 ") and is_client(text)),
    OutputLayout("producers", "producerConnection", lambda text: text.startswith("0001 ") and is_client(text)),
    OutputLayout("status", "consumerStatus", _begins("#Index", *SAME), _status),
    OutputLayout("status", "consumerStatus", lambda text: _STATUS_ROW.match(text) is not None),
    OutputLayout(
        "all groups", "consumerProgress", lambda text: text.startswith(GROUP) and "#Diff Total" in text, _of_all_groups
    ),
    OutputLayout(
        "route", "topicRoute", lambda text: text.strip() == "{" or (text.startswith("{") and "rokerDatas" in text)
    ),
    OutputLayout("failure", None, lambda text: _FAILED.search(text) is not None),
    OutputLayout("other", None, lambda text: _TABLE.match(text) is not None),
)
_READ = [layout for layout in LAYOUTS if layout.reader is not None]


def reader_of(texts: list[str], command: Command) -> Reader | None:
    """The reader for what the lines show; None: they show no layout that is known."""
    found = next((layout.reader for text in texts for layout in _READ if layout.shows(text)), None)
    if found is not None:
        return found
    if command.name in ("", "topicRoute") and any(text.lstrip().startswith("{") for text in texts):
        return route_json
    is_listing = command.name in ("", "producerConnection") and any(is_client(text) for text in texts)
    return producer_connection if is_listing else None

"""RocketMQ's own limits: a row in, a sentence out where it breaks one. ``door`` applies them to parsed lines.

A rule looks at the columns it names, in whatever table they stand. ``RULES`` holds them with their default severities.
Source: Validators, TopicValidator, MixAll, MessageStoreConfig; limits by release as said at each rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from hindsight.udfs.logs.secret_ids import is_masked
from hindsight.udfs.values.message_queues import LIGHT_PREFIX

Severity = Literal["quarantine", "flag", "ignore"]
SEVERITIES: tuple[Severity, ...] = ("quarantine", "flag", "ignore")

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch  # Validators: regular expression or bit map, one language
_POP_RETRY = re.compile(r"%RETRY%[%|a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+").fullmatch  # 5.2.0 on: group+topic
_LIGHT = re.compile(r"%LMQ%[!-~]+").fullmatch  # RocketMQ asks no check of such a name
_OWN_PREFIXES = ("%RETRY%", "%DLQ%")
_UNCHECKED = (*_OWN_PREFIXES, LIGHT_PREFIX)
_TOPIC_UNITS = 127  # 4.6.1 on, 255 before; own topics of a group may be longer: the client does not check them
_TOPIC_UNITS_BEFORE_4_6_1 = 255
_GROUP_UNITS = 255  # 120 on the development branch
# No release bounds other names, nor the topics of a group's own. Hosts, process ids, instance names and message ids
# take some hundred characters; what is far longer only fills keys, joins and memory.
LONGEST_NAME = 4_096
_MAX_BODY = 4 << 20  # maxMessageSize, bytes
# Brokers check nothing above 0. A thousand brokers with 64 queues each are no more; each id is a row in memory later.
MOST_QUEUES = 65_536
_MAX_CLOCK_STEP_MS = 60_000
_LONGEST_MS = 3_600_000  # of a send
_DELAY_LEVELS = 18
_ANY = (1 << 63) - 1  # no number that is stored is more
# Clients refuse to send to these: 4.7.1-4.9.3 the first alone, 4.9.4 and 5.0.0 on all, of RocksDB from 5.4.0 on.
FORBIDDEN_SEND_TOPICS = frozenset(
    (
        *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        *("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
        *("SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
    )
)
Row = Mapping[str, Any]


class Rule(NamedTuple):
    """``check`` gives a sentence where a row breaks the rule, else None; ``tables``: where it applies, empty: all.

    It looks at ``columns``, where none of them is null, and at ``optional`` ones, null or not. ``span``: the least and
    the most that its one column may be, where that is all it asks.
    """

    code: str
    check: Callable[[Row], str | None]
    severity: Severity
    columns: tuple[str, ...]
    tables: frozenset[str] = frozenset()
    optional: tuple[str, ...] = ()
    span: tuple[int, int] | None = None


def _units(text: str) -> int:
    """Length as Java counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def _topic_charset(row: Row) -> str | None:
    topic = row["topic"]
    if _LEGAL(topic) or _POP_RETRY(topic) or _LIGHT(topic):
        return None
    return f"topic {topic!r:.80} holds characters other than %|a-zA-Z0-9_-"


def _group_charset(row: Row) -> str | None:
    for column in _GROUPS:
        group = row.get(column)
        if group and not _LEGAL(group):
            return f"{column} {group!r:.80} holds characters other than %|a-zA-Z0-9_-"
    return None


def _topic_too_long(row: Row) -> str | None:
    limit = LONGEST_NAME if row["topic"].startswith(_UNCHECKED) else _TOPIC_UNITS_BEFORE_4_6_1
    units = _units(row["topic"])
    return f"a topic of {units} UTF-16 units, more than {limit}" if units > limit else None


def _topic_long(row: Row) -> str | None:
    units = _units(row["topic"])
    if units <= _TOPIC_UNITS or row["topic"].startswith(_UNCHECKED):
        return None
    return f"a topic of {units} UTF-16 units, 4.6.1 and later allow {_TOPIC_UNITS}"


def _group_too_long(row: Row) -> str | None:
    for column in _GROUPS:
        units = _units(row.get(column) or "")
        if units > _GROUP_UNITS:
            return f"a {column} of {units} UTF-16 units, more than {_GROUP_UNITS}"
    return None


def _name_too_long(row: Row) -> str | None:
    for column in OTHER_NAMES:
        name = row.get(column)
        if type(name) is str and len(name) > LONGEST_NAME:  # client_version is a number in some tables
            return f"a {column} of {len(name)} characters, more than {LONGEST_NAME}: {name[:40]!r}..."
    return None


def _own_topic_without_group(row: Row) -> str | None:
    return f"topic {row['topic']!r} names no group" if row["topic"] in _OWN_PREFIXES else None


def _sent_to_own_topic(row: Row) -> str | None:
    found = row["topic"].startswith(_OWN_PREFIXES)
    return f"a producer sent to {row['topic']!r:.80}, which brokers write to" if found else None


def _forbidden_topic(row: Row) -> str | None:
    found = row["topic"] in FORBIDDEN_SEND_TOPICS
    return f"a send to {row['topic']!r}, which clients refuse since 4.9.4 and 5.0.0" if found else None


def _default_producer_group(row: Row) -> str | None:
    found = row["producer_group"] == "DEFAULT_PRODUCER"
    return "producer group DEFAULT_PRODUCER, with which no client starts" if found else None


def _latency_differs(row: Row) -> str | None:
    between = row["end_at"] - row["begin_at"]
    return None if row["latency_ms"] == between else f"latency {row['latency_ms']} ms, but {between} ms passed"


def _lag(row: Row) -> str | None:
    found = row["lag"] < 0
    return f"the group's offset is {-row['lag']} beyond the broker's" if found else None


def _offset(row: Row) -> str | None:
    broker, consumer = row["broker_offset"], row["consumer_offset"]
    return f"offsets {broker} and {consumer}" if broker < 0 or consumer < -1 else None


def _used_after_capture(row: Row) -> str | None:
    for column in ("last_pull_at", "last_consume_at", "last_lock_at", "last_timestamp", "last_pop_at"):
        at = row.get(column)
        if at is not None and at - row["captured_at"] > _MAX_CLOCK_STEP_MS:
            return f"{column} is {at - row['captured_at']} ms after the capture"
    return None


def _queue_counts(row: Row) -> str | None:
    read, write, perm = row["read_queue_nums"], row["write_queue_nums"], row["perm"]
    if min(read, write) < 0 or max(read, write) > MOST_QUEUES or not 0 <= perm <= 15:
        return f"{read} queues to read, {write} to write (allowed are 0 to {MOST_QUEUES}), permission {perm} (0 to 15)"
    return None


def _secret_in_id(row: Row) -> str | None:
    return "client_id carried an access key and a secret key" if is_masked(row["client_id"]) else None


def _within(code: str, severity: Severity, column: str, least: int, most: int, said: str) -> Rule:
    """A rule about a number of an attempt; ``said``: its sentence, with the number and the ``most``."""

    def check(row: Row) -> str | None:
        return None if least <= row[column] <= most else said.format(row[column], most=most)

    return Rule(code, check, severity, (column,), _SENDS, span=(least, most))


_GROUPS = ("consumer_group", "producer_group", "client_group")
NAMES = ("topic", *_GROUPS)
OTHER_NAMES = (
    *("client_id", "broker_name", "broker_named_as", "broker_address", "last_broker_name", "thread", "msg_id"),
    *("offset_msg_id", "queue_selected_by", "client_version", "collector", "address", "master_address"),
    *("client_host", "client_ip", "language", "consume_type", "message_model", "consume_from_where", "strategy"),
    *("request_id", "trace_msg_id", "transaction_id"),
)
_SENDS = frozenset({"send_attempt"})
_PROGRESS = frozenset({"queue_progress"})
_ROUTES = frozenset({"topic_route"})
_USED = frozenset({"queue_ownership", "queue_progress", "pop_assignment"})

# Order decides which code a refused line carries; rules that look at names alone come first.
RULES: tuple[Rule, ...] = (
    Rule("ILLEGAL_TOPIC", _topic_charset, "quarantine", ("topic",)),
    Rule("ILLEGAL_GROUP", _group_charset, "quarantine", (), optional=_GROUPS),
    Rule("TOPIC_TOO_LONG", _topic_too_long, "quarantine", ("topic",)),
    Rule("GROUP_TOO_LONG", _group_too_long, "quarantine", (), optional=_GROUPS),
    Rule("OWN_TOPIC_WITHOUT_GROUP", _own_topic_without_group, "quarantine", ("topic",)),
    Rule("TOPIC_OVER_127", _topic_long, "flag", ("topic",)),
    Rule("NAME_TOO_LONG", _name_too_long, "quarantine", (), optional=OTHER_NAMES),
    Rule("SECRET_IN_ID", _secret_in_id, "flag", ("client_id",)),
    Rule("FORBIDDEN_TOPIC", _forbidden_topic, "flag", ("topic",), _SENDS),
    Rule("SENT_TO_OWN_TOPIC", _sent_to_own_topic, "flag", ("topic",), _SENDS),
    Rule("DEFAULT_PRODUCER", _default_producer_group, "flag", ("producer_group",), _SENDS),
    Rule("IMPOSSIBLE_OFFSET", _offset, "quarantine", ("broker_offset", "consumer_offset"), _PROGRESS),
    Rule("IMPOSSIBLE_QUEUES", _queue_counts, "quarantine", ("read_queue_nums", "write_queue_nums", "perm"), _ROUTES),
    _within("DELAY_LEVEL", "quarantine", "delay_level", 0, _DELAY_LEVELS, "delay level {}, known are 1 to {most}"),
    _within("BODY_LENGTH", "flag", "body_length", 1, _MAX_BODY, "a body of {} bytes, allowed are 1 to {most}"),
    _within("NEGATIVE_LATENCY", "flag", "latency_ms", 0, _ANY, "latency {} ms: the clock stepped back"),
    _within("EXTREME_LATENCY", "flag", "latency_ms", -_ANY, _LONGEST_MS, "latency {} ms: the process stood still"),
    Rule("LATENCY_DIFFERS", _latency_differs, "flag", ("latency_ms", "begin_at", "end_at"), _SENDS),
    Rule("NEGATIVE_LAG", _lag, "flag", ("lag",), _PROGRESS),
    Rule("USED_AFTER_CAPTURE", _used_after_capture, "flag", ("captured_at",), _USED),
)

"""What one ``mqadmin`` command printed in, rows out: one reader per layout of 4.x and 5.x.

Widths are minimums, so rows are split at white space, which no name holds. Times that mqadmin printed are in the zone
of its JVM. Source: ConsumerConnectionSubCommand, ConsumerProgressSubCommand, TopicRouteSubCommand, 4.0.0 to 5.3.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import Any

from udfs.admin_answers import master_address, raw_object
from udfs.bounded_lines import Refusal
from udfs.mqadmin_output import (
    Output,
    Rows,
    as_answered,
    capture_row,
    each_line_of,
    no_subject,
    place,
    printed_time,
)
from udfs.mqadmin_running_info import running_info
from udfs.parsed_line import (
    RefusedLineError,
    java_number,
    lag_between,
)

_RELEASE = re.compile(r"V([45])_(\d)_(\d)(_SNAPSHOT)?")
_INDEX = re.compile(r"\d{3,4}")
_ROUTE_ROW = re.compile(r"\S++\s++(\S++)\s++\{([^{}]*+)\}\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})\s*+")

Reader = Callable[[Output, dict[int, Refusal]], Rows]


def reader_of(texts: list[str]) -> Reader | None:
    """The reader for what the first lines show."""
    for text in texts[:20]:
        words = text.split()
        if not words:
            continue
        if words[0] == "#Consumer" and text.startswith("#Consumer Properties#"):
            return running_info
        if words[0] == "#ClusterName":
            return _route_list
        if words[0] == "#Topic" and "#QID" in words and "#Diff" in words:
            return _progress
        if words[0] == "#ClientId":
            return _connection
        if words[0][0] == "{":
            return _route_json
        break
    # Through 4.9.2 connections come without a header.
    return _connection if any(text.startswith("Below is subscription") for text in texts) else None


def _connection(output: Output, refusals: dict[int, Refusal]) -> Rows:
    group = output.group()
    said = dict(text.strip().partition(": ")[::2] for text in output.texts if ": " in text)
    of_group = {
        "consume_type": said.get("ConsumeType") or None,
        "message_model": said.get("MessageModel") or None,
    }
    subscriptions: list[dict[str, Any]] = []
    is_subscription = False

    def read(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        nonlocal is_subscription
        words = text.split()
        if text.startswith("Below is subscription"):
            is_subscription = True
        elif not words or words[0].startswith("#") or words[0].rstrip(":") in _TRAILERS:
            return
        elif is_subscription:
            subscriptions.append(_printed_subscription(text, words))
        else:
            yield (
                "consumer_heartbeat",
                {
                    **place(output),
                    **of_group,
                    "consumer_group": group,
                    "consume_from_where": said.get("ConsumeFromWhere") or None,
                    **_member(words),
                },
            )

    rows = each_line_of(output, refusals, read)
    capture = of_group | {"consumer_group": group, "subscriptions": subscriptions}
    return [capture_row(output, "consumerConnection", group, **capture), *rows]


_TRAILERS = frozenset({"ConsumeType", "MessageModel", "ConsumeFromWhere"})


def _member(words: list[str]) -> dict[str, Any]:
    """``[index] clientId address language version``: the last three tell where the id ends."""
    if len(words) < 4 or ":" not in words[-3]:
        raise RefusedLineError("BAD_ROW", f"{' '.join(words)[:120]!r} is no client id, address, language and version")
    client = words[1:-3] if len(words) > 4 and _INDEX.fullmatch(words[0]) else words[:-3]
    return {
        "client_id": " ".join(client),
        "address": words[-3],
        "language": words[-2],
        "client_version": version_ordinal(words[-1]),
    }


def version_ordinal(name: str) -> int | None:
    """The MQVersion ordinal of ``V4_9_8``, 409; None for a name that is not of 4.x or 5.x.

    From 4.0.0 (213) on each minor release takes 20 and each patch 2, a snapshot comes one before its release.
    """
    release = _RELEASE.fullmatch(name)
    if release is None:
        return None
    major, minor, patch = (int(part) for part in release.groups()[:3])
    return 213 + 200 * (major - 4) + 20 * minor + 2 * patch - (release[4] is not None)


def _printed_subscription(text: str, words: list[str]) -> dict[str, Any]:
    if words[1:2] == ["Topic:"]:  # through 4.9.2
        topic, expression = words[2], text.partition("SubExpression: ")[2].strip()
    else:
        topic, expression = words[0], text.strip()[len(words[0]) :].strip()
    return {"topic": topic, "expression_type": None, "sub_string": expression or None, "tags": []}


def _progress(output: Output, refusals: dict[int, Refusal]) -> Rows:
    group = output.group()
    header = next(text for text in output.texts if text.startswith("#Topic"))
    has_client, has_inflight = "#Client IP" in header, "#Inflight" in header

    def read(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        words = text.split()
        if not words or words[0].startswith("#") or words[0] in ("Consume", "Diff"):
            return
        yield (
            "queue_progress",
            {
                **place(output),
                "consumer_group": group,
                **_progress_row(words, has_client, has_inflight, output.zone),
            },
        )

    return [capture_row(output, "consumeStats", group, consumer_group=group), *each_line_of(output, refusals, read)]


def _progress_row(words: list[str], has_client: bool, has_inflight: bool, zone: tzinfo) -> dict[str, Any]:
    fixed = 6 + has_client + has_inflight
    time = words[fixed:]
    if len(time) not in (1, 2):
        raise RefusedLineError("BAD_ROW", f"{len(words)} words, expected {fixed} and a time: {' '.join(words)[:120]!r}")
    broker, consumer = java_number(words[3], 64), java_number(words[4], 64)
    client_ip = words[5] if has_client else None
    return {
        "topic": words[0],
        "broker_name": words[1],
        "queue_id": _queue_id(words[2]),
        "broker_offset": broker,
        "consumer_offset": consumer,
        "lag": lag_between(broker, consumer),
        "client_ip": None if client_ip == "N/A" else client_ip,
        "last_timestamp": None if time == ["N/A"] else printed_time(" ".join(time), "%Y-%m-%d %H:%M:%S", zone),
    }


def _queue_id(text: str) -> int:
    value = java_number(text, 32)
    if value < 0:
        raise RefusedLineError("NEGATIVE_QUEUE_ID", f"the queue id is {value}; queue ids begin at 0")
    return value


def _route_list(output: Output, refusals: dict[int, Refusal]) -> Rows:
    topic = output.subject
    if not topic:
        raise no_subject("topic")

    def read(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if not text.strip() or text.startswith(("#", "-", "Total:")):
            return
        row = _ROUTE_ROW.fullmatch(text)
        if row is None:
            raise RefusedLineError("BAD_ROW", f"no cluster, broker, addresses and counts: {text[:120]!r}")
        master = master_address(dict(address.partition("=")[::2] for address in row[2].split(", ")))
        yield (
            "topic_route",
            {
                **place(output),
                "topic": topic,
                "broker_name": row[1],
                "read_queue_nums": int(row[3]),
                "write_queue_nums": int(row[4]),
                "perm": int(row[5]),
                "has_master": master is not None,
                "master_address": master,
                "is_static_topic": False,
            },
        )

    return [capture_row(output, "topicRoute", topic, topic=topic), *each_line_of(output, refusals, read)]


def _route_json(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The route as JSON over several lines; its records belong to the first of them."""
    raw = raw_object("\n".join(output.texts))
    if "queueDatas" not in raw:
        return []
    topic = output.subject
    if not topic:
        raise no_subject("topic")
    return as_answered(output, "topicRoute", topic, raw, {"topic": topic})

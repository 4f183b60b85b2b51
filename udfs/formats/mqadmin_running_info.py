"""A running info that ``mqadmin consumerStatus`` wrote in, rows out.

``-g`` writes a file for each member, named by its client id, into a folder named by epoch ms; ``-g`` with ``-i``
prints it. No name in it is cut. Source: ConsumerRunningInfo#formatString, 4.0.0 to 5.4.0.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any

from hindsight.udfs.formats.fastjson import ObjectKey
from hindsight.udfs.formats.mqadmin_command import Question
from hindsight.udfs.formats.mqadmin_failures import is_noise
from hindsight.udfs.formats.mqadmin_output import Output, Rows, as_answered, must_hold, no_subject, printed_time
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import RefusedLineError, java_number, text_field

_SUBSCRIPTION_ROW = re.compile(r"\d{3,} +Topic: (\S++) +ClassFilter: \S++ +SubExpression: (.*+)")
_QUEUE_ROW = re.compile(r"(\S++)\s++(\S++)\s++(-?\d{1,10})\s++(?:Pop)?ProcessQueueInfo \[([^\[\]]*+)\]\s*+")
_QUEUE_SECTIONS = {"Consumer MQ Detail": "mqTable", "Consumer Pop Detail": "mqPopTable"}
_LAST_SECTION = "#Consumer RT&TPS#"  # of those that every release writes
_TIMES = ("lastLockTimestamp", "lastPullTimestamp", "lastConsumeTimestamp")
_TIME_DIGITS = 17  # yyyyMMddHHmmssSSS


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

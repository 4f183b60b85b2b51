"""What ``consumerConnection`` and ``producerConnection`` printed in; who is connected, and what they subscribe to, out.

4.0.0 to 4.9.2 and 5.0.0-PREVIEW number the lines and have no header; they end ``Below is subscription:`` without a line
end, so that the first subscription stands in the same line. 4.9.3 and 5.0.0 on have headers and line ends. Producers
are numbered, without a header, in every release. Source: ConsumerConnectionSubCommand, ProducerConnectionSubCommand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hindsight.udfs.formats.mqadmin_command import question_of
from hindsight.udfs.formats.mqadmin_output import (
    Output,
    Row,
    Rows,
    capture_row,
    each_line_of,
    header_in,
    is_noise,
    must_hold,
    place,
)
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import RefusedLineError

SUBSCRIPTIONS = "Below is subscription:"

_RELEASE = re.compile(r"V([45])_(\d)_(\d)(_SNAPSHOT)?")
_INDEX = re.compile(r"\d{3,4}")
_ADDRESS = re.compile(r"\S*:\d{1,5}")
_LANGUAGE = re.compile(r"[A-Z_]{1,20}")
_VERSION = re.compile(r"[A-Z][A-Z0-9_]{1,40}")
_TRAILERS = ("ConsumeType", "MessageModel", "ConsumeFromWhere")
_OLD_SUBSCRIPTION = re.compile(r"\s*+\d{3,} +Topic: (\S++) +SubExpression:(.*+)")
_TOPIC = re.compile(r"([%|a-zA-Z0-9_+-]++) ++(\S.*+)")
_EXPRESSION = "#SubExpression"
_SQUEEZED = len("#Topic ")  # where the header's second column begins once white space was squeezed


def consumer_connection(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The group's members and, of whichever sent the last heartbeat, its subscriptions."""
    group = output.group()
    must_hold(output, _TRAILERS[0])
    said = {name: told.strip() for name, _, told in (text.partition(": ") for text in output.texts)}
    of_group = {"consume_type": said.get("ConsumeType") or None, "message_model": said.get("MessageModel") or None}
    column = next((text.index(_EXPRESSION) for text in output.texts if _EXPRESSION in text), None)
    subscriptions: list[dict[str, Any]] = []
    below = False

    def read(text: str) -> Iterator[Row]:
        nonlocal below
        if text.startswith(SUBSCRIPTIONS):
            below, text = True, text.removeprefix(SUBSCRIPTIONS)
        if not text.strip() or text.startswith("#") or text.partition(":")[0] in _TRAILERS:
            return
        if below:
            subscriptions.append(_subscription(text, column))
            return
        of_member = {"consumer_group": group, "consume_from_where": said.get("ConsumeFromWhere") or None}
        of_broker = {"broker_name": output.command.broker}
        yield "consumer_heartbeat", {**place(output), **of_broker, **of_group, **of_member, **_client(text)}

    rows = each_line_of(output, refusals, read, header=header_in(output, "#ClientId"))
    capture = of_group | {"consumer_group": group, "subscriptions": subscriptions}
    return [capture_row(output, refusals, "consumerConnection", group, **capture), *rows]


def producer_connection(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The producers of a group that the broker asked has."""
    question = question_of(output.command)

    def read(text: str) -> Iterator[Row]:
        if text.strip():
            yield "producer_connection", {**place(output), **question.columns, **_client(text)}

    rows = each_line_of(output, refusals, read)
    return [capture_row(output, refusals, question.kind, question.subject, **question.columns), *rows]


def is_client(text: str) -> bool:
    """Whether a line lists a connection."""
    words = text.split()
    return (
        len(words) > 3
        and _ADDRESS.fullmatch(words[-3]) is not None
        and _LANGUAGE.fullmatch(words[-2]) is not None
        and _VERSION.fullmatch(words[-1]) is not None
    )


def _client(text: str) -> dict[str, Any]:
    """``[index] clientId address language version``: the last three tell where the id ends."""
    words = text.split()
    if not is_client(text):
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


def _subscription(text: str, column: int | None) -> dict[str, Any]:
    """A topic and its expression; ``column``: where expressions begin below a header, None without one."""
    if column is None:
        found = _OLD_SUBSCRIPTION.fullmatch(text.rstrip())
        is_printed = found is not None
    else:
        found = None if is_noise(text) else _TOPIC.fullmatch(text)
        # In its column, or one blank behind a longer topic: what stands elsewhere was printed by another program.
        least = column if column > _SQUEEZED else 0
        is_printed = found is not None and found.start(2) == max(least, len(found[1]) + 1)
    if found is None or not is_printed:
        raise RefusedLineError("BAD_ROW", f"{text[:120]!r} is no topic and expression")
    return {"topic": found[1], "expression_type": None, "sub_string": found[2].strip() or None, "tags": []}

"""What ``topicRoute`` printed in; the brokers of a topic, out.

JSON over several lines in every release, a list with ``-l`` from 4.9.0 on. Source: TopicRouteSubCommand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from hindsight.udfs.formats.mqadmin_command import Question
from hindsight.udfs.formats.mqadmin_failures import is_noise
from hindsight.udfs.formats.mqadmin_output import (
    Output,
    Row,
    Rows,
    as_answered,
    capture_row,
    each_line_of,
    header_in,
    must_hold,
    place,
    topic_of,
)
from hindsight.udfs.formats.raw_answers import raw_object
from hindsight.udfs.formats.route_answers import master_address, slaves_of
from hindsight.udfs.lines.bounded_lines import Refusal
from hindsight.udfs.lines.parsed_line import Fields, RefusedLineError

_OF_JSON = re.compile(r"\s*+(?:[\"{}\[\]\d,:-]|true\b|false\b|null\b|$)")  # how a line of JSON can begin
_MOST_STARTS = 8
_ROUTE_ROW = re.compile(r"\S++\s++(\S++)\s++\{([^{}]*+)\}\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})\s*+")


def route_list(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """The route as a list, a broker a line."""
    topic = topic_of(output)
    must_hold(output, "Total:")

    def read(text: str) -> Iterator[Row]:
        if not text.strip() or text.startswith(("#", "-", "Total:")):
            return
        row = _ROUTE_ROW.fullmatch(text)
        if row is None:
            raise RefusedLineError("BAD_ROW", f"no cluster, broker, addresses and counts: {text[:120]!r}")
        addresses = dict(address.partition("=")[::2] for address in row[2].split(", ") if address)
        master = master_address(addresses)
        yield (
            "topic_route",
            {
                **place(output),
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
            },
        )

    rows = each_line_of(output, refusals, read, header=header_in(output, "#ClusterName"))
    return [capture_row(output, refusals, "topicRoute", topic, topic=topic), *rows]


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

"""What one ``mqadmin`` command printed in; the reader for its layout, out.

The layout is told by the first line that only it has, wherever that stands. Widths are minimums, so rows are split at
white space, which no name holds.
"""

from __future__ import annotations

from collections.abc import Callable

from hindsight.udfs.formats.mqadmin_command import Command, question_of_a_member
from hindsight.udfs.formats.mqadmin_connections import (
    SUBSCRIPTIONS,
    consumer_connection,
    is_client,
    producer_connection,
)
from hindsight.udfs.formats.mqadmin_failures import failure_in
from hindsight.udfs.formats.mqadmin_output import Output, Reader, Rows, capture_row, failed_read
from hindsight.udfs.formats.mqadmin_progress import GROUP, broker_progress, is_header, progress
from hindsight.udfs.formats.mqadmin_routes import route_json, route_list
from hindsight.udfs.formats.mqadmin_running_info import running_info
from hindsight.udfs.formats.mqadmin_topic_status import is_status, topic_status
from hindsight.udfs.lines.bounded_lines import Refusal


def reader_of(texts: list[str], command: Command) -> Reader | None:
    """The reader for what the lines show; None: they show no layout that is known."""
    found = next((reader for text in texts for is_so, reader in _LAYOUTS if is_so(text)), None)
    if found is not None:
        return found
    if command.name in ("", "topicRoute") and any(text.lstrip().startswith("{") for text in texts):
        return route_json
    is_listing = command.name in ("", "producerConnection") and any(is_client(text) for text in texts)
    return producer_connection if is_listing else None


def _status(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """That the members' running infos were asked for; what they hold is in files of their own."""
    if not output.command.group:
        return []
    failure, question = failure_in(output.texts), question_of_a_member(output.command)
    if failure is not None:
        return failed_read(output, question, failure)
    return [capture_row(output, refusals, question.kind, question.subject, **question.columns)]


def _of_all_groups(output: Output, refusals: dict[int, Refusal]) -> Rows:
    """``consumerProgress`` without ``-g``: sums over queues, of groups whose names may be cut; nothing is taken."""
    return []


def _begins(*beginnings: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(beginnings)


_LAYOUTS: tuple[tuple[Callable[[str], bool], Reader], ...] = (
    (_begins("#Consumer Properties#"), running_info),
    (_begins("#ClusterName"), route_list),
    (lambda text: is_header(text) and GROUP in text, broker_progress),
    (is_header, progress),
    (is_status, topic_status),
    (_begins("#ClientId", SUBSCRIPTIONS), consumer_connection),
    (_begins("#Index"), _status),
    (_begins("Same subscription in the same group", "WARN: Different subscription in the same group"), _status),
    (lambda text: text.startswith(GROUP) and "#Diff Total" in text, _of_all_groups),
)

"""What was read of an answer that is refused in, the trace that it was asked for in vain out.

Without one a refused answer would look as if nobody had asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from hindsight.udfs.lines.parsed_line import Record

NOT_ASKED = "notAsked"  # the kind of a capture that tells what a collector had no time to ask of a server
# Before the reason code, in the ``error`` of a capture whose answer could not be read.
UNREADABLE = "answer not readable: "
_CAPTURE = "snapshot_capture"
_ASKED = (
    "collector",
    "captured_at",
    "captured_end_at",
    "kind",
    "subject",
    "broker_name",
    "name_server",
    "consumer_group",
    "client_id",
    "producer_group",
    "topic",
)


def asked_in_vain(records: Iterable[Record], code: str) -> tuple[Record, ...]:
    """The captures among a refused line's records, as reads without an answer; ``code``: why it was refused."""
    unread = {"answered": False, "error": f"{UNREADABLE}{code}"}
    return tuple(
        Record(table, {name: row[name] for name in _ASKED if name in row} | unread)
        for table, row in records
        if table == _CAPTURE
    )

"""Lines of clients' logs that tell of a group's queues: what each holds, and which kinds there are."""

from __future__ import annotations

from typing import NamedTuple

RESULT = "rebalance_result"
SWALLOWED = ("rebalance_failed", "allocation_failed", "member_list_failed", "queue_add_failed")
NOTICE, REFUSED, GRANTED, EXPIRY = "members_changed", "lock_failed", "lock_acquired", "queue_pull_expired"
HEARD = (*SWALLOWED, NOTICE, REFUSED, GRANTED, EXPIRY)


class Line(NamedTuple):
    """A line of a client's log. ``kind`` RESULT: its new queues of a topic, with the numbers it shared by."""

    at: int
    file: str
    number: int
    kind: str
    folder: str
    client_id: str | None = None
    topic: str | None = None
    queues: frozenset[tuple[str, int]] = frozenset()
    queue_count: int | None = None
    member_count: int | None = None
    exception: str | None = None
    error: str | None = None
    names_group: bool = True

"""One group's request in, each client's queues out: the allocation strategies of Go's and C++'s clients.

Each goes by Java's name for it. None is Go's nil: the client then drops all queues of the topic. Where a Go client
would panic, AllocationError carries the panic's text.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache

from hindsight.udfs.strategies.allocation_strategies import (
    AllocationError,
    AllocationRequest,
    Answer,
    Strategy,
    average_share,
    circle_share,
    configured,
)
from hindsight.udfs.strategies.consistent_hash import hash_or_given
from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string


def _for_members(share: Callable[[AllocationRequest, str], list[MessageQueue]]) -> Strategy:
    """A strategy of Go's: nil for an empty id, an empty list and an id that the list leaves out; else the share."""

    def strategy(request: AllocationRequest) -> Answer:
        def answer(cid: str) -> list[MessageQueue] | None:
            if not cid or not request.mq_all or cid not in request.first_places:
                return None
            return share(request, cid)

        return answer

    return strategy


def _machine_room(request: AllocationRequest, member: str) -> list[MessageQueue]:
    """Counts the queues of the rooms named, takes them from the whole list: a bug that Java's has had through 4.7.1.

    A room that is named twice counts twice. A broker's name is split at each ``@``, empty parts at the end too:
    ``r1@`` stands in room ``r1``, ``a@b@`` nowhere; Java has it the other way round.
    """
    rooms = Counter[str | None](request.machine_rooms or ())
    counted = [mq for mq in request.mq_all for _ in range(rooms[_room(mq)])]
    place = request.first_places[member]
    size, one_more = divmod(len(counted), len(request.cid_all))
    start, end = place * size, (place + 1) * size
    if size and end > len(request.mq_all):
        first_beyond = max(start, len(request.mq_all))
        raise AllocationError(
            "panic", f"runtime error: index out of range [{first_beyond}] with length {len(request.mq_all)}"
        )
    extra = [counted[size * len(request.cid_all) + place]] if place < one_more else []
    return [*request.mq_all[start:end], *extra]


def _room(mq: MessageQueue) -> str | None:
    parts = mq.broker_name.split("@")
    return parts[0] if len(parts) == 2 else None


def _consistent_hash(request: AllocationRequest) -> Answer:
    """A ring of CRC-32 sums: id c holds the points of ``0c``, ``1c`` ...; a queue goes to the first beyond its own.

    Of two ids on one point the later one holds it; a repeated id changes nothing. A count below 0 gives nobody
    anything; with 0 the client panics.
    """

    @cache
    def queues_by_client() -> Mapping[str | None, list[MessageQueue]]:
        hash_of = hash_or_given("CRC-32", _crc32)
        holders = {
            hash_of(f"{replica}{cid}"): cid for cid in request.cid_all for replica in range(request.virtual_node_count)
        }
        points = sorted(holders)
        queues: defaultdict[str | None, list[MessageQueue]] = defaultdict(list)
        for mq in request.mq_all if points else ():
            queues[holders[points[bisect_right(points, hash_of(java_to_string(mq))) % len(points)]]].append(mq)
        return queues

    def share(_request: AllocationRequest, member: str) -> list[MessageQueue]:
        if request.virtual_node_count == 0:
            raise AllocationError("panic", "runtime error: integer divide by zero")
        return list(queues_by_client().get(member, ()))

    return _for_members(share)(request)


def _crc32(text: str) -> int:
    return zlib.crc32(utf8_key(text))


def _alphas_average(request: AllocationRequest) -> Answer:
    """AVG of 2.0.0-alpha1 and -alpha2: whoever would get nothing for want of queues panics."""

    def answer(cid: str) -> list[MessageQueue] | None:
        if cid not in request.first_places or not cid:
            return None
        place, queues = request.first_places[cid], len(request.mq_all)
        start = place + (queues if queues < len(request.cid_all) and place >= queues else 0)
        if queues < len(request.cid_all) and start > queues:
            raise AllocationError("panic", "runtime error: makeslice: len out of range")
        return average_share(request, cid)

    return answer


def _cpp_average(request: AllocationRequest) -> Answer:
    """AVG of C++: Java's, with refusals worded otherwise."""

    def answer(cid: str) -> list[MessageQueue] | None:
        for name, given in (("currentCID", cid), ("mqAll", request.mq_all), ("cidAll", request.cid_all)):
            if not given:
                raise AllocationError("msg", f"{name} is empty")
        return average_share(request, cid) if cid in request.first_places else []

    return answer


_AVERAGE = _for_members(average_share)
_NAMES = ("AVG", "AVG_BY_CIRCLE", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY", "CONSISTENT_HASH")
# By what a family's ``strategies`` says; the server allocates where there are none.
FAMILY_STRATEGIES: Mapping[str, Mapping[str, Strategy]] = {
    "go": {
        "AVG": _AVERAGE,
        "AVG_BY_CIRCLE": _for_members(circle_share),
        "CONFIG": configured,
        "MACHINE_ROOM": _for_members(_machine_room),
        "MACHINE_ROOM_NEARBY": _AVERAGE,  # its own source says that rooms are still left out
        "CONSISTENT_HASH": _consistent_hash,
    },
    "all_average": dict.fromkeys(_NAMES, _alphas_average),
    "average": {"AVG": _cpp_average},
    "none": {},
}

"""One group's request in, each client's queues out: the allocation strategies of Go's and C++'s clients.

Each goes by Java's name for it. None is Go's nil: the client then drops all queues of the topic. Where a Go client
would panic, AllocationError carries the panic's text.

One group's request in, each client's queues out: CONSISTENT_HASH, a ring of client ids that queues fall onto.
"""

from __future__ import annotations

import hashlib
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from hindsight.udfs.strategies.allocation_strategies import (
    AllocationError,
    AllocationRequest,
    Answer,
    Strategy,
    average_share,
    circle_share,
    configured,
    hashes_in_platform_charset,
    is_member,
)
from hindsight.udfs.values.java_strings import java_encoder, utf8_key
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string

HashFunction = Callable[[str], int]
# Name of the hash, the hash itself, and the text that it is asked for: the position.
Positions = Callable[[str, HashFunction, str], int]
F = TypeVar("F", bound=Callable[..., Any])

_given: list[Positions] = []
_kept: list[Callable[[], None]] = []


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


def hash_or_given(name: str, own: HashFunction) -> HashFunction:
    """The hash itself, or what is given in its place."""
    if not _given:
        return own
    positions = _given[-1]
    return lambda text: positions(name, own, text)


@contextmanager
def given_positions(positions: Positions) -> Iterator[None]:
    """Let rings be built by these positions, in this process; answers that were kept are forgotten before and after."""
    _forget()
    _given.append(positions)
    try:
        yield
    finally:
        _given.pop()
        _forget()


def kept_answers(most: int) -> Callable[[F], F]:
    """``lru_cache`` for what may rest on a ring."""

    def keeping(answer: F) -> F:
        kept = lru_cache(maxsize=most)(answer)
        _kept.append(kept.cache_clear)
        return kept  # type: ignore[return-value]

    return keeping


def _forget() -> None:
    for clear in _kept:
        clear()


_TEXTS_KEPT = 65_536


class HashRing(NamedTuple):
    """The occupied points of the ring, ascending, and the client id that holds each."""

    points: list[int]
    holders: list[str]

    def holder_of(self, point: int) -> str | None:
        """The client id at the first occupied point from ``point`` on, around the end; None on an empty ring.

        Source: ConsistentHashRouter#routeNode, same in 4.1.0 to 5.3.3.
        """
        if not self.points:
            return None
        return self.holders[bisect_left(self.points, point) % len(self.points)]


def consistent_hash(request: AllocationRequest) -> Answer:
    """CONSISTENT_HASH: each client id stands on a ring many times; a queue belongs to the next one on the ring.

    When a client leaves, only its own queues move. Shares are uneven, and a client may get nothing::

        T/broker-a/0..7, clients 10.0.0.1@1 10.0.0.2@1 10.0.0.3@1
        virtual_node_count 10    0 4 7      1 6    2 3 5
        virtual_node_count 1     0 1 6 7    3 4    2 5
        virtual_node_count 0     nobody gets anything

    Through 4.9.8 (and in 5.0.0-PREVIEW and -ALPHA) ids are hashed in the JVM's default charset, ``charset``.

    Raises: AllocationError: for virtual_node_count < 0, and for what ``is_member`` refuses; ValueError: for a
    charset that Python does not know, where it matters.
    Source: AllocateMessageQueueConsistentHash#allocate, 4.1.0 to 5.3.3.
    """
    if request.virtual_node_count < 0:
        raise AllocationError("IllegalArgumentException", f"illegal virtualNodeCnt :{request.virtual_node_count}")

    @cache
    def queues_by_client() -> dict[str | None, list[MessageQueue]]:
        charset = request.charset if hashes_in_platform_charset(request.profile) else "UTF-8"
        hash_of = hash_or_given(f"MD5 {charset}", md5_hash(charset))
        ring = hash_ring(request.cid_all, request.virtual_node_count, hash_of)
        queues: defaultdict[str | None, list[MessageQueue]] = defaultdict(list)
        for mq in request.mq_all:
            queues[ring.holder_of(hash_of(java_to_string(mq)))].append(mq)
        return queues

    def answer(cid: str) -> list[MessageQueue] | None:
        return list(queues_by_client().get(cid, ())) if is_member(request, cid) else []

    return answer


def hash_ring(cid_all: Sequence[str], virtual_node_count: int, hash_of: HashFunction) -> HashRing:
    """The ring on which each id of ``cid_all`` holds the points of ``<id>-0``, ``<id>-1`` ... in the order given.

    A repeated id goes on counting where its points on the ring end: its second copy takes ``<id>-v`` to
    ``<id>-(2v-1)``, for v = virtual_node_count >= 0. A point hit twice belongs to the later id, and a copy's count
    leaves out what others took from it.
    Source: ConsistentHashRouter#addNode and #getExistingReplicas, same in 4.1.0 to 5.3.3.
    """
    holder_by_point: dict[int, str] = {}
    points_held: Counter[str] = Counter()
    for cid in cid_all:
        held_before = points_held[cid]
        for replica in range(held_before, held_before + virtual_node_count):
            point = hash_of(f"{cid}-{replica}")
            if point in holder_by_point:
                points_held[holder_by_point[point]] -= 1
            holder_by_point[point] = cid
            points_held[cid] += 1
    points = sorted(holder_by_point)
    return HashRing(points, [holder_by_point[point] for point in points])


@cache
def md5_hash(charset: str) -> HashFunction:
    """The ring's hash: the first four bytes of the MD5 of the text's bytes, as a number in 0 .. 2**32 - 1.

    Example, in UTF-8: ``10.0.0.1@1-0`` hashes to 2998294157.
    Raises: ValueError: for a charset that Python does not know.
    Source: ConsistentHashRouter.MD5Hash#hash, 4.1.0 to 5.3.3.
    """
    encode = java_encoder(charset)

    # Who comes or goes leaves most of a group's ring and all of its queues as they were.
    @lru_cache(maxsize=_TEXTS_KEPT)
    def hash_of(text: str) -> int:
        return int.from_bytes(hashlib.md5(encode(text), usedforsecurity=False).digest()[:4], "big")

    return hash_of

"""One group's request in, each client's queues out: CONSISTENT_HASH, a ring of client ids that queues fall onto."""

import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.strategies.allocation_strategies import (
    AllocationError,
    AllocationRequest,
    Answer,
    is_member,
)
from hindsight.udfs.values.java_strings import java_encoder
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string

HashFunction = Callable[[str], int]
# Name of the hash, the hash itself, and the text that it is asked for: the position.
Positions = Callable[[str, HashFunction, str], int]
F = TypeVar("F", bound=Callable[..., Any])

_given: list[Positions] = []
_kept: list[Callable[[], None]] = []


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
        charset = request.charset if PROFILES[request.profile].hash_charset == "platform" else "UTF-8"
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

"""A message and a list of queues in, the place of the queue that a Go producer's selector takes out."""

from __future__ import annotations

from collections.abc import Sequence

from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue

_UNSIGNED_FROM = frozenset({"G3", "G4", "G5", "G6", "G7"})
_TAKES_LAST_BROKER = frozenset({"G6", "G7"})
_INT32, _UINT32 = 2**31, 2**32


class RoundRobin:
    """The default selector since 2.0.0-rc2: one counter for each topic, counted up before it is used.

    The first send of a topic takes the queue at place 1, or 0 where there is only one. The counter lives as long as
    the selector, whatever becomes of the list.
    Source: producer/selector.go#roundRobinQueueSelector, 2.0.0-rc2 to 2.1.2.
    """

    def __init__(self, profile: str) -> None:
        """``profile``: id of the producer's family; through 2.1.0 the counter is signed."""
        self._signed = profile not in _UNSIGNED_FROM
        self._takes_last_broker = profile in _TAKES_LAST_BROKER
        self._counts: dict[str, int] = {}

    def select(self, topic: str, queues: Sequence[MessageQueue], last_broker_name: str = "") -> int:
        """The place in ``queues``, which is not empty.

        ``last_broker_name``: broker to be left out if any other is left; releases before 2.1.2 are told of none.
        """
        if last_broker_name and self._takes_last_broker:
            for _ in queues:
                place = self._step(topic, len(queues))
                if queues[place].broker_name != last_broker_name:
                    return place
        return self._step(topic, len(queues))

    def _step(self, topic: str, size: int) -> int:
        count = self._counts.get(topic, 0) + 1
        if not self._signed:
            count %= _UINT32
        self._counts[topic] = 0 if count >= _INT32 and self._signed else count
        return count % size


def place_by_hash(sharding_key: str, size: int) -> int:
    """Where a message with this key goes in a list of ``size`` queues; messages without one go anywhere.

    Example: ``order-17`` among 8 queues: 6.
    Source: producer/selector.go#hashQueueSelector, 2.0.0-alpha3 to 2.1.2; FNV-1a in 32 bits.
    """
    sum_ = 2166136261
    for byte in utf8_key(sharding_key):
        sum_ = (sum_ ^ byte) * 16777619 % _UINT32
    return sum_ % size

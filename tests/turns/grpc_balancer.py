"""Isolated endpoints in, the candidates that a Go gRPC producer may send to out: which endpoint it asks next.

Which queue stores the message the proxy decides: nothing here can be held against a recorded queue.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue

_K0, _K1 = 0x0706050403020100, 0x0F0E0D0C0B0A0908
_MASK = 2**64 - 1


class GrpcBalancer:
    """The balancer of one topic; its index lives as long as the route, from 5.1.2 on as long as the producer.

    Source: golang/loadBalancer.go#publishingLoadBalancer, 5.0.0 to 5.1.4 and master.
    """

    def __init__(self, release: str, queues: Sequence[MessageQueue], endpoints: Mapping[str, str]) -> None:
        """``release``: as its tag (``5.1.4``), else master; ``endpoints``: by broker name."""
        self._queues = list(queues)
        self._endpoints = endpoints
        self._walks = not release.startswith("5.")
        self._falls_back = release != "5.0.0"
        self._index = 0

    def take(self, count: int, isolated: Collection[str]) -> list[int]:
        """Places of at most ``count`` candidates on different brokers.

        Through 5.1.4 every step looks at the same queue: there is one candidate, and in 5.0.0 none where its
        endpoint is isolated. Later ones ignore isolation where nothing else is left.
        """
        self._index += 1
        size = len(self._queues)
        steps = range(size) if self._walks else [1]
        places = [(self._index + step) % size for step in steps]
        healthy = [place for place in places if self._endpoint(place) not in isolated]
        return self._one_per_broker(healthy or (places if self._falls_back else []))[:count]

    def of_group(self, message_group: str) -> int:
        """The place of the one candidate of a FIFO message: every retry takes it again."""
        signed = siphash24(utf8_key(message_group))
        return (signed - 2**64 if signed >> 63 else signed) % len(self._queues)

    def _endpoint(self, place: int) -> str | None:
        return self._endpoints.get(self._queues[place].broker_name)

    def _one_per_broker(self, places: Sequence[int]) -> list[int]:
        first: dict[str, int] = {}
        for place in places:
            first.setdefault(self._queues[place].broker_name, place)
        return list(first.values())


def siphash24(text: bytes) -> int:
    """SipHash-2-4 under the key that RocketMQ's gRPC clients share, as an unsigned number of 64 bits.

    Example: ``group-1`` gives 12609611073123188810.
    """
    state = [_K0 ^ 0x736F6D6570736575, _K1 ^ 0x646F72616E646F6D, _K0 ^ 0x6C7967656E657261, _K1 ^ 0x7465646279746573]
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & _MASK
        v[1] = _rotated(v[1], 13) ^ v[0]
        v[0] = _rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & _MASK
        v[3] = _rotated(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & _MASK
        v[3] = _rotated(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & _MASK
        v[1] = _rotated(v[1], 17) ^ v[2]
        v[2] = _rotated(v[2], 32)


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK

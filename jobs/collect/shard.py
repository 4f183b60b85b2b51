"""Which part of a cluster one of several collectors asks for, by names alone: they do not talk to each other."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

_SHARD = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


class Shard(NamedTuple):
    """The ``number``-th of so many ``parts``, from 1 on."""

    number: int = 1
    parts: int = 1

    def has(self, name: str) -> bool:
        """Whether a group or topic of that name lies in this part; the same in every process and release."""
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % self.parts == self.number - 1

    def collector(self, name: str | None) -> str | None:
        """The name of the collector of this part: each is one of its own, whose rounds are judged alone."""
        return name if self.parts == 1 else f"{name or 'collector'}-{self.number}-of-{self.parts}"


def shard_of(text: str) -> Shard:
    """``I/N``. Raises: ValueError: it is none, or I is greater than N."""
    found = _SHARD.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise ValueError(f"{text!r} is not I/N with 1 <= I <= N, such as 2/4")
    return Shard(int(found[1]), int(found[2]))

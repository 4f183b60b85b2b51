"""Positions on CONSISTENT_HASH's ring: those of the old names, taken down under the new ones, and given again later."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hindsight.udfs.bundles.new_names import NewNames
from hindsight.udfs.strategies.consistent_hash import HashFunction
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string

Recorded = Mapping[str, Mapping[str, int]]  # by hash, by text: the position

_QUEUE = re.compile(r"MessageQueue \[topic=(.*), brokerName=(.*), queueId=(-?\d+)\]", re.DOTALL)


class RingRecorder:
    """Gives each new name the position of the old one, and remembers it."""

    def __init__(self, names: NewNames) -> None:
        self._old = {
            kind: {new: old for old, new in names.known(kind).items()} for kind in ("client", "topic", "broker")
        }
        self.positions: dict[str, dict[str, int]] = {}

    def __call__(self, name: str, own: HashFunction, text: str) -> int:
        """The position of the text that stands behind ``text``."""
        told = self.positions.setdefault(name, {})
        if text not in told:
            told[text] = own(self._old_text(text))
        return told[text]

    def _old_text(self, text: str) -> str:
        queue = _QUEUE.fullmatch(text)
        if queue:
            topic, broker = self._old["topic"][queue[1]], self._old["broker"][queue[2]]
            return java_to_string(MessageQueue(topic, broker, int(queue[3])))
        client, dash, replica = text.rpartition("-")
        if client in self._old["client"]:
            return f"{self._old['client'][client]}{dash}{replica}"  # Java counts behind the id
        digits = len(text) - len(text.lstrip("0123456789"))
        cuts = (cut for cut in range(1, digits + 1) if text[cut:] in self._old["client"])
        cut = next(cuts)  # Go counts before it
        return f"{text[:cut]}{self._old['client'][text[cut:]]}"


class GivenRing:
    """Positions as they were taken down; of a text that was not, its own hash."""

    def __init__(self, positions: Recorded) -> None:
        self._positions = positions

    def __call__(self, name: str, own: HashFunction, text: str) -> int:
        """The position of a text."""
        given = self._positions.get(name, {}).get(text)
        return own(text) if given is None else given

"""Queues and what is expected of them in; by queue who should hold it and who takes it, as rounds look it up, out."""

from __future__ import annotations

from collections.abc import Sequence

from hindsight.udfs.consumer.expected_allocation import Expectation
from hindsight.udfs.consumer.round_facts import Queue


class Shares:
    """What is expected of a topic's queues; rounds that expect the same share it.

    Attributes:
        queues: in RocketMQ's order.
        owners: whose each is by the group's rule.
        claimants: who takes it by its own rule.
        takers: all of these.
    """

    def __init__(self, queues: Sequence[Queue], made: Expectation) -> None:
        self.queues = tuple(queues)
        self.owners = dict(zip(self.queues, made.owners, strict=True))
        self.claimants = dict(zip(self.queues, map(frozenset, made.claimants), strict=True))
        self.takers = {queue: self._takers(queue) for queue in self.queues}

    def _takers(self, queue: Queue) -> frozenset[str]:
        owner, claims = self.owners[queue], self.claimants[queue]
        return claims if not owner or owner in claims else claims | {owner}

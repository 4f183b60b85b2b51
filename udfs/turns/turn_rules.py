"""A Go or C++ producer's list and the attempt to come in, the queue whose turn it is out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.values.message_queues import MessageQueue


class Sent(NamedTuple):
    """One attempt.

    Attributes:
        queue: broker and queue id.
        begin_ms, chosen_ms: between them the client chose.
        end_ms: when its result came.
        thread: None: not recorded.
        mode: SYNC, ASYNC or ONEWAY.
        send: id that attempts of one send share, if its client gives one.
        is_retry: another attempt of the same send was before it.
        last_broker_name: that attempt's broker.
        last_queue: that attempt's queue; None: not recorded.
        skips: attempts between the two are not recorded.
        failed: it ended otherwise than SEND_OK.
    """

    queue: tuple[str, int]
    begin_ms: int
    chosen_ms: int
    end_ms: int
    thread: str | None
    mode: str
    send: str = ""
    is_retry: bool = False
    last_broker_name: str | None = None
    last_queue: tuple[str, int] | None = None
    skips: bool = False
    failed: bool = False


class Rule(Protocol):
    """How a family counts; a state is the place whose turn is next."""

    start: int  # of a producer that has not sent

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """The place whose turn it is, and the state behind it; None: it depends on what is not recorded."""

    def follows_send(self, sent: Sent) -> bool:
        """Whether the attempt goes by the one before it in its send, and not by the state."""

    def looks_on(self, sent: Sent) -> bool:
        """Whether the attempt may count more than one queue."""


class GoTurns:
    """One counter for all attempts; source: ``RoundRobin``."""

    start = 1

    def __init__(self, queues: Sequence[MessageQueue], profile: str) -> None:
        """``queues``: not empty."""
        self._brokers = [queue.broker_name for queue in queues]
        self._avoids = CLIENT_FAMILIES[profile].avoids_last

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """A retry passes over queues of the broker that failed, where its release looks at it."""
        size, place = len(self._brokers), state
        if self.looks_on(sent):
            if sent.last_broker_name is None:
                return None, state
            steps = ((state + step) % size for step in range(size))
            place = next((p for p in steps if self._brokers[p] != sent.last_broker_name), state)
        return place, (place + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Never."""
        return False

    def looks_on(self, sent: Sent) -> bool:
        """Where it passes over a broker."""
        return sent.is_retry and sent.mode in self._avoids


class CppTurns:
    """The next send begins where the counter stands; its retries go on from its own queue; source: ``PublishTable``."""

    start = 0

    def __init__(self, queues: Sequence[MessageQueue], _profile: str) -> None:
        """``queues``: not empty."""
        self._queues = [(queue.broker_name, queue.queue_id) for queue in queues]

    def turn(self, state: int, sent: Sent) -> tuple[int | None, int]:
        """A retry takes another broker; where there is none it is used up, and the next takes the queue behind."""
        size = len(self._queues)
        if not sent.is_retry:
            return state, (state + 1) % size
        if sent.last_queue not in self._queues:
            return None, state
        last = self._queues.index(sent.last_queue)
        for looks in range(1, size + 1):
            place = (last + looks) % size
            if self._queues[place][0] != self._queues[last][0]:
                return (None, state) if sent.skips else (place, (state + looks) % size)
        return (last + 2) % size, (state + 1) % size

    def follows_send(self, sent: Sent) -> bool:
        """Every retry does."""
        return sent.is_retry

    def looks_on(self, sent: Sent) -> bool:
        """Every retry may."""
        return sent.is_retry


def rule_of(queues: Sequence[MessageQueue], profile: str) -> Rule:
    """How a producer of the family counts ``queues``, which are not empty."""
    return CppTurns(queues, profile) if CLIENT_FAMILIES[profile].language == "CPP" else GoTurns(queues, profile)

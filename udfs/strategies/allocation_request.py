"""The lists and parameters of one allocation in, what a strategy is asked, answers and refuses out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypedDict

from hindsight.udfs.strategies.allocation_releases import require_known_profile
from hindsight.udfs.values.message_queues import MessageQueue


class AllocationError(Exception):
    """Raised when RocketMQ's client would throw: the Java class's simple name and RocketMQ's own message.

    As text it reads like the client's log: ``IllegalArgumentException: currentCID is empty``. The message of a
    NullPointerException is the JVM's own and differs between JVMs; it is the text ``null`` here, as through Java 13.
    A Go client panics (``panic: runtime error: integer divide by zero``), C++'s exceptions begin with ``msg``.
    """

    def __init__(self, java_exception: str, message: str) -> None:
        super().__init__(java_exception, message)
        self.java_exception = java_exception
        self.message = message

    def __str__(self) -> str:
        return f"{self.java_exception}: {self.message}"


class AllocationParameters(TypedDict, total=False):
    """What a strategy's constructor or setters take in Java; each strategy reads its own and ignores the rest."""

    virtual_node_count: int
    machine_rooms: Collection[str] | None
    room_of_queue: Callable[[MessageQueue], str | None]
    room_of_client: Callable[[str], str | None]
    configured_queues: Sequence[MessageQueue] | None
    charset: str


@dataclass(frozen=True)
class AllocationRequest:
    """One group's lists on one topic, as every member is given them, and the strategy's parameters.

    mq_all: q queues; cid_all: c client ids, repeated where a broker lists two channels. Both as given, never sorted.
    machine_rooms and configured_queues are None where the client never set them, as in Java.

    Raises: ValueError: for an unknown profile id, or machine rooms given as one text instead of a set of texts.
    """

    mq_all: tuple[MessageQueue, ...]
    cid_all: tuple[str, ...]
    profile: str
    virtual_node_count: int = 10
    machine_rooms: Collection[str] | None = None
    room_of_queue: Callable[[MessageQueue], str | None] | None = None
    room_of_client: Callable[[str], str | None] | None = None
    configured_queues: Sequence[MessageQueue] | None = None
    charset: str = "UTF-8"

    def __post_init__(self) -> None:
        require_known_profile(self.profile)
        if isinstance(self.machine_rooms, str):
            raise ValueError(
                f"machine_rooms is the text {self.machine_rooms!r}, of which every piece would count as a room. "
                f"Pass a set of room names, such as {{{self.machine_rooms!r}}}."
            )

    @cached_property
    def first_places(self) -> dict[str, int]:
        """Place of each distinct client id in ``cid_all``, from 0; the first one of a repeated id (List#indexOf)."""
        places: dict[str, int] = {}
        for place, cid in enumerate(self.cid_all):
            places.setdefault(cid, place)
        return places


Answer = Callable[[str], list[MessageQueue] | None]


class Strategy(Protocol):
    """An allocation strategy: takes one group's request, gives back each client's own answer.

    The call stands for Java's constructor and may refuse parameters as it does. The answer stands for
    ``allocate``: it takes one client id, checks the arguments in the strategy's own order, and returns a fresh list
    or None. What all clients share (ring, rooms) is built once per request, at the first answer that needs it.
    """

    def __call__(self, request: AllocationRequest, /) -> Answer:
        """The answer function for this group's lists."""


def is_member(request: AllocationRequest, current_cid: str) -> bool:
    """The argument check before an allocation; a client that its group's list leaves out gets nothing.

    Raises: AllocationError: for an empty id, no queues or no ids, in this order.
    Source: AbstractAllocateMessageQueueStrategy#check since 4.9.4 and 5.0.0, the same lines in each class before.
    """
    if not current_cid:
        raise AllocationError("IllegalArgumentException", "currentCID is empty")
    if not request.mq_all:
        raise AllocationError("IllegalArgumentException", "mqAll is null or mqAll empty")
    if not request.cid_all:
        raise AllocationError("IllegalArgumentException", "cidAll is null or cidAll empty")
    return current_cid in request.first_places

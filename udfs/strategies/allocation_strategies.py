"""One group's request in, each client's queues out: what a strategy is asked, answers and refuses.

Most look at places in the lists only; some know in which machine room things stand.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypedDict, TypeVar

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.java_strings import java_is_blank, java_split, java_string_key
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string

KNOWN_PROFILES = tuple(PROFILES)
Item = TypeVar("Item", MessageQueue, str)


def require_known_profile(profile: str) -> None:
    """Refuse a profile id that is neither one of Java's nor one of the other clients'.

    Raises: ValueError: naming the ids that are known.
    """
    if profile not in PROFILES and profile not in CLIENT_FAMILIES:
        raise ValueError(
            f"profile {profile!r} has no allocation rules (known: {', '.join((*KNOWN_PROFILES, *CLIENT_FAMILIES))}). "
            "Pass the id of the client's release, or add the new family to PROFILES in udfs/release_profiles.py or "
            "to CLIENT_FAMILIES in udfs/client_families.py."
        )


@cache
def profiles_that_differ(strategy: str) -> tuple[str, ...]:
    """One profile for each rule that the releases have for a strategy; of most strategies they have one.

    Whoever does not know a client's release asks them all. Which charset a JVM has by default no record tells: with
    UTF-8 CONSISTENT_HASH is the same in all of them.
    """

    def rule(profile: FaultProfile) -> tuple[object, ...]:
        return (profile.machine_room_fixed, profile.machine_room_check) if strategy == "MACHINE_ROOM" else ()

    return tuple({rule(profile): name for name, profile in PROFILES.items()}.values())


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
# Takes one group's request, gives back each client's own answer. The call stands for Java's constructor and may refuse
# parameters as it does. The answer stands for ``allocate``: it takes one client id, checks the arguments in the
# strategy's own order, and returns a fresh list or None. What all clients share (ring, rooms) is built once per
# request, at the first answer that needs it.
Strategy = Callable[[AllocationRequest], Answer]


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


def average(request: AllocationRequest) -> Answer:
    """AVG: contiguous, near-equal blocks of queues; the first ``q % c`` clients take one more.

    q queues, c client ids::

        8 queues, 3 clients    c0: 0 1 2    c1: 3 4 5    c2: 6 7
        4 queues, 5 clients    c0: 0    c1: 1    c2: 2    c3: 3    c4: none
        8 queues, ids a a b    a: 0 1 2    b: 6 7    (3, 4 and 5 belong to nobody: both a compute the first block)

    Refuses what ``is_member`` refuses.
    Source: AllocateMessageQueueAveragely#allocate, same in 4.0.0 to 5.3.3.
    """

    def answer(cid: str) -> list[MessageQueue] | None:
        return average_share(request, cid) if is_member(request, cid) else []

    return answer


def average_share(request: AllocationRequest, member: str) -> list[MessageQueue]:
    """The block that a member of a group gets; neither list is empty."""
    place = request.first_places[member]
    size, one_more = divmod(len(request.mq_all), len(request.cid_all))
    start = place * size + min(place, one_more)
    return list(request.mq_all[start : start + size + (place < one_more)])


def average_by_circle(request: AllocationRequest) -> Answer:
    """AVG_BY_CIRCLE: the queues are dealt like cards; client i takes queues i, i + c, i + 2c and so on.

    q queues, c client ids::

        8 queues, 3 clients    c0: 0 3 6    c1: 1 4 7    c2: 2 5
        4 queues, 5 clients    c0: 0    c1: 1    c2: 2    c3: 3    c4: none

    Refuses what ``is_member`` refuses.
    Source: AllocateMessageQueueAveragelyByCircle#allocate, same in 4.0.0 to 5.3.3.
    """

    def answer(cid: str) -> list[MessageQueue] | None:
        return circle_share(request, cid) if is_member(request, cid) else []

    return answer


def circle_share(request: AllocationRequest, member: str) -> list[MessageQueue]:
    """The cards that a member of a group is dealt."""
    return list(request.mq_all[request.first_places[member] :: len(request.cid_all)])


def configured(request: AllocationRequest) -> Answer:
    """CONFIG: every client gets the list that was configured, word for word, whatever the group looks like.

    Neither filtered by topic nor checked against the queues that exist; None where nothing was configured::

        configured [T/a/3, U/b/0], any lists    any client: T/a/3 U/b/0

    Refuses nothing.
    Source: AllocateMessageQueueByConfig#allocate, same in 4.0.0 to 5.3.3.
    """
    queues = request.configured_queues

    def answer(_cid: str) -> list[MessageQueue] | None:
        return None if queues is None else list(queues)

    return answer


def machine_room(request: AllocationRequest) -> Answer:
    """MACHINE_ROOM: near-equal shares of the queues whose broker name says one of ``machine_rooms``.

    A broker named ``room@rest`` stands in ``room``; names of another shape stand nowhere. All clients share, wherever
    they stand: client i of c takes block i of q // c queues, the first q % c clients one more from the end. Through
    4.7.1 the blocks are cut from the whole list, though counted by the room's::

        r1@a/0..3 r2@b/0..3, rooms {r2}, 3 clients
        since 4.8.0      c0: r2@b/0 r2@b/3    c1: r2@b/1    c2: r2@b/2
        through 4.7.1    c0: r1@a/0 r2@b/3    c1: r1@a/1    c2: r1@a/2

    Through 4.9.2 (and in 5.0.0-PREVIEW) it refuses no empty argument, and nobody gets anything. 4.9.3 and 5.0.0-ALPHA
    take a client id of blanks for an empty one.

    Raises: AllocationError: for what ``is_member`` refuses, from 4.9.3 on, and when no machine rooms were ever set.
    Source: AllocateMessageQueueByMachineRoom#allocate, 4.0.0 to 5.3.3.
    """

    @cache
    def room_queues() -> list[MessageQueue]:
        return [mq for mq in request.mq_all if _stands_in(request.machine_rooms, mq)]

    def answer(cid: str) -> list[MessageQueue] | None:
        if not _is_machine_room_member(request, cid):
            return []
        counted = room_queues()
        source = counted if PROFILES[request.profile].machine_room_fixed else request.mq_all
        place = request.first_places[cid]
        size, one_more = divmod(len(counted), len(request.cid_all))
        queues = list(source[place * size : (place + 1) * size])
        if place < one_more:
            queues.append(counted[size * len(request.cid_all) + place])
        return queues

    return answer


def machine_room_nearby(inner: Strategy) -> Strategy:
    """MACHINE_ROOM_NEARBY-<inner>: each room's queues go to the clients in it, by the inner strategy.

    ``room_of_queue`` and ``room_of_client`` say who stands where. The queues of a room without any client are shared
    by all clients, room after room in UTF-16 order. With AVG inside::

        IDC1-a/0..3 IDC2-b/0..3 IDC3-c/0..1, clients IDC1-1 IDC1-2 IDC2-1
        IDC1-1: IDC1-a/0 IDC1-a/1 IDC3-c/0    IDC1-2: IDC1-a/2 IDC1-a/3 IDC3-c/1    IDC2-1: IDC2-b/0..3

    The strategy raises AllocationError for what ``is_member`` or the inner strategy refuses, for a queue or client
    without a room, and where the inner strategy answers None; ValueError when a room function is missing.
    Source: AllocateMachineRoomNearby#allocate, same in 4.3.0 to 5.3.3.
    """

    def nearby(request: AllocationRequest) -> Answer:
        inner(request)  # Java constructs the inner strategy first: it may refuse its parameters.
        _, room_of_client = _room_functions(request)
        rooms = cache(lambda: _answers_of_rooms(request, inner))

        def answer(cid: str) -> list[MessageQueue] | None:
            if not is_member(request, cid):
                return []
            with_clients, without_clients = rooms()
            own_room = with_clients.get(room_of_client(cid))
            shares = [own_room] if own_room else []
            return [mq for share in [*shares, *without_clients] for mq in _all_of(share(cid))]

        return answer

    return nearby


def _answers_of_rooms(request: AllocationRequest, inner: Strategy) -> tuple[dict[str | None, Answer], list[Answer]]:
    """The inner strategy's answers: by room for rooms with clients and queues, in order for rooms without clients."""
    room_of_queue, room_of_client = _room_functions(request)
    # Queues before clients: the first one without a room is named in the error.
    queues = _by_room(request.mq_all, room_of_queue, lambda mq: f"mq {java_to_string(mq)}")
    clients = _by_room(request.cid_all, room_of_client, lambda cid: f"consumer id {cid}")
    with_clients: dict[str | None, Answer] = {}
    without_clients = []
    for room in sorted(queues, key=java_string_key):
        mq_all = tuple(queues[room])
        if room in clients:
            with_clients[room] = inner(replace(request, mq_all=mq_all, cid_all=tuple(clients[room])))
        else:
            without_clients.append(inner(replace(request, mq_all=mq_all)))
    return with_clients, without_clients


def _by_room(
    items: Iterable[Item], room_of: Callable[[Item], str | None], describe: Callable[[Item], str]
) -> dict[str, list[Item]]:
    by_room: dict[str, list[Item]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise AllocationError("IllegalArgumentException", f"Machine room is null for {describe(item)}")
        by_room.setdefault(room, []).append(item)
    return by_room


def _room_functions(
    request: AllocationRequest,
) -> tuple[Callable[[MessageQueue], str | None], Callable[[str], str | None]]:
    if request.room_of_queue is None or request.room_of_client is None:
        raise ValueError(
            "MACHINE_ROOM_NEARBY was asked without room_of_queue and room_of_client, and no log or snapshot tells "
            "which room a queue or a client stands in. Pass both functions, or report the expectation as unknown."
        )
    return request.room_of_queue, request.room_of_client


def _all_of(share: list[MessageQueue] | None) -> list[MessageQueue]:
    if share is None:  # ArrayList#addAll(null): an inner CONFIG without a list
        raise AllocationError("NullPointerException", "null")
    return share


def _stands_in(machine_rooms: Collection[str] | None, mq: MessageQueue) -> bool:
    parts = java_split(mq.broker_name, "@")
    if len(parts) != 2:
        return False
    if machine_rooms is None:  # consumeridcs was never set; Java looks only now
        raise AllocationError("NullPointerException", "null")
    return parts[0] in machine_rooms


def _is_machine_room_member(request: AllocationRequest, cid: str) -> bool:
    check = PROFILES[request.profile].machine_room_check
    if check == "none":
        return cid in request.first_places
    if check == "blank" and java_is_blank(cid):
        raise AllocationError("IllegalArgumentException", "currentCID is empty")
    return is_member(request, cid)

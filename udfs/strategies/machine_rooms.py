"""One group's request in, each client's queues out: the strategies that know in which machine room things stand."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeVar

from hindsight.udfs.strategies.allocation_strategies import (
    AllocationError,
    AllocationRequest,
    Answer,
    Strategy,
    is_member,
    machine_room_checks_arguments,
    machine_room_hands_out_any_queue,
    machine_room_refuses_blank_ids,
)
from hindsight.udfs.values.java_strings import java_is_blank, java_split, java_string_key
from hindsight.udfs.values.message_queues import MessageQueue, java_to_string

Item = TypeVar("Item", MessageQueue, str)


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
        source = request.mq_all if machine_room_hands_out_any_queue(request.profile) else counted
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
        rooms = cache(lambda: _Rooms.of(request, inner))

        def answer(cid: str) -> list[MessageQueue] | None:
            if not is_member(request, cid):
                return []
            own_room = rooms().with_clients.get(room_of_client(cid))
            shares = [own_room] if own_room else []
            return [mq for share in [*shares, *rooms().without_clients] for mq in _all_of(share(cid))]

        return answer

    return nearby


class _Rooms(NamedTuple):
    """The inner strategy's answers: by room for rooms with clients and queues, in order for rooms without clients."""

    with_clients: dict[str | None, Answer]
    without_clients: list[Answer]

    @classmethod
    def of(cls, request: AllocationRequest, inner: Strategy) -> "_Rooms":
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
        return cls(with_clients, without_clients)


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
    if not machine_room_checks_arguments(request.profile):
        return cid in request.first_places
    if machine_room_refuses_blank_ids(request.profile) and java_is_blank(cid):
        raise AllocationError("IllegalArgumentException", "currentCID is empty")
    return is_member(request, cid)

"""One group's request in, each client's queues out: the strategies that look at places in the lists only."""

from hindsight.udfs.strategies.allocation_request import AllocationRequest, Answer, is_member
from hindsight.udfs.values.message_queues import MessageQueue


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

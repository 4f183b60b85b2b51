"""Sends of a C++ producer in, the queues that it takes out: its position in the list and its table of failed queues."""

from __future__ import annotations

from collections.abc import Sequence

from hindsight.udfs.values.java_strings import utf8_key
from hindsight.udfs.values.message_queues import MessageQueue

RESUMES_AFTER_MS = 300_000
_LARGEST = 2**31 - 1


class PublishTable:
    """One topic's list as a C++ producer holds it; a route that changed makes a new one.

    ``which`` is where the next send begins. Every queue that is looked at counts it up, those of retries too.
    Source: src/producer/TopicPublishInfo.h, 1.2.0 to 2.2.0.
    """

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self.queues = list(queues)
        self.which = 0
        self._failed_at: dict[MessageQueue, int] = {}
        self._out_of_service: dict[str, MessageQueue] = {}

    @property
    def non_service(self) -> list[str]:
        """The queues that ``active`` sends leave out, as broker name and queue id without anything between."""
        return sorted(self._out_of_service, key=utf8_key)

    def select(
        self, index: int, last_broker_name: str = "", *, active: bool = False
    ) -> tuple[MessageQueue | None, int]:
        """The queue of one attempt, and the index that the send goes on from; None: the attempt is used up.

        Args:
            index: ``which`` at a send's first attempt, one more than before at the others.
            last_broker_name: of the attempt before, if that had a queue; another broker is looked for.
            active: leave out queues that failed, while there are others.
        """
        size = len(self.queues)
        if not size:
            return None, index
        first = index
        for place in ((first + step) % size for step in range(size)):
            self._count()
            queue = self.queues[place]
            if active and not last_broker_name:
                index = place  # kept even where no queue is in service
            if queue.broker_name != last_broker_name and not (active and _key(queue) in self._out_of_service):
                return queue, place
        return (self._first_failed(last_broker_name) if active else None), index

    def fail(self, queue: MessageQueue, now_ms: int) -> None:
        """An ``active`` send to the queue failed, or ended otherwise than SEND_OK; failing again does not count."""
        if _key(queue) not in self._out_of_service:
            self._failed_at[queue] = now_ms
            self._out_of_service[_key(queue)] = queue

    def resume(self, now_ms: int) -> None:
        """The timer's round, once a minute: queues that failed five minutes ago or more are back in service."""
        for queue, failed_at in self._failed_at.items():
            if now_ms - failed_at >= RESUMES_AFTER_MS:
                self._out_of_service.pop(_key(queue), None)

    def _count(self) -> None:
        self.which = (0 if self.which == _LARGEST else self.which) + 1

    def _first_failed(self, last_broker_name: str) -> MessageQueue | None:
        failed = (self._out_of_service[key] for key in self.non_service)
        return next((queue for queue in failed if queue.broker_name != last_broker_name), None)


def _key(queue: MessageQueue) -> str:
    """Queue 10 of broker ``a`` and queue 0 of broker ``a1`` are one here."""
    return f"{queue.broker_name}{queue.queue_id}"

"""Answers of brokers in, the attempts of one send of a Go or C++ producer out: its whole retry loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.values.message_queues import MessageQueue
from tests.turns.cpp_publish import PublishTable
from tests.turns.go_selectors import RoundRobin

# What a broker's answer code makes of a send: SEND_OK and the statuses that are no failures to Go. Go's own numbers.
STATUSES = {0: 0, 10: 1, 12: 2, 11: 3}
# Sends to a queue; gives the broker's answer code, None where none came.
Deliver = Callable[[MessageQueue], int | None]


def go_send(
    selector: RoundRobin,
    queues: Sequence[MessageQueue],
    deliver: Deliver,
    *,
    profile: str,
    retries: int = 3,
    mode: str = "SYNC",
) -> int | None:
    """One send of a Go producer; the status that it returns, None for an error.

    A failed delivery is tried again; of answers with an error code some are from 2.1.2 on, while attempts are left.
    Source: producer/producer.go#sendSync and #sendOneWay, 2.0.0-rc2 to 2.1.2 and master. ASYNC is never retried.
    """
    family = CLIENT_FAMILIES[profile]
    last_broker_name, retried = "", family.retried_codes or ()
    for _ in range(1 if mode == "ASYNC" else 1 + retries):
        queue = queues[selector.select(queues[0].topic, queues, last_broker_name)]
        answer = deliver(queue)
        if answer is not None and answer not in retried:
            return STATUSES.get(answer)
        last_broker_name = queue.broker_name if mode in family.avoids_last else ""
    return None


def cpp_send(
    table: PublishTable, deliver: Deliver, *, attempts: int = 5, active: bool = False, now_ms: int = 0
) -> int | None:
    """One SYNC send of a C++ producer; 0, or None for an error.

    Whatever is not SEND_OK is tried again on another broker. An attempt that finds none is used up, and the one after
    it may take any broker.
    Source: src/producer/DefaultMQProducerImpl.cpp#sendDefaultImpl, 1.2.0 to 2.2.0.
    """
    index, last_broker_name = table.which, ""
    for attempt in range(attempts):
        queue, index = table.select(index + (attempt > 0), last_broker_name, active=active)
        last_broker_name = "" if queue is None else queue.broker_name
        if queue is None:
            continue
        if deliver(queue) == 0:
            return 0
        if active:
            table.fail(queue, now_ms)
    return None

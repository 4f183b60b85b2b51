"""A topic's queues and a group's ids in, what a 5.x broker hands out to each client that lets it assign, out.

A push consumer of 5.x with ``clientRebalance=false`` asks the broker, which answers by its own rule: one owner a queue
in PULL mode, shared queues in POP mode. Shared ownership is legal there: it is neither double nor wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate_for

PULL, POP = "PULL", "POP"
# Strategies that the broker knows; for others it gives no answer, and the client keeps what it has.
BROKER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")
_EVERY_QUEUE = -1


def query_assignment(
    mode: str,
    strategy: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
    *,
    pop_share_queue_num: int = -1,
    balances: bool = True,
) -> list[MessageQueue] | None:
    """The broker's answer to one client, in RocketMQ's order.

    Args:
        mode: PULL (always so for retry topics) or POP, as set on the broker.
        mq_all: q queues; cid_all: c distinct client ids. Both sorted, as the broker sorts them.
        pop_share_queue_num: with how many following clients one shares its queues; 0 or less: with all.
        balances: the broker's ``serverLoadBalancerEnable``; without it every client gets every queue.
    Returns: the queues; queue id -1 is every queue of that broker. None: no answer, the client keeps what it has.

    Example: POP, 4 queues, 4 clients, share 1: {0, 1}, {1, 2}, {2, 3}, {3, 0}.
    Source: QueryAssignmentProcessor#doLoadBalance and #allocate4Pop, 5.0.0 to 5.3.3.
    """
    if mode not in (PULL, POP):
        raise ValueError(f"message request mode {mode!r} is not known (known: {PULL}, {POP}).")
    if not mq_all or not balances:
        return list(mq_all) or None
    if not cid_all or strategy not in BROKER_STRATEGIES:
        return None
    try:
        if mode == PULL:
            return allocate_for(strategy, current_cid, mq_all, cid_all)
        return _shared(strategy, current_cid, mq_all, cid_all, pop_share_queue_num)
    except AllocationError:
        return None


def _shared(
    strategy: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str], share: int
) -> list[MessageQueue] | None:
    if share <= 0 or share >= len(cid_all) - 1:
        return list(dict.fromkeys(queue._replace(queue_id=_EVERY_QUEUE) for queue in mq_all))
    if current_cid not in cid_all:
        return []
    place = cid_all.index(current_cid)
    if len(cid_all) > len(mq_all):
        # More clients than queues: nobody is idle, a queue has several clients.
        return [mq_all[place % len(mq_all)]]
    following = [cid_all[(place + step) % len(cid_all)] for step in range(share + 1)]
    given = [queue for client_id in following for queue in allocate_for(strategy, client_id, mq_all, cid_all) or ()]
    return list(dict.fromkeys(given))

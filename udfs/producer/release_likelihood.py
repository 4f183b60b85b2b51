"""First attempts of one process and topic in; how likely their brokers are under one candidate, out.

As if each attempt began at a random queue of the list, which is what the record of a thread-local counter with unknown
start is worth once its sends are mixed with others: through 5.1.3 a queue that is not available hands its turn on to
the next one in the list, from 5.1.4 on the counter goes on itself, so that every available queue is as likely. With the
switch off all queues are. One attempt in ten may be misread (``release_counts``).

A list of broker-a, -b and -c with one queue each, broker-b held: through 5.1.3 broker-c is chosen twice as often as
broker-a, from 5.1.4 on as often.

>>> free = np.array([[True, False, True]] * 2)
>>> chosen, one_each = np.array([0, 2]), np.ones((2, 3), np.int64)
>>> [np.round(shares(chosen, one_each, free, rule), 2).tolist() for rule in ("next", "any", "all")]
[[0.33, 0.67], [0.5, 0.5], [0.33, 0.33]]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hindsight.udfs.producer.release_counts import MISREAD
from hindsight.udfs.values.arrays import BoolArray, IntArray

Rule = Literal["next", "any", "all"]


def log_likelihood(chosen: IntArray, queues: IntArray, available: BoolArray, rule: Rule) -> float:
    """The sum of the logarithms; arguments as of ``shares``."""
    likely = (1 - MISREAD) * shares(chosen, queues, available, rule) + MISREAD / queues.shape[1]
    return float(np.log(likely).sum())


def shares(chosen: IntArray, queues: IntArray, available: BoolArray, rule: Rule) -> Any:
    """How likely each chosen broker was.

    Args:
        chosen: of each of n attempts, a place among the m brokers in the list's order.
        queues: how many queues each broker has in the list then, n x m.
        available: which brokers were, n x m.
        rule: ``next``: through 5.1.3; ``any``: from 5.1.4 on; ``all``: with the switch off.
    """
    rows, size = np.arange(len(chosen)), queues.shape[1]
    every, free = np.maximum(queues.sum(axis=1), 1), (queues * available).sum(axis=1)
    own = queues[rows, chosen]
    if rule == "all":
        return own / every
    if rule == "any":
        among = available[rows, chosen] * own / np.maximum(free, 1)
    else:
        weight, passes = own.copy(), np.ones(len(chosen), np.bool_)
        for step in range(1, size):
            before = (chosen - step) % size
            passes &= ~available[rows, before]
            weight += queues[rows, before] * passes
        among = available[rows, chosen] * weight / every
    return np.where(free == 0, own / every, among)

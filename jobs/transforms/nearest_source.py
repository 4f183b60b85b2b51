"""Rows of several sources that tell of the same thing in, those of the source nearest to it out.

The others stay rows of their tables: they confirm, or contradict (view ``source_contradiction``), and are not computed
with. Rows are never merged: what came of that would depend on which arrived first.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# What tells the messages of one process apart, hex digits at a message id's end: time and counter.
_ID_TAIL = 12


def nearest_attempts(attempts: DataFrame, distances: Mapping[str, int]) -> DataFrame:
    """Attempts, per producer and date those of its nearest source.

    A producer is known by its client id, or, where a source does not name that (a trace), by the part of the message id
    that names the sending process. ``distances`` by source.
    """
    client, process = ["cluster", "event_date", "producer_group", "client_id"], "process"
    told = attempts.withColumns(
        {process: F.expr(f"left(msg_id, length(msg_id) - {_ID_TAIL})"), "distance": _distance(distances)}
    )
    by_client = _nearest(told, client, "client_nearest")
    sender = ["cluster", "event_date", "producer_group", process]
    by_sender = _nearest(told, sender, "sender_nearest")
    return (
        told.join(F.broadcast(by_client), client)
        .join(F.broadcast(by_sender), sender)
        .where(F.col("distance") <= F.least("client_nearest", "sender_nearest"))
        .drop(process, "distance", "client_nearest", "sender_nearest")
    )


def _nearest(told: DataFrame, keys: list[str], name: str) -> DataFrame:
    return told.groupBy(*keys).agg(F.min("distance").alias(name))


def _distance(distances: Mapping[str, int]) -> Column:
    known = F.create_map(*(F.lit(part) for pair in sorted(distances.items()) for part in pair))
    return F.try_element_at(known, F.col("source"))

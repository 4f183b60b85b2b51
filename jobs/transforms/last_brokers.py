"""Attempts in; the same out, retries whose line does not name the last broker with the one that the record shows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.frames import rows_of
from jobs.transforms.producer_replay import PRODUCER

_SEND = (*PRODUCER, "topic", "msg_id")


def is_retry() -> Column:
    """The attempt is not the first of its send; false where its number is not recorded (ASYNC, traces)."""
    return F.coalesce(F.col("attempt") > 0, F.lit(False))


def with_last_brokers(attempts: DataFrame) -> DataFrame:
    """Retries without ``last_broker_name`` get the broker of the attempt before them in the same send.

    Where that one is not recorded, or several are (an application may send one message twice), it stays null.
    Source: DefaultMQProducerImpl#sendDefaultImpl, 4.0.0 to 5.3.3.
    """
    lacks = is_retry() & F.col("last_broker_name").isNull()
    retries = attempts.where(lacks)
    if not rows_of(retries.limit(1)):
        return attempts  # and no attempt is looked at again
    only_one = (F.count("*") == F.count("broker_name")) & (F.count_distinct("broker_name") == 1)
    before = (
        attempts.join(retries.select(*_SEND).distinct(), list(_SEND), "left_semi")
        .groupBy(*_SEND, (F.col("attempt") + 1).alias("attempt"))
        .agg(F.when(only_one, F.min("broker_name")).alias("told"))
    )
    named = retries.join(before, [*_SEND, "attempt"], "left").withColumn("last_broker_name", F.col("told"))
    return attempts.where(~lacks).unionByName(named.drop("told"))

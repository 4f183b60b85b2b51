"""Captures in; which collectors ask a proxy instead of a name server, by date, out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_NOT_SUPPORTED = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_EVERY_BROKER_ANSWERS = ("consumerRunningInfo", "consumeStats")


def asked_proxies(captures: DataFrame) -> DataFrame:
    """``cluster, collector, event_date, through_proxy`` (true): a proxy supports none of what every broker answers."""
    refused = (
        (F.col("error_code") == _NOT_SUPPORTED)
        & F.col("kind").isin(*_EVERY_BROKER_ANSWERS)
        & F.col("broker_name").isNull()
    )
    return (
        captures.where(refused)
        .select("cluster", "collector", "event_date", F.lit(True).alias("through_proxy"))
        .distinct()
    )

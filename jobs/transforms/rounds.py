"""Captures and round markers in, the round of each capture out."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.proxies import asked_proxies
from udfs.client_kinds import GRPC, GRPC_CLIENT_ID, OTHER, REMOTING_PROXY, UNKNOWN

_COLLECTOR = ("cluster", "collector")
CAPTURE = (*_COLLECTOR, "captured_at")


def capture_rounds(
    captures: DataFrame, markers: DataFrame, *, max_round_s: int, gap_s: Mapping[str, float]
) -> DataFrame:
    """One row per distinct capture instant of a collector: ``cluster, collector, captured_at, round_at, kind``.

    A capture belongs to the latest marker at or before it, if that is not older than ``max_round_s``. Captures
    without one form rounds of their own: a pause longer than ``gap_s`` (by collector; "": any other) begins the next,
    at its first capture.
    """
    marks = markers.select(*_COLLECTOR, F.col("round_at").alias("at"), F.lit(0).alias("is_capture"))
    reads = captures.select(*_COLLECTOR, F.col("captured_at").alias("at"), F.lit(1).alias("is_capture")).distinct()
    in_order = Window.partitionBy(*_COLLECTOR).orderBy("at", "is_capture")
    latest = F.last(F.when(F.col("is_capture") == 0, F.col("at")), ignorenulls=True).over(in_order)
    age_s = F.col("at").cast("double") - F.col("marker_at").cast("double")
    placed = (
        marks.unionByName(reads)
        .withColumn("marker_at", latest)
        .where(F.col("is_capture") == 1)
        .withColumn("marker_at", F.when(age_s <= max_round_s, F.col("marker_at")))
    )
    return placed.withColumn("gap_at", _gap_round(gap_s)).select(
        *_COLLECTOR,
        F.col("at").alias("captured_at"),
        F.coalesce("marker_at", "gap_at").alias("round_at"),
        F.when(F.col("marker_at").isNotNull(), F.lit("marker")).otherwise(F.lit("gap")).alias("kind"),
    )


def _gap_round(gap_s: Mapping[str, float]) -> Column:
    """First capture of the run, without a pause, to which a capture without marker belongs."""
    unmarked = Window.partitionBy(*_COLLECTOR, F.col("marker_at").isNull()).orderBy("at")
    pause_s = F.col("at").cast("double") - F.lag("at").over(unmarked).cast("double")
    most_s = F.lit(gap_s[""])
    for collector, seconds in gap_s.items():
        most_s = F.when(F.col("collector") == collector, seconds).otherwise(most_s)
    begins = F.when(F.coalesce(pause_s > most_s, F.lit(True)), F.col("at"))
    return F.last(begins, ignorenulls=True).over(unmarked)


def with_round(rows: DataFrame, rounds: DataFrame) -> DataFrame:
    """Rows of captures with ``round_at`` set from ``capture_rounds``."""
    found = rounds.select(*CAPTURE, F.col("round_at"))
    return rows.drop("round_at").join(found, list(CAPTURE), "left")


def with_own_words(heartbeats: DataFrame, captures: DataFrame) -> DataFrame:
    """Heartbeats with what the member's running infos of the same round last told: its subscriptions, else null, and
    its kind, else what its connection alone says.

    The subscription table of the group follows whichever member sent the last heartbeat, and is not used.
    """
    member = ["cluster", "collector", "consumer_group", "client_id", "round_at"]
    own = (
        captures.where((F.col("kind") == "consumerRunningInfo") & F.col("answered"))
        .groupBy(*member)
        .agg(
            F.max_by("subscriptions", F.when(F.col("subscriptions").isNotNull(), F.col("captured_at"))).alias(
                "subscriptions"
            ),
            F.max_by("client_kind", F.when(F.col("client_kind").isNotNull(), F.col("captured_at"))).alias("own_kind"),
        )
    )
    return (
        heartbeats.drop("subscriptions")
        .join(own, member, "left")
        .join(asked_proxies(captures), ["cluster", "collector", "event_date"], "left")
        .withColumn("client_kind", F.coalesce("own_kind", _kind_of_connection()))
        .drop("own_kind", "through_proxy")
    )


def _kind_of_connection() -> Column:
    """The kind of a member by its connection alone: the form of its id, its language, and whether a proxy listed it."""
    return (
        F.when(F.col("client_id").rlike(GRPC_CLIENT_ID), GRPC)
        .when(F.coalesce("language", F.lit("JAVA")) != "JAVA", OTHER)
        .when(F.col("through_proxy"), REMOTING_PROXY)
        .otherwise(UNKNOWN)
    )

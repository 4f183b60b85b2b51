"""Captures and round markers in, the round of each capture out."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from jobs.transforms.proxies import asked_proxies
from udfs.client_kinds import GRPC, GRPC_CLIENT_ID, OTHER, REMOTING_PROXY, UNKNOWN
from udfs.landing_formats import OWN_SNAPSHOTS
from udfs.pandas_udfs import walk_rows
from udfs.repeated_questions import rounds_of_runs

_COLLECTOR = ("cluster", "collector")
CAPTURE = (*_COLLECTOR, "captured_at")
QUESTION = ("kind", "subject", "broker_name", "name_server")  # what makes two captures ask the same
_ASKED = {**dict.fromkeys(QUESTION, "string"), "answered": "boolean", "error_code": "int"}
_WALKED = StructType(
    [StructField(name, StringType()) for name in _COLLECTOR]
    + [StructField(name, TimestampType()) for name in ("at", "round_at")]
)


def asked(rows: DataFrame) -> DataFrame:
    """What ``capture_rounds`` takes of captures.

    Rows of other tables, whose captures may not be stored yet, tell of no question; and captures that only follow from
    rows of one's own put none.
    """
    known = {name: F.col(name) if name in rows.columns else F.lit(None).cast(of) for name, of in _ASKED.items()}
    if "source" in rows.columns:
        known["kind"] = F.when(F.col("source") != OWN_SNAPSHOTS, known["kind"])
    return rows.select(*CAPTURE, *(column.alias(name) for name, column in known.items()))


def capture_rounds(
    captures: DataFrame, markers: DataFrame, *, max_round_s: int, gap_s: Mapping[str, float]
) -> DataFrame:
    """One row per distinct capture instant of a collector: ``cluster, collector, captured_at, round_at, kind``.

    A capture belongs to the latest marker at or before it, if that is not older than ``max_round_s``. Captures
    without one form rounds of their own: a pause longer than ``gap_s`` (by collector; "": any other) begins the next,
    at its first capture, and so does a question that is asked again (``udfs.repeated_questions``).
    """
    marks = markers.select(*_COLLECTOR, F.col("round_at").alias("at"), F.lit(0).alias("is_capture"))
    in_order = Window.partitionBy(*_COLLECTOR).orderBy("at", "is_capture")
    latest = F.last(F.when(F.col("is_capture") == 0, F.col("at")), ignorenulls=True).over(in_order)
    age_s = F.col("at").cast("double") - F.col("marker_at").cast("double")
    placed = (
        marks.unionByName(_instants(captures), allowMissingColumns=True)
        .withColumn("marker_at", latest)
        .where(F.col("is_capture") == 1)
        .withColumn("marker_at", F.when(age_s <= max_round_s, F.col("marker_at")))
    )
    of_markers = placed.where(F.col("marker_at").isNotNull())
    return _rounds(of_markers, "marker_at", "marker").unionByName(
        _rounds(_gap_rounds(placed.where(F.col("marker_at").isNull()), max_round_s, gap_s), "round_at", "gap")
    )


def _instants(captures: DataFrame) -> DataFrame:
    """Each instant of a collector, with the questions that it put then, as hashes."""
    named = [F.coalesce(name, F.lit("")) for name in QUESTION]  # nulls leave no trace in a hash
    question = F.when(F.col("kind").isNotNull(), F.xxhash64(*named))
    silent = F.when(~F.col("answered") & F.col("error_code").isNull(), question)
    return captures.groupBy(*_COLLECTOR, F.col("captured_at").alias("at")).agg(
        F.lit(1).alias("is_capture"),
        F.collect_set(question).alias("asked"),
        F.collect_set(silent).alias("unanswered"),
    )


def _rounds(placed: DataFrame, round_at: str, kind: str) -> DataFrame:
    at = F.col("at").alias("captured_at")
    return placed.select(*_COLLECTOR, at, F.col(round_at).alias("round_at"), F.lit(kind).alias("kind"))


def _gap_rounds(unmarked: DataFrame, max_round_s: int, gap_s: Mapping[str, float]) -> DataFrame:
    runs = unmarked.withColumn("run_at", _run(gap_s)).withColumn("run_at", _run_of_date(max_round_s))
    columns = ("run_at", "at", "asked", "unanswered")
    in_order = runs.repartition(*_COLLECTOR).sortWithinPartitions(*_COLLECTOR, "run_at", "at")
    return walk_rows(in_order.select(*_COLLECTOR, *columns), rounds_of_runs, _WALKED)


def _run(gap_s: Mapping[str, float]) -> Column:
    """First capture of the run, without a pause, to which a capture without marker belongs."""
    unmarked = Window.partitionBy(*_COLLECTOR).orderBy("at")
    pause_s = F.col("at").cast("double") - F.lag("at").over(unmarked).cast("double")
    most_s = F.lit(gap_s[""])
    for collector, seconds in gap_s.items():
        most_s = F.when(F.col("collector") == collector, seconds).otherwise(most_s)
    begins = F.when(F.coalesce(pause_s > most_s, F.lit(True)), F.col("at"))
    return F.last(begins, ignorenulls=True).over(unmarked)


def _run_of_date(max_round_s: int) -> Column:
    """A run that lasts for longer than a round at midnight begins anew: rounds follow from the captures near them."""
    of_date = Window.partitionBy(*_COLLECTOR, "run_at", F.to_date("at"))
    midnight = F.to_timestamp(F.to_date("at"))
    lasted_s = midnight.cast("double") - F.col("run_at").cast("double")
    return F.when(lasted_s > max_round_s, F.min("at").over(of_date)).otherwise(F.col("run_at"))


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

"""What the rules of producer findings share as frames: what they are given, the shape they return, runs, wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from schemas.findings import FINDING_SEVERITY, PRODUCER_FINDING

_CONTRACT = [field for field in PRODUCER_FINDING.columns.fields if field.name not in PRODUCER_FINDING.lineage]


@dataclass(frozen=True)
class Observed:
    """The rows of the dates that are computed, each frame with ``event_date``.

    ``attempts``, ``windows`` and ``replay`` (rows of producer_replay) carry their process; ``windows`` also
    ``opened_at``, when the whole stretch opened, and ``last_attempt_at`` of the process; ``verdicts``: rows of
    send_verdict; ``held``, ``counts``, ``isolating`` and ``fleet`` are those of fleet_minutes; ``served``: process,
    topic, broker_name and ``queues``, the most that were seen; ``routes``: cluster, topic and broker_name of writable
    brokers as routes tell, empty where none is read.
    """

    attempts: DataFrame
    windows: DataFrame
    replay: DataFrame
    held: DataFrame
    counts: DataFrame
    isolating: DataFrame
    fleet: DataFrame
    served: DataFrame
    routes: DataFrame
    verdicts: DataFrame


def found(rows: DataFrame, code: str, **columns: Column) -> DataFrame:
    """Rows of producer_finding: ``columns`` as given, cluster and event_date from the row, null for the rest.

    ``doubt`` is why the finding is not certain, null where it is; sentence and ``certainty`` say so.
    """
    doubt = columns.pop("doubt", F.lit(None).cast("string"))
    said = F.concat(
        columns.pop("sentence"),
        F.when(
            doubt.isNotNull(), F.concat(F.lit(" ("), columns["certainty"], F.lit(": "), doubt, F.lit(")"))
        ).otherwise(F.lit("")),
        F.lit("."),
    )
    made = {
        "cluster": F.col("cluster"),
        "event_date": F.col("event_date"),
        "code": F.lit(code),
        "severity": F.lit(FINDING_SEVERITY[code]),
        "sentence": said,
        **columns,
    }
    return rows.select(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in _CONTRACT))


def nothing_found(rows: DataFrame) -> DataFrame:
    """No rows of producer_finding, in the session of ``rows``."""
    return rows.limit(0).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in _CONTRACT))


def of_producer() -> dict[str, Column]:
    """The columns that say which producer process a finding is about."""
    return {name: F.col(name) for name in ("producer_group", "client_id", "started_at")}


def runs(minutes: DataFrame, keys: Sequence[str], *aggregates: Column) -> DataFrame:
    """Maximal runs of consecutive minutes per ``keys``: ``run_start``, ``run_end`` (exclusive), ``minutes``.

    ``minutes`` holds ``minute_at``, each once per keys; keys include the date, so a run ends at midnight.
    """
    in_order = Window.partitionBy(*keys).orderBy("minute_at")
    run = F.unix_seconds("minute_at") / 60 - F.row_number().over(in_order)
    return (
        minutes.withColumn("run", run)
        .groupBy(*keys, "run")
        .agg(
            F.min("minute_at").alias("run_start"),
            (F.max("minute_at") + F.expr("INTERVAL 1 MINUTE")).alias("run_end"),
            F.count("*").alias("minutes"),
            *aggregates,
        )
    )


def window_doubt(certainty: Column) -> Column:
    """Why windows of this certainty may differ from what the producer held; null for certain ones."""
    return F.when(certainty == "possible", "its detector acts unseen").when(
        certainty == "partial", "the hook does not see the client's own ASYNC retries"
    )


def producer_name() -> Column:
    """The producer as a person calls it."""
    return text("{} of {}", F.col("client_id"), F.col("producer_group"))


def instant(at: Column) -> Column:
    """A clock time, UTC, to the ms; its date is the finding's."""
    return F.date_format(at, "HH:mm:ss.SSS")


def minute(at: Column) -> Column:
    """A clock time, UTC, to the minute; the end of a date is 24:00."""
    return F.when(F.to_date(at) > F.col("event_date"), F.lit("24:00")).otherwise(F.date_format(at, "HH:mm"))


def seconds(ms: Column) -> Column:
    """A length in seconds."""
    return F.format_string("%.1f s", ms / 1000)


def iso(at: Column) -> Column:
    """An instant as the tables' keys have it, UTC."""
    return F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def text(template: str, *parts: Column) -> Column:
    """``template`` with its ``{}`` filled in; a part that is null leaves its place empty."""
    pieces = template.split("{}")
    columns = [F.lit(pieces[0])]
    for part, piece in zip(parts, pieces[1:], strict=True):
        columns += [F.coalesce(part.cast("string"), F.lit("")), F.lit(piece)]
    return F.concat(*columns)


def producer_and_broker() -> Column:
    """The subject of a finding about one producer and one broker."""
    return text("{}, {}", producer_name(), F.col("broker_name"))


def evidence(template: str, *parts: Column) -> Column:
    """One piece of evidence: table and key."""
    return F.array(text(template, *parts))

"""The closing summary of a run: the longest isolations, the groups that drift, what was refused, what left no row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Row, SparkSession

from jobs.landing_tally import nothing_stored
from jobs.transforms.frames import rows_of
from schemas.bookkeeping import INGESTED_FILE

_MOST = 10


def summary(spark: SparkSession) -> Iterator[str]:
    """Lines for a person; needs the views in place."""
    if spark.table(INGESTED_FILE.name).isEmpty():
        yield "Nothing has been taken in yet, so nothing is known of any producer or group"
        return
    yield "Longest isolations (a producer refused a broker)"
    yield from _lines(spark, _ISOLATIONS, _isolation, "no producer isolated a broker")
    yield ""
    yield "Producers that could not be replayed"
    yield from _lines(spark, _UNKNOWN, _unknown, "none")
    yield ""
    yield "Consumer groups that drift"
    yield from _lines(spark, _GROUPS, _group, "none")
    yield ""
    yield "Refused input"
    yield from _lines(spark, _REFUSED, _refused, "none")
    yield ""
    yield "Files of which nothing was stored"
    yield from _without_rows(spark)


_ISOLATIONS = f"""
    SELECT * FROM broker_isolation WHERE state = 'unavailable' ORDER BY seconds DESC, window_start, client_id
    LIMIT {_MOST}"""

_UNKNOWN = f"""
    SELECT cluster, producer_group, client_id, FIRST(reasons) AS reasons FROM producer_replay WHERE verdict = 'unknown'
    GROUP BY cluster, producer_group, client_id ORDER BY cluster, producer_group, client_id LIMIT {_MOST}"""

# One line a group: its codes with how many rounds show each, and its worst sentence of the last round that has one.
_GROUPS = f"""
    SELECT cluster, consumer_group,
      ARRAY_JOIN(ARRAY_SORT(COLLECT_LIST(CONCAT(code, ' in ', rounds, IF(rounds = 1, ' round', ' rounds')))), ', ')
        AS codes,
      SLICE(TRANSFORM(ARRAY_SORT(COLLECT_LIST(STRUCT(rank, sentence))), s -> s.sentence), 1, 5) AS sentences
    FROM (
      SELECT cluster, consumer_group, code, COUNT(DISTINCT round_at) AS rounds,
        MIN(ARRAY_POSITION(ARRAY('CRITICAL', 'HIGH', 'MEDIUM', 'LOW'), severity)) AS rank,
        MAX_BY(sentence, STRUCT(round_at, -COALESCE(queue_id, 0))) AS sentence
      FROM allocation_drift WHERE severity <> 'INFO' GROUP BY cluster, consumer_group, code
    ) GROUP BY cluster, consumer_group ORDER BY MIN(rank), SUM(rounds) DESC, consumer_group LIMIT {_MOST}"""

_REFUSED = f"SELECT * FROM quarantine_by_reason ORDER BY lines DESC, reason_code LIMIT {_MOST}"


# Those taken in last come first.
_NOTHING_STORED = f"""
    WITH without_rows AS (SELECT * FROM ingested_file WHERE stored = 0 AND duplicate = 0)
    SELECT file, read, ignored, quarantined, (SELECT COUNT(*) FROM without_rows) AS files FROM without_rows
    ORDER BY ingested_at DESC, file LIMIT {_MOST}"""


def _lines(spark: SparkSession, query: str, line: Callable[[Row], list[str]], nothing: str) -> Iterator[str]:
    rows = rows_of(spark.sql(query))
    for row in rows:
        yield from (f"  {text}" for text in line(row))
    if not rows:
        yield f"  {nothing}"


def _isolation(row: Row) -> list[str]:
    length = "open" if row.seconds is None else f"{row.seconds:,.1f} s"
    still = ", the record ends inside it" if row.end_reason == "open" else f", {row.end_reason}"
    return [
        f"{length:>10}  {row.broker_name}  by {row.client_id} ({row.producer_group})  from {row.window_start:%H:%M:%S}"
        f"  {row.trigger_kind} at {row.trigger_latency_ms} ms{still}, {row.certainty}"
    ]


def _unknown(row: Row) -> list[str]:
    return [f"{row.client_id} ({row.producer_group}): {'; '.join(row.reasons)}"]


def _group(row: Row) -> list[str]:
    return [f"{row.consumer_group}: {row.codes}", *(f"    {sentence}" for sentence in row.sentences)]


def _refused(row: Row) -> list[str]:
    where = f"{row.example_file}:{row.example_line}"
    return [f"{row.lines} x {row.reason_code} ({row.format}), e.g. {where}: {row.example_detail}"]


def _without_rows(spark: SparkSession) -> Iterator[str]:
    rows = rows_of(spark.sql(_NOTHING_STORED))
    for row in rows:
        yield f"  {row.file}: {nothing_stored(row.read, row.ignored, row.quarantined)}"
    more = rows[0].files - len(rows) if rows else 0
    if more or not rows:
        yield f"  and {more:,} more" if more else "  none"

"""What the page shows, read with SQL from tables and views and bounded there: small lists of plain values come out.

Every query counts what it had before its bound (``of_all``), so that the page can say what it leaves out.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from conf.settings import Report
from jobs import report_fleet
from jobs.delta_tables import Lake
from jobs.run_context import EVERY_DATE, DateRange
from jobs.transforms.frames import rows_of

Rows = list[dict[str, Any]]

_NEVER = date(1970, 1, 1)
_BUCKETS = 240
_SEND_BUCKETS = 120
_SEVERITIES = "ARRAY('CRITICAL', 'HIGH', 'MEDIUM', 'LOW', 'INFO')"


class Stretch(NamedTuple):
    """What a drawing in time spans: epoch milliseconds [begin, end)."""

    begin: int
    end: int

    def step(self, buckets: int, unit: int = 1) -> int:
        """Width of one of at most so many buckets, whole units of so many milliseconds, at least a second."""
        return max(1000, -(-(self.end - self.begin) // (buckets * unit)) * unit)


def report_data(spark: SparkSession, lake: Lake, bounds: Report, asked: DateRange = EVERY_DATE) -> dict[str, Any]:
    """Everything on the page; needs the views in place. Lists of rows by name, instants as epoch milliseconds.

    Of the dates that were asked for; without a first one, of the last ``bounds.days`` up to the last.
    """
    dates = dates_shown(_one(spark, _DATES), bounds.days, asked)
    of_dates = "event_date BETWEEN DATE'{}' AND DATE'{}'".format(*(dates or (_NEVER, _NEVER)))
    stretch = _stretch(_one(spark, _STRETCH.format(of_dates=of_dates)))
    fleet = _stretch(_one(spark, report_fleet.SPAN.format(of_dates=of_dates)))
    groups = _rows(spark, _GROUPS.format(of_dates=of_dates, **bounds.model_dump()))
    _keep_matrices(spark, groups)
    texts = (
        _LISTS
        | report_fleet.QUERIES
        | (_TIMELINE if stretch.end > stretch.begin else {})
        | (_MATRICES if groups else {})
    )
    values = {
        "of_dates": of_dates,
        "last": dates[1] if dates else _NEVER,
        "begin": stretch.begin,
        "end": stretch.end,
        "step": stretch.step(_BUCKETS),
        "send_step": stretch.step(_SEND_BUCKETS),
        "fleet_begin": fleet.begin,
        "fleet_step": fleet.step(report_fleet.CELLS, unit=60_000),
        "worst": _SEVERITIES,
        "newest_checks": _NEWEST_CHECKS,
        **bounds.model_dump(),
    }
    queries = {name: text.format(**values) for name, text in texts.items()}
    found = lake.together([partial(_rows, spark, text) for text in queries.values()])
    return {
        "dates": {"first": dates[0].isoformat(), "last": dates[1].isoformat()} if dates else None,
        "stretch": {**stretch._asdict(), "step": values["step"], "send_step": values["send_step"]},
        "fleet_stretch": {"begin": fleet.begin, "step": values["fleet_step"]},
        "groups": groups,
        **{name: [] for name in {**_TIMELINE, **_MATRICES}},
        **dict(zip(queries, found, strict=True)),
    }


def dates_shown(recorded: dict[str, Any], days: int, asked: DateRange) -> tuple[date, date] | None:
    """First and last date of the page; None: nothing is recorded of those that were asked for."""
    if recorded["last"] is None:
        return None
    last = min(recorded["last"], asked.last or recorded["last"])
    first = max(recorded["first"], asked.first or last - timedelta(days=days - 1))
    return (first, last) if first <= last else None


def _keep_matrices(spark: SparkSession, groups: Rows) -> None:
    """Name the groups that get a matrix, for the queries about cells."""
    names = ("cluster", "collector", "consumer_group", "topic")
    kept = [tuple(g[n] for n in names) for g in groups if g["matrix"]]
    schema = ", ".join(f"{name} STRING" for name in names)
    spark.createDataFrame(kept, schema).createOrReplaceTempView("report_group")


def _stretch(row: dict[str, Any]) -> Stretch:
    return Stretch(row["begin"] or 0, row["end"] or 0)


def _one(spark: SparkSession, text: str) -> dict[str, Any]:
    (row,) = rows_of(spark.sql(text))
    return dict(row.asDict())


def _rows(spark: SparkSession, text: str) -> Rows:
    found = (row.asDict(recursive=True) for row in rows_of(spark.sql(text)))
    return [{name: _plain(value) for name, value in row.items()} for row in found]


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; the session's zone is UTC."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


_DATES = """
    SELECT MIN(event_date) AS first, MAX(event_date) AS last FROM (
      SELECT event_date FROM producer_replay UNION ALL SELECT event_date FROM group_round)"""

_STRETCH = """
    SELECT MIN(begin) AS begin, MAX(end) AS end FROM (
      SELECT MIN(unix_millis(window_start)) AS begin, MAX(unix_millis(COALESCE(window_end, window_start))) AS end
      FROM broker_availability_window WHERE {of_dates}
      UNION ALL
      SELECT MIN(unix_millis(begin_at)), MAX(unix_millis(end_at)) FROM send_attempt WHERE {of_dates}
    )"""

# A group's matrix is kept while the cells of it and of all before it are within the bound.
_GROUPS = """
    WITH kinds AS (
      SELECT cluster, collector, consumer_group, ARRAY_SORT(COLLECT_SET(client_kind)) AS kinds
      FROM consumer_heartbeat WHERE {of_dates} AND client_kind <> 'unknown'
      GROUP BY cluster, collector, consumer_group)
    SELECT *, rank <= {groups} AND cells_so_far <= {cells} AND cells > 0 AS matrix FROM (
      SELECT *, ROW_NUMBER() OVER worst_first AS rank, SUM(cells) OVER worst_first AS cells_so_far
      FROM (
        SELECT cluster, collector, consumer_group, topic, COUNT(verdict) AS rounds,
          COUNT_IF(verdict = 'ok') AS ok, COUNT_IF(verdict = 'drift') AS drift,
          COUNT_IF(verdict = 'unknown') AS unknown, COUNT_IF(verdict IS NULL) AS unjudged,
          IF(COUNT(verdict) = 0, 0, LEAST(COUNT(*), {rounds}) * COALESCE(MAX(SIZE(queues)), 0)) AS cells,
          MAX_BY(message_model, round_at) AS message_model, MAX_BY(strategy, round_at) AS strategy,
          MAX_BY(strategy_source, round_at) AS strategy_source, MAX_BY(queue_kind, round_at) AS queue_kind,
          MAX_BY(scope_reason, round_at) AS scope_reason, MAX_BY(families, round_at) AS families,
          COUNT(*) OVER () AS of_all
        FROM (
          SELECT *, SLICE(TRANSFORM(
            FILTER(member_rules, r -> r.profile NOT LIKE 'P%'), r -> CONCAT(r.client_id, ' ', r.profile)
          ), 1, 8) AS families FROM group_round WHERE {of_dates}
        )
        GROUP BY cluster, collector, consumer_group, topic
      ) LEFT JOIN kinds USING (cluster, collector, consumer_group)
      WINDOW worst_first AS (ORDER BY drift DESC, unknown DESC, rounds DESC, cluster, collector, consumer_group, topic)
    ) ORDER BY rank LIMIT {rows}"""

_TIMELINE = {
    "brokers": """
    SELECT *, COUNT(*) OVER () AS of_all FROM (
      SELECT cluster, broker_name, COUNT_IF(NOT continues_previous) AS windows,
        COUNT(DISTINCT producer_group, client_id) AS producers,
        SUM(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS seconds,
        MAX(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS longest
      FROM broker_availability_window WHERE {of_dates} GROUP BY cluster, broker_name
    ) ORDER BY seconds DESC, cluster, broker_name LIMIT {brokers}""",
    "strip": """
    WITH kept AS (
      SELECT cluster, broker_name FROM broker_availability_window WHERE {of_dates}
      GROUP BY cluster, broker_name
      ORDER BY SUM(unix_millis(window_end) - unix_millis(window_start)) DESC, cluster, broker_name LIMIT {brokers})
    SELECT cluster, broker_name, bucket, COUNT(DISTINCT producer_group, client_id) AS producers FROM (
      SELECT cluster, broker_name, producer_group, client_id, EXPLODE(SEQUENCE(
        (unix_millis(window_start) - {begin}) DIV {step},
        (GREATEST(unix_millis(COALESCE(window_end, window_start)) - 1, unix_millis(window_start)) - {begin}) DIV {step}
      )) AS bucket
      FROM broker_availability_window JOIN kept USING (cluster, broker_name) WHERE {of_dates}
    ) GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket""",
    "producers": """
    WITH replay AS (
      SELECT cluster, producer_group, client_id, MAX_BY(client_version, event_date) AS client_version,
        MAX_BY(verdict, event_date) AS verdict, MAX_BY(reasons, event_date) AS reasons,
        MAX_BY(certainty, event_date) AS certainty, SUM(attempts) AS attempts
      FROM producer_replay WHERE {of_dates} GROUP BY cluster, producer_group, client_id),
    held AS (
      SELECT cluster, producer_group, client_id, COUNT_IF(NOT continues_previous) AS windows,
        COUNT(DISTINCT broker_name) AS brokers,
        SUM(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS seconds
      FROM broker_availability_window WHERE {of_dates} GROUP BY cluster, producer_group, client_id)
    SELECT r.*, COALESCE(windows, 0) AS windows, COALESCE(brokers, 0) AS brokers, COALESCE(seconds, 0) AS seconds,
      COUNT(*) OVER () AS of_all
    FROM replay AS r LEFT JOIN held AS h USING (cluster, producer_group, client_id)
    ORDER BY seconds DESC, windows DESC, verdict DESC, cluster, producer_group, client_id LIMIT {producers}""",
    "windows": """
    SELECT cluster, broker_name, producer_group, client_id, state, window_start, window_end, end_reason, trigger_kind,
      trigger_latency_ms, certainty, of_all
    FROM (
      SELECT *, COUNT(*) OVER () AS of_all, ROW_NUMBER() OVER (PARTITION BY cluster, broker_name ORDER BY
        unix_millis(window_end) - unix_millis(window_start) DESC, window_start, producer_group, client_id, state) AS nth
      FROM broker_availability_window WHERE {of_dates}
    ) ORDER BY nth, cluster, broker_name LIMIT {windows}""",
    "sends": """
    SELECT cluster, broker_name, (unix_millis(begin_at) - {begin}) DIV {send_step} AS bucket, COUNT(*) AS attempts,
      COUNT_IF(outcome = 'EXCEPTION') AS failed, PERCENTILE_APPROX(latency_ms, 0.99) AS p99
    FROM send_attempt
    JOIN (
      SELECT cluster, broker_name FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name
      ORDER BY COUNT_IF(outcome = 'EXCEPTION') DESC, COUNT(*) DESC, cluster, broker_name LIMIT 40
    ) USING (cluster, broker_name)
    WHERE {of_dates} GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket""",
    "send_totals": """
    SELECT *, COUNT(*) OVER () AS of_all FROM (
      SELECT cluster, broker_name, COUNT(*) AS attempts, COUNT_IF(outcome = 'EXCEPTION') AS failed,
        COUNT_IF(outcome IN ('FLUSH_DISK_TIMEOUT', 'FLUSH_SLAVE_TIMEOUT', 'SLAVE_NOT_AVAILABLE')) AS not_ok,
        PERCENTILE_APPROX(latency_ms, 0.5) AS p50, PERCENTILE_APPROX(latency_ms, 0.99) AS p99
      FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name
    ) ORDER BY failed DESC, attempts DESC, cluster, broker_name LIMIT {brokers}""",
    "releases": """
    SELECT COALESCE(client_version, 'not recorded') AS client_version, verdict, COUNT(*) AS producers FROM (
      SELECT MAX_BY(client_version, event_date) AS client_version, MAX_BY(verdict, event_date) AS verdict
      FROM producer_replay WHERE {of_dates} GROUP BY cluster, producer_group, client_id
    ) GROUP BY 1, 2 ORDER BY 1, 2 LIMIT {rows}""",
    "replayed": """
    SELECT cluster, COUNT(DISTINCT producer_group, client_id) AS producers FROM producer_replay
    WHERE {of_dates} AND verdict = 'replayed' GROUP BY cluster ORDER BY cluster LIMIT {rows}""",
    "choices": """
    SELECT verdict, COALESCE(reason, '') AS reason, COUNT(*) AS attempts FROM send_verdict
    WHERE {of_dates} GROUP BY 1, 2 ORDER BY attempts DESC, verdict, reason LIMIT {rows}""",
}

_LATEST = """latest AS (
      SELECT cluster, collector, consumer_group, topic, round_at, verdict, SIZE(missing_inputs) AS missing, members,
        ROW_NUMBER() OVER (PARTITION BY cluster, collector, consumer_group, topic ORDER BY round_at DESC) AS back
      FROM group_round JOIN report_group USING (cluster, collector, consumer_group, topic)
      WHERE {of_dates})"""

_MATRICES = {
    "rounds": f"""
    WITH {_LATEST}
    SELECT cluster, collector, consumer_group, topic, round_at, verdict, missing FROM latest WHERE back <= {{rounds}}
    ORDER BY cluster, collector, consumer_group, topic, round_at""",
    "cells": f"""
    WITH {_LATEST}, worst AS (
      SELECT cluster, collector, consumer_group, topic, round_at, broker_name, queue_id,
        MIN_BY(STRUCT(code, finding_state), STRUCT(ARRAY_POSITION({{worst}}, severity), code)) AS finding
      FROM allocation_drift WHERE {{of_dates}} AND queue_id IS NOT NULL
      GROUP BY cluster, collector, consumer_group, topic, round_at, broker_name, queue_id)
    SELECT e.cluster, e.collector, e.consumer_group, e.topic, e.round_at, e.broker_name, e.queue_id, e.expected_owner,
      e.observed, w.finding.code AS code, w.finding.finding_state AS finding_state
    FROM expected_queue AS e
    JOIN latest AS l USING (cluster, collector, consumer_group, topic, round_at)
    LEFT JOIN worst AS w USING (cluster, collector, consumer_group, topic, round_at, broker_name, queue_id)
    WHERE e.{{of_dates}} AND l.back <= {{rounds}}
    ORDER BY e.cluster, e.collector, e.consumer_group, e.topic, e.broker_name, e.queue_id, e.round_at
    LIMIT {{cells}}""",
}

# Each job's run that checked last, whatever the clocks said.
_NEWEST_CHECKS = """(
      SELECT job, MAX_BY(run_id, STRUCT(COALESCE(number, 0), checked_at)) AS run_id
      FROM quality_result GROUP BY job)"""

_LISTS = {
    "incidents": """
    SELECT *, COUNT(*) OVER () AS of_all FROM (
      SELECT cluster, consumer_group, incident_id, root_cause, cause_key, also, state, severity, trust, opened_at,
        last_seen_at, resolved_at, codes, rounds_true, rounds_informative, lag_now, messages_accrued, evidence, sentence
      FROM drift_incident WHERE (state <> 'RESOLVED' OR {of_dates}) AND event_date <= DATE'{last}'
    ) ORDER BY state = 'RESOLVED', ARRAY_POSITION({worst}, severity), opened_at, consumer_group, incident_id
    LIMIT {rows}""",
    "findings": """
    SELECT *, COUNT(*) OVER () AS of_all FROM (
      SELECT cluster, consumer_group, topic, code, MIN_BY(severity, ARRAY_POSITION({worst}, severity)) AS severity,
        COUNT(DISTINCT round_at) AS rounds, MIN(round_at) AS first_at, MAX(round_at) AS last_at,
        MAX_BY(sentence, STRUCT(round_at, -COALESCE(queue_id, 0))) AS sentence
      FROM allocation_drift WHERE {of_dates} GROUP BY cluster, consumer_group, topic, code
    ) ORDER BY ARRAY_POSITION({worst}, severity), rounds DESC, cluster, consumer_group, topic, code LIMIT {rows}""",
    "files": """
    SELECT cluster, format, COUNT(*) AS files, SUM(read) AS read, SUM(stored) AS stored, SUM(duplicate) AS duplicate,
      SUM(ignored) AS ignored, SUM(quarantined) AS quarantined, COUNT_IF(NOT complete) AS incomplete
    FROM ingested_file GROUP BY cluster, format ORDER BY cluster, format LIMIT {rows}""",
    "refused": """
    SELECT *, COUNT(*) OVER () AS of_all FROM quarantine_by_reason
    ORDER BY lines DESC, cluster, format, reason_code LIMIT {rows}""",
    "refused_lines": """
    SELECT cluster, format, source_file, line_number, reason_code, detail, LEFT(raw_text, 300) AS raw_text, of_all
    FROM (
      SELECT *, COUNT(*) OVER () AS of_all, ROW_NUMBER() OVER (
        PARTITION BY cluster, format, reason_code ORDER BY source_file, line_number) AS nth FROM quarantine
    ) WHERE nth <= 5 ORDER BY cluster, format, reason_code, nth LIMIT {rows}""",
    "checks": """
    SELECT job, `table`, COUNT(*) AS checks, COUNT_IF(success) AS held, MAX(checked_at) AS checked_at
    FROM quality_result
    JOIN {newest_checks} USING (job, run_id)
    GROUP BY job, `table` ORDER BY held = checks, job, `table` LIMIT {rows}""",
    "failed_checks": """
    SELECT job, `table`, expectation, severity, observed, COUNT(*) OVER () AS of_all FROM quality_result
    JOIN {newest_checks} USING (job, run_id)
    WHERE NOT success ORDER BY severity, job, `table`, expectation LIMIT {rows}""",
    "publications": """
    SELECT job, last.* FROM (
      SELECT job, MAX_BY(
        STRUCT(published_at, run_id, table_versions), STRUCT(COALESCE(number, 0), published_at)) AS last
      FROM publication GROUP BY job
    ) ORDER BY job LIMIT {rows}""",
}

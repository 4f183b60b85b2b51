"""Incidents that are open now, the worst first: for a person, a machine, or a pipeline that must stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from pyspark.sql import Row, SparkSession

from jobs.transforms.frames import rows_of
from schemas.drift import SEVERITIES


class DriftFoundError(Exception):
    """Raised when an open incident is at least as severe as the caller wants to hear of."""


def open_incidents(spark: SparkSession, *, cluster: str = "*", group: str = "*") -> list[Row]:
    """Rows of the view ``open_incidents`` whose cluster and consumer group match the shell patterns."""
    rows = rows_of(spark.table("open_incidents"))
    return [r for r in rows if fnmatchcase(r.cluster, cluster) and fnmatchcase(r.consumer_group, group)]


def told(incidents: list[Row]) -> Iterator[str]:
    """Lines for a person."""
    for row in incidents:
        yield f"{row.severity:<8}  {row.cluster}  {row.consumer_group}  since {row.opened_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"          {row.sentence}"
    if not incidents:
        yield "no open incident"


def as_json(incidents: list[Row]) -> Iterator[str]:
    """One JSON object a line, columns of the view."""
    for row in incidents:
        yield json.dumps(row.asDict(), default=_text, ensure_ascii=False)


def refuse(incidents: list[Row], at_least: str) -> None:
    """Raises: DriftFoundError: one of the incidents has the severity ``at_least`` or a worse one."""
    bad = SEVERITIES[: SEVERITIES.index(at_least) + 1]
    severe = [row for row in incidents if row.severity in bad]
    if severe:
        groups = sorted({row.consumer_group for row in severe})
        raise DriftFoundError(
            f"{len(severe)} open incident(s) of severity {at_least} or worse, in {', '.join(groups)}; "
            "hindsight drift lists them, hindsight explain tells what they rest on."
        )


def _text(value: Any) -> str:
    return f"{value.isoformat()}Z" if hasattr(value, "isoformat") else str(value)

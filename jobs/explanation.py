"""What an explanation is made of: sections of rows for a person, and the SQL that picks them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from jobs.terminal import legible
from jobs.transforms.frames import rows_of, sql_text

Record = dict[str, Any]
MOST = 60


@dataclass(frozen=True)
class Section:
    """Some of the inputs: what they are, how the row follows from them, and the rows themselves."""

    title: str
    words: str
    rows: list[Record]

    def text(self) -> str:
        """For a terminal; a single row stands upright."""
        head = f"== {self.title} ==" + (f"\n{self.words}" if self.words else "")
        if not self.rows:
            return f"{head}\n  (no row)"
        if len(self.rows) == 1:
            return "\n".join([head, *(f"  {name}: {shown(value)}" for name, value in self.rows[0].items())])
        table = pd.DataFrame([{n: shown(v) for n, v in row.items()} for row in self.rows])
        return f"{head}\n{table.to_string(index=False)}"


def queried(spark: SparkSession, title: str, words: str, query: str) -> Section:
    """A section whose rows a bounded query picks."""
    return Section(title, words, select(spark, query))


def rules_in_force(spark: SparkSession, row: Record) -> Section:
    """The rules by which the row's producer was replayed on its date."""
    kept = (
        "client_version, profile, latency_fault_enabled, detector_enabled, latency_max_ms, not_available_ms, verdict, "
        "reasons, certainty"
    )
    process = same(row, "cluster", "event_date", "producer_group", "client_id", "started_at")
    return queried(
        spark,
        "The rules in force (producer_replay)",
        "A start record wins over the settings, and these over the release's own.",
        f"SELECT {kept} FROM producer_replay WHERE {process}",
    )


def select(spark: SparkSession, text: str) -> list[Record]:
    """The rows of a bounded query."""
    return [row.asDict(recursive=True) for row in rows_of(spark.sql(text))]


def same(row: Record, *names: str) -> str:
    """SQL: these columns hold what they hold in ``row``, null included."""
    return " AND ".join(f"`{name}` <=> {_literal(row[name])}" for name in names)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, int):
        return "NULL" if value is None else str(value)
    if isinstance(value, datetime):
        return at_instant(value)
    return sql_text(str(value))


def at_instant(instant: datetime) -> str:
    """SQL of an instant, UTC."""
    return f"TIMESTAMP'{instant.isoformat(sep=' ')}'"


def on_date(instant: datetime) -> str:
    """SQL of an instant's UTC date."""
    return f"DATE'{instant.date().isoformat()}'"


def shown(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, dict):
        return " ".join(f"{name}={shown(each)}" for name, each in value.items())
    return "; ".join(map(shown, value)) if isinstance(value, list) else "null" if value is None else legible(str(value))

"""How rows are merged by key: of rival source lines the smallest wins, part by part."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.frames import dates_sql
from schemas import Part, Table


def one_row_per_key(rows: DataFrame, table: Table) -> DataFrame:
    """Of the lines that bring the same part of the same key, the smallest."""
    rows = rows.alias("r")
    picks = []
    for number, part in enumerate(table.row_parts):
        present = F.col(f"r.{part.line[0]}").isNotNull()
        values = F.struct(*(F.col(f"r.`{name}`") for name in part.columns))
        order = F.struct(*(F.expr(term.format(r="r")) for term in part.order))
        picks.append(F.min_by(F.when(present, values), F.when(present, order)).alias(f"part_{number}"))
    picked = rows.groupBy(*(F.col(f"r.`{name}`") for name in table.key)).agg(*picks)
    columns = [
        F.col(f"part_{number}.`{name}`").alias(name)
        for number, part in enumerate(table.row_parts)
        for name in part.columns
    ]
    return picked.select(*table.key, *columns)


def same_key(table: Table) -> str:
    """SQL: a stored row ``t`` and a new one ``s`` have the same key."""
    return " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)


def dates_of(alias: str, dates: Iterable[date]) -> str:
    """SQL: a row falls on one of these dates."""
    listed = dates_sql(dates)
    return f"{alias}.event_date IN ({listed})" if listed else "false"


def better_line(part: Part) -> str:
    """SQL: the new row ``s`` brings the part from a smaller line than the stored row ``t`` has."""
    new, old = (", ".join(term.format(r=r) for term in part.order) for r in ("s", "t"))
    line = part.line[0]
    return f"s.`{line}` IS NOT NULL AND (t.`{line}` IS NULL OR struct({new}) < struct({old}))"

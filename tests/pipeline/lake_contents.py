"""What two lakes of the same facts must have in common."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from schemas import TABLES

# The ledger and the checks tell of runs, not of facts; everything else must be equal.
COMPARED = [t for t in TABLES.values() if t.name not in ("ingested_file", "quality_result", "publication")]
SOURCES = {
    *("source_file", "source_line", "submit_file", "submit_line", "callback_file", "callback_line"),
    *("evidence", "log_folder"),
}


def contents(spark, lake: Path, *, with_sources: bool = True) -> dict[str, list]:
    """Every table's rows, contract columns only, as sorted text; a table without rows need not be there."""
    found: dict[str, list] = {table.name: [] for table in COMPARED}
    for table in COMPARED:
        if not (lake / table.name).exists():
            continue
        names = [n for n in table.contract_columns if with_sources or n not in SOURCES]
        rows = spark.read.format("delta").load(f"{lake}/{table.name}").select(F.to_json(F.struct(*names)).alias("row"))
        found[table.name] = sorted(row.row for row in rows.collect())
    return found

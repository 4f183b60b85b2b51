"""What two lakes of the same facts must have in common."""

from __future__ import annotations

import json
from pathlib import Path

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES

# The ledger and the checks tell of runs, not of facts; everything else must be equal.
COMPARED = [t for t in TABLES.values() if t.name not in ("ingested_file", "quality_result", "publication")]
SOURCES = {
    *("source_file", "source_line", "submit_file", "submit_line", "callback_file", "callback_line"),
    *("evidence", "log_folder"),
}


def contents(lake: Path, *, with_sources: bool = True) -> dict[str, list[str]]:
    """Every table's rows, contract columns only, as sorted JSON; a table without rows need not be there."""
    stored = LocalLake(str(lake), retention_days=7)
    found: dict[str, list[str]] = {}
    for table in COMPARED:
        names = [name for name in table.contract_columns if with_sources or name not in SOURCES]
        found[table.name] = sorted(json.dumps(row, default=str) for row in stored.rows(table, names).to_pylist())
    return found

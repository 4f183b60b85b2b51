"""What a lake holds, to be compared before and after a what-if, or with what a what-if holds."""

from __future__ import annotations

import json
from pathlib import Path

from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES, Table


def whole_rows(lake: ArrowLake, table: Table) -> list[str]:
    """A table's rows, contract columns only, as sorted JSON."""
    rows = lake.rows(table, table.contract_columns).to_pylist()
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def versions(lake: Path | str) -> dict[str, int | None]:
    """The Delta version of every table of a lake."""
    stored = LocalLake(str(lake), retention_days=7)
    return {name: stored.version(table) for name, table in TABLES.items()}

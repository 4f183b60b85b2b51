"""When and by which run rows are computed: rows of a kernel in, rows as their table's contract has them out."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.runner import Blob
from hindsight.schemas import Table


class Lineage(NamedTuple):
    """When and by which run rows are computed."""

    computed_at: datetime
    run_id: str

    def of(self, table: Table, key: int, midnight_ms: int, rows: pa.Table) -> Blob:
        """Rows of a table, as its contract has them."""
        for name, value in zip(self._fields, (pa.scalar(self.computed_at), pa.scalar(self.run_id)), strict=True):
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        return Blob(table.name, key, midnight_ms, conformed_rows(rows, table))

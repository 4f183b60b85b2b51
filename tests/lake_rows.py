"""Rows of a lake for tests, without Spark: a condition or a query in DuckDB's SQL in, rows by name out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake


class Row(dict[str, Any]):
    """A row whose columns are attributes as well; structs within it are such rows too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


def _row(value: Any) -> Any:
    if isinstance(value, dict):
        return Row({name: _row(each) for name, each in value.items()})
    return [_row(each) for each in value] if isinstance(value, list) else value


class LakeRows:
    """The tables of a lake as they are when each is first asked for; instants are UTC without a zone."""

    def __init__(self, lake: Path | str) -> None:
        self.asker = LocalAsker(LocalLake(str(lake), retention_days=7))

    def __call__(self, table: str, where: str = "TRUE", columns: str = "*") -> list[Row]:
        """The rows of a table or view that meet a condition."""
        return self.ask(f"SELECT {columns} FROM {table} WHERE {where}")

    def one(self, table: str, where: str = "TRUE", columns: str = "*") -> Row:
        """The only such row."""
        (row,) = self(table, where, columns)
        return row

    def ask(self, query: str) -> list[Row]:
        """The answer to a query."""
        return [_row(row) for row in records(self.asker, query)]

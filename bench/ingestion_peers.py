"""Lines of producer hooks read, each attempt kept once and written as Parquet by DuckDB: what ingestion is at least."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Callable[[], dict[str, Any]]]
_KEY = '"group", clientId, msgId, mode, times, broker, queueId, beginMs'


def by_duckdb(data: Path) -> Run:
    """One SQL statement, whose rows go to a file."""
    import duckdb

    written = data.parent / f"{data.name}-duckdb.parquet"
    lines = f"read_json('{data}/next/producer_hook/*/*.jsonl', format = 'newline_delimited')"
    query = f"COPY (SELECT DISTINCT ON ({_KEY}) * FROM {lines} WHERE type <> 'start') TO '{written}' (FORMAT parquet)"

    def run() -> Callable[[], dict[str, Any]]:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {os.cpu_count()}")
            connection.execute(query)
        return told

    def told() -> dict[str, Any]:
        with duckdb.connect() as connection:
            found = connection.sql(f"SELECT count(*) FROM '{written}'").fetchall()
        return {"attempts of the lines that came": found[0][0]}

    return run


CONTESTANTS = {"DuckDB": by_duckdb}

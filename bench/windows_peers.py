"""Windows of 4.x producers by DuckDB and Polars: plain window functions over all updates."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Callable[[], dict[str, Any]]]
_PAIR = "cluster, producer_group, client_id, broker_name"
_RUNGS = ((15000, 600000), (3000, 180000), (2000, 120000), (1000, 60000), (550, 30000))
_ISOLATION_MS = 600_000
_MEMORY = "8GB"  # what a machine of 24 GB leaves beside the other contestants; what does not fit is spilled


def by_duckdb(data: Path) -> Run:
    """One SQL statement."""
    import duckdb

    ladder = " ".join(f"WHEN latency >= {rung} THEN {held}" for rung, held in _RUNGS)
    columns = f"{_PAIR}, begin_at, thread, msg_id, attempt"
    query = f"""
        WITH attempts AS (SELECT * FROM read_parquet('{data}/send_attempt/*.parquet')),
        calls AS (
            SELECT {columns}, end_at AS updated_at, exception IS NOT NULL AS isolation, 0 AS phase FROM attempts
            WHERE mode <> 'ASYNC'
            UNION ALL SELECT {columns}, submit_end_at, false, 0 FROM attempts WHERE mode = 'ASYNC'
            UNION ALL SELECT {columns}, callback_end_at, exception IS NOT NULL, 1 FROM attempts WHERE mode = 'ASYNC'
        ),
        updates AS (
            SELECT *, epoch_ms(updated_at) AS at_ms, epoch_ms(updated_at) - epoch_ms(begin_at) AS latency FROM calls
        ),
        timed AS (
            SELECT *, CASE WHEN isolation THEN {_ISOLATION_MS} {ladder} ELSE 0 END AS held FROM updates
        ),
        seen AS (
            SELECT {_PAIR}, at_ms, held, CASE WHEN held > 0 THEN at_ms + held END AS until,
                   lag(CASE WHEN held > 0 THEN at_ms + held END) OVER w AS before, lead(at_ms) OVER w AS next_ms,
                   row_number() OVER w AS place
            FROM timed
            WINDOW w AS (PARTITION BY {_PAIR} ORDER BY updated_at, begin_at, thread, msg_id, attempt, phase)
        ),
        numbered AS (
            SELECT *, sum(CASE WHEN before IS NULL OR at_ms > before THEN 1 ELSE 0 END)
                   OVER (PARTITION BY {_PAIR} ORDER BY place) AS stretch
            FROM seen WHERE held > 0
        ),
        stretches AS (
            SELECT min(at_ms) AS since, max(least(until, coalesce(next_ms, until))) AS until, count(*) AS updates
            FROM numbered GROUP BY {_PAIR}, stretch
        )
        SELECT count(*), sum(until - since)::bigint, sum(updates)::bigint FROM stretches WHERE until > since"""
    config: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": str(data / f"spilled-{os.getpid()}")}
    connection = duckdb.connect(config=config)

    def run() -> Callable[[], dict[str, Any]]:
        found = connection.execute(query).fetchone()
        return lambda: {"windows": list(found or ())}

    return run


def by_polars(data: Path) -> Run:
    """A lazy query."""
    import polars as pl

    pair = _PAIR.split(", ")
    order = ["at", "begin_at", "thread", "msg_id", "attempt", "phase"]

    def calls(attempts: pl.LazyFrame, at: str, phase: int, fails: bool) -> pl.LazyFrame:
        isolation = pl.col("exception").is_not_null() if fails else pl.lit(False)
        kept = [*pair, "begin_at", "thread", "msg_id", "attempt"]
        return attempts.select(
            *kept, pl.col(at).alias("at"), isolation.alias("isolation"), pl.lit(phase).alias("phase")
        )

    def run() -> Callable[[], dict[str, Any]]:
        attempts = pl.scan_parquet(data / "send_attempt" / "*.parquet")
        is_async = pl.col("mode") == "ASYNC"
        updates = pl.concat(
            [
                calls(attempts.filter(~is_async), "end_at", 0, True),
                calls(attempts.filter(is_async), "submit_end_at", 0, False),
                calls(attempts.filter(is_async), "callback_end_at", 1, True),
            ]
        )
        latency = (pl.col("at") - pl.col("begin_at")).dt.total_milliseconds()
        held: Any = pl.lit(0)
        for rung, duration in reversed(_RUNGS):
            held = pl.when(latency >= rung).then(duration).otherwise(held)
        held = pl.when(pl.col("isolation")).then(_ISOLATION_MS).otherwise(held)
        seen = (
            updates.with_columns(held=held, at_ms=pl.col("at").dt.epoch("ms"))
            .with_columns(until=pl.when(pl.col("held") > 0).then(pl.col("at_ms") + pl.col("held")))
            .sort([*pair, *order])
            .with_columns(before=pl.col("until").shift(1).over(pair), next_ms=pl.col("at_ms").shift(-1).over(pair))
            .filter(pl.col("held") > 0)
        )
        opens = (pl.col("before").is_null() | (pl.col("at_ms") > pl.col("before"))).cast(pl.Int64)
        end = pl.min_horizontal("until", pl.col("next_ms").fill_null(pl.col("until")))
        made = (
            seen.with_columns(stretch=opens.cum_sum().over(pair), end=end)
            .group_by(*pair, "stretch")
            .agg(since=pl.col("at_ms").min(), until=pl.col("end").max(), updates=pl.len())
            .filter(pl.col("until") > pl.col("since"))
            .select(pl.len().alias("n"), (pl.col("until") - pl.col("since")).sum().alias("ms"), pl.col("updates").sum())
            .collect()
        )
        return lambda: {"windows": [int(value) for value in made.row(0)]}

    return run


CONTESTANTS = {"DuckDB": by_duckdb, "Polars": by_polars}

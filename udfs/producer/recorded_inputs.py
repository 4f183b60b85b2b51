"""Rows of a date's input tables in, what the fold takes of them out; instants in epoch ms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hindsight.udfs.producer.family_verdicts import Retries
from hindsight.udfs.producer.producer_lives import HandedOver, Producer, Start
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replay_rules import Recorded


def starts_of(rows: pa.Table) -> dict[Producer, list[Start]]:
    """The starts of producer_instance rows, by producer."""
    found: dict[Producer, list[Start]] = defaultdict(list)
    for row in with_epoch_ms(rows, "started_at"):
        found[row["producer_group"], row["client_id"]].append(Start(row["started_at"], _recorded(row)))
    return found


def retries_of(rows: pa.Table) -> Retries:
    """retryTimesWhenSendFailed of each start."""
    told = with_epoch_ms(rows, "started_at") if "retry_times_sync" in rows.column_names else []
    return {((row["producer_group"], row["client_id"]), row["started_at"]): row["retry_times_sync"] for row in told}


def handed_over(rows: pa.Table) -> dict[Producer, list[HandedOver]]:
    """The processes of producer_replay rows, by producer."""
    found: dict[Producer, list[HandedOver]] = defaultdict(list)
    for row in with_epoch_ms(rows, "started_at", "last_attempt_at"):
        found[row["producer_group"], row["client_id"]].append(
            HandedOver(
                row["started_at"], _recorded(row["recorded"]), row["last_attempt_at"], row["certainty"] == "partial"
            )
        )
    return found


def routes_of(rows: pa.Table, *, stale_s: int, valid_s: int) -> RecordedRoutes:
    """The routes of topic_route rows."""
    captured = ({**row, "captured_ms": row["captured_at"]} for row in with_epoch_ms(rows, "captured_at"))
    return RecordedRoutes(captured, stale_ms=1000 * stale_s, valid_ms=1000 * valid_s)


def with_epoch_ms(rows: pa.Table, *names: str) -> list[dict[str, Any]]:
    """Rows as dicts, these instants of them in epoch ms."""
    for name in names:
        us = rows[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(name), name, us)
    return [row | {n: None if row[n] is None else row[n] // 1000 for n in names} for row in rows.to_pylist()]


def _recorded(row: Mapping[str, Any]) -> Recorded:
    said: dict[str, Any] = {name: row.get(name) for name in Recorded._fields}
    for name in ("latency_max_ms", "not_available_ms"):
        said[name] = None if said[name] is None else tuple(said[name])
    return Recorded(**said)

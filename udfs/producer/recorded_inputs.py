"""Rows of a date's input tables in, what the fold takes of them out; instants in epoch ms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.attempt_columns import DAY_MS
from hindsight.udfs.producer.family_choices import Retries
from hindsight.udfs.producer.producer_lives import HandedOver, Producer, Start
from hindsight.udfs.producer.recorded_routes import ENTRY_COLUMNS, READ_AT, RecordedRoutes, entries_of
from hindsight.udfs.producer.replay_rules import Recorded
from hindsight.udfs.producer.send_calls import REACH_MS
from hindsight.udfs.producer.unseen_life import Gap
from hindsight.udfs.values.row_hashes import whole


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
                row["started_at"],
                _recorded(row["recorded"]),
                row["last_attempt_at"],
                row["certainty"] == "partial",
                tuple(map(_gap, row.get("unseen") or ())),
            )
        )
    return found


def _gap(told: Mapping[str, Any]) -> Gap:
    since, until = (None if told[name] is None else (told[name] - _EPOCH) // _MS for name in ("since", "until"))
    return Gap(since, until or 0, told["reason"])


_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


NO_LOSSES = pa.schema(
    {"producer_group": pa.string(), "client_id": pa.string(), "told_at": pa.timestamp("us", "UTC")}
).empty_table()


def told_of(own: pa.Table, after: pa.Table, midnight_ms: int) -> pa.Table:
    """Of the rows of lost_lines of a date and of the next one, those whose lines may be the date's own."""
    soon = pa.scalar((midnight_ms + DAY_MS + REACH_MS) * 1000).cast(pa.timestamp("us", "UTC"))
    told = [part.select(NO_LOSSES.column_names).cast(NO_LOSSES.schema) for part in (own, after)]
    return pa.concat_tables([told[0], told[1].filter(pc.less(told[1]["told_at"], soon))])


def losses_of(rows: pa.Table) -> dict[Producer, list[int]]:
    """When recorders told that they had lost lines (rows of lost_lines), by producer."""
    found: dict[Producer, list[int]] = defaultdict(list)
    for row in with_epoch_ms(rows, "told_at"):
        found[row["producer_group"], row["client_id"]].append(row["told_at"])
    return found


def routes_of(rows: pa.Table, *, stale_s: int, valid_s: int) -> RecordedRoutes:
    """The routes of topic_route rows, or of what ``entries_of`` makes of them."""
    told = rows if READ_AT in rows.column_names or not rows.num_rows else entries_of(rows)
    return RecordedRoutes(with_read_ms(told), stale_ms=1000 * stale_s, valid_ms=1000 * valid_s)


def with_read_ms(told: pa.Table) -> list[dict[str, Any]]:
    """What ``entries_of`` gives as dicts, with the instants of the reads as ``captured_ms``, epoch ms."""
    if not told.num_rows:
        return []
    read_at = whole(told, READ_AT)
    us = read_at.flatten().cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    ends = np.cumsum(read_at.value_lengths().to_numpy())
    instants = np.split(us // 1000, ends[:-1])
    said = told.select(list(ENTRY_COLUMNS)).to_pylist()
    return [row | {"captured_ms": ms} for row, ms in zip(said, instants, strict=True)]


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

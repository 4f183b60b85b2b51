"""Captures in; which collectors ask a proxy instead of a name server, by date, out."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.listed_members import INFO, STATS

NEEDED = ("collector", "event_date", "kind", "error_code", "broker_name")
_NOT_SUPPORTED = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_EVERY_BROKER_ANSWERS = (INFO, STATS)


def refusals(captures: pa.Table) -> set[tuple[str, date]]:
    """Collectors and dates of a cluster on which a proxy was asked: it supports none of what every broker answers."""
    refused = captures.filter(
        (pc.field("error_code") == _NOT_SUPPORTED)
        & pc.field("kind").isin(list(_EVERY_BROKER_ANSWERS))
        & pc.field("broker_name").is_null()
    )
    return set(zip(refused["collector"].to_pylist(), refused["event_date"].to_pylist(), strict=True))

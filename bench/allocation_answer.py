"""Owners by group, topic and round in; a digest for each strategy out, by which contestants are compared."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

AVG, CIRCLE, RING = "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"


def digests(table: Any) -> dict[str, str]:
    """The number of owners and a digest of them all, by strategy.

    ``table``: snapshot (which group, topic and round), strategy, owners (a list in the order of the queues).
    """
    found = {}
    for strategy in sorted(set(table["strategy"].to_pylist())):
        own = table.filter(pc.equal(table["strategy"], strategy)).sort_by("snapshot")
        owners = pc.list_flatten(own["owners"]).cast(pa.string())
        counts = pc.list_value_length(own["owners"]).cast(pa.int32())
        text = "\n".join(owners.fill_null("").to_pylist())
        digest = hashlib.sha256(text.encode())
        digest.update(own["snapshot"].to_numpy().tobytes() + counts.to_numpy().tobytes())
        found[strategy] = f"{len(owners)} owners, {digest.hexdigest()[:16]}"
    return found

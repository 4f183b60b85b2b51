"""Who runs, on what, and what the terminal is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from pyspark.sql import Column
from pyspark.sql import functions as F

_LOG = logging.getLogger("hindsight")


@dataclass
class Step:
    """What a step reports when it ends."""

    rows_in: int | None = None
    rows_out: int | None = None
    note: str = ""


@dataclass(frozen=True)
class RunContext:
    """One run: its id, its landing root, and the instant that lineage columns carry."""

    landing: str
    run_id: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}")
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def lineage(self) -> list[Column]:
        """The lineage columns; a table keeps those that its contract names."""
        now = F.lit(self.started_at)
        return [now.alias("ingested_at"), now.alias("computed_at"), F.lit(self.run_id).alias("run_id")]

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Tell the terminal which step runs, and at its end the rows in, the rows out and the seconds."""
        _LOG.info("%s ...", name)
        begun = time.monotonic()
        step = Step()
        yield step
        rows = [
            f"{count:,} {what}" for count, what in ((step.rows_in, "in"), (step.rows_out, "out")) if count is not None
        ]
        parts = [*rows, f"{time.monotonic() - begun:.1f} s", *([step.note] if step.note else [])]
        _LOG.info("%s: %s", name, ", ".join(parts))

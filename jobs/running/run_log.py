"""What a run tells while it works: events, each with its facts; run id and job come from ``RunContext.step``.

How they are shown, ``terminal`` says: in words on a terminal, elsewhere one JSON line an event.
"""

from __future__ import annotations

from typing import Any

from hindsight.jobs.running.unseen import unseen

with unseen("rich"):  # which only a terminal needs
    import structlog

LOGGER = "hindsight"


def tell(event: str, **facts: Any) -> None:
    """Log an event of the run: ``facts`` are plain values."""
    structlog.stdlib.get_logger(LOGGER).info(event, **facts)

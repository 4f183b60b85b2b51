"""Attempts, windows and replay rules of some dates in; rows of fleet_minute and producer_finding out, date by date.

Every rule sees one date at a time, so a date computed alone gives the rows of a run over many. What lasts over midnight
is told by each date, but for LONG_ISOLATION, whose window knows when its whole stretch opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import Observed, Thresholds
from jobs.transforms.fleet_findings import fleet_slow, over_isolation
from jobs.transforms.fleet_minutes import (
    PROCESS_DATE,
    active_producers,
    fleet_minutes,
    isolating_minutes,
    minute_sends,
    not_available,
)
from jobs.transforms.isolation_findings import all_isolated, long_isolation
from jobs.transforms.return_findings import not_returning
from jobs.transforms.send_findings import fault_off_slow, impossible_choice

__all__ = ["RULES", "Observed", "Thresholds", "impossible_choice", "observed", "producer_findings"]

# impossible_choice is not among them: it looks at the rows of send_verdict, not at what the others share.
RULES: dict[str, Callable[[Observed, Thresholds], DataFrame]] = {
    "LONG_ISOLATION": long_isolation,
    "ALL_ISOLATED": all_isolated,
    "OVER_ISOLATION": over_isolation,
    "FLEET_SLOW": fleet_slow,
    "NOT_RETURNING": not_returning,
    "FAULT_OFF_SLOW": fault_off_slow,
}


def observed(
    attempts: DataFrame,
    windows: DataFrame,
    replay: DataFrame,
    routes: DataFrame,
    limits: Thresholds,
    *,
    staged: Callable[[DataFrame], DataFrame],
) -> Observed:
    """What the rules look at. ``staged`` computes a frame once: each of those serves several rules.

    ``attempts`` and ``replay`` are of the dates alone and carry their process; for ``windows`` and ``routes`` see
    ``Observed``.
    """
    held = staged(not_available(windows))
    sends = staged(minute_sends(attempts))
    active = staged(active_producers(sends, replay, min_sends_per_minute=limits.min_sends_per_minute))
    isolating = staged(isolating_minutes(held, active))
    served = attempts.groupBy(*PROCESS_DATE, "topic", "broker_name").agg((F.max("queue_id") + 1).alias("queues"))
    return Observed(
        attempts=attempts,
        windows=windows,
        replay=replay,
        held=held,
        sends=sends,
        isolating=isolating,
        fleet=staged(fleet_minutes(attempts, held, active, isolating)),
        served=staged(served),
        routes=routes,
    )


def producer_findings(given: Observed, limits: Thresholds) -> DataFrame:
    """Rows of producer_finding: everything that any rule found."""
    return reduce(DataFrame.unionByName, (rule(given, limits) for rule in RULES.values()))

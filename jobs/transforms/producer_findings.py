"""Attempts, windows and replay rules of some dates in; rows of fleet_minute and producer_finding out, date by date.

Every rule sees one date at a time, so a date computed alone gives the rows of a run over many. What lasts over midnight
is told by each date, but for LONG_ISOLATION, whose window knows when its whole stretch opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import Observed, nothing_found
from jobs.transforms.fleet_findings import fleet_slow, over_isolation
from jobs.transforms.fleet_minutes import (
    PROCESS_DATE,
    active_producers,
    fleet_minutes,
    isolating_minutes,
    minute_counts,
    not_available,
)
from jobs.transforms.isolation_findings import all_isolated, long_isolation, writable
from jobs.transforms.return_findings import not_returning
from jobs.transforms.send_findings import fault_off_slow, impossible_choice
from udfs.producer_finding import Thresholds

__all__ = ["RULES", "Observed", "Thresholds", "observed", "producer_findings"]

Rule = Callable[[Observed, Thresholds], DataFrame]
Needs = Callable[[Observed], DataFrame]


def _held(given: Observed) -> DataFrame:
    return given.held


def _isolating(given: Observed) -> DataFrame:
    return given.isolating


def _slow(given: Observed) -> DataFrame:
    return given.counts.where("slow > 0")


def _impossible(given: Observed) -> DataFrame:
    return given.verdicts.where("verdict = 'impossible'")


# Each rule with the rows without which it finds nothing.
RULES: dict[str, tuple[Rule, Needs]] = {
    "LONG_ISOLATION": (long_isolation, _held),
    "ALL_ISOLATED": (all_isolated, _held),
    "OVER_ISOLATION": (over_isolation, _isolating),
    "FLEET_SLOW": (fleet_slow, _isolating),
    "NOT_RETURNING": (not_returning, _held),
    "FAULT_OFF_SLOW": (fault_off_slow, _slow),
    "IMPOSSIBLE_CHOICE": (impossible_choice, _impossible),
}


def observed(
    attempts: DataFrame,
    windows: DataFrame,
    replay: DataFrame,
    verdicts: DataFrame,
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
    counts = staged(minute_counts(attempts, slow_ms=limits.fault_off_slow_ms))
    active = staged(active_producers(counts, replay, min_sends_per_minute=limits.min_sends_per_minute))
    isolating = staged(isolating_minutes(held, active))
    served = counts.groupBy(*PROCESS_DATE, "topic", "broker_name").agg(F.max("queues").alias("queues"))
    return Observed(
        attempts=attempts,
        windows=windows,
        replay=replay,
        held=held,
        counts=counts,
        isolating=isolating,
        fleet=staged(fleet_minutes(counts, held, active, isolating)),
        served=staged(served),
        routes=writable(routes),
        verdicts=verdicts,
    )


def producer_findings(given: Observed, limits: Thresholds, *, is_any: Callable[[DataFrame], bool]) -> DataFrame:
    """Rows of producer_finding: everything that any rule found.

    ``is_any`` looks whether a frame has rows: on most dates most rules have nothing to look at, and planning them costs
    more than that.
    """
    present = {needs: is_any(needs(given)) for needs in {needs for _, needs in RULES.values()}}
    told = [rule(given, limits) for rule, needs in RULES.values() if present[needs]]
    return reduce(DataFrame.unionByName, told) if told else nothing_found(given.replay)

"""Fleet minutes in; findings out that set one producer against the fleet, or speak of the whole of it.

Only replayed processes have windows, so a producer that could not be replayed has no finding here: that is not health.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.finding_rows import (
    Observed,
    evidence,
    found,
    iso,
    minute,
    of_producer,
    producer_and_broker,
    producer_name,
    runs,
    text,
    window_doubt,
)
from jobs.transforms.fleet_minutes import BROKER_MINUTE, ITEM_DATE
from udfs.producer_finding import Thresholds


def over_isolation(given: Observed, limits: Thresholds) -> DataFrame:
    """A producer isolated a broker that at most 10 % of the active producers isolated, minute by minute.

    Active: 30 sends in the minute or more, and replayed. Certain only if it holds whatever the producers did whose
    windows are not certain or not known.
    """
    share = limits.over_isolation_max_percent
    few = F.col("isolating") * 100 <= F.col("active") * share
    proven = F.col("isolating_at_most") * 100 <= (F.col("active") + F.col("active_unknown")) * share
    minutes = given.isolating.join(given.fleet.where(few), list(BROKER_MINUTE))
    told = runs(
        minutes,
        ITEM_DATE,
        F.max("certainty").alias("certainty"),
        F.bool_and(proven).alias("proven"),
        F.max(F.struct("isolating", "active")).alias("most"),
    )
    certainty = F.when(~F.col("proven") & (F.col("certainty") == "certain"), "possible").otherwise(F.col("certainty"))
    doubt = F.coalesce(
        window_doubt(F.col("certainty")), F.when(~F.col("proven"), "of other active producers too little is known")
    )
    return found(
        told,
        "OVER_ISOLATION",
        **of_producer(),
        subject=producer_and_broker(),
        broker_name=F.col("broker_name"),
        **{"from": F.col("run_start"), "to": F.col("run_end")},
        certainty=certainty,
        doubt=doubt,
        evidence=_fleet_evidence(),
        sentence=text(
            "{} held {} not available between {} and {}, when no more than {} of {} active producers did",
            producer_name(),
            F.col("broker_name"),
            minute(F.col("run_start")),
            minute(F.col("run_end")),
            F.col("most.isolating"),
            F.col("most.active"),
        ),
    )


def fleet_slow(given: Observed, limits: Thresholds) -> DataFrame:
    """At least 50 % of the active producers held a broker not available, minute by minute: the broker is slow.

    Certain only if the certain windows alone are so many, of all who were active and not off.
    """
    share = limits.fleet_slow_min_percent
    many = (F.col("isolating") > 0) & (F.col("isolating") * 100 >= F.col("active") * share)
    proven = F.col("isolating_at_least") * 100 >= (F.col("active") + F.col("active_unknown")) * share
    told = runs(
        given.fleet.where(many),
        ["cluster", "event_date", "broker_name"],
        F.bool_and(proven).alias("proven"),
        F.max(F.struct("isolating", "active")).alias("most"),
        F.max("active_unknown").alias("unknown"),
    )
    others = F.when(F.col("unknown") > 0, text("; {} more could not be judged", F.col("unknown"))).otherwise("")
    return found(
        told,
        "FLEET_SLOW",
        subject=F.col("broker_name"),
        broker_name=F.col("broker_name"),
        **{"from": F.col("run_start"), "to": F.col("run_end")},
        certainty=F.when(F.col("proven"), "certain").otherwise("possible"),
        doubt=F.when(~F.col("proven"), "with the certain windows alone there are fewer"),
        evidence=_fleet_evidence(),
        sentence=text(
            "up to {} of {} active producers treated {} as not available between {} and {}{}",
            F.col("most.isolating"),
            F.col("most.active"),
            F.col("broker_name"),
            minute(F.col("run_start")),
            minute(F.col("run_end")),
            others,
        ),
    )


def _fleet_evidence() -> Column:
    return evidence(
        "fleet_minute: broker_name={}, minute_at={} to {}",
        F.col("broker_name"),
        iso(F.col("run_start")),
        iso(F.col("run_end")),
    )

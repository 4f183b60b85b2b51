"""What is known of producers on a date, and of their fleet, in; rows of producer_finding out.

Every rule sees one date, so a date computed alone gives the rows of a run over many. What lasts over midnight is told
by each date, but for LONG_ISOLATION, whose window knows when its whole stretch opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from hindsight.udfs.producer.fleet_rules import broker_refuses, fleet_slow, over_isolation
from hindsight.udfs.producer.isolation_rules import all_isolated, long_isolation
from hindsight.udfs.producer.producer_finding import Finding, Fleet, Observed, Thresholds
from hindsight.udfs.producer.producer_tables import INSTANT, STRINGS
from hindsight.udfs.producer.release_rules import release_differs
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.return_rules import not_returning
from hindsight.udfs.producer.send_rules import fault_off_slow, impossible_choice

Rule = Callable[[Observed, Fleet, Thresholds], Iterable[Finding]]
# What is said of single producers; each rule with its code.
RULES: dict[str, Rule] = {
    "LONG_ISOLATION": long_isolation,
    "ALL_ISOLATED": all_isolated,
    "OVER_ISOLATION": over_isolation,
    "NOT_RETURNING": not_returning,
    "FAULT_OFF_SLOW": fault_off_slow,
    "IMPOSSIBLE_CHOICE": impossible_choice,
    "RELEASE_DIFFERS": release_differs,
}
# What is said of brokers, by all producers together.
FLEET_RULES = (fleet_slow, broker_refuses)
FINDING = pa.schema(
    [
        ("cluster", pa.string()),
        ("event_date", pa.date32()),
        *((name, pa.string()) for name in ("code", "severity", "subject", "producer_group", "client_id")),
        ("started_at", INSTANT),
        *((name, pa.string()) for name in ("topic", "broker_name", "kind")),
        ("from", INSTANT),
        ("to", INSTANT),
        ("certainty", pa.string()),
        ("evidence", STRINGS),
        ("sentence", pa.string()),
    ]
)


def findings_of(given: Observed, fleet: Fleet, limits: Thresholds) -> pa.Table:
    """What is found of single producers."""
    return _rows(given.day, [finding for rule in RULES.values() for finding in rule(given, fleet, limits)])


def findings_of_fleet(day: Day, fleet: Fleet, limits: Thresholds) -> pa.Table:
    """What is found of all of them together, once a cluster and date."""
    return _rows(day, [finding for rule in FLEET_RULES for finding in rule(day, fleet, limits)])


def _rows(day: Day, findings: Sequence[Finding]) -> pa.Table:
    return pa.Table.from_pylist([finding.row(day) for finding in findings], schema=FINDING)

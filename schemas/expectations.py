"""What must hold in a candidate beyond its key and value sets: SQL that selects the rows that break a rule.

``{batch}`` is the candidate. A critical rule that selects a row stops the publication; a warning is reported.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Invariant(NamedTuple):
    """A rule by name, and the query of the rows that break it."""

    name: str
    query: str
    severity: Literal["critical", "warning"] = "critical"


INVARIANTS: dict[str, tuple[Invariant, ...]] = {
    "ingested_file": (
        Invariant(
            "every line is stored, duplicate, ignored or quarantined",
            "SELECT * FROM {batch} WHERE read <> stored + duplicate + ignored + quarantined",
        ),
    ),
    "broker_availability_window": (
        Invariant("a window ends after it starts", "SELECT * FROM {batch} WHERE window_end <= window_start"),
        Invariant(
            "a window lies within its date",
            "SELECT * FROM {batch} WHERE to_date(window_start) <> event_date "
            "OR window_end > timestamp(date_add(event_date, 1))",
        ),
        Invariant(
            "windows of one producer, broker and state never overlap",
            "SELECT * FROM (SELECT *, LEAD(window_start) OVER (PARTITION BY cluster, event_date, producer_group, "
            "client_id, started_at, broker_name, state ORDER BY window_start) AS following FROM {batch}) AS w "
            "WHERE following < coalesce(window_end, timestamp'9999-12-31')",
        ),
    ),
    "group_round": (
        Invariant(
            "a round with missing inputs is not ok",
            "SELECT * FROM {batch} WHERE verdict = 'ok' AND size(missing_inputs) > 0",
        ),
    ),
    "allocation_drift": (
        Invariant("every finding has its evidence", "SELECT * FROM {batch} WHERE size(evidence) = 0"),
    ),
    "drift_incident": (
        Invariant(
            "an incident opens after it is first seen and ends after it opens",
            "SELECT * FROM {batch} WHERE opened_at < first_seen_at OR resolved_at < opened_at",
        ),
        Invariant(
            "an incident is resolved exactly when it has an end",
            "SELECT * FROM {batch} WHERE (state = 'RESOLVED') <> (resolved_at IS NOT NULL)",
        ),
        Invariant("every incident has a finding", "SELECT * FROM {batch} WHERE size(findings) = 0"),
    ),
    "expected_allocation": (
        Invariant(
            "nothing is expected without a reason",
            "SELECT * FROM {batch} WHERE allocation IS NULL AND refusal IS NULL",
        ),
    ),
}

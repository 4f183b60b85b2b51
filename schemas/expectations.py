"""What must hold in a candidate beyond its key and value sets: SQL that selects the rows that break a rule.

``{batch}`` is the candidate, ``candidate_<table>`` that of another table. A critical rule that selects a row stops the
publication; a warning is reported. Spark and DuckDB both take the queries, DuckDB with Spark's ``size``
and its own word for a function without a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from hindsight.schemas.table_contract import Table


class Invariant(NamedTuple):
    """A rule by name, the query of the rows that break it, and the other tables that it looks at."""

    name: str
    query: str
    severity: Literal["critical", "warning"] = "critical"
    beside: tuple[str, ...] = ()


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
            "SELECT * FROM {batch} WHERE CAST(window_start AS DATE) <> event_date "
            "OR window_end > CAST(event_date + INTERVAL '1' DAY AS TIMESTAMP)",
        ),
        Invariant(
            "windows of one producer, broker and state never overlap",
            "SELECT * FROM (SELECT *, LEAD(window_start) OVER (PARTITION BY cluster, event_date, producer_group, "
            "client_id, started_at, broker_name, state ORDER BY window_start) AS following FROM {batch}) AS w "
            "WHERE following < coalesce(window_end, TIMESTAMP'9999-12-31 00:00:00')",
        ),
        Invariant(
            "a duration belongs to its producer's ladder",
            "SELECT w.* FROM {batch} AS w JOIN candidate_producer_replay AS r ON w.cluster = r.cluster "
            "AND w.event_date = r.event_date AND w.producer_group = r.producer_group AND w.client_id = r.client_id "
            "AND w.started_at IS NOT DISTINCT FROM r.started_at "
            "WHERE w.state = 'unavailable' AND NOT array_contains(r.not_available_ms, w.not_available_ms)",
            beside=("producer_replay",),
        ),
    ),
    "send_call": (
        Invariant("every send has its attempts", "SELECT * FROM {batch} WHERE size(attempts) = 0"),
        Invariant(
            "a send is of the date on which it began",
            "SELECT * FROM {batch} WHERE CAST(begin_at AS DATE) <> event_date",
        ),
        Invariant(
            "what is not as it should be has a reason",
            "SELECT * FROM {batch} WHERE (stored_twice = 'possible') <> (size(stored_twice_reasons) > 0) "
            "OR (retry_verdict = 'right') <> (retry_reason IS NULL)",
        ),
    ),
    "producer_release": (
        Invariant(
            "what is ruled out has what ruled it out",
            "SELECT * FROM {batch} WHERE (state = 'ruled_out') <> (ruled_out_by IS NOT NULL) OR against > chances",
        ),
    ),
    "window_confirmation": (
        Invariant(
            "a line that shows a window names it",
            "SELECT * FROM {batch} WHERE (shows = 'nothing') <> (window_start IS NULL)",
        ),
    ),
    "fleet_minute": (
        Invariant(
            "no more isolate a broker than are active",
            "SELECT * FROM {batch} WHERE isolating > active OR isolating_at_least > isolating "
            "OR isolating > isolating_at_most OR isolating_at_most > active + active_unknown",
        ),
    ),
    "producer_finding": (
        Invariant("every finding has its evidence", "SELECT * FROM {batch} WHERE size(evidence) = 0"),
        Invariant("a finding ends after it begins", "SELECT * FROM {batch} AS f WHERE f.to < f.from"),
    ),
    "group_round": (
        Invariant(
            "a round with missing inputs is not ok",
            "SELECT * FROM {batch} WHERE verdict = 'ok' AND size(missing_inputs) > 0",
        ),
    ),
    "allocation_drift": (
        Invariant("every finding has its evidence", "SELECT * FROM {batch} WHERE size(evidence) = 0"),
        Invariant(
            "a queue has one state in a round",
            "SELECT cluster, collector, consumer_group, topic, round_at, broker_name, queue_id FROM {batch} "
            "WHERE code IN ('ORPHAN_QUEUE', 'ORPHAN_BY_DESIGN', 'DOUBLE_OWNED', 'WRONG_OWNER') "
            "GROUP BY ALL HAVING COUNT(DISTINCT code) > 1",
        ),
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
        Invariant(
            "every incident has its evidence",
            "SELECT * FROM {batch} WHERE size(evidence) = 0",
        ),
    ),
    "rebalance_event": (
        Invariant(
            "a rebalance is of the date on which the client had its queues",
            # An answer of a round that began before midnight is read after it; the round is of the date before.
            "SELECT * FROM {batch} WHERE CAST(changed_at AS DATE) <> event_date AND (told_by = 'client_log' "
            "OR CAST(changed_at - INTERVAL 1 HOUR AS DATE) <> event_date)",
        ),
        Invariant(
            "an interval ends after it begins",
            "SELECT * FROM {batch} WHERE changed_after > changed_at OR trigger_after > trigger_at "
            "OR took_at_least_ms > took_ms OR took_ms < 0",
        ),
        Invariant(
            "every queue that was taken has its hand-over",
            "SELECT * FROM {batch} WHERE queues_gained <> size(hand_overs)",
        ),
        Invariant(
            "a rebalance that failed has its exception",
            "SELECT * FROM {batch} WHERE (outcome = 'failed' AND size(exceptions) = 0) OR size(evidence) = 0",
        ),
        Invariant(
            "what is exact is logged",
            "SELECT * FROM {batch} WHERE certainty = 'exact' AND (changed_after IS NOT NULL OR trigger_at IS NULL)",
        ),
        Invariant(
            "nobody rebalances before it is triggered",
            "SELECT * FROM {batch} WHERE coalesce(trigger_after, trigger_at) > changed_at + INTERVAL '2' SECOND",
            severity="warning",
        ),
    ),
    "expected_allocation": (
        Invariant(
            "nothing is expected without a reason",
            "SELECT * FROM {batch} WHERE allocation IS NULL AND refusal IS NULL",
        ),
        Invariant(
            "expected owners are members",
            "SELECT e.* FROM {batch} AS e JOIN (SELECT cluster, event_date, consumer_group, topic, member_list_hash, "
            "any_value(members) AS members FROM candidate_group_round GROUP BY ALL) AS r USING (cluster, event_date, "
            "consumer_group, topic, member_list_hash) "
            "WHERE size(filter(e.allocation, a -> NOT array_contains(r.members, a.owner))) > 0",
            beside=("group_round",),
        ),
    ),
}


def beside(tables: Iterable[Table]) -> list[str]:
    """The tables that invariants of these look at beside their own."""
    return sorted({name for table in tables for rule in INVARIANTS.get(table.name, ()) for name in rule.beside})

"""A row of producer_finding or fleet_minute in, the windows, minutes and attempts from which it follows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import (
    MOST,
    REPLAYED,
    Section,
    at_instant,
    candidates,
    on_date,
    queried,
    rules_in_force,
    same,
)

_MINUTE = timedelta(minutes=1)


def explained_finding(asker: Asker, finding: Record) -> Iterator[Section]:
    """The rows that its rule looks at; the runbook says what each code means."""
    if finding["client_id"] is not None:
        yield rules_in_force(asker, finding)
    for section in _SECTIONS[finding["code"]]:
        yield section(asker, finding)


def explained_minute(asker: Asker, minute: Record) -> Iterator[Section]:
    """Who isolated the broker in the minute, and who sent."""
    span = {**minute, "from": minute["minute_at"], "to": minute["minute_at"] + _MINUTE}
    yield _windows_of_all(asker, span)
    yield queried(
        asker,
        "Producers that sent in the minute (send_attempt)",
        "Active are those with min_sends_per_minute first attempts or more, to any broker.",
        f"""SELECT producer_group, client_id, COUNT_IF(COALESCE(attempt, 0) = 0) AS sends,
            COUNT_IF({same(asker, minute, "broker_name")}) AS attempts_to_the_broker
            FROM {REPLAYED} WHERE {same(asker, minute, "cluster", "event_date")} AND {_during("begin_at", span)}
            GROUP BY producer_group, client_id ORDER BY sends DESC, producer_group, client_id LIMIT {MOST}""",
    )


def _during(column: str, row: Record) -> str:
    """SQL: an instant within what the finding lasts; without an end to the end of its date."""
    day_end = (row["from"] + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return f"{column} >= {at_instant(row['from'])} AND {column} < {at_instant(row['to'] or day_end)}"


def _windows(asker: Asker, finding: Record) -> Section:
    """Windows of the producer in that time."""
    broker = f" AND {same(asker, finding, 'broker_name')}" if finding["broker_name"] else ""
    return queried(
        asker,
        "Its windows in that time (broker_availability_window)",
        "explain broker_availability_window redoes one from its attempts. One that midnight cuts is continued.",
        f"""SELECT broker_name, state, window_start, window_end, end_reason, continues_previous, trigger_kind,
            trigger_latency_ms, not_available_ms, certainty FROM broker_availability_window
            WHERE {same(asker, finding, "cluster", "producer_group", "client_id", "started_at")}{broker}
            AND event_date BETWEEN {on_date(finding["from"])} AND {on_date(finding["to"] or finding["from"])}
            AND {_overlapping(finding)} ORDER BY window_start, broker_name LIMIT {MOST}""",
    )


def _windows_of_all(asker: Asker, finding: Record) -> Section:
    """Windows of every producer in that time."""
    return queried(
        asker,
        "Who treated the broker as not available in that time (broker_availability_window)",
        "certain windows alone count in isolating_at_least.",
        f"""SELECT producer_group, client_id, window_start, window_end, trigger_kind, certainty
            FROM broker_availability_window WHERE {same(asker, finding, "cluster", "event_date", "broker_name")}
            AND {_overlapping(finding)} ORDER BY window_start, producer_group, client_id LIMIT {MOST}""",
    )


def _overlapping(finding: Record) -> str:
    ended = f"(window_end > {at_instant(finding['from'])} OR window_end IS NULL)"
    return ended if finding["to"] is None else f"window_start < {at_instant(finding['to'])} AND {ended}"


def _minutes(asker: Asker, finding: Record) -> Section:
    """The fleet, minute by minute."""
    return queried(
        asker,
        "The fleet in those minutes (fleet_minute)",
        "isolating of active is compared with the shares in [producer_findings].",
        f"""SELECT minute_at, active, isolating, isolating_at_least, isolating_at_most, active_unknown, attempts
            FROM fleet_minute WHERE {same(asker, finding, "cluster", "event_date", "broker_name")}
            AND {_during("minute_at", finding)} ORDER BY minute_at LIMIT {MOST}""",
    )


def _answers(asker: Asker, finding: Record) -> Section:
    """Failed attempts to the broker, minute by minute."""
    return queried(
        asker,
        "What the broker answered in those minutes (failed_attempts)",
        "gone_on: their sends went on to another attempt; lost: the caller got an exception.",
        f"""SELECT minute, failed_with, response_code, attempts, gone_on, saved, lost FROM failed_attempts
            WHERE {same(asker, finding, "cluster", "event_date", "broker_name")} AND {_during("minute", finding)}
            ORDER BY minute, failed_with, response_code LIMIT {MOST}""",
    )


def _shares(asker: Asker, finding: Record) -> Section:
    """What each broker got of the producer's sends while the finding lasted."""
    topic = f" AND {same(asker, finding, 'topic')}" if finding["topic"] else ""
    return queried(
        asker,
        "First attempts of the producer by broker in that time (send_attempt)",
        "A broker's share of the topic's queues is what it should get of them.",
        f"""SELECT topic, broker_name, COUNT(*) AS sends, COUNT(DISTINCT queue_id) AS queues_seen,
            MIN(begin_at) AS first_at, MAX(begin_at) AS last_at FROM {REPLAYED}
            WHERE {same(asker, finding, "cluster", "event_date", "producer_group", "client_id")}{topic}
            AND COALESCE(attempt, 0) = 0 AND COALESCE(queue_selected_by, 'client') = 'client'
            AND {_during("begin_at", finding)} GROUP BY topic, broker_name
            ORDER BY topic, sends DESC, broker_name LIMIT {MOST}""",
    )


def _latencies(asker: Asker, finding: Record) -> Section:
    """Latencies of the producer's attempts to the broker, minute by minute."""
    return queried(
        asker,
        "Latencies of its attempts to the broker, minute by minute (send_attempt)",
        "p99 of each minute is compared with fault_off_slow_ms. ONEWAY and submits are left aside.",
        f"""SELECT DATE_TRUNC('minute', begin_at) AS minute, COUNT(*) AS attempts,
            CAST(PERCENTILE_DISC(0.99) WITHIN GROUP (ORDER BY latency_ms) AS BIGINT) AS p99_ms FROM {REPLAYED}
            WHERE {same(asker, finding, "cluster", "event_date", "producer_group", "client_id", "broker_name")}
            AND outcome <> 'SUBMITTED' AND {_during("begin_at", finding)}
            GROUP BY DATE_TRUNC('minute', begin_at) ORDER BY minute LIMIT {MOST}""",
    )


def _choices(asker: Asker, finding: Record) -> Section:
    """The choices that no reading of the rules admits."""
    return queried(
        asker,
        "Choices that its release could not have made (send_verdict)",
        "explain send_verdict shows the fault items at one of them.",
        f"""SELECT begin_at, topic, msg_id, attempt, broker_name, admissible, rule, reason FROM send_verdict
            WHERE {same(asker, finding, "cluster", "event_date", "producer_group", "client_id", "started_at")}
            AND verdict = 'impossible' ORDER BY begin_at, msg_id, attempt LIMIT {MOST}""",
    )


_SECTIONS: dict[str, tuple[Callable[[Asker, Record], Section], ...]] = {
    "FLEET_SLOW": (_minutes, _windows_of_all),
    "BROKER_REFUSES": (_answers,),
    "OVER_ISOLATION": (_windows, _minutes),
    "ALL_ISOLATED": (_windows, _shares),
    "LONG_ISOLATION": (_windows,),
    "NOT_RETURNING": (_shares, _windows),
    "FAULT_OFF_SLOW": (_latencies,),
    "IMPOSSIBLE_CHOICE": (_choices,),
    "RELEASE_DIFFERS": (candidates, _choices),
}

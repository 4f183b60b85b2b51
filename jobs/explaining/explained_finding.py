"""A row of one of the smaller derived tables in, the rows from which it follows out.

Of producer_finding and fleet_minute these are windows, minutes and attempts.
"""

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
_PROCESS = ("cluster", "event_date", "producer_group", "client_id", "started_at")
_PRODUCER = ("cluster", "producer_group", "client_id")


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


def explained_replay(asker: Asker, replay: Record) -> Iterator[Section]:
    """Where the rules of a producer process are known from."""
    yield queried(
        asker,
        "Start records of the producer (producer_instance)",
        "A start record wins over the settings, and these over the release's own.",
        f"""SELECT started_at, client_version, latency_fault_enabled, source_file || ':' || source_line AS line
            FROM producer_instance WHERE {same(asker, replay, *_PRODUCER)} ORDER BY started_at DESC LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Its attempts on the date, by source (send_attempt)",
        "The replay goes by the sources that the row names; certainty is partial where exceptions are not observable.",
        f"""SELECT source, mode, COUNT(*) AS attempts, COUNT_IF(exception IS NOT NULL) AS failed,
            MIN(exceptions_observable) AS exceptions_observable, MIN(begin_at) AS first_at, MAX(begin_at) AS last_at
            FROM send_attempt WHERE {same(asker, replay, *_PRODUCER, "event_date")}
            GROUP BY source, mode ORDER BY source, mode LIMIT {MOST}""",
    )
    if _is_asked_about(replay):
        yield candidates(asker, replay)


def _is_asked_about(replay: Record) -> bool:
    return replay["profile"] is None or replay["certainty"] == "inferred"


def explained_item(asker: Asker, item: Record) -> Iterator[Section]:
    """The last attempts to the broker, and the windows of the date."""
    yield rules_in_force(asker, item)
    until = item["last_update_at"] or item["forgotten_at"]
    if until is not None:
        yield queried(
            asker,
            "The last attempts to the broker (send_attempt)",
            "last_update_at is the end of the last one that counted; current_latency_ms its latency.",
            f"""SELECT begin_at, end_at, latency_ms, mode, outcome, exception, queue_selected_by,
                source_file || ':' || source_line AS line FROM send_attempt
                WHERE {same(asker, item, *_PRODUCER, "broker_name")}
                AND event_date BETWEEN {on_date(until - timedelta(days=1))} AND {on_date(until)}
                AND begin_at <= {at_instant(until)} ORDER BY end_at DESC LIMIT 10""",
        )
    yield queried(
        asker,
        "Its windows of the date (broker_availability_window)",
        "An item whose start_at lies after the date's end is handed to the next date.",
        f"""SELECT state, window_start, window_end, end_reason, trigger_kind, trigger_latency_ms, certainty
            FROM broker_availability_window WHERE {same(asker, item, *_PROCESS, "broker_name")}
            ORDER BY window_start LIMIT {MOST}""",
    )


def explained_confirmation(asker: Asker, line: Record) -> Iterator[Section]:
    """The line, and the windows near it."""
    yield queried(
        asker,
        "The line (client_event)",
        "",
        f"""SELECT logged_at, log_folder, thread, kind, broker_name, duration_ms,
            source_file || ':' || source_line AS line FROM client_event
            WHERE {same(asker, line, "cluster", "event_date", "line_digest", "occurrence")} LIMIT {MOST}""",
    )
    at = line["logged_at"]
    near = f"BETWEEN {at_instant(at - timedelta(seconds=5))} AND {at_instant(at + timedelta(seconds=5))}"
    yield queried(
        asker,
        "Windows of the broker that begin or end within 5 s of it (broker_availability_window)",
        "The nearest within [confirmation] within_ms of a producer whose thread wrote the line is taken.",
        f"""SELECT producer_group, client_id, state, window_start, window_end, end_reason, not_available_ms
            FROM broker_availability_window WHERE {same(asker, line, "cluster", "event_date", "broker_name")}
            AND (window_start {near} OR window_end {near}) ORDER BY window_start, client_id LIMIT {MOST}""",
    )


def explained_allocation(asker: Asker, expected: Record) -> Iterator[Section]:
    """The rounds that have these lists and rules."""
    lists = ("queue_list_hash", "member_list_hash", "claims_hash", "strategy", "strategy_parameters", "profile")
    yield queried(
        asker,
        "Rounds with these members, queues and rules (group_round)",
        "Each client computes its share from the two lists alone, by its own strategy and release.",
        f"""SELECT round_at, collector, members, queues, member_rules, verdict FROM group_round
            WHERE {same(asker, expected, "cluster", "event_date", "consumer_group", "topic", *lists)}
            ORDER BY round_at, collector LIMIT 5""",
    )


def explained_round(asker: Asker, judged: Record) -> Iterator[Section]:
    """What was read in the round, and what was found."""
    group = same(asker, judged, "cluster", "event_date", "collector", "consumer_group", "round_at")
    yield queried(
        asker,
        "What was asked and answered (snapshot_capture)",
        "missing_inputs names what is not among these answers.",
        f"""SELECT kind, client_id, captured_at, answered, error, source_file || ':' || source_line AS line
            FROM snapshot_capture WHERE {group} ORDER BY kind, client_id, captured_at LIMIT {MOST}""",
    )
    topic = same(asker, judged, "topic")
    yield queried(
        asker,
        "Expected and observed, queue by queue (expected_queue)",
        "ok: every queue is with its expected owner and with nobody else.",
        f"""SELECT broker_name, queue_id, expected_owner, claimants, observed FROM expected_queue
            WHERE {group} AND {topic} ORDER BY broker_name, queue_id LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "What was found (allocation_drift)",
        "",
        f"""SELECT code, finding_state, broker_name, queue_id, client_id, sentence FROM allocation_drift
            WHERE {group} AND (topic IS NULL OR {topic})
            ORDER BY code, broker_name, queue_id, client_id LIMIT {MOST}""",
    )


def explained_strategy(asker: Asker, known: Record) -> Iterator[Section]:
    """What the client said of its strategy."""
    client = same(asker, known, "cluster", "consumer_group", "client_id")
    yield queried(
        asker,
        "Rounds in which it had this rule (group_round)",
        "member_rules names each member's strategy and where it is known from.",
        f"""SELECT MIN(round_at) AS first_at, MAX(round_at) AS last_at, COUNT(*) AS rounds FROM group_round
            WHERE {same(asker, known, "cluster", "event_date", "consumer_group")}
            AND ARRAY_CONTAINS(members, {asker.literal(known["client_id"])}) LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Results of its rebalances that were logged (rebalance_result)",
        "A line names the strategy, the lists and the share.",
        f"""SELECT * FROM rebalance_result WHERE {client} AND event_date <= {on_date(known["known_since"])}
            ORDER BY event_date DESC LIMIT 5""",
    )


def explained_state(asker: Asker, state: Record) -> Iterator[Section]:
    """What is open as the date ends, and its last rounds."""
    group = same(asker, state, "cluster", "event_date", "collector", "consumer_group")
    yield queried(
        asker,
        "Its incidents as they were at the end of the date (drift_incident)",
        "",
        f"""SELECT incident_id, root_cause, cause_key, state, opened_at, last_seen_at, rounds_true FROM drift_incident
            WHERE {group} ORDER BY opened_at, incident_id LIMIT {MOST}""",
    )
    if not state["consumer_group"]:
        yield queried(
            asker,
            "The last questions to its servers (snapshot_capture)",
            "The state of brokers and name servers is of no group: who answered, and who did not.",
            f"""SELECT captured_at, kind, subject, broker_name, name_server, answered, error FROM snapshot_capture
                WHERE {same(asker, state, "cluster", "event_date", "collector")}
                ORDER BY captured_at DESC, kind, subject, broker_name, name_server LIMIT {MOST}""",
        )
        return
    yield queried(
        asker,
        "The group's last rounds (group_round)",
        "The state is what the walk over all rounds of the date left; the next date begins with it.",
        f"""SELECT round_at, topic, verdict, informative, findings FROM group_round WHERE {group}
            ORDER BY round_at DESC, topic LIMIT 10""",
    )

"""A row of the smaller derived tables in, the rows from which it follows out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import (
    MOST,
    Section,
    at_instant,
    candidates,
    on_date,
    queried,
    rules_in_force,
    same,
)

_PROCESS = ("cluster", "event_date", "producer_group", "client_id", "started_at")
_PRODUCER = ("cluster", "producer_group", "client_id")


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

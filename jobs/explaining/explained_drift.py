"""A row of allocation_drift in, the inputs from which it follows out: lists, owners, answers, offsets, incident."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explained_assignment import assigned
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, queried, same


def explained_drift(asker: Asker, drift: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the finding."""
    group = same(asker, drift, "cluster", "event_date", "collector", "consumer_group", "round_at")
    topic = f" AND {same(asker, drift, 'topic')}" if drift["topic"] else ""
    queue = f" AND {same(asker, drift, 'broker_name', 'queue_id')}" if drift["queue_id"] is not None else ""
    yield _round(asker, group, topic)
    if drift["code"] == "POP_ASSIGNMENT_DIFFERS":
        yield from assigned(asker, drift, drift["round_at"])
    else:
        yield _expected(asker, group, topic)
    yield _answers(asker, group, topic, queue)
    if queue:
        yield _offsets(asker, drift, topic, queue)
        yield _ends(asker, drift, topic, queue)
    yield _incident(asker, drift, group)


def _round(asker: Asker, group: str, topic: str) -> Section:
    """The lists from which every client computes its share."""
    return queried(
        asker,
        "The round (group_round)",
        "Members and queues in RocketMQ's order: each client computes its share from these two lists alone.",
        f"""SELECT topic, members, queues, strategy, strategy_parameters, profile, strategy_source, member_rules,
            spread_ms, loose, missing_inputs, verdict FROM group_round WHERE {group}{topic}
            ORDER BY topic LIMIT {MOST}""",
    )


def _expected(asker: Asker, group: str, topic: str) -> Section:
    """The owners that follow, and those that showed."""
    return queried(
        asker,
        "Expected and observed, queue by queue (expected_queue)",
        "expected_owner: by the group's rule; claimants: by each member's own; observed: who showed it as its own.",
        f"""SELECT topic, broker_name, queue_id, expected_owner, claimants, observed FROM expected_queue
            WHERE {group}{topic} ORDER BY topic, broker_name, queue_id LIMIT {MOST}""",
    )


def _answers(asker: Asker, group: str, topic: str, queue: str) -> Section:
    """What each member answered."""
    return queried(
        asker,
        "What each member answered (snapshot_capture, queue_ownership)",
        "Owners are of the running infos that were answered; a member that did not answer may own what nobody shows.",
        f"""SELECT c.kind, c.client_id, c.captured_at, c.answered, c.error, o.queues,
              c.source_file || ':' || c.source_line AS line
            FROM snapshot_capture AS c
            LEFT JOIN (
              SELECT source_file, source_line, ARRAY_SORT(COLLECT_LIST(broker_name || ':' || queue_id
                || IF(dropped, ' dropped', '') || IF(locked, ' locked', ''))) AS queues
              FROM queue_ownership WHERE {group}{topic}{queue} GROUP BY source_file, source_line
            ) AS o USING (source_file, source_line)
            WHERE {group} ORDER BY c.kind, c.client_id, c.captured_at LIMIT {MOST}""",
    )


def _offsets(asker: Asker, drift: Record, topic: str, queue: str) -> Section:
    """The last readings of the queue."""
    return queried(
        asker,
        "The queue's offsets so far (queue_progress)",
        "A reading counts until the next one. An offset that went back is compared with those before.",
        f"""SELECT captured_at, broker_offset, consumer_offset, lag, last_timestamp, consume_tps,
            source_file || ':' || source_line AS line
            FROM queue_progress
            WHERE {same(asker, drift, "cluster", "event_date", "consumer_group")}{topic}{queue}
            AND captured_at <= {at_instant(drift["judged_at"])} ORDER BY captured_at DESC LIMIT 8""",
    )


def _ends(asker: Asker, drift: Record, topic: str, queue: str) -> Section:
    """Where the queue begins and ends at its broker."""
    return queried(
        asker,
        "The first offset that is still there, and the next (topic_status)",
        "Messages before the first are deleted. No row: nobody asked.",
        f"""SELECT captured_at, min_offset, max_offset, last_update_at, source_file || ':' || source_line AS line
            FROM topic_status WHERE {same(asker, drift, "cluster", "event_date", "collector")}{topic}{queue}
            AND captured_at <= {at_instant(drift["judged_at"])} ORDER BY captured_at DESC LIMIT 5""",
    )


def _incident(asker: Asker, drift: Record, group: str) -> Section:
    """The incident of the finding."""
    return queried(
        asker,
        "The incident that took it in (drift_with_incident)",
        "",
        f"""SELECT DISTINCT incident_id, state, root_cause, cause_key, opened_at, last_seen_at, resolved_at
            FROM drift_with_incident WHERE {group} AND {same(asker, drift, "code", "topic", "broker_name", "queue_id")}
            AND {same(asker, drift, "client_id", "kind")} AND incident_id IS NOT NULL LIMIT {MOST}""",
    )

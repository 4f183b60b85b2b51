"""Judged rounds and incidents in, rows for the tables out.

The kernels hold instants as epoch milliseconds; rows as datetimes, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.group_rows import Row, to_instant
from hindsight.udfs.consumer.round_facts import Owner
from hindsight.udfs.drift.disturbances import Change, Disturbance
from hindsight.udfs.drift.finding import progress_of
from hindsight.udfs.drift.group_history import Judged, Round, fold_attached
from hindsight.udfs.drift.incidents import Incident
from hindsight.udfs.drift.root_cause import UNEXPLAINED

_ROUND_KEY = ("cluster", "event_date", "collector", "consumer_group", "round_at")


def drift_rows(row: Row, walked: Round) -> list[dict[str, Any]]:
    """Rows of ``allocation_drift``, each with the facts that a reader needs to follow it."""
    topics = {topic["topic"]: topic for topic in row["topics"]}
    last = None if walked.disturbance is None else _disturbance(walked.disturbance)
    return [{**_drift_row(row, walked.group, judged, topics), "last_disturbance": last} for judged in walked.judged]


def change_rows(row: Row, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Rows of ``membership_change``."""
    return [
        {
            **{name: row[name] for name in _ROUND_KEY if name != "round_at"},
            "topic": change.topic,
            "changed_at": to_instant(change.changed_at),
            "settled_at": to_instant(change.settled_at),
            "joined": list(change.joined),
            "left": list(change.left),
            **change.moves._asdict(),
        }
        for change in changes
    ]


def incident_row(incident: Incident, total_queues: int, settled: bool, timing: Timing) -> dict[str, Any]:
    """A row of ``drift_incident``, without its place."""
    findings = [
        {
            "code": attached.code,
            "kind": attached.kind,
            "severity": attached.severity,
            "trust": attached.trust,
            "topic": attached.subject.topic,
            "broker_name": attached.subject.broker_name,
            "queue_id": attached.subject.queue_id,
            "client_id": attached.subject.client_id,
            "queues": queues,
            "sample": list(sample),
            "first_seen_at": to_instant(attached.first_seen_at),
            "last_seen_at": to_instant(attached.last_seen_at),
            "is_open": attached.is_open,
        }
        for attached, queues, sample in fold_attached(incident, total_queues, timing)
    ]
    disturbance = incident.disturbance
    return {
        "incident_id": incident.incident_id,
        "root_cause": incident.cause.name,
        "cause_key": incident.cause.key,
        "also": list(incident.also),
        "state": incident.state,
        "severity": incident.severity,
        "trust": incident.trust,
        "first_seen_at": to_instant(incident.first_seen_at),
        "opened_at": to_instant(incident.opened_at),
        "last_seen_at": to_instant(incident.last_seen_at),
        "resolved_at": to_instant(incident.resolved_at),
        "reopened": incident.reopened,
        "rounds_true": incident.rounds_true,
        "rounds_informative": incident.rounds_informative,
        "codes": sorted({attached.code for attached in incident.attached.values()}),
        "findings": findings,
        "lag_at_open": incident.lag_at_open,
        "lag_now": incident.lag_now,
        "messages_accrued": incident.accrued,
        "ordered": incident.ordered,
        "last_disturbance": None if disturbance is None else _disturbance(disturbance),
        "evidence": list(incident.evidence),
        "settled": settled,
        "sentence": incident_sentence(incident),
    }


def incident_sentence(incident: Incident) -> str:
    """What is wrong, in plain words: the cause, the worst that came of it, and how much it explains in all."""
    counts: dict[str, int] = {}
    for attached in incident.attached.values():
        if attached.code != incident.cause.name:
            counts[attached.code] = counts.get(attached.code, 0) + 1
    words = ", ".join(f"{count} {_words(code, count)}" for code, count in sorted(counts.items()))
    explained = f"In all: {words}." if sum(counts.values()) > 1 else ""
    return " ".join(filter(None, (incident.cause_sentence, incident.worst_sentence, explained)))


def _words(code: str, count: int) -> str:
    text = {
        "ORPHAN_QUEUE": "queue without owner",
        "UNSERVED_QUEUE": "queue standing still",
        "DOUBLE_OWNED": "queue owned twice",
        "WRONG_OWNER": "queue at the wrong owner",
        "IDLE_CONSUMER": "idle consumer",
    }.get(code, code)
    head, space, rest = text.partition(" ")
    many = f"{head}s{space}{rest}" if head == "queue" else f"{text}s"
    return text if count == 1 or text == code else many


def _drift_row(row: Row, group: GroupRound, judged: Judged, topics: Mapping[str, Row]) -> dict[str, Any]:
    finding, grace, judgement, folded = judged
    topic = group.topic(finding.topic)
    rule = topics.get(finding.topic or "") or (row["topics"][0] if row["topics"] else None)
    progress = progress_of(group, finding.topic, finding.queue)
    track, root = judgement.track, judgement.track.incident or judgement.track.causes[0]
    missing = rule["missing_inputs"] if topic and rule else group.missing_inputs
    return {
        **{name: row[name] for name in _ROUND_KEY},
        "captured_at": to_instant(finding.captured_at),
        "judged_at": to_instant(group.at),
        "code": finding.code,
        "severity": finding.severity,
        "trust": finding.trust,
        "finding_state": judgement.state,
        "topic": finding.topic,
        "broker_name": finding.queue[0] if finding.queue else None,
        "queue_id": finding.queue[1] if finding.queue else None,
        "client_id": finding.client_id,
        "kind": finding.kind,
        "folded": folded,
        "since_at": to_instant(track.since),
        "grace_until": to_instant(grace.until) if grace else None,
        "grace_reason": f"{grace.disturbance.kind} of {grace.disturbance.subject}" if grace else None,
        "root_cause": root.name,
        "cause_key": root.key,
        "incident_id": judgement.incident_id,
        "also": sorted({cause.name for cause in track.causes} - {root.name, UNEXPLAINED}),
        "expected_client_ids": list(finding.expected),
        "observed": [_observed(owner) for owner in finding.observed],
        "strategy": rule and rule["strategy"],
        "strategy_source": rule and rule["strategy_source"],
        "strategy_parameters": (rule and rule["strategy_parameters"]) or "",
        "message_model": group.message_model,
        "queue_count": len(topic.queues or ()) if topic else None,
        "member_count": len(group.members),
        "member_list_hash": row["member_list_hash"],
        "queue_list_hash": topic.queue_list_hash if topic else None,
        "distinct_views": row["distinct_views"] or 0,
        "subscription_difference": finding.difference,
        "lag_now": progress and progress.lag,
        "lag_before": progress and progress.lag_before,
        "lag_at_open": track.lag_at_open,
        "messages_accrued": track.accrued,
        "ordered": group.ordered,
        "coverage": 1 - len(group.unanswered) / len(group.client_ids) if group.client_ids else 0.0,
        "missing_inputs": list(dict.fromkeys((*missing, *finding.assumptions))),
        "evidence": list(finding.evidence),
        "sentence": finding.sentence,
    }


def _observed(owner: Owner) -> dict[str, Any]:
    return {
        "client_id": owner.client_id,
        "locked": owner.locked,
        "last_pull_at": to_instant(owner.last_pull_at),
        "last_consume_at": to_instant(owner.last_consume_at),
    }


def _disturbance(disturbance: Disturbance) -> dict[str, Any]:
    return {"kind": disturbance.kind, "at": to_instant(disturbance.at), "subject": disturbance.subject}

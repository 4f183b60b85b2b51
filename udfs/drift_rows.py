"""Rows of a group's round in, the round as the rules see it out; and judged rounds in, rows for the tables out.

Rows hold instants as datetimes, UTC; the kernels as epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from udfs.churn import Change
from udfs.disturbances import Disturbance
from udfs.drift_timing import Timing
from udfs.group_history import Judged, Round, fold_attached
from udfs.group_memory import Reading
from udfs.group_round import (
    Connection,
    GroupRound,
    Owner,
    Queue,
    Read,
    Subscription,
    TopicRound,
)
from udfs.incidents import Incident
from udfs.root_cause import UNEXPLAINED

Row = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_ONLINE = 206  # ResponseCode.CONSUMER_NOT_ONLINE: the broker knows of no member
_ROUND_KEY = ("cluster", "event_date", "collector", "consumer_group", "round_at")


def to_ms(at: datetime | None) -> int | None:
    """An instant as epoch milliseconds; naive ones are UTC."""
    if at is None:
        return None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def to_instant(at_ms: int | None) -> datetime | None:
    """Epoch milliseconds as an instant."""
    return None if at_ms is None else _EPOCH + timedelta(milliseconds=at_ms)


def group_round(row: Row) -> GroupRound:
    """What the rules look at, from the row that Spark brought together."""
    reads = {read["client_id"]: _read(read) for read in sorted(row["reads"], key=lambda r: r["captured_at"])}
    listing = row["listing"]
    nobody = listing is not None and listing["error_code"] == _NOT_ONLINE
    judged = [topic for topic in row["topics"] if not topic["not_asked"]]
    return GroupRound(
        consumer_group=row["consumer_group"],
        message_model=row["message_model"],
        members=tuple(row["members"]),
        reads=reads,
        strategies={r["client_id"]: (r["strategy"], r["source"]) for r in row["member_rules"] if _is_known(r)},
        ordered=row["ordered"],
        loose=row["loose"],
        missing_inputs=tuple(dict.fromkeys(m for topic in judged for m in topic["missing_inputs"])),
        topics=tuple(_topic(topic, row) for topic in judged),
        evidence=(listing["evidence"],) if listing else (),
        listed_at=to_ms(listing["captured_at"]) if listing else None,
        listed=listing is not None and (listing["answered"] or nobody),
        connections=tuple(Connection(c["broker_name"], c["client_id"], c["address"]) for c in row["connections"] or ()),
        shared=row["shared"],
        at=to_ms(row["at"]) or 0,
    )


def readings(read_at: int, lags: Sequence[Row]) -> list[Reading]:
    """A progress reading, queue by queue."""
    return [
        Reading((lag["topic"], *_queue(lag)), read_at, lag["broker_offset"], lag["consumer_offset"]) for lag in lags
    ]


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
        "UNSERVED_QUEUE": "queue that stands still",
        "DOUBLE_OWNED": "queue owned twice",
        "WRONG_OWNER": "queue at the wrong owner",
        "IDLE_CONSUMER": "idle consumer",
    }.get(code, code)
    head, space, rest = text.partition(" ")
    many = f"{head}s{space}{rest}" if head == "queue" else f"{text}s"
    return text if count == 1 or text == code else many


def _is_known(rule: Row) -> bool:
    """A strategy of RocketMQ's own; what an application's class does is not known."""
    return bool(rule["strategy"]) and not rule["strategy"].startswith("class:")


def _read(read: Row) -> Read:
    own = read["subscriptions"] if read["answered"] else None
    subscriptions = tuple(
        Subscription(s["topic"], s["expression_type"], s["sub_string"], tuple(s["tags"] or ())) for s in own or ()
    )
    return Read(
        read["client_id"],
        read["answered"],
        read["error"],
        None if own is None else frozenset(s.topic for s in subscriptions),
        to_ms(read["captured_at"]) or 0,
        read["evidence"],
        subscriptions,
        to_ms(read["client_started_at"]),
        read["message_model"],
        read["consume_from_where"],
    )


def _topic(topic: Row, row: Row) -> TopicRound:
    allocation = topic["allocation"] or ()
    allowed = {_queue(a): _takers(a) for a in allocation}
    for before in topic["allocation_before"] or ():
        queue = _queue(before)
        allowed[queue] = allowed.get(queue, frozenset()) | _takers(before)
    return TopicRound(
        topic=topic["topic"],
        queues=None if topic["queues"] is None else tuple(_queue(q) for q in topic["queues"]),
        expected={_queue(a): a["owner"] for a in allocation},
        allowed=allowed,
        owners=_owners(row["owners"] or (), topic["topic"]),
        strategy=topic["strategy"],
        strategy_source=topic["strategy_source"],
        strategy_parameters=topic["strategy_parameters"],
        queue_list_hash=topic["queue_list_hash"],
        expects=topic["allocation"] is not None,
        evidence=(topic["evidence"],) if topic["evidence"] else (),
        claimants={_queue(a): frozenset(a["claimants"]) for a in allocation},
        missing_inputs=tuple(topic["missing_inputs"]),
    )


def _queue(row: Row) -> Queue:
    return row["broker_name"], row["queue_id"]


def _takers(row: Row) -> frozenset[str]:
    owner = {row["owner"]} if row["owner"] else set()
    return frozenset(owner | set(row["claimants"]))


def _owners(rows: Any, topic: str) -> dict[Queue, tuple[Owner, ...]]:
    owners: dict[Queue, tuple[Owner, ...]] = {}
    of_topic = [row for row in rows if row["topic"] == topic]
    for row in sorted(of_topic, key=lambda r: (r["client_id"], *_queue(r))):
        owner = Owner(
            row["client_id"],
            row["locked"],
            to_ms(row["last_pull_at"]),
            to_ms(row["last_consume_at"]),
            to_ms(row["last_lock_at"]),
            row["cached_messages"],
        )
        owners[_queue(row)] = (*owners.get(_queue(row), ()), owner)
    return owners


def _drift_row(row: Row, group: GroupRound, judged: Judged, topics: Mapping[str, Row]) -> dict[str, Any]:
    finding, grace, judgement, folded = judged
    topic = group.topic(finding.topic)
    rule = topics.get(finding.topic or "") or (row["topics"][0] if row["topics"] else None)
    progress = None
    if finding.topic is not None and finding.queue is not None:
        progress = group.past.progress.get((finding.topic, *finding.queue))
    members = tuple(dict.fromkeys(group.members))
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
        "lag_now": None if progress is None else progress.lag,
        "lag_before": None if progress is None else progress.lag_before,
        "lag_at_open": track.lag_at_open,
        "messages_accrued": track.accrued,
        "ordered": group.ordered,
        "coverage": 1 - len(group.unanswered) / len(members) if members else 0.0,
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

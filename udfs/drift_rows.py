"""Nested rows of a group's round in, rows of ``allocation_drift`` out: from Spark's rows to the rules and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from udfs.drift_rules import Finding, findings
from udfs.group_round import GroupRound, Owner, Queue, Read, TopicRound

Row = Mapping[str, Any]


def findings_of_row(row: Row) -> list[dict[str, Any]]:
    """The findings of one round of one group, each with the facts that a reader needs to follow it."""
    if any(topic["not_asked"] for topic in row["topics"]) and not _judgeable(row):
        return []
    group = group_round(row)
    topics = {topic["topic"]: topic for topic in row["topics"]}
    return [_drift_row(row, group, finding, topics) for finding in findings(group)]


def _judgeable(row: Row) -> bool:
    return any(not topic["not_asked"] for topic in row["topics"])


def group_round(row: Row) -> GroupRound:
    """What the rules look at, from the row that Spark brought together."""
    reads = {read["client_id"]: _read(read) for read in sorted(row["reads"], key=lambda r: r["captured_at"])}
    topics = tuple(_topic(topic, row) for topic in row["topics"] if not topic["not_asked"])
    listing = row["listing"]
    return GroupRound(
        consumer_group=row["consumer_group"],
        message_model=row["message_model"],
        members=tuple(row["members"]),
        reads=reads,
        strategies={r["client_id"]: (r["strategy"], r["source"]) for r in row["member_rules"] if r["strategy"]},
        ordered=row["ordered"],
        loose=row["loose"],
        missing_inputs=tuple(dict.fromkeys(m for topic in row["topics"] for m in topic["missing_inputs"])),
        topics=topics,
        evidence=(listing["evidence"],) if listing else (),
        listed_at=listing["captured_at"] if listing else None,
    )


def _read(read: Row) -> Read:
    topics = frozenset(read["topics"]) if read["answered"] and read["topics"] is not None else None
    return Read(read["client_id"], read["answered"], read["error"], topics, read["captured_at"], read["evidence"])


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
        lag=_lags(row["lags"] or (), row["lags_before"] or (), topic["topic"]),
        strategy=topic["strategy"],
        strategy_source=topic["strategy_source"],
        strategy_parameters=topic["strategy_parameters"],
        queue_list_hash=topic["queue_list_hash"],
        expects=topic["allocation"] is not None,
        evidence=(topic["evidence"],) if topic["evidence"] else (),
    )


def _queue(row: Row) -> Queue:
    return row["broker_name"], row["queue_id"]


def _takers(row: Row) -> frozenset[str]:
    owner = {row["owner"]} if row["owner"] else set()
    return frozenset(owner | set(row["claimants"]))


def _owners(rows: Any, topic: str) -> dict[Queue, tuple[Owner, ...]]:
    owners: dict[Queue, tuple[Owner, ...]] = {}
    for row in rows:
        if row["topic"] == topic:
            owner = Owner(row["client_id"], row["locked"], row["last_pull_at"], row["last_consume_at"])
            owners[_queue(row)] = (*owners.get(_queue(row), ()), owner)
    return owners


def _lags(now: Any, before: Any, topic: str) -> dict[Queue, tuple[int, int | None]]:
    earlier = {_queue(row): row["lag"] for row in before if row["topic"] == topic}
    return {_queue(row): (row["lag"], earlier.get(_queue(row))) for row in now if row["topic"] == topic}


def _drift_row(row: Row, group: GroupRound, finding: Finding, topics: Mapping[str, Row]) -> dict[str, Any]:
    topic = next((t for t in group.topics if t.topic == finding.topic), None)
    judged = topics.get(finding.topic or "") or row["topics"][0]
    lag_now, lag_before = topic.lag.get(finding.queue, (None, None)) if topic and finding.queue else (None, None)
    members = tuple(dict.fromkeys(group.members))
    return {
        **{name: row[name] for name in ("cluster", "event_date", "collector", "consumer_group", "round_at")},
        "captured_at": finding.captured_at,
        "code": finding.code,
        "severity": finding.severity,
        "trust": finding.trust,
        "topic": finding.topic,
        "broker_name": finding.queue[0] if finding.queue else None,
        "queue_id": finding.queue[1] if finding.queue else None,
        "client_id": finding.client_id,
        "kind": finding.kind,
        "expected_client_ids": list(finding.expected),
        "observed": [owner._asdict() for owner in finding.observed],
        "strategy": judged["strategy"],
        "strategy_source": judged["strategy_source"],
        "strategy_parameters": judged["strategy_parameters"],
        "message_model": group.message_model,
        "queue_count": len(topic.queues or ()) if topic else None,
        "member_count": len(group.members),
        "member_list_hash": row["member_list_hash"],
        "queue_list_hash": topic.queue_list_hash if topic else None,
        "distinct_views": row["distinct_views"] or 0,
        "lag_now": lag_now,
        "lag_before": lag_before,
        "ordered": group.ordered,
        "coverage": 1 - len(group.unanswered) / len(members) if members else 0.0,
        "missing_inputs": list(judged["missing_inputs"] if topic else group.missing_inputs),
        "evidence": list(finding.evidence),
        "sentence": finding.sentence,
    }

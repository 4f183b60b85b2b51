"""A row of broker_assignment in, the inputs from which it follows out: modes and lists of brokers, what was popped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, queried, same


def explained_assignment(asker: Asker, row: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo it."""
    group = same(asker, row, "cluster", "event_date", "collector", "consumer_group", "topic")
    yield queried(
        asker,
        "The first round of the stretch (group_round)",
        "Each broker computes a member's share from its own list of members and the topic's queues.",
        f"""SELECT round_at, members, queues, strategy, member_rules, scope_reason, verdict FROM group_round
            WHERE {group} AND round_at = {at_instant(row["from_at"])} LIMIT {MOST}""",
    )
    yield from assigned(asker, row, row["from_at"])


def assigned(asker: Asker, row: Record, at: datetime) -> Iterator[Section]:
    """How brokers hand out the topic's queues at an instant, and what members then took."""
    group = same(asker, row, "cluster", "event_date", "collector", "consumer_group", "topic")
    instant = at_instant(at)
    yield queried(
        asker,
        "How the brokers hand out the queues (message_request_mode)",
        "The last word of each broker counts: what was set for topic and group, else the broker's own settings.",
        f"""SELECT captured_at, broker_name, told_by, topic, consumer_group, mode, pop_share_queue_num,
            server_load_balancer, source_file || ':' || source_line AS line FROM message_request_mode
            WHERE {same(asker, row, "cluster", "event_date", "collector")}
            AND (topic IS NULL OR ({same(asker, row, "topic", "consumer_group")}))
            AND captured_at <= {instant} + INTERVAL 60 SECONDS ORDER BY captured_at DESC, broker_name LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "What is handed out to each member, and what it takes (assigned_member)",
        "A client asks one broker of the topic: where brokers differ it may have been given what any hands out.",
        f"""SELECT client_id, from_at, until_at, handed_out, taken, agrees, reason FROM assigned_member
            WHERE {group} AND from_at <= {instant} AND until_at >= {instant} ORDER BY client_id LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "What members pop (pop_assignment)",
        "Queue -1 is every queue of the broker; wait_ack_count: popped and not yet acknowledged.",
        f"""SELECT client_id, captured_at, broker_name, queue_id, dropped, wait_ack_count, last_pop_at,
            source_file || ':' || source_line AS line FROM pop_assignment
            WHERE {group} AND round_at = {instant} ORDER BY client_id, broker_name, queue_id LIMIT {MOST}""",
    )

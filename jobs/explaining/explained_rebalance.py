"""A row of rebalance_event in, the inputs from which it follows out: lines of logs, who came and went, rounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, on_date, queried, same

_BEFORE = timedelta(seconds=150)
_AFTER = timedelta(seconds=1)


def explained_rebalance(asker: Asker, event: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the trigger, the times and the hand-overs."""
    group = same(asker, event, "cluster", "consumer_group")
    first = min(at for at in (event["changed_at"], event["changed_after"], event["trigger_at"]) if at is not None)
    near = _near(event, "logged_at")
    yield queried(
        asker,
        "Results of the group's clients (rebalance_result)",
        "A client logs a result when its queues change, with the numbers of queues and members that it shared by. What "
        "follows within 3 s is one rebalance. An ordered group's result names queues too whose lock was refused.",
        f"""SELECT logged_at, client_id, topic, queue_count, member_count, SIZE(queues) AS queues, queues_text,
            CONCAT(source_file, ':', source_line) AS line FROM rebalance_result
            WHERE {group} AND {near} ORDER BY logged_at, source_file, source_line LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Notifications, locks and exceptions (client_event)",
        "A line that names no client is of the group's client in that log. Nobody else was told of an exception here.",
        f"""SELECT logged_at, kind, client_id, topic, broker_name, queue_id, exception, error,
            CONCAT(source_file, ':', source_line) AS line FROM client_event
            WHERE {same(asker, event, "cluster")} AND {near}
            AND ({same(asker, event, "consumer_group")} AND kind IN ('members_changed', 'lock_failed',
              'lock_acquired', 'queue_pull_expired', 'queue_add_failed', 'member_list_failed')
              OR client_id = {asker.literal(event["client_id"])} AND kind IN ('client_created', 'client_stopped'))
            ORDER BY logged_at, source_file, source_line LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Who came and went (membership_event)",
        "Unregistered: member_left. A channel that closed or expired without that: member_died.",
        f"""SELECT logged_at, broker_name, kind, client_id, address, last_update_at,
            CONCAT(source_file, ':', source_line) AS line FROM membership_event
            WHERE {same(asker, event, "cluster")} AND client_group = {asker.literal(event["consumer_group"])} AND {near}
            AND kind LIKE 'consumer%' ORDER BY logged_at, broker_name, source_line LIMIT {MOST}""",
    )
    yield _rounds(asker, event, group, at_instant(first - timedelta(seconds=60)))


def explained_rebalances_of_date(asker: Asker, state: Record) -> Iterator[Section]:
    """The date's last rebalances of the group, from which its state is what it is."""
    yield queried(
        asker,
        "The group's last rebalances of the date (rebalance_event)",
        "The state says who holds which queue as the date ends; explain rebalance_event shows what each rests on.",
        f"""SELECT changed_at, client_id, trigger_kind, told_by, certainty, queues_gained, queues_lost, queues_held,
            sentence
            FROM rebalance_event WHERE {same(asker, state, "cluster", "event_date", "consumer_group")}
            ORDER BY changed_at DESC, client_id LIMIT {MOST // 3}""",
    )


def _near(event: Record, column: str) -> str:
    """SQL: so long before that it may have set it off, and not after it."""
    since, until = event["changed_at"] - _BEFORE, event["changed_at"] + _AFTER
    return (
        f"event_date BETWEEN {on_date(since)} AND {on_date(until)} "
        f"AND {column} BETWEEN {at_instant(since)} AND {at_instant(until)}"
    )


def _rounds(asker: Asker, event: Record, group: str, since: str) -> Section:
    """The queues that the client showed, round by round."""
    return queried(
        asker,
        "What the client showed, round by round (queue_ownership)",
        "Between the last round with the old queues and the first with the new ones lies the change.",
        f"""SELECT collector, round_at, MIN(captured_at) AS captured_at,
            ARRAY_SORT(COLLECT_LIST(topic || '@' || broker_name || ':' || queue_id)) AS queues FROM queue_ownership
            WHERE {group} AND {same(asker, event, "client_id")} AND NOT dropped
            AND round_at BETWEEN {since} AND {at_instant(event["changed_at"] + timedelta(seconds=30))}
            GROUP BY collector, round_at ORDER BY round_at, collector LIMIT {MOST}""",
    )

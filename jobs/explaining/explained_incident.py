"""A row of drift_incident, membership_change or rebalance_event in, the inputs from which it follows out.

These are rounds and findings, lines of logs, and who came and went.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, on_date, queried, same

_GROUP = ("cluster", "collector", "consumer_group")
_BEFORE = timedelta(seconds=150)
_AFTER = timedelta(seconds=1)


def explained_incident(asker: Asker, incident: Record) -> Iterator[Section]:
    """What opened it, what it took in, which rounds showed it, and what changed before; of a server, its effects."""
    if not incident["consumer_group"]:
        yield from _of_server(asker, incident)
        return
    group = same(asker, incident, *_GROUP)
    own = f"{group} AND {same(asker, incident, 'root_cause', 'cause_key')} AND finding_state <> 'SUPPRESSED'"
    since, until = incident["first_seen_at"], incident["last_seen_at"]
    dates = f"event_date BETWEEN {on_date(since)} AND {on_date(until)}"
    span = f"judged_at BETWEEN {at_instant(since)} AND {at_instant(until)}"
    yield queried(
        asker,
        "Its findings, each at its first and its last round (allocation_drift)",
        "explain allocation_drift shows what one of them rests on. codes of the row are those that they had last.",
        f"""SELECT code, kind, topic, broker_name, queue_id, client_id, COUNT(*) AS rounds,
            COUNT_IF(finding_state = 'OPEN') AS rounds_open,
            MIN(judged_at) AS first_at, MAX(judged_at) AS last_at, MIN_BY(sentence, judged_at) AS first_sentence
            FROM allocation_drift WHERE {own} AND {dates} AND {span}
            GROUP BY code, kind, topic, broker_name, queue_id, client_id
            ORDER BY first_at, code, topic, broker_name, queue_id, client_id LIMIT {MOST}""",
    )
    yield _rounds(asker, incident, group)
    yield _changes(asker, incident, group)
    yield _lines(incident)


def _of_server(asker: Asker, incident: Record) -> Iterator[Section]:
    """What came of it in groups, and the lines that show it."""
    yield queried(
        asker,
        "Its effects in groups, each from its first to its last round (allocation_drift)",
        "They open no incidents of their own. No row: no group shows any.",
        f"""SELECT consumer_group, code, topic, broker_name, queue_id, client_id, COUNT(*) AS rounds,
            MIN(judged_at) AS first_at, MAX(judged_at) AS last_at, MIN_BY(sentence, judged_at) AS first_sentence
            FROM allocation_drift WHERE {same(asker, incident, "cluster", "collector", "incident_id")}
            GROUP BY consumer_group, code, topic, broker_name, queue_id, client_id
            ORDER BY first_at, consumer_group, code, topic, broker_name, queue_id, client_id LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Its effects in producers (producer_finding_with_incident)",
        "They are told with it, and not by themselves.",
        f"""SELECT began_at, ended_at, code, producer_group, client_id, sentence FROM producer_finding_with_incident
            WHERE {same(asker, incident, "cluster", "incident_id")} ORDER BY began_at, code, client_id LIMIT {MOST}""",
    )
    yield _lines(incident)


def _lines(incident: Record) -> Section:
    lines = [{"line": line} for line in incident["evidence"][:MOST]]
    told = "Landing files and lines. A line with asBefore repeats, for each subject, the last whole answer above it."
    return Section("Lines of the finding that opened it", told, lines)


def _rounds(asker: Asker, incident: Record, group: str) -> Section:
    """Every round while it lasted: what does not show it for long enough, resolves it."""
    since = incident["first_seen_at"] - timedelta(minutes=10)
    until = (incident["resolved_at"] or incident["last_seen_at"]) + timedelta(minutes=10)
    return queried(
        asker,
        "The group's rounds from ten minutes before to ten minutes after (group_round)",
        "An informative round could have shown it. findings counts those of the topic, muted ones too.",
        f"""SELECT round_at, topic, verdict, informative, findings, SIZE(members) AS members, missing_inputs
            FROM group_round WHERE {group} AND event_date BETWEEN {on_date(since)} AND {on_date(until)}
            AND round_at BETWEEN {at_instant(since)} AND {at_instant(until)} AND verdict IS NOT NULL
            ORDER BY round_at, topic LIMIT {MOST}""",
    )


def _changes(asker: Asker, incident: Record, group: str) -> Section:
    """The changes of members around its opening."""
    at = incident["opened_at"]
    since = at - timedelta(hours=1)
    return queried(
        asker,
        "Changes of the member list in the hour before it opened (membership_change)",
        "last_disturbance of the row names the last change of any kind.",
        f"""SELECT changed_at, settled_at, topic, joined, m.left, moved, necessary, excess
            FROM membership_change AS m
            WHERE {group} AND event_date BETWEEN {on_date(since)} AND {on_date(at)}
            AND changed_at BETWEEN {at_instant(since)} AND {at_instant(at)} ORDER BY changed_at, topic LIMIT {MOST}""",
    )


def explained_change(asker: Asker, change: Record) -> Iterator[Section]:
    """The lists before and after, and each queue's owner in the rounds between which it was counted."""
    group, at = same(asker, change, *_GROUP, "topic"), change["settled_at"]
    dates = f"event_date BETWEEN {on_date(change['changed_at'] - timedelta(days=1))} AND {on_date(at)}"
    yield queried(
        asker,
        "The rounds around it (group_round)",
        "Owners of the last settled round before it are compared with those of the round at settled_at.",
        f"""SELECT round_at, verdict, members, strategy, missing_inputs FROM group_round
            WHERE {group} AND {dates} AND round_at <= {at_instant(at + timedelta(seconds=1))}
            ORDER BY round_at DESC LIMIT {MOST // 4}""",
    )
    yield queried(
        asker,
        "Owners as it settled (expected_queue)",
        "moved: observed before and now by different clients; necessary: the strategy gives the queue to another.",
        f"""SELECT round_at, broker_name, queue_id, expected_owner, observed FROM expected_queue
            WHERE {group} AND event_date = {on_date(at)} AND round_at = (SELECT MAX(round_at) FROM group_round
            WHERE {group} AND event_date = {on_date(at)} AND round_at <= {at_instant(at)})
            ORDER BY broker_name, queue_id LIMIT {MOST}""",
    )


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
    of_read = "source_file, source_line, client_id, captured_at"  # a line may hold several
    return queried(
        asker,
        "What each member answered (snapshot_capture, queue_ownership)",
        "Owners are of the running infos that were answered; a member that did not answer may own what nobody shows.",
        f"""SELECT c.kind, c.client_id, c.captured_at, c.answered, c.error, o.queues,
              c.source_file || ':' || c.source_line AS line
            FROM snapshot_capture AS c
            LEFT JOIN (
              SELECT {of_read}, ARRAY_SORT(COLLECT_LIST(broker_name || ':' || queue_id
                || IF(dropped, ' dropped', '') || IF(locked, ' locked', ''))) AS queues
              FROM queue_ownership WHERE {group}{topic}{queue} GROUP BY {of_read}
            ) AS o USING ({of_read})
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
    yield _rounds_of_rebalance(asker, event, group, at_instant(first - timedelta(seconds=60)))


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


def _rounds_of_rebalance(asker: Asker, event: Record, group: str, since: str) -> Section:
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

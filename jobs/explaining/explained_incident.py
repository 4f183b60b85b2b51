"""A row of drift_incident or membership_change in, the rounds and findings from which it follows out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, on_date, queried, same

_GROUP = ("cluster", "collector", "consumer_group")


def explained_incident(asker: Asker, incident: Record) -> Iterator[Section]:
    """What opened it, what it took in, which rounds showed it, and what changed before."""
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
    yield Section(
        "Lines of the finding that opened it",
        "Landing files and lines.",
        [{"line": line} for line in incident["evidence"][:MOST]],
    )


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

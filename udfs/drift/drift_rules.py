"""One round of a group in, findings out: each drift code is one pure function, registered at the bottom.

Each function's first line is the definition of its code. A missing input limits what may be said: while a listed
member has not answered, a queue that nobody shows may be its own. A finding is certain unless its input leaves room
for another reading; and that a finding is absent says something only where ``Rule.told`` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import CONSUMER_LIST, RETRY_PREFIX, TopicRound
from hindsight.udfs.drift import backlog_rules, client_rules, offset_rules, ownership_rules
from hindsight.udfs.drift.finding import NO_OWNER, Finding, Subject, lower, some
from hindsight.udfs.drift.told_beside import BESIDE_MS, FLIPS
from hindsight.udfs.values.message_queues import REVIVE_GROUP, is_light

__all__ = ["BY_INSTANTS", "BY_READINGS", "BY_STANDING", "RULES", "Finding", "Rule", "absence_is_told", "findings"]


# What a round may tell anew that shows the same as the one before: its instants are later, its offsets are others.
BY_INSTANTS = frozenset({"PULL_IDLE", "CONSUME_BLOCKED"})
BY_STANDING = frozenset({"CONSUMES_NOTHING", "QUEUE_LAGS_ALONE"})
BY_READINGS = BY_STANDING | {
    "OFFSET_REWOUND",
    "OFFSET_JUMPED",
    "OFFSET_BEYOND_END",
    "END_WENT_BACK",
    "MESSAGES_LOST",
    "FALLS_BEHIND",
    "RETRIES_GROW",
}


def findings(group: GroupRound, timing: Timing, codes: Collection[str] | None = None) -> list[Finding]:
    """All findings of a round, or those of some codes; those about a retry topic one severity lower.

    A round in which no running infos were read tells of what needs none: the list of members, and offsets.
    """
    without = _without_infos(group) | ({"SUBSCRIPTION_INCONSISTENT"} if group.past.flips else set())
    asked = tuple(RULES) if group.was_read else tuple(code for code in RULES if code in without)
    # RocketMQ's own consumer of what was popped in vain has no members that anybody could ask.
    asked = ("REVIVE_LAG",) if group.consumer_group == REVIVE_GROUP else asked
    rules = [RULES[code] for code in asked if codes is None or code in codes]
    # A light queue comes and goes with what it is for: its offsets are told, not judged.
    found = [f for rule in rules for f in rule.find(group, timing) if not is_light(f.topic)]
    if group.missed:
        found = [_doubted(finding, group) if finding.code in _BY_ABSENCE else finding for finding in found]
    return [f._replace(severity=lower(f.severity)) if (f.topic or "").startswith(RETRY_PREFIX) else f for f in found]


# What needs no running infos: of the list of members alone, and of offsets alone.
_BY_LISTS = frozenset({"DUPLICATE_CLIENT_ID", "VIEW_DIVERGENCE"})
_BY_OFFSETS = frozenset(
    {"OFFSET_REWOUND", "OFFSET_JUMPED", "OFFSET_BEYOND_END", "END_WENT_BACK", "MESSAGES_LOST", "MESSAGES_AT_RISK"}
) | {"RETRIES_GROW", "DEAD_LETTERS"}


def _without_infos(group: GroupRound) -> frozenset[str]:
    """The codes of which a round can tell in which no running infos were read."""
    by_lists = _BY_LISTS if group.listed else frozenset[str]()
    # Where nobody ever asks members what they hold, a queue that stands beside others that are read shows all the same.
    by_standing = {"UNSERVED_QUEUE"} if group.listed and not group.past.read_lately else set[str]()
    return _BY_OFFSETS | {"DATA_GAP", "CONSUME_DISABLED"} | by_lists | by_standing


# What a list that lacks a living member can fake.
_BY_ABSENCE = frozenset({"ORPHAN_QUEUE", "WRONG_OWNER", "IDLE_CONSUMER", "GHOST_OWNER"})


def _doubted(finding: Finding, group: GroupRound) -> Finding:
    """The finding, no longer certain: the broker that was asked may lack members that another one lists."""
    lacking = f"consumer list: one broker's, drawn by lot; {some(group.missed)} was in it a short while ago"
    return finding._replace(trust="possible", assumptions=(*finding.assumptions, lacking))


def absence_is_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Whether this round shows that a finding on ``subject`` no longer holds, when no rule found it.

    ``last_true_at``: when it was last found, epoch milliseconds. False: an input is missing that could have shown it.
    """
    code = "UNSERVED_QUEUE" if subject.family == NO_OWNER else subject.family
    if subject.family == FLIPS and not group.was_read:
        return group.at - last_true_at >= BESIDE_MS
    if not group.was_read and code not in {*_without_infos(group), "REVIVE_LAG"}:
        return False
    if not group.was_read and subject.family in _BY_LISTS and group.past.read_lately:
        return False  # a round between two that read more
    if subject.family == NO_OWNER and subject.client_id is not None:
        return _stall_told(group, subject, last_true_at)
    rule = RULES["ORPHAN_QUEUE" if subject.family == NO_OWNER else subject.family]
    return rule.told(group, subject, last_true_at)


def _topic_told(group: GroupRound, subject: Subject) -> TopicRound | None:
    """The subject's topic, where its route was read."""
    topic = group.topic(subject.topic)
    return topic if topic is not None and topic.queues is not None else None


def _topic_gone(group: GroupRound, subject: Subject) -> bool:
    """Everybody answered, if there is anybody, and nobody subscribes or owns the topic any more."""
    return group.complete and group.topic(subject.topic) is None


def _queue_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Somebody shows the queue, or it left the route, or everybody answered, or its offset has moved on."""
    progress = group.past.progress.get((subject.topic or "", *subject.queue)) if subject.queue else None
    # Not where it stood when it was last found without owner: somebody consumes it.
    has_moved = progress is not None and progress.standing_since > last_true_at
    topic = _topic_told(group, subject)
    if not group.was_read:
        return has_moved
    if topic is None:
        return _topic_gone(group, subject)
    if subject.queue is None or subject.queue not in (topic.queues or ()) or topic.owners.get(subject.queue):
        return True
    return group.complete or has_moved


def _owners_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Everybody answered, within a time so short that the answers belong together; or in two rounds on end."""
    topic = _topic_told(group, subject)
    if topic is None:
        return _topic_gone(group, subject)
    before = group.past.loosely
    again = before is not None and before.complete and subject not in before.shown
    return (group.complete and (again or not group.loose)) or subject.queue not in (topic.queues or ())


def _right_owner_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """An expectation exists, and everybody answered or somebody else shows the queue."""
    topic = _topic_told(group, subject)
    if topic is None:
        return _topic_gone(group, subject)
    if not topic.expects or group.doubted or group.may_lag(topic.topic):
        return False
    return (group.complete and not group.loose) or bool(topic.owners.get(subject.queue or ("", -1)))


def _busy_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The client answered and an expectation exists, or it is no longer listed, or the topic is gone."""
    if group.listed and subject.client_id not in group.client_ids:
        return True
    topic = _topic_told(group, subject)
    if topic is None:
        return _topic_gone(group, subject)
    lags = bool(group.doubted) or group.may_lag(topic.topic)
    return topic.expects and not lags and _answered(group, subject.client_id)


def _client_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The client answered, or it is no longer listed."""
    return group.listed and (subject.client_id not in group.client_ids or _answered(group, subject.client_id))


def _ghost_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The client is listed again, or it answered and holds nothing of the topic."""
    return group.listed and (subject.client_id in group.client_ids or _answered(group, subject.client_id))


def _stall_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The client answered and the route was read, or it is no longer listed, or the topic is gone."""
    if group.listed and subject.client_id not in group.client_ids:
        return True
    if _topic_told(group, subject) is None:
        return _topic_gone(group, subject)
    return _answered(group, subject.client_id)


def _subscriptions_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Every listed member told what it subscribes."""
    return group.complete and all(group.reads[c].topics is not None for c in group.client_ids)


def _strategies_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The strategy of every listed member is known."""
    return group.listed and not group.unknown_strategies


def _families_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The family of every listed member is known, and the topic's route was read."""
    if _topic_told(group, subject) is None:
        return _topic_gone(group, subject)
    known = {rule.client_id for rule in group.rules if rule.profile}
    return group.listed and known.issuperset(group.client_ids)


def _views_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Two or more brokers told who the members are; of routes: two or more name servers told them."""
    if (subject.kind or "").startswith(client_rules.ROUTE_OF):
        topic = group.topic((subject.kind or "").removeprefix(client_rules.ROUTE_OF))
        return topic is not None and topic.name_servers > 1
    return len(group.named_views) > 1


def _life_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """Somebody is listed, or an offset of the group has moved on."""
    if group.listed and group.members:
        return True
    return any(progress.standing_since > last_true_at for progress in group.past.progress.values())


def _input_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The input was asked for: all of them are where the group is read, the list of its members in other rounds too."""
    return group.was_read or (subject.kind == CONSUMER_LIST and group.listed_at is not None)


def _offset_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """There is a valid reading of the queue, or the topic is gone."""
    queue = (subject.topic or "", *(subject.queue or ("", -1)))
    return queue in group.past.progress or _topic_gone(group, subject)


def _backlog_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """There is a valid reading of each queue of the topic, or the topic is gone."""
    topic = _topic_told(group, subject)
    if topic is None:
        return _topic_gone(group, subject)
    return bool(topic.queues) and all((topic.topic, *queue) in group.past.progress for queue in topic.queues or ())


def _retries_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """There is a valid reading of a queue of the retry topic, which the kind names."""
    return any(topic == subject.kind for topic, *_ in group.past.progress)


def _assignment_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The client answered and the brokers told what they hand out, or it is no longer listed, or the topic is gone."""
    if group.listed and subject.client_id not in group.client_ids:
        return True
    topic = _topic_told(group, subject)
    if topic is None:
        return _topic_gone(group, subject)
    return backlog_rules.assignment_told(topic, subject.client_id) and _answered(group, subject.client_id)


def _revive_told(group: GroupRound, subject: Subject, last_true_at: int) -> bool:
    """The queue's offsets were read since."""
    progress = group.past.progress.get((subject.topic or "", *(subject.queue or ("", -1))))
    return progress is not None and progress.read_at > last_true_at


def _answered(group: GroupRound, client_id: str | None) -> bool:
    read = group.reads.get(client_id or "")
    return read is not None and read.answered


class Rule(NamedTuple):
    """How a code is found, and when a round without it shows that it does not hold."""

    find: Callable[[GroupRound, Timing], Iterator[Finding]]
    told: Callable[[GroupRound, Subject, int], bool]


RULES: dict[str, Rule] = {
    "ORPHAN_QUEUE": Rule(ownership_rules.orphan_queue, _queue_told),
    "UNSERVED_QUEUE": Rule(ownership_rules.unserved_queue, _queue_told),
    "ORPHAN_BY_DESIGN": Rule(ownership_rules.orphan_by_design, _queue_told),
    "DOUBLE_OWNED": Rule(ownership_rules.double_owned, _owners_told),
    "WRONG_OWNER": Rule(ownership_rules.wrong_owner, _right_owner_told),
    "IDLE_CONSUMER": Rule(client_rules.idle_consumer, _busy_told),
    "IDLE_BY_DESIGN": Rule(client_rules.idle_by_design, _busy_told),
    "UNREACHABLE_CLIENT": Rule(client_rules.unreachable_client, _client_told),
    "GHOST_OWNER": Rule(client_rules.ghost_owner, _ghost_told),
    # A broker told who the members are.
    "DUPLICATE_CLIENT_ID": Rule(client_rules.duplicate_client_id, lambda group, *_: group.listed),
    "SUBSCRIPTION_INCONSISTENT": Rule(client_rules.subscription_inconsistent, _subscriptions_told),
    "MIXED_CLIENTS": Rule(client_rules.mixed_clients, _families_told),
    "MIXED_STRATEGY": Rule(client_rules.mixed_strategy, _strategies_told),
    "VIEW_DIVERGENCE": Rule(client_rules.view_divergence, _views_told),
    "REBALANCE_FLAP": Rule(ownership_rules.rebalance_flap, _owners_told),
    "SLOW_HANDOVER": Rule(ownership_rules.slow_handover, _owners_told),
    "LOCK_STARVED": Rule(client_rules.lock_starved, _stall_told),
    "PULL_IDLE": Rule(client_rules.pull_idle, _stall_told),
    "CONSUME_BLOCKED": Rule(client_rules.consume_blocked, _stall_told),
    "POP_ASSIGNMENT_DIFFERS": Rule(backlog_rules.pop_assignment_differs, _assignment_told),
    "REVIVE_LAG": Rule(backlog_rules.revive_lag, _revive_told),
    "GROUP_DOWN": Rule(client_rules.group_down, _life_told),
    "DATA_GAP": Rule(client_rules.data_gap, _input_told),
    "OFFSET_REWOUND": Rule(offset_rules.offset_rewound, _offset_told),
    "OFFSET_JUMPED": Rule(offset_rules.offset_jumped, _offset_told),
    "MESSAGES_LOST": Rule(offset_rules.messages_lost, _offset_told),
    "MESSAGES_AT_RISK": Rule(offset_rules.messages_at_risk, _offset_told),
    "QUEUE_LAGS_ALONE": Rule(offset_rules.queue_lags_alone, _offset_told),
    "OFFSET_BEYOND_END": Rule(offset_rules.offset_beyond_end, _offset_told),
    "END_WENT_BACK": Rule(offset_rules.end_went_back, _offset_told),
    "CONSUMES_NOTHING": Rule(backlog_rules.consumes_nothing, _backlog_told),
    # Whatever was asked: a broker's last word counts.
    "CONSUME_DISABLED": Rule(backlog_rules.consume_disabled, lambda *_: True),
    "FALLS_BEHIND": Rule(backlog_rules.falls_behind, _backlog_told),
    "RETRIES_GROW": Rule(offset_rules.retries_grow, _retries_told),
    # Brokers were asked for the dead letter queue.
    "DEAD_LETTERS": Rule(offset_rules.dead_letters, lambda group, *_: group.dead_letters is not None),
}

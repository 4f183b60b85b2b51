"""A rollout of a group planned from the newest round of its record, as rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from hindsight.jobs.engines.asker import Asker, BadQueryError, Record, query, records
from hindsight.udfs.allocation import AllocationError, UnknownStrategyError, resolve_strategy
from hindsight.udfs.client_families import JAVA, family_of_release
from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.release_profiles import UnknownReleaseError, profile_for
from hindsight.udfs.scenarios.rollout import Bounds, Change, Order, Step, Topic, Way, best_and_worst, rollout
from hindsight.udfs.strategies.member_families import own_strategy, words

_NEW_EACH_TIME = re.compile(r"[^@]*@\d+(#\d+)?(@.*)?")  # ClientConfig#changeInstanceNameToPID


class Asked(NamedTuple):
    """What is rolled out, and how; None: as it is recorded."""

    group: str
    cluster: str | None = None
    release: str | None = None
    strategy: str | None = None
    language: str = JAVA
    order: Sequence[str] = ()
    renamed: Sequence[str] = ()
    stop: Literal["shutdown", "killed"] = "shutdown"
    away_s: int = 30
    calm_s: int = 60
    notified: bool | None = None
    ordered: bool | None = None
    at: datetime | None = None


def planned(asker: Asker, asked: Asked) -> list[Record]:
    """The rollout as rows, each with its ``part``: group, assumed, unknown, step, order.

    Raises: BadQueryError: there is no such group, member, release or strategy, or more than one cluster has the group.
    """
    rounds = _rounds(asker, asked)
    newest = max(rounds, key=lambda row: row["round_at"])
    topics, unknown = [], []
    changes, assumed = _changes(newest, asked)
    for row in rounds:
        topic = Topic(
            row["topic"],
            tuple((queue["broker_name"], queue["queue_id"]) for queue in row["queues"] or ()),
            row["strategy"],
            row["strategy_parameters"],
        )
        reason = _why_unknown(row, topic, changes)
        unknown += [{"part": "unknown", "topic": topic.name, "unknown_because": reason}] if reason else []
        topics += [] if reason else [topic]
    way, also = _way(asker, newest, asked)
    steps = rollout(topics, changes, way)
    head = {name: newest[name] for name in ("cluster", "consumer_group", "collector", "round_at")}
    rows: list[Record] = [{"part": "group", **head, "members": len(changes), **way._asdict()}]
    rows += [{"part": "assumed", "what": what} for what in (*assumed, *also)]
    rows += unknown
    rows += [row for number, step in enumerate(steps, 1) for row in _step_rows(number, step)]
    if topics and changes:
        given = Order(tuple(range(len(changes))), _sum(steps), exact=True)
        best, worst = best_and_worst(topics, changes, way)
        rows += [_order_row(*pair, changes) for pair in (("given", given), ("best", best), ("worst", worst))]
    return rows


def _rounds(asker: Asker, asked: Asked) -> list[Record]:
    """The newest round of each topic of the group, of the collector that read it last."""
    until = f"AND round_at <= TIMESTAMP {asker.literal(asked.at.isoformat(sep=' '))}" if asked.at else ""
    of_group = query("queries", "newest_rounds", of="scenarios")
    found = records(asker, of_group.format(group=asker.literal(asked.group), until=until))
    found = [row for row in found if asked.cluster in (None, row["cluster"])]
    clusters = sorted({row["cluster"] for row in found})
    if len(clusters) > 1:
        raise BadQueryError(f"clusters {', '.join(clusters)} have a group {asked.group!r}; name one by --cluster.")
    if not found:
        known = [row["consumer_group"] for row in records(asker, "SELECT DISTINCT consumer_group FROM group_round")]
        raise BadQueryError(
            f"no round of a group {asked.group!r} is recorded; there are: {', '.join(sorted(known)) or 'none'}."
        )
    return sorted((row for row in found if row["collector"] == found[0]["collector"]), key=lambda row: row["topic"])


def _changes(newest: Record, asked: Asked) -> tuple[list[Change], list[str]]:
    """What becomes of each member, in the order of their turns; and what was assumed of them."""
    rules = {rule["client_id"]: rule for rule in newest["member_rules"]}
    ids = list(dict.fromkeys(newest["members"]))
    first = list(asked.order)
    if strange := sorted({*first} - {*ids}) or sorted(name for name, count in Counter(first).items() if count > 1):
        raise BadQueryError(f"{strange[0]!r} is no member, or is named twice; members are: {', '.join(ids)}.")
    names = dict(_renamed(text, ids) for text in asked.renamed)
    new = [names.get(client_id, client_id) for client_id in ids]
    if len({*new, *(set(ids) - names.keys())}) < len(ids):
        raise BadQueryError("two members would have one client id; correct --renamed.")
    profile = _target(asked)
    changes, assumed = [], []
    for client_id in [*first, *(one for one in ids if one not in first)]:
        rule = rules.get(client_id, {"strategy": None, "profile": None})
        if rule["strategy"] is None:
            assumed.append(f"{client_id} shares by {newest['strategy']}: no record names its strategy")
        before = MemberRule(client_id, rule["strategy"] or newest["strategy"], rule["profile"])
        after = MemberRule(
            names.get(client_id, client_id), asked.strategy or before.strategy, profile or before.profile
        )
        changes.append(Change(before, after))
        if client_id not in names and _NEW_EACH_TIME.fullmatch(client_id) and _id_matters(client_id, ids, changes[-1]):
            assumed.append(f"{client_id} comes back under this id; with another one queues differ (--renamed OLD=NEW)")
    if profile is None and asked.strategy is None:
        assumed.append("each member comes back by the rule it has: a restart")
    return changes, assumed


def _renamed(text: str, ids: Sequence[str]) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (sign and new and old in ids):
        raise BadQueryError(f"--renamed {text!r} is not OLD=NEW of a member; members are: {', '.join(ids)}.")
    return old, new


def _id_matters(client_id: str, ids: Sequence[str], change: Change) -> bool:
    """Whether more than its place counts, or another id may have another place: others share its address."""
    address = client_id.partition("@")[0]
    by_hash = any("CONSISTENT_HASH" in (rule.strategy or "") for rule in change)
    return by_hash or sum(other.partition("@")[0] == address for other in ids) > 1


def _target(asked: Asked) -> str | None:
    """The family that members come back as."""
    if asked.release is None:
        if asked.language != JAVA:
            raise BadQueryError(f"say which release of {asked.language}, e.g. --release 2.1.2.")
        return None
    try:
        family = profile_for(asked.release).id if asked.language == JAVA else None
    except UnknownReleaseError as error:
        raise BadQueryError(str(error)) from error
    family = family or family_of_release(asked.language, asked.release)
    if family is None:
        raise BadQueryError(f"no release {asked.release!r} of {asked.language} is known; languages are JAVA, GO, CPP.")
    return family


def _why_unknown(row: Record, topic: Topic, changes: Sequence[Change]) -> str | None:
    """Why nothing can be told of a topic; None: it can."""
    if row["scope_reason"] is not None:
        return str(row["scope_reason"])
    if row["message_model"] == "BROADCASTING":
        return "each member of a broadcasting group reads every queue"
    if not row["queues"]:
        return "no route of it was read"
    if len(set(row["members"])) < len(row["members"]):
        return "two members have one client id"
    ids = tuple(dict.fromkeys(row["members"]))
    for rule in dict.fromkeys(rule._replace(client_id=ids[0]) for change in changes for rule in change):
        refusal = _refusal(rule, topic, ids)
        if refusal is not None:
            return refusal
    return None


def _refusal(rule: MemberRule, topic: Topic, ids: Sequence[str]) -> str | None:
    name = own_strategy(rule.profile, rule.strategy)
    if name is None:
        return f"a proxy assigns queues to clients of {words(rule.profile or '')}"
    try:
        if rule.profile:
            resolve_strategy(name, rule.profile.split("|")[0])
    except (AllocationError, UnknownStrategyError) as error:
        return str(error)
    own = topic.parameters if name == topic.strategy else ""
    expected = expected_allocation(
        "CLUSTERING", name, rule.profile, topic.name, topic.queues, ids, [rule], parameters=own
    )
    return expected.refusal


def _way(asker: Asker, newest: Record, asked: Asked) -> tuple[Way, list[str]]:
    """How members stop and hear of changes; and what no record says of it."""
    of = f"cluster = {asker.literal(newest['cluster'])} AND consumer_group = {asker.literal(asked.group)}"
    notified, ordered, assumed = asked.notified, asked.ordered, []
    if notified is None:
        told = f"SELECT MAX_BY(notify_consumer_ids_changed, captured_at) AS told FROM subscription_group WHERE {of}"
        said = [row["told"] for row in records(asker, f"{told} AND TRUE GROUP BY broker_name")]
        notified = False not in said
        if not said or None in said:
            assumed.append("brokers tell members of changes: not all settings of the group are recorded (--by-timer)")
    if ordered is None:
        told = f"SELECT MAX(consume_orderly) AS told FROM snapshot_capture WHERE {of} AND event_date = "
        (row,) = records(asker, f"{told} CAST({asker.literal(str(newest['event_date']))} AS DATE)")
        ordered = bool(row["told"])
        if row["told"] is None:
            assumed.append("the group does not consume in order: no member said so (--ordered)")
    return Way(asked.stop, asked.away_s * 1_000, asked.calm_s * 1_000, notified, ordered), assumed


def _step_rows(number: int, step: Step) -> Iterator[Record]:
    before, after = step.change
    names = (f"as {after.client_id}", after.strategy, after.profile and words(after.profile))
    becomes = [str(name) for name, was, then in zip(names, before, after, strict=True) if was != then]
    for share in step.shares:
        owners = [
            {"broker_name": broker, "queue_id": queue, "away": list(away), "after": list(then)}
            for (broker, queue), away, then in zip(share.topic.queues, share.away, share.after, strict=True)
        ]
        yield {
            "part": "step",
            "step": number,
            "client_id": before.client_id,
            "becomes": ", ".join(becomes) or "the same",
            "topic": share.topic.name,
            "queues_moved": share.moved,
            "times_taken": share.taken,
            "nobody": sum(not then for then in share.after),
            "two": sum(len(then) > 1 for then in share.after),
            **_seconds("longest_unread", share.longest),
            **_seconds("all_unread", share.unread),
            "settled_within_s": step.lasts_ms / 1_000,
            "owners": owners,
        }


def _seconds(name: str, bounds: Bounds) -> Record:
    return {f"{name}_at_least_s": bounds.least / 1_000, f"{name}_at_most_s": bounds.most / 1_000}


def _sum(steps: Sequence[Step]) -> tuple[int, int]:
    return sum(step.cost[0] for step in steps), sum(step.cost[1] for step in steps)


def _order_row(which: str, order: Order, changes: Sequence[Change]) -> Record:
    return {
        "part": "order",
        "which": which,
        "all_unread_at_most_s": order.cost[0] / 1_000,
        "times_taken": order.cost[1],
        "members": [changes[place].before.client_id for place in order.places],
        "found_by": "given"
        if which == "given"
        else "every order"
        if order.exact
        else "a search: others may go further",
    }

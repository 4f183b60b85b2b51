"""One round of a group in; findings about its members, their subscriptions and strategies, and its inputs, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.mixed_clients import Disagreement
from hindsight.udfs.consumer.round_facts import (
    BROADCASTING,
    CONSUMER_LIST,
    RETRY_PREFIX,
    Flip,
    Owner,
    Queue,
    Read,
    Subscription,
    TopicRound,
)
from hindsight.udfs.drift.finding import Finding, assumptions, clock, evidence, queue_name, read_at, rising, short, some
from hindsight.udfs.strategies.member_families import own_strategy, words


def mixed_clients(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Members of different client families cannot agree on a topic's queues, by rule and for ever."""
    if group.message_model == BROADCASTING or group.shared or group.by_hand:
        return
    for topic in group.judged_topics():
        found = group.disagreements.get(topic.topic)
        if found is None:
            continue
        fits = _explains(topic)
        taken = () if fits else _assumed(group, found)
        yield Finding(
            "MIXED_CLIENTS",
            "HIGH" if fits else "MEDIUM",
            f"the members of {group.consumer_group} cannot agree on {topic.topic}: {found.rule}. "
            f"{found.first.client_id} is of {words(found.first.profile or '')}, {found.second.client_id} of "
            f"{words(found.second.profile or '')}{_cost(topic)}. What ends it: {found.cure}.",
            topic=topic.topic,
            trust="possible" if taken else "certain",
            evidence=evidence(group, topic, (found.first.client_id, found.second.client_id)) or group.evidence,
            captured_at=group.listed_at,
            assumptions=taken,
        )


def _explains(topic: TopicRound) -> bool:
    """The members' own rules lead to what is seen, and that is not a share of each queue to one owner."""
    shown = {queue: {owner.client_id for owner in topic.owners.get(queue, ())} for queue in topic.queues or ()}
    as_claimed = all(topic.claimants.get(queue, frozenset()) == owners for queue, owners in shown.items())
    return as_claimed and any(len(owners) != 1 for owners in shown.values())


def _cost(topic: TopicRound) -> str:
    """The queues that the members' own rules leave to nobody, and those that they give to two or more."""
    claims = {queue: len(topic.claimants.get(queue, ())) for queue in topic.queues or ()}
    nobody = [_name(queue) for queue, count in claims.items() if count == 0]
    several = [_name(queue) for queue, count in claims.items() if count > 1]
    left = f"; left without an owner: {some(nobody)}" if nobody else ""
    return left + (f"; with two or more: {some(several)}" if several else "")


def _name(queue: Queue) -> str:
    return f"{queue[0]}:{queue[1]}"


def _assumed(group: GroupRound, found: Disagreement) -> tuple[str, ...]:
    """What the disagreement takes for granted: no record tells a Go client's strategy, nor always its release."""
    rules = (found.first, found.second)
    strategies = [
        f"allocation strategy of {rule.client_id}: not known, {own_strategy(rule.profile, None)} assumed"
        for rule in rules
        if rule.client_id in group.unknown_strategies
    ]
    releases = [
        f"release of {rule.client_id}: one of {words(rule.profile or '')}"
        for rule in rules
        if "|" in (rule.profile or "")
    ]
    return (*strategies, *releases)


def lock_starved(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """An ordered consumer has held a queue without the broker's lock for too long (60 s)."""
    if not group.ordered or group.message_model == BROADCASTING:
        return
    for topic, queue, owner in _held(group):
        since = group.past.unlocked_since.get((owner.client_id, (topic.topic, *queue)))
        if not owner.locked and since is not None and group.at - since > timing.lock_starved_s * 1000:
            yield _stalled("LOCK_STARVED", group, topic, queue, owner, since, "has not had its lock")


def pull_idle(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A consumer has not pulled from a queue that it holds for too long (120 s)."""
    for topic, queue, owner in _held(group):
        asked = read_at(group, owner.client_id)
        if owner.last_pull_at and asked and asked - owner.last_pull_at > timing.pull_idle_s * 1000:
            yield _stalled("PULL_IDLE", group, topic, queue, owner, owner.last_pull_at, "has not been pulled from")


def consume_blocked(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A consumer holds messages of a queue and has not consumed any for too long (60 s)."""
    for topic, queue, owner in _held(group):
        asked, last = read_at(group, owner.client_id), owner.last_consume_at
        if (owner.cached_messages or 0) > 0 and last and asked and asked - last > timing.consume_blocked_s * 1000:
            what = f"has {owner.cached_messages} messages waiting in the client and none was consumed"
            yield _stalled("CONSUME_BLOCKED", group, topic, queue, owner, last, what)


def _held(group: GroupRound) -> Iterator[tuple[TopicRound, Queue, Owner]]:
    for topic in group.judged_topics():
        for queue, owners in sorted(topic.owners.items()):
            for owner in owners:
                yield topic, queue, owner


def _stalled(
    code: str, group: GroupRound, topic: TopicRound, queue: Queue, owner: Owner, since: int, what: str
) -> Finding:
    return Finding(
        code,
        "HIGH" if rising(group, topic.topic, (queue,)) else "LOW",
        f"{queue_name(topic.topic, queue)} {what} since {clock(since)} by its owner {owner.client_id} in "
        f"{group.consumer_group}.",
        topic=topic.topic,
        queue=queue,
        client_id=owner.client_id,
        observed=(owner,),
        evidence=evidence(group, topic, (owner.client_id,)),
        captured_at=read_at(group, owner.client_id),
        since=since,
    )


def idle_consumer(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A live subscriber owns none of the queues that the group's rule gives it."""
    for topic, client_id, due in _idle(group):
        if due:
            rest = f"; {topic.strategy} gives it {due}."
            yield _idle_finding("IDLE_CONSUMER", "MEDIUM", group, topic, client_id, rest, expected=(client_id,))


def idle_by_design(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A live subscriber owns nothing because the group has more consumers than the topic has queues.

    Retry topics, which have one queue a broker, have fewer than that in most groups: of them it is not said.
    """
    for topic, client_id, due in _idle(group):
        if not due and not topic.topic.startswith(RETRY_PREFIX):
            rest = f", as {topic.strategy} has it: {len(topic.queues or ())} queues, {len(group.members)} members."
            yield _idle_finding("IDLE_BY_DESIGN", "INFO", group, topic, client_id, rest)


def _idle(group: GroupRound) -> Iterator[tuple[TopicRound, str, int]]:
    if group.message_model == BROADCASTING or not group.by_rule:
        return
    for topic in group.judged_topics():
        if not topic.expects or group.doubted or group.may_lag(topic.topic):
            continue
        for client_id in group.subscribers(topic.topic):
            if client_id not in topic.holders:
                yield topic, client_id, topic.shares.get(client_id, 0)


def _idle_finding(
    code: str,
    severity: str,
    group: GroupRound,
    topic: TopicRound,
    client_id: str,
    rest: str,
    expected: tuple[str, ...] = (),
) -> Finding:
    taken = assumptions(group, topic)
    return Finding(
        code,
        severity,
        f"{client_id} owns no queue of {topic.topic} in {group.consumer_group}{rest}",
        topic=topic.topic,
        client_id=client_id,
        trust="possible" if taken else "certain",
        expected=expected,
        evidence=evidence(group, topic, (client_id,)),
        captured_at=read_at(group, client_id),
        assumptions=taken,
    )


# Before the topic, in the kind of a divergence of routes.
ROUTE_OF = "route of "
_KEPT = "connections of the id: a broker keeps one that has ended for up to 120 s"


def unreachable_client(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A listed client was asked for its running info and did not answer, or was said not to be online.

    Nothing is said of it by a failure that is not its own: see ``failed_reads``.
    """
    for client_id in group.client_ids:
        read = group.reads.get(client_id)
        if read is None or not group.is_silent(read):
            continue
        since = group.past.silent_since.get(client_id)
        starving = any(rising(group, t.topic, _claimed(t, client_id)) for t in group.judged_topics())
        silent = "" if since is None or since == read.captured_at else f" since {clock(since)}"
        yield Finding(
            "UNREACHABLE_CLIENT",
            "HIGH" if starving else "MEDIUM",
            f"{client_id} is listed in {group.consumer_group} and did not answer{silent}: {short(read.error)}.",
            client_id=client_id,
            evidence=(read.evidence, *group.evidence),
            captured_at=read.captured_at,
            since=since,
        )


def ghost_owner(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A client owns queues and is in no broker's list."""
    if not group.listed:
        return
    listed = group.client_ids
    for topic in group.topics:
        held: dict[str, list[Queue]] = {}
        for queue, owners in topic.owners.items():
            for owner in owners:
                if owner.client_id not in listed:
                    held.setdefault(owner.client_id, []).append(queue)
        for client_id, queues in sorted(held.items()):
            yield Finding(
                "GHOST_OWNER",
                "HIGH",
                f"{client_id} owns {len(queues)} queues of {topic.topic} in {group.consumer_group}, "
                "and no broker lists it.",
                topic=topic.topic,
                client_id=client_id,
                observed=tuple(o for q in sorted(queues) for o in topic.owners[q] if o.client_id == client_id),
                evidence=evidence(group, topic, (client_id,)),
                captured_at=read_at(group, client_id),
            )


def duplicate_client_id(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The same client id on two channels of each broker that lists it, or from two hosts.

    Possible only, until two processes have answered or no broker would keep a connection for so long after its end.
    """
    for client_id in group.duplicates:
        places = sorted({c.address for c in group.connections if c.client_id == client_id and c.address})
        is_known = client_id in group.past.two_since
        count, at = max(2, group.members.count(client_id)), f", at {' and '.join(places)}" if places else ""
        yield Finding(
            "DUPLICATE_CLIENT_ID",
            "HIGH",
            f"{client_id} is the id of {count} processes of {group.consumer_group}{at}"
            ": each computes the same share, and the share of the others is left to nobody."
            if is_known
            else f"{client_id} has {count} connections in {group.consumer_group}{at}: it is the id of as many "
            "processes, or of one that connected anew.",
            client_id=client_id,
            trust="certain" if is_known else "possible",
            evidence=group.evidence,
            captured_at=group.listed_at,
            since=group.past.two_since.get(client_id),
            assumptions=() if is_known else (_KEPT,),
        )


def subscription_inconsistent(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Members' own subscriptions differ; one finding per topic and kind, saying who has what."""
    told = [c for c in group.client_ids if c in group.reads and group.reads[c].topics is not None]
    reads = [group.reads[c] for c in told if c not in group.by_hand]  # who chooses queues subscribes nothing
    for kind, severity, value in _WHOLE_CLIENT:
        yield from _differing(group, reads, None, kind, severity, {r.client_id: value(r) for r in reads if value(r)})
    names = sorted({s.topic for r in reads for s in r.subscriptions if not s.topic.startswith(RETRY_PREFIX)})
    for name in names:
        own = {r.client_id: next((s for s in r.subscriptions if s.topic == name), None) for r in reads}
        if None in own.values():
            who = {c: "subscribed by" if s else "not subscribed by" for c, s in own.items()}
            yield from _differing(group, reads, name, "TOPIC_MISSING", "CRITICAL", who)
        having = {c: s for c, s in own.items() if s is not None}
        yield from _differing_expressions(group, reads, name, having)
    found = {
        name for name in names if len({s.sub_string for r in reads for s in r.subscriptions if s.topic == name}) > 1
    }
    yield from (_flipping(group, flip) for flip in group.past.flips if flip.topic not in found)


def _flipping(group: GroupRound, flip: Flip) -> Finding:
    """By a broker's log: the newest subscription counts there, whichever member's it is."""
    text = " and ".join(flip.expressions)
    return Finding(
        "SUBSCRIPTION_INCONSISTENT",
        "HIGH",
        f"the subscription of {flip.topic} by {group.consumer_group} went back and forth at {flip.broker_name} between "
        f"{text}, {flip.changes} times since {clock(flip.since)}: members subscribe differently.",
        topic=flip.topic,
        kind="TAG_DIFF",
        evidence=(*flip.evidence, *group.evidence),
        captured_at=group.at,
        since=flip.since,
        difference=text,
    )


def mixed_strategy(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """More than one strategy is in use among the listed members of a CLUSTERING group."""
    used = group.by_strategy
    if group.message_model == BROADCASTING or not group.by_rule or len(used) < 2:
        return
    shares = ", ".join(f"{name} by {', '.join(clients)}" for name, clients in sorted(used.items()))
    yield Finding(
        "MIXED_STRATEGY",
        "HIGH" if any(_damaged(group, topic) for topic in group.judged_topics()) else "MEDIUM",
        f"the members of {group.consumer_group} share by different strategies: {shares}.",
        kind=" + ".join(sorted(used)),
        evidence=evidence(group, None, (c for clients in used.values() for c in clients)) or group.evidence,
        captured_at=group.listed_at,
    )


def view_divergence(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Brokers list different members, or name servers tell different routes; seen where it is recorded who said it."""
    yield from _differing_routes(group)
    if not group.views_differ or group.by_hand:  # who chooses queues by hand asks no broker for the members
        return
    counted = ", ".join(f"{broker}: {len(listed)}" for broker, listed in sorted(group.named_views.items()))
    unshared = ", ".join(group.differing)
    yield Finding(
        "VIEW_DIVERGENCE",
        "MEDIUM",
        f"the brokers list different members of {group.consumer_group} ({counted}): not all know {unshared}."
        if unshared
        else f"the brokers list the members of {group.consumer_group} a different number of times ({counted}).",
        trust="possible" if group.may_choose_by_hand else "certain",
        evidence=group.evidence,
        captured_at=group.listed_at,
    )


def _differing_routes(group: GroupRound) -> Iterator[Finding]:
    for topic in group.judged_topics():
        if topic.routes_differ:
            yield Finding(
                "VIEW_DIVERGENCE",
                "MEDIUM",
                f"the name servers tell different routes of {topic.topic}: consumers of {group.consumer_group} share "
                "different queues, as the one has it that they ask.",
                kind=f"{ROUTE_OF}{topic.topic}",
                evidence=topic.evidence,
                captured_at=group.at,
            )


def group_down(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Wherever it was asked nobody is connected for a minute, and no offset of the group moves while messages come.

    A broker that answers no more counts as it did last: who comes connects to the others too. Possible only: a proxy
    knows clients of its own, and was not asked. A group that never consumed is none, and of one that consumes Lite
    topics no rule knows when it is.
    """
    least, empty_since = timing.standstill_s * 1000, group.past.empty_since
    is_still_empty = empty_since and group.listed and not (group.members or group.through_proxy)
    all_told = not group.may_have_members
    if group.lite_parents or not (all_told or is_still_empty):
        return
    if empty_since and group.at - empty_since < least:
        return
    consumed = [progress for progress in group.past.progress.values() if progress.consumer_offset > 0]
    # At a broker that does not answer no offset moves.
    stood = all((each.read_at if all_told else group.at) - each.standing_since >= least for each in consumed)
    if stood and any(progress.accrued > 0 and progress.waited_ms() >= least for progress in consumed):
        since = max(progress.standing_since for progress in consumed)
        lag = sum(progress.lag for progress in group.past.progress.values() if progress.lag > 0)
        waits = f"{lag} messages wait for it" if lag else "what comes lies before its offsets"
        yield Finding(
            "GROUP_DOWN",
            "CRITICAL",
            f"{group.consumer_group} has no member at the brokers, none of its offsets has moved since {clock(since)}, "
            f"and {waits}.",
            trust="possible",
            evidence=group.evidence,
            captured_at=group.listed_at,
            since=since,
            assumptions=("members behind a proxy: a proxy was not asked",),
        )


def data_gap(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """An input that was due has not come for so long that the group's verdict is unknown (10 min)."""
    for source, since in sorted(group.past.missing_since.items()):
        asked_for = group.was_read or (source == CONSUMER_LIST and group.list_failed)
        if asked_for and group.at - since >= timing.data_gap_s * 1000:
            yield Finding(
                "DATA_GAP",
                "MEDIUM",
                f"{source} has not been read for {group.consumer_group} since {clock(since)}: "
                "what drifts there is unknown.",
                kind=source,
                evidence=group.evidence or tuple(read.evidence for read in group.reads.values()),
                captured_at=group.at,
                since=since,
            )


_WHOLE_CLIENT: tuple[tuple[str, str, Callable[[Read], str | None]], ...] = (
    ("MODEL_DIFF", "CRITICAL", lambda read: read.message_model),
    ("FROM_DIFF", "LOW", lambda read: read.consume_from_where),
)


def _differing_expressions(
    group: GroupRound, reads: list[Read], topic: str, having: dict[str, Subscription]
) -> Iterator[Finding]:
    """The worst difference between the expressions by which members subscribe one topic."""
    kind = differing_kind(having.values())
    if kind is not None:
        texts = {c: _type(s) if kind == "TYPE_DIFF" else s.sub_string or "*" for c, s in having.items()}
        yield from _differing(group, reads, topic, kind, "INFO" if kind == "COSMETIC" else "HIGH", texts)


def differing_kind(having: Iterable[Subscription]) -> str | None:
    """How expressions of one topic differ at worst: TYPE_DIFF, TAG_DIFF, COSMETIC; None: they do not.

    Two texts of a SQL92 filter are TAG_DIFF: whether they select the same is not decided here.
    """
    types, texts, tags = set(), set(), set()
    for one in having:
        types.add(_type(one))
        texts.add(one.sub_string or "*")
        tags.add(" || ".join(one.tags) or one.sub_string or "*")
    if len(types) > 1:
        return "TYPE_DIFF"
    if len(tags if types == {"TAG"} else texts) > 1:
        return "TAG_DIFF"
    return "COSMETIC" if len(texts) > 1 else None


def _type(one: Subscription) -> str:
    return one.expression_type or "TAG"


def _differing(
    group: GroupRound, reads: list[Read], topic: str | None, kind: str, severity: str, values: Mapping[str, str | None]
) -> Iterator[Finding]:
    by_value: dict[str, list[str]] = {}
    for client_id, value in values.items():
        by_value.setdefault(str(value), []).append(client_id)
    if len(by_value) < 2:
        return
    colon = "" if kind == "TOPIC_MISSING" else ":"
    text = "; ".join(f"{value}{colon} {', '.join(clients)}" for value, clients in sorted(by_value.items()))
    yield Finding(
        "SUBSCRIPTION_INCONSISTENT",
        severity,
        f"the members of {group.consumer_group} differ in {topic or 'how they consume'} ({kind}): {text}.",
        topic=topic,
        kind=kind,
        evidence=tuple(dict.fromkeys((*(read.evidence for read in reads), *group.evidence))),
        captured_at=max(read.captured_at for read in reads),
        difference=text,
    )


def _claimed(topic: TopicRound, client_id: str) -> list[Queue]:
    return [
        queue
        for queue in topic.queues or ()
        if client_id in topic.claimants.get(queue, frozenset()) or topic.expected.get(queue) == client_id
    ]


def _damaged(group: GroupRound, topic: TopicRound) -> bool:
    """A queue is owned twice, or by nobody although everybody answered."""
    if any(len(owners) > 1 for owners in topic.owners.values()):
        return True
    return (
        group.complete
        and bool(group.subscribers(topic.topic))
        and any(not topic.owners.get(queue) for queue in topic.queues or ())
    )

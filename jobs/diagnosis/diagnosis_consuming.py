"""What a diagnosis says of consuming: lines for a person, from clients' logs and from those of brokers and proxies.

Clients tell of pulls that failed, listeners that failed and offsets that were set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from hindsight.jobs.diagnosis.diagnosis_words import Clock, queues_told, some, when
from hindsight.udfs.diagnosis.logged_by_brokers import (
    AT_NAME_SERVERS,
    ByBrokers,
    GoneClient,
    RefusedLock,
    SubscriptionChange,
)
from hindsight.udfs.diagnosis.logged_troubles import (
    CONSUMING,
    OffsetSet,
    Subject,
    Tally,
    Troubles,
    joined_tallies,
    most_first,
)

_MOST = 4  # kinds of one log that are told in short
_MOST_OFFSETS = 20
# ResponseCode of RocketMQ, as far as pulls meet it.
_CODES = {
    1: "the broker failed",
    2: "the broker is busy",
    16: "no permission: the group may not consume there, or the topic may not be read",
    17: "the broker does not have the topic",
    23: "the broker cannot read the subscription",
    24: "the broker does not know the subscription: no heartbeat with it has come, or another member's took it away",
    25: "the broker has an older subscription: members of the group subscribe differently, or a heartbeat is late",
    26: "the broker does not have the group",
    215: "flow control by the broker",
}
_LANGUAGES = {"CPP": "C++", "GO": "Go", "GRPC": "gRPC"}
# Lines that come while all is well.
_ORDINARY = frozenset(
    {"rebalance_result", "queue_added", "queue_removed", "assignments_changed", "members_changed", "client_started"}
)
_OF_OTHERS = {
    "lock_failed": "a queue could not be locked",
    "queue_pull_expired": "a queue was given up, not pulled from for long",
    "member_not_listed": "it was not in the member list that it got",
    "member_list_failed": "no member list",
    "topic_unknown": "the topic is not known",
    "heartbeat_failed": "a heartbeat failed",
    "send_failed": "a send failed",
    "endpoint_isolated": "endpoints isolated",
    "endpoint_rejoined": "endpoints back",
    "assignments_empty": "it was assigned no queue",
    "flow_control": "flow control",
    "rebalance_result": "its share of the queues changed",
}
_MOST_IN_SHORT = 3


def consuming_in_short(troubles: Iterable[Troubles], clock: Clock) -> Iterator[str]:
    """The heads of what consumers met; nothing: no line tells of any."""
    troubles = list(troubles)
    offsets = [offset for one in troubles for offset in one.offsets]
    yield from list(_offsets(offsets, clock))[:2]
    joined = joined_tallies(one.consuming for one in troubles)
    most = [item for item in most_first(joined).items() if item[0][0] != "consumer_resumed"]
    for subject, tally in most[:_MOST]:
        yield f"{subject[1] or 'a group that is not named'}: {_told(subject, tally, clock)}"
    if len(most) > _MOST:
        yield f"and {some(len(most) - _MOST, 'other kind')} of what consumers met, below"


def given_up_in_short(troubles: Iterable[Troubles], clock: Clock) -> Iterator[str]:
    """Sends that ended with an exception."""
    for subject, tally in joined_tallies(one.given_up for one in troubles).items():
        topic, brokers, detail = subject
        sent = brokers if isinstance(brokers, tuple) else ()
        slowest = f", after up to {tally.most:,} ms" if tally.most is not None else ""
        tried = f" after {some(len(sent), 'attempt')}: {', '.join(sent)}" if sent else f": {detail or 'no attempt'}"
        whose = f" of {topic}" if topic else ""
        yield f"{some(tally.count, 'send')}{whose} failed{tried}{slowest}, {when(tally, clock)}"


def consuming_told(group: str | None, troubles: Iterable[Troubles], clock: Clock) -> Iterator[str]:
    """What consumers of a group met, each kind by itself."""
    for one in troubles:
        for subject, tally in one.consuming.items():
            if subject[1] == group:
                yield _told(subject, tally, clock)
        yield from _offsets([offset for offset in one.offsets if offset.consumer_group == group], clock)


def others_in_short(others: Mapping[Subject, Tally], clock: Clock) -> Iterator[str]:
    """What went wrong first, by Go, C++ and gRPC clients; the rest is counted."""
    wrong = [item for item in most_first(others).items() if item[0][1] not in _ORDINARY]
    yield from others_told(dict(wrong[:_MOST]), clock)
    rest = sum(tally.count for tally in others.values()) - sum(tally.count for _, tally in wrong[:_MOST])
    if rest:
        yield f"and {some(rest, 'other line')} of Go, C++ or gRPC clients, below"


def others_told(others: Mapping[Subject, Tally], clock: Clock) -> Iterator[str]:
    """Each kind of line by itself."""
    for subject, tally in sorted(others.items(), key=lambda item: item[0][1] in _ORDINARY):
        language, kind, group, topic, client, broker, address, queue, code, reason = subject
        what = _OF_OTHERS.get(str(kind), str(kind).replace("_", " "))
        place = f"{topic or ''} {broker or ''}{'' if queue is None else f':{queue}'}".strip()
        parts = [
            f"{_LANGUAGES.get(str(language), language)} client{f' {client}' if client else ''}: {what}",
            *(str(one) for one in (group, place, address) if one),
            *([f"code {code}"] if code is not None else []),
            *([str(reason)] if reason else []),
        ]
        count = f"{tally.count:,} times, " if tally.count > 1 else ""
        yield f"{', '.join(parts)}, {count}{when(tally, clock)}"


def groups_met(troubles: Iterable[Troubles]) -> set[str | None]:
    """The groups that lines about consuming name; None: one names none."""
    troubles = list(troubles)
    met = {subject[1] for one in troubles for subject in one.consuming}
    named = {str(group) if group else None for group in met}
    return named | {offset.consumer_group for one in troubles for offset in one.offsets}


def _told(subject: Subject, tally: Tally, clock: Clock) -> str:
    kind, _, topic, broker, code, exception, detail = subject
    what = f"{tally.count:,} {CONSUMING[str(kind)][tally.count > 1]}"
    of = f" of {topic}" if topic else ""
    at = f" at {broker}" if broker else ""
    why = ", ".join(str(part) for part in (exception, detail) if part)
    because = f"code {code}" + (f" ({_CODES[code]})" if code in _CODES else "") if isinstance(code, int) else ""
    again = f", consumed again up to {some(tally.most, 'time')}" if tally.most else ""
    return ", ".join(part for part in (f"{what}{of}{at}", because, why, when(tally, clock)) if part) + again


def _offsets(offsets: list[OffsetSet], clock: Clock) -> Iterator[str]:
    for one in offsets[:_MOST_OFFSETS]:
        yield f"{one.consumer_group or 'a group that is not named'}: {_offset(one)}, at {clock.at(one.at)}"
    if len(offsets) > _MOST_OFFSETS:
        yield f"and {len(offsets) - _MOST_OFFSETS:,} more offsets that were set: --json has all"


def _offset(one: OffsetSet) -> str:
    queue = f"{one.topic} {one.broker_name}:{one.queue_id}" if one.broker_name else one.topic or "a queue"
    if one.kind == "offset_reset":
        return (
            f"the offsets of {one.topic} were reset by an operator's command, {one.detail}, from {one.broker_address}"
        )
    if one.kind == "offset_went_back":
        return f"a pull's answer went back from {one.offset} to {one.new_offset}, in a queue that is not named"
    if one.kind == "offset_fixed":
        return f"the client stored {one.new_offset} as its offset of {queue}"
    asked = f"{one.offset} was asked for, " if one.offset is not None else ""
    stored = f"the broker has {one.min_offset} to {one.max_offset}"
    return f"illegal offset of {queue}: {asked}{stored}; the client goes on at {one.new_offset}{_moved(one)}"


def _moved(one: OffsetSet) -> str:
    if one.offset is None or one.new_offset is None:
        return ""
    by = one.new_offset - one.offset
    return f", {by:,} on: these are skipped" if by > 0 else f", {-by:,} back" if by < 0 else ""


def brokers_in_short(told: ByBrokers, clock: Clock) -> Iterator[str]:
    """What matters first: subscriptions that flip, then locks, clients and brokers."""
    for lines in _by_kind(told, clock):
        yield from lines[:_MOST_IN_SHORT]
        if len(lines) > _MOST_IN_SHORT:
            yield f"and {len(lines) - _MOST_IN_SHORT:,} more of the kind, below"


def brokers_told(told: ByBrokers, clock: Clock) -> Iterator[str]:
    """All of it."""
    return chain.from_iterable(_by_kind(told, clock))


def _by_kind(told: ByBrokers, clock: Clock) -> Iterator[list[str]]:
    yield [_subscription(one, clock) for one in told.subscriptions]
    yield [_lock(one, clock) for one in told.locks]
    yield [_gone(one, clock) for one in told.gone]
    yield list(_isolations(told, clock))
    yield list(_at_name_servers(told, clock))


def _at_name_servers(told: ByBrokers, clock: Clock) -> Iterator[str]:
    for one in sorted(told.at_name_servers, key=lambda one: [*AT_NAME_SERVERS].index(one.what)):
        times = f", {one.tally.count:,} times" if one.tally.count > 1 else ""
        name = f"name server {one.name_server}".rstrip()
        yield f"{name}: {AT_NAME_SERVERS[one.what].format(one.subject)}{times}, {when(one.tally, clock)}"


def _subscription(one: SubscriptionChange, clock: Clock) -> str:
    whose = f"{one.consumer_group}: its subscription of {one.topic}" + (
        f" at {one.broker_name}" if one.broker_name else ""
    )
    changes = f"{some(one.tally.count, 'change')}, {when(one.tally, clock)}"
    if not one.returns:
        return f"{whose} became {' then '.join(one.expressions[1:])} (it was {one.expressions[0]}), {changes}"
    between = " and ".join(one.expressions)
    told = "members of the group subscribe differently, and messages that only one of them wants are lost"
    return f"{whose} goes back and forth between {between}, {changes}: {told}"


def _lock(one: RefusedLock, clock: Clock) -> str:
    queues = queues_told(tuple((one.broker_name, number) for number in one.queues))
    held = f", {one.held_by} holds it" if one.held_by else ", nobody holds it"
    return (
        f"{one.consumer_group}: {some(one.tally.count, 'time')} {one.client_id} was refused the lock of {one.topic} "
        f"{queues}{held}, {when(one.tally, clock)}"
    )


def _gone(one: GoneClient, clock: Clock) -> str:
    of = f" of {one.client_group}" if one.client_group else ""
    again = "what it had received and not acknowledged comes again"
    return f"{one.proxy}: {one.client_id}{of} is gone at {clock.at(one.at)}; {again}"


def _isolations(told: ByBrokers, clock: Clock) -> Iterator[str]:
    for proxy, one in told.isolations:
        until = clock.at(one.until) if one.until else "an end that no line shows"
        stretch = f"from {clock.at(one.since)} to {until}"
        yield f"{proxy or 'a proxy'} itself, not a producer, treated {one.broker_name} as {one.state} {stretch}"

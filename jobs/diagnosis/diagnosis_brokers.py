"""What brokers' and proxies' logs tell in, lines for a person out."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.jobs.diagnosis.diagnosis_consuming import when
from hindsight.jobs.diagnosis.diagnosis_words import Clock, queues_told, some
from hindsight.udfs.diagnosis.logged_by_brokers import (
    AT_NAME_SERVERS,
    ByBrokers,
    GoneClient,
    RefusedLock,
    SubscriptionChange,
)

_MOST_IN_SHORT = 3
_AT = {
    "broker_expired": "broker {} was silent for too long and was taken out of all routes",
    "broker_channel_destroyed": "the connection of broker {} was closed, and it was taken out of all routes",
    "broker_unregistered": "broker {} left",
    "topic_unregistered": "no broker has topic {} any more: clients get no route of it",
    "broker_registered": "broker {} came",
}


def brokers_in_short(told: ByBrokers, clock: Clock) -> Iterator[str]:
    """What matters first: subscriptions that flip, then locks, clients and brokers."""
    for lines in (
        [_subscription(one, clock) for one in told.subscriptions],
        [_lock(one, clock) for one in told.locks],
        [_gone(one, clock) for one in told.gone],
        list(_isolations(told, clock)),
        list(_at_name_servers(told, clock)),
    ):
        yield from lines[:_MOST_IN_SHORT]
        if len(lines) > _MOST_IN_SHORT:
            yield f"and {len(lines) - _MOST_IN_SHORT:,} more of the kind, below"


def brokers_told(told: ByBrokers, clock: Clock) -> Iterator[str]:
    """All of it."""
    yield from (_subscription(one, clock) for one in told.subscriptions)
    yield from (_lock(one, clock) for one in told.locks)
    yield from (_gone(one, clock) for one in told.gone)
    yield from _isolations(told, clock)
    yield from _at_name_servers(told, clock)


def _at_name_servers(told: ByBrokers, clock: Clock) -> Iterator[str]:
    for one in sorted(told.at_name_servers, key=lambda one: AT_NAME_SERVERS.index(one.what)):
        times = f", {one.tally.count:,} times" if one.tally.count > 1 else ""
        name = f"name server {one.name_server}".rstrip()
        yield f"{name}: {_AT[one.what].format(one.subject)}{times}, {when(one.tally, clock)}"


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

"""What brokers and proxies logged in, what went wrong by it out: subscriptions that flip, locks refused, clients gone.

Source: ConsumerGroupInfo#updateSubscription (a group has one subscription of a topic at a broker: the newest wins),
RebalanceLockManager; ClientActivity and DefaultReceiptHandleManager of the proxy, which forgets an unregistered client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.diagnosis.logged_troubles import Isolation, Tally, isolations_of, tallied
from hindsight.udfs.logs.broker_log_lines import ISOLATIONS

Memberships = Iterable[tuple[str, Event]]
# In words for a person, of a broker or topic.
AT_NAME_SERVERS = {
    "broker_expired": "broker {} was silent for too long and was taken out of all routes",
    "broker_channel_destroyed": "the connection of broker {} was closed, and it was taken out of all routes",
    "broker_unregistered": "broker {} left",
    "topic_unregistered": "no broker has topic {} any more: clients get no route of it",
    "broker_registered": "broker {} came",
}


class SubscriptionChange(NamedTuple):
    """How a broker saw a group's subscription of a topic change; ``returns``: how often it went back to one it had.

    ``expressions``: in order of appearance. One that returns is of two members that subscribe differently.
    """

    broker_name: str
    consumer_group: str
    topic: str
    expressions: tuple[str, ...]
    tally: Tally
    returns: int


class RefusedLock(NamedTuple):
    """A lock that a client asked for, and another held."""

    broker_name: str
    consumer_group: str
    topic: str
    client_id: str
    held_by: str | None
    queues: tuple[int, ...]
    tally: Tally


class GoneClient(NamedTuple):
    """A client that a proxy forgot."""

    proxy: str
    client_group: str
    client_id: str
    at: int


class AtNameServer(NamedTuple):
    """A broker that came or went at a name server, or a topic that no broker has any more: ``what`` is the kind."""

    name_server: str
    what: str
    subject: str
    tally: Tally


class ByBrokers(NamedTuple):
    """All of it, each list in order."""

    subscriptions: list[SubscriptionChange]
    locks: list[RefusedLock]
    gone: list[GoneClient]
    isolations: list[tuple[str, Isolation]]
    at_name_servers: list[AtNameServer]


def by_brokers(memberships: Memberships) -> ByBrokers:
    """Bring together what brokers' and proxies' logs tell, in order of time."""
    memberships = list(memberships)
    return ByBrokers(
        _subscriptions(memberships),
        _locks(memberships),
        _gone(memberships),
        _isolations(memberships),
        _at_name_servers(memberships),
    )


def _at_name_servers(memberships: Memberships) -> list[AtNameServer]:
    seen: dict[tuple[str, str, str], Tally] = tallied(
        ((name_server, one.kind, str(one.row.get("broker_address") or one.row.get("topic"))), one.at, None)
        for name_server, one in memberships
        if one.kind in AT_NAME_SERVERS
    )
    return [AtNameServer(*key, tally) for key, tally in seen.items()]


def _subscriptions(memberships: Memberships) -> list[SubscriptionChange]:
    seen: dict[tuple[str, str, str], list[tuple[int, str, str]]] = {}
    for broker_name, one in memberships:
        old, new = one.row.get("old_sub_string"), one.row.get("sub_string")
        if one.kind == "subscription_changed" and old and new and _tags(old) != _tags(new):
            key = (broker_name, one.row["client_group"], one.row.get("topic", ""))
            seen.setdefault(key, []).append((one.at, old, new))
    return [_change(key, changes) for key, changes in sorted(seen.items())]


def _change(key: tuple[str, str, str], changes: list[tuple[int, str, str]]) -> SubscriptionChange:
    had = {_tags(changes[0][1]): changes[0][1]}
    tally, returns = Tally(), 0
    for at, _, new in changes:
        tally.add(at, None)
        returns += _tags(new) in had
        had.setdefault(_tags(new), new)
    return SubscriptionChange(*key, tuple(had.values()), tally, returns)


def _tags(expression: str) -> frozenset[str]:
    """The same for tags in any order; an SQL92 expression is one."""
    return frozenset(part.strip() for part in expression.split("||"))


def _locks(memberships: Memberships) -> list[RefusedLock]:
    seen: dict[tuple[str, str, str, str, str | None], tuple[set[int], Tally]] = {}
    for broker_name, one in memberships:
        if one.kind in ("lock_refused", "unlock_refused"):
            row = one.row
            named = (row["client_group"], row.get("topic", ""), row.get("client_id", ""), row.get("held_by"))
            queues, tally = seen.setdefault((row.get("broker_name") or broker_name, *named), (set(), Tally()))
            queues.add(row.get("queue_id", 0))
            tally.add(one.at, None)
    found = [RefusedLock(*key, tuple(sorted(queues)), tally) for key, (queues, tally) in seen.items()]
    return sorted(found, key=lambda one: (-one.tally.count, one[:4]))


def _gone(memberships: Memberships) -> list[GoneClient]:
    """Each client of each group once for each end; a line that names no group counts only where no other does."""
    found: dict[GoneClient, None] = {}
    for proxy, one in memberships:
        if one.kind in ("proxy_client_gone", "proxy_handles_cleared"):
            at = one.at // 1000 * 1000
            found[GoneClient(proxy, one.row.get("client_group", ""), one.row.get("client_id", ""), at)] = None
    with_group = {(one.client_id, one.at) for one in found if one.client_group}
    return [one for one in found if one.client_group or (one.client_id, one.at) not in with_group]


def _isolations(memberships: Memberships) -> list[tuple[str, Isolation]]:
    by_proxy: dict[str, list[Event]] = {}
    for proxy, one in memberships:
        if one.kind in ISOLATIONS:
            row = {**one.row, "broker_name": one.row["isolated_broker"]}
            by_proxy.setdefault(proxy, []).append(one._replace(row=row))
    return [(proxy, isolation) for proxy, events in sorted(by_proxy.items()) for isolation in isolations_of(events)]

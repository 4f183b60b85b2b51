"""One round of a group in; per topic why the rules of ownership do not apply to it, in words, out.

What a round cannot show is unknown, neither sick nor healthy: consumers behind a proxy are not the brokers' to know,
pull consumers do not show what they hold, POP consumers share queues, and who assigns by hand follows no strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hindsight.udfs.clients.client_kinds import POP
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import TopicRound
from hindsight.udfs.drift.finding import some


def scope_reasons(group: GroupRound) -> dict[str, str]:
    """By topic the first reason that holds; a topic to which the rules apply is not in it."""
    found = {}
    for topic in group.topics:
        reason = next((said for reason in _REASONS if (said := reason(group, topic)) is not None), None)
        if reason is not None:
            found[topic.topic] = reason
    return found


def _asked_through_proxy(group: GroupRound, topic: TopicRound) -> str | None:
    """The proxy supports neither running infos nor offsets, and knows its own clients only."""
    if not group.through_proxy:
        return None
    return "a proxy was asked: it does not say what its clients hold, nor who is connected to the brokers"


def _lite(group: GroupRound, topic: TopicRound) -> str | None:
    """Lite topics, 5.4 on: brokers hand their messages to clients, and who consumes one is no question of queues."""
    if topic.topic not in group.lite_parents:
        return None
    return f"the group consumes Lite topics of {topic.topic}: brokers hand them out, and no rule says whose one is"


def _served_by_proxy(group: GroupRound, topic: TopicRound) -> str | None:
    """gRPC clients are handed messages, and hold no queue; whether others count them depends on the proxy's mode."""
    served = group.served_by_proxy
    if not served:
        return None
    return f"{some(served)} are gRPC clients: a proxy hands them messages, and no rule says whose a queue is"


def _nobody_connected(group: GroupRound, topic: TopicRound) -> str | None:
    """CODE 206 says that nobody is connected there, be the group down or behind a proxy."""
    if not group.listed or group.members:
        return None
    asked = sorted({listing.broker_name for listing in group.listings if listing.broker_name})
    where = f"to {some(asked)}" if asked else "to the broker that was asked"
    return f"nobody is connected {where}: consumers behind a proxy are not the brokers' to know"


def _no_retry_topic(group: GroupRound, topic: TopicRound) -> str | None:
    """Where to ask for a group's members is found by its retry topic."""
    if not group.is_unknown_here:
        return None
    return "the group has no retry topic: no consumer of it was ever connected to a broker itself"


def _broker_assigns(group: GroupRound, topic: TopicRound) -> str | None:
    """POP: several members may be given one queue; what each is given must be known."""
    if not group.shared or topic.handed is not None:
        return None
    why = f"; {topic.not_handed}" if topic.not_handed else ""
    return f"the broker assigns the queues: members may share them{why}"


def _not_shown(group: GroupRound, topic: TopicRound) -> str | None:
    """DefaultMQPullConsumer, and DefaultLitePullConsumer before 5.1.1, leave mqTable empty."""
    opaque = tuple(c for c in group.opaque if topic.handed is None or group.kind_of(c) != POP)
    return f"{some(opaque)} do not show which queues they hold" if opaque else None


def _by_hand(group: GroupRound, topic: TopicRound) -> str | None:
    """DefaultLitePullConsumer#assign: the application itself divides the queues."""
    return (
        f"{some(group.by_hand)} choose their queues by hand: no strategy says whose each is" if group.by_hand else None
    )


def _physical_queues_seen(group: GroupRound, topic: TopicRound) -> str | None:
    """Clients before 5.0 share the real queues of a static topic, those since then its logical ones."""
    older = group.see_physical_queues if topic.is_logical else ()
    return f"{some(older)} do not know the logical queues of a static topic" if older else None


def _routes_differ(group: GroupRound, topic: TopicRound) -> str | None:
    """Which queues there are depends on the name server that a client asks."""
    return "the name servers tell different routes" if topic.routes_differ else None


_REASONS: Sequence[Callable[[GroupRound, TopicRound], str | None]] = (
    _lite,
    _asked_through_proxy,
    _served_by_proxy,
    _nobody_connected,
    _no_retry_topic,
    _broker_assigns,
    _not_shown,
    _by_hand,
    _physical_queues_seen,
    _routes_differ,
)

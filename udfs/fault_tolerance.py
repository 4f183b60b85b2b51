"""A producer's updates in, which brokers it holds unavailable and which ones it could choose out.

One FaultTable is one producer process: what MQFaultStrategy and LatencyFaultToleranceImpl of its release keep.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hindsight.udfs.not_available_duration import (
    LadderTooShortError,
    compute_not_available_duration,
    not_available_duration,
)
from hindsight.udfs.release_profiles import PROFILES, FaultProfile, UnknownReleaseError, profile_for

__all__ = [
    "PROFILES",
    "FaultItem",
    "FaultProfile",
    "FaultTable",
    "LadderTooShortError",
    "RouteBroker",
    "Selection",
    "UnknownReleaseError",
    "compute_not_available_duration",
    "not_available_duration",
    "profile_for",
]

Brokers = TypeVar("Brokers", frozenset[str], int)
T = TypeVar("T")

_DETECT_INTERVAL_MS = 2000  # LatencyFaultToleranceImpl.detectInterval


class FaultItem(NamedTuple):
    """What a producer remembers of one broker.

    Attributes:
        current_latency_ms: of the last update, as measured, also when it was isolated.
        start_ms: first instant at which the broker is available again; None: never isolated (5.1.4 on).
        reachable: always true before 5.1.4.
    """

    current_latency_ms: int
    start_ms: int | None
    reachable: bool


def is_available(item: FaultItem | None, now_ms: int, profile: FaultProfile) -> bool:
    """Whether a broker of which a producer remembers this (None: nothing) is outside its window, end exclusive.

    In 5.1.4 an unreachable broker is not available either.
    """
    if item is None:
        return True
    return now_ms >= (item.start_ms or 0) and (item.reachable or not profile.reachable_gates_availability)


class RouteBroker(NamedTuple):
    """One broker of a topic's route as the producer knows it, write permission or not, master or not."""

    broker_name: str
    write_queue_nums: int
    writable: bool


class Selection(NamedTuple):
    """What one selectOneMessageQueue could do.

    Attributes:
        admissible: every broker that it could return; empty: the list of queues is.
        removable: brokers of which it may forget one: the fallback's picks for which the topic has no write queues.
        kept_picks: the fallback's other picks; empty too where it was not asked.
    """

    admissible: frozenset[str]
    removable: frozenset[str] = frozenset()
    kept_picks: frozenset[str] = frozenset()


class FaultTable:
    """The fault items of one producer process, by broker name.

    Nothing here depends on a counter or a shuffle: where the client draws, the whole set is returned.
    Source: LatencyFaultToleranceImpl, MQFaultStrategy, TopicPublishInfo, 4.2.0 to 5.3.3.
    """

    def __init__(
        self, profile: FaultProfile, *, enabled: bool = True, items: Mapping[str, FaultItem] | None = None
    ) -> None:
        """Args: enabled: sendLatencyFaultEnable; items: what the table held when the replay's stretch began."""
        self._profile = profile
        self._enabled = enabled
        self._items = dict(items or {})
        self._check_at_ms: dict[str, int] = {}

    def update(
        self, broker_name: str, *, latency_ms: int, isolation: bool, now_ms: int, reachable: bool = True
    ) -> None:
        """One updateFaultItem: a window from ``now_ms``. Without effect where the switch is off.

        ``reachable`` is without effect before 5.1.4.

        Raises: LadderTooShortError: where the client would throw; the table stays as it was.
        """
        if not self._enabled:
            return
        duration = not_available_duration(latency_ms, isolation, self._profile)
        start: int | None = now_ms + duration
        if self._profile.extend_only:
            old = self._items.get(broker_name)
            old_start = old.start_ms if old else None
            # Java keeps startTimestamp 0 until the first window.
            if duration <= 0 or now_ms + duration <= (old_start or 0):
                start = old_start
        self._items[broker_name] = FaultItem(latency_ms, start, reachable or not self._profile.has_reachable)

    def remove(self, broker_name: str) -> None:
        """Forget a broker; one that is not in the table is no error."""
        self._items.pop(broker_name, None)
        self._check_at_ms.pop(broker_name, None)

    def detect(self, *, now_ms: int, up: Collection[str], resolvable: Collection[str]) -> None:
        """One round of the detector: brokers that answer are reachable again, never the other way round.

        Args:
            now_ms: instant of the round; a broker looked at less than 2 s ago is left alone.
            up: names of the brokers that answer the probe.
            resolvable: names for which the producer knows an address; the items of others are forgotten.

        Without effect before 5.1.4, where no detector exists.
        """
        if not self._profile.has_reachable:
            return
        for broker_name, item in list(self._items.items()):
            if now_ms < self._check_at_ms.get(broker_name, 0):
                continue
            if broker_name not in resolvable:
                self.remove(broker_name)
                continue
            self._check_at_ms[broker_name] = now_ms + _DETECT_INTERVAL_MS
            if broker_name in up:
                self._items[broker_name] = item._replace(reachable=True)

    def items(self) -> dict[str, FaultItem]:
        """A copy of the table, by broker name."""
        return dict(self._items)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether the broker is outside its window, which ends at ``start_ms``, exclusive; true if unknown."""
        item = self._items.get(broker_name)
        return is_available(item, now_ms, self._profile)

    def is_reachable(self, broker_name: str) -> bool:
        """Whether the broker is not flagged unreachable; true if unknown, and always before 5.1.4."""
        item = self._items.get(broker_name)
        return item is None or item.reachable

    def pick_one_at_least(self, now_ms: int, *, within_ms: int = 0) -> frozenset[str]:
        """Every broker that pickOneAtLeast could return; empty: null.

        Before 5.1.4 the better half of the table (of one to three brokers the best), and all that equal its last: a
        shuffle or the hash map's order decides between them. From 5.1.4 on any reachable broker.

        ``within_ms``: latencies no farther apart count as equal, because the client's own measure may order them so.
        """
        if self._profile.has_reachable:
            return frozenset(name for name, item in self._items.items() if item.reachable)
        ranked = sorted((self._rank(item, now_ms), name) for name, item in self._items.items())
        return frozenset(better_half(ranked, within_ms))

    def admissible(
        self,
        queue_brokers: Sequence[str],
        route: Sequence[RouteBroker],
        now_ms: int,
        last_broker_name: str | None = None,
    ) -> frozenset[str]:
        """Every broker that selectOneMessageQueue could return; empty: the list of queues is.

        Args:
            queue_brokers: broker of each queue in the producer's list for the topic, in order.
            route: the topic's brokers, in the route's order; the fallback (before 5.1.4) looks up write queues here,
                and may return a broker that has no queue in the list.
            now_ms: instant of the choice.
            last_broker_name: broker of the attempt before it in the same send call; None: first attempt.

        The choice may also forget a broker (see ``possible_removals``); this method changes nothing.
        """
        return self.select(queue_brokers, route, now_ms, last_broker_name).admissible

    def possible_removals(
        self,
        queue_brokers: Sequence[str],
        route: Sequence[RouteBroker],
        now_ms: int,
        last_broker_name: str | None = None,
    ) -> frozenset[str]:
        """Brokers of which one may be forgotten by this choice; arguments as of ``admissible``.

        The fallback removes a pick for which the topic has no write queues, for all topics. It is certain where the
        result equals ``pick_one_at_least`` and has one name. Empty from 5.1.4 on.
        """
        return self.select(queue_brokers, route, now_ms, last_broker_name).removable

    def select(
        self,
        queue_brokers: Sequence[str],
        route: Sequence[RouteBroker],
        now_ms: int,
        last_broker_name: str | None = None,
    ) -> Selection:
        """All that one choice could return and forget; arguments as of ``admissible``."""
        brokers = frozenset(queue_brokers)
        preferred = self.preferred(brokers, now_ms, last_broker_name)
        if preferred or not brokers or not self.falls_back():
            return Selection(preferred or brokers)
        queued = brokers_with_write_queues(route, self._profile)
        return Selection(*fallen_back(brokers, self.pick_one_at_least(now_ms), queued))

    def falls_back(self) -> bool:
        """Whether a choice without a preferred broker asks pickOneAtLeast (before 5.1.4)."""
        return self._enabled and self._profile.last_broker_rule != "filter"

    def preferred(self, brokers: frozenset[str], now_ms: int, last: str | None) -> frozenset[str]:
        """What the release's rule takes before it falls back; a random start makes every one of them possible."""
        rule = self._profile.last_broker_rule
        others = brokers - {last}
        if not self._enabled:
            return others
        if rule == "none" or (rule == "equals" and last is None):
            candidates = brokers
        elif rule == "equals":
            candidates = brokers - others
        else:
            candidates = others
        items, profile = self._items, self._profile
        available = frozenset([name for name in candidates if is_available(items.get(name), now_ms, profile)])
        if available or rule != "filter":
            return available
        return frozenset(name for name in candidates if self.is_reachable(name))

    def _rank(self, item: FaultItem, now_ms: int) -> tuple[bool, int, int]:
        """FaultItem#compareTo: available first, then fast, then free early."""
        return not is_available(item, now_ms, self._profile), item.current_latency_ms, item.start_ms or 0


def better_half(ranked: Sequence[tuple[tuple[bool, int, int], T]], within_ms: int) -> list[T]:
    """Of brokers in the order of their ranks those that ``pick_one_at_least`` returns before 5.1.4."""
    if not ranked:
        return []
    last = is_held, latency_ms, _ = ranked[max(len(ranked) // 2, 1) - 1][0]
    if within_ms:
        return [who for rank, who in ranked if rank[:2] <= (is_held, latency_ms + within_ms)]
    return [who for rank, who in ranked if rank <= last]


def fallen_back(listed: Brokers, picks: Brokers, queued: Brokers) -> tuple[Brokers, Brokers, Brokers]:
    """What a choice that falls back could return; of its picks those that it may forget, and the others.

    Args:
        listed: brokers of the queues in the producer's list for the topic.
        picks: what pickOneAtLeast could return.
        queued: brokers with write queues in the topic's route. Each is a set, or a number with a bit for each broker.
    """
    kept = picks & queued
    # A pick without write queues, and no pick at all (an exception, swallowed), lead to any queue of the list.
    certain = picks and kept == picks
    return kept if certain else kept | listed, picks ^ kept, kept


def brokers_with_write_queues(route: Sequence[RouteBroker], profile: FaultProfile) -> frozenset[str]:
    """Brokers whose first entry in the route has write queues; 4.9.8 skips entries without write permission."""
    first: dict[str, int] = {}
    for broker in route:
        if broker.writable or not profile.fallback_needs_write_perm:
            first.setdefault(broker.broker_name, broker.write_queue_nums)
    return frozenset(name for name, write_queue_nums in first.items() if write_queue_nums > 0)

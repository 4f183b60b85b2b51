"""What is recorded of a broker around one choice in, what the client may have known of it then out.

A reading is one way to read the record. One follows the record's own order and has no reason; each other one names what
has to be assumed. An example, 4.9.8 with a clock tolerance of 3 ms: a slow send to broker-a ended at 1_000 ms, and the
client chose a broker 1 ms later. It knew of the slow send, or the hook's clock was a little off:

>>> from hindsight.udfs.release_profiles import PROFILES
>>> slow = NearUpdate(at_ms=1_000, latency_ms=2_500, isolation=False, reachable=True, sure=False)
>>> record = BrokerRecord("broker-a", None, None, near=(slow,), used_before_ms=None, used_after_ms=None)
>>> for reading in item_readings(record, 1_001, PROFILES["P498"], tolerance_ms=3, detector_enabled=False):
...     print(reading.item and reading.item.start_ms, reading.reason)
121000 None
None clock_tolerance

No route is recorded. The chosen broker was in the client's list for sure, another one most likely:

>>> [(r.listed, r.reason) for r in route_readings(record, Choice("broker-a", None, 1_001), PROFILES["P498"])]
[(True, None)]
>>> [(r.listed, r.reason) for r in route_readings(record, Choice("broker-b", None, 1_001), PROFILES["P498"])]
[(True, None), (False, 'stale_route')]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hindsight.udfs.fault_tolerance import FaultItem, FaultProfile, FaultTable
from hindsight.udfs.not_available_duration import not_available_duration
from hindsight.udfs.producer.send_verdicts import SAME_MILLISECOND, Choice, ItemReading, Judgement, RouteReading
from hindsight.udfs.producer.unseen_life import CLOCK_TOLERANCE, DETECTOR, FORGOTTEN, LADDER_EDGE, Gap, longest_ms
from hindsight.udfs.values.columns import DAY_MS

STALE_ROUTE = "stale_route"
REWRITTEN_LIST = "stale_route_or_rewritten_list"

# The client polls its routes so often: what it used twice within this time was listed all the while.
ROUTE_POLL_MS = 30_000


class Removal(NamedTuple):
    """The fallback has, or may have, forgotten a broker; ``surely``: in every reading, and no update was near."""

    broker_name: str
    at_ms: int
    surely: bool


class NearUpdate(NamedTuple):
    """One updateFaultItem close to the choice.

    Attributes:
        sure: it was certainly made before the choice: by the same thread, for a send begun earlier.
    """

    at_ms: int
    latency_ms: int
    isolation: bool
    reachable: bool
    sure: bool


class RouteEntry(NamedTuple):
    """A recorded route's entry for the broker; ``write_queue_nums`` None: the route had none.

    Attributes:
        ordered_queues: queues that the route's orderTopicConf gives the broker; None: the route has no such text.
    """

    write_queue_nums: int | None
    writable: bool
    has_master: bool
    ordered_queues: int | None = None

    def is_listed(self) -> bool:
        """Whether a client that holds the route has a queue of the broker in its list.

        Source: MQClientInstance#topicRouteData2TopicPublishInfo, 4.0.0 to 5.3.3.
        """
        if self.ordered_queues is not None:
            return self.ordered_queues > 0
        return self.writable and self.has_master and (self.write_queue_nums or 0) > 0


class Other(NamedTuple):
    """What an update at ``at`` may have made of an item instead of what the record's own order says, until ``start``.

    Attributes:
        at, start: in one clock; epoch ms, or ms of the date.
        latency_ms: of the update that was the last one then; None: as recorded.
    """

    at: int
    latency_ms: int | None
    start: int
    reason: str


class BrokerRecord(NamedTuple):
    """What is recorded of one broker around a choice of one process and topic.

    Attributes:
        item: as the last update before ``near`` left it; None: there was none.
        updated_at_ms: instant of that update.
        near: updates within the tolerance of the choice, in their total order; never the attempt's own.
        used_before_ms: last begin of an attempt of the topic to the broker at or before the choice; None: none.
        used_after_ms: first such begin after the choice.
        routes: the topic's entries for the broker in the routes that the client may have held, oldest first;
            None: no route of the topic was recorded at that time.
        removal: what an earlier date hands over: the fallback may have forgotten the item then.
    """

    broker_name: str
    item: FaultItem | None
    updated_at_ms: int | None
    near: tuple[NearUpdate, ...]
    used_before_ms: int | None
    used_after_ms: int | None
    routes: tuple[RouteEntry, ...] | None = None
    removal: Removal | None = None


def item_readings(
    record: BrokerRecord,
    now_ms: int,
    profile: FaultProfile,
    *,
    tolerance_ms: int,
    detector_enabled: bool,
    removal: Removal | None = None,
) -> tuple[ItemReading, ...]:
    """The item as each order of choice and near updates leaves it, the record's own order first.

    Others: the edge of its window within the tolerance; a rung of the ladder that the client's own measure, a little
    longer than the hook's, may have reached; the detector, which no record shows, has found the broker
    again, or has forgotten it while the producer did not use it for a route poll; ``removal``, the last one of the
    broker, has forgotten it.
    """
    removal = removal or record.removal
    orders = _by_order(record, now_ms, profile, _before_near(record, removal, tolerance_ms))
    readings = [
        other
        for reading, updated_at_ms in orders
        for other in (
            reading,
            *_window_edge(reading, updated_at_ms, now_ms, tolerance_ms),
            *_ladder_edge(reading, updated_at_ms, profile, tolerance_ms),
            *_detected(reading, record, now_ms, detector_enabled),
        )
    ]
    first = next(i for i, reading in enumerate(readings) if reading.reason is None)
    by_item: dict[FaultItem | None, ItemReading] = {}
    for reading in (readings[first], *readings):
        by_item.setdefault(reading.item, reading)
    return tuple(by_item.values())


def unseen_readings(
    record: BrokerRecord, now_ms: int, profile: FaultProfile, gaps: Sequence[Gap], *, tolerance_ms: int
) -> tuple[ItemReading, ...]:
    """What the item may have been by updates that no line shows, where a gap bears on it; the likelier first.

    Through 5.1.3 an unseen update freed the broker, unless a recorded one followed it; in every release it may have
    isolated the broker, from 5.1.4 on as one that cannot be reached. What it measured is not known: the broker may be
    the slowest of all.
    """
    item, updated_ms = record.item, max((u.at_ms for u in record.near), default=record.updated_at_ms)
    found = []
    for gap in gaps:
        if not gap.bears_on(now_ms, now_ms, longest_ms(profile) + tolerance_ms):
            continue
        if profile.extend_only:
            until = max(now_ms + 1, (item.start_ms or 0) if item else 0)
            found.append(ItemReading(item._replace(reachable=True) if item else None, gap.reason))
            found += [ItemReading(FaultItem(_SLOWEST_MS, until, known), gap.reason) for known in (True, False)]
        elif updated_ms is None or updated_ms - tolerance_ms <= gap.until_ms:
            found.append(ItemReading(None, gap.reason))
            found.append(ItemReading(FaultItem(_SLOWEST_MS, now_ms + 1, True), gap.reason))
    return tuple(found)


def other_readings(
    record: BrokerRecord, now_ms: int, others: Sequence[Other], *, tolerance_ms: int
) -> tuple[ItemReading, ...]:
    """What the item may have been by earlier updates: one reached the next rung, or two came in the other order.

    Where windows are only lengthened, each that may last until the choice counts; else those of the last update.
    """
    item, found = record.item, []
    for other in others:
        if other.at > now_ms + tolerance_ms:
            continue
        if other.latency_ms is None:
            if item is not None and other.start > max(item.start_ms or 0, now_ms):
                found.append(ItemReading(item._replace(start_ms=other.start), other.reason))
        elif record.updated_at_ms is None or other.at >= record.updated_at_ms:
            found.append(ItemReading(FaultItem(other.latency_ms, other.start, True), other.reason))
    return tuple(found)


def unlisted_readings(
    record: BrokerRecord,
    choice: Choice,
    profile: FaultProfile,
    fell_back_ms: int | None,
    coming: RouteEntry | None = None,
) -> tuple[RouteReading, ...]:
    """How a broker may not have been in the client's list that was used shortly before and after, or is in its route.

    The fallback of some releases writes its pick into the list in another broker's place (``fell_back_ms``: when it did
    so last); and a client may have polled the route that is read next (``coming``: its entry of the broker).
    """
    before = record.used_before_ms
    if record.broker_name == choice.broker_name:
        return ()
    found, doubt = [], REWRITTEN_LIST if profile.mutates_queue_list else STALE_ROUTE
    if profile.mutates_queue_list and None not in (fell_back_ms, before) and (fell_back_ms or 0) >= (before or 0):
        known = next(iter(_recorded(record.routes)), RouteReading(True, 1, True))
        found.append(known._replace(listed=False, reason=doubt))
    if coming is not None:
        found.append(RouteReading(coming.is_listed(), coming.write_queue_nums, coming.writable, doubt))
    return tuple(found)


_SLOWEST_MS = 1 << 40


def _before_near(
    record: BrokerRecord, removal: Removal | None, tolerance_ms: int
) -> list[tuple[FaultItem | None, str | None]]:
    """The item before the near updates, and without it if the fallback has (perhaps) forgotten it since its update."""
    updated = record.updated_at_ms
    if record.item is None or removal is None or updated is None or updated > removal.at_ms + tolerance_ms:
        return [(record.item, None)]
    return [(None, None)] if removal.surely else [(record.item, None), (None, FORGOTTEN)]


def _by_order(
    record: BrokerRecord, now_ms: int, profile: FaultProfile, beginnings: list[tuple[FaultItem | None, str | None]]
) -> list[tuple[ItemReading, int | None]]:
    """The item after each number of near updates that may have been seen by the choice, and its last update's time."""
    if not record.near:
        return [(ItemReading(*beginning), record.updated_at_ms) for beginning in beginnings]
    sure = max((i + 1 for i, update in enumerate(record.near) if update.sure), default=0)
    before = max(sure, sum(update.at_ms < now_ms for update in record.near))
    readings = []
    for beginning, doubt in beginnings:
        table = FaultTable(profile, items={} if beginning is None else {record.broker_name: beginning})
        updated_at_ms = record.updated_at_ms
        for seen, update in enumerate((*record.near, None)):
            if seen >= sure:
                # An update makes the item anew, whether there was one before or not.
                reason = doubt if seen == 0 and doubt else _order_doubt(record, seen, before, now_ms)
                readings.append((ItemReading(table.items().get(record.broker_name), reason), updated_at_ms))
            if update is not None:
                told = update._asdict()
                del told["sure"]
                updated_at_ms = told.pop("at_ms")
                table.update(record.broker_name, now_ms=updated_at_ms, **told)
    return readings


def _order_doubt(record: BrokerRecord, seen: int, before: int, now_ms: int) -> str | None:
    between = record.near[min(seen, before) : max(seen, before)]
    if not between:
        return None
    return SAME_MILLISECOND if all(update.at_ms == now_ms for update in between) else CLOCK_TOLERANCE


def _window_edge(reading: ItemReading, updated_at_ms: int | None, now_ms: int, tolerance_ms: int) -> list[ItemReading]:
    """The other side of a window's end that is not farther than the tolerance."""
    item = reading.item
    if item is None or item.start_ms is None or abs(item.start_ms - now_ms) > tolerance_ms:
        return []
    if item.start_ms == updated_at_ms:  # an update that holds the broker for no time opens no window
        return []
    other = now_ms + 1 if item.start_ms <= now_ms else now_ms
    return [ItemReading(item._replace(start_ms=other), reading.reason or CLOCK_TOLERANCE)]


def _ladder_edge(
    reading: ItemReading, updated_at_ms: int | None, profile: FaultProfile, tolerance_ms: int
) -> list[ItemReading]:
    """The window that the client's own latency gave, if it is on a rung that the hook's just misses."""
    item = reading.item
    if item is None or updated_at_ms is None:
        return []
    seen, own = (
        not_available_duration(item.current_latency_ms + more, isolation=False, profile=profile)
        for more in (0, tolerance_ms)
    )
    isolated = not profile.extend_only and item.start_ms != updated_at_ms + seen
    start = max(updated_at_ms + own, item.start_ms or 0) if profile.extend_only else updated_at_ms + own
    if own <= seen or isolated or start == item.start_ms:
        return []
    return [ItemReading(item._replace(start_ms=start), reading.reason or LADDER_EDGE)]


def _detected(reading: ItemReading, record: BrokerRecord, now_ms: int, detector_enabled: bool) -> list[ItemReading]:
    item = reading.item
    if not detector_enabled or item is None:
        return []
    found = [] if item.reachable else [ItemReading(item._replace(reachable=True), reading.reason or DETECTOR)]
    unused = record.used_before_ms is None or now_ms - record.used_before_ms >= ROUTE_POLL_MS
    return [*found, ItemReading(None, reading.reason or DETECTOR)] if unused else found


def route_readings(record: BrokerRecord, choice: Choice, profile: FaultProfile) -> tuple[RouteReading, ...]:
    """What the topic's route may have been for the broker, the likeliest first.

    A broker that was chosen, or used shortly before and after within one route poll, was listed. Else what the routes
    of that time say, the latest of them the likeliest. Where none was recorded, a broker that the producer used on the
    date, but never for the topic, is likely not listed; every other one is, perhaps no more or not yet.
    """
    known = _recorded(record.routes)
    listed = next((r for r in known if r.listed), RouteReading(True, 1, True))
    before, after = record.used_before_ms, record.used_after_ms
    in_use = before is not None and (before == choice.now_ms or (after is not None and after - before < ROUTE_POLL_MS))
    if record.broker_name == choice.broker_name or in_use:
        return (listed,)
    doubt = REWRITTEN_LIST if profile.mutates_queue_list else STALE_ROUTE
    if known:
        lacking = [
            RouteReading(False, r.write_queue_nums, r.writable)
            for r in known
            if r.listed and profile.mutates_queue_list
        ]
        every = list(dict.fromkeys([*known, *lacking]))
        return (every[0], *(r._replace(reason=doubt) for r in every[1:]))
    lacking_it = RouteReading(False, None, False)
    used_elsewhere = record.updated_at_ms is not None and record.updated_at_ms >= choice.now_ms - choice.now_ms % DAY_MS
    if before is None and after is None and used_elsewhere:
        return lacking_it, listed._replace(reason=doubt)
    return listed, lacking_it._replace(reason=doubt)


def _recorded(routes: Sequence[RouteEntry] | None) -> list[RouteReading]:
    """Distinct readings of the recorded routes, latest first."""
    entries = reversed(routes or ())
    return list(dict.fromkeys(RouteReading(e.is_listed(), e.write_queue_nums, e.writable) for e in entries))


class Removals:
    """What the fallback has forgotten so far in one process's choices, which come in order of their begin."""

    def __init__(self, tolerance_ms: int) -> None:
        self._tolerance_ms = tolerance_ms
        self._last: dict[str, Removal] = {}
        self._fell_back: dict[str, int] = {}

    def last(self, broker_name: str) -> Removal | None:
        """The last removal of the broker."""
        return self._last.get(broker_name)

    def of(self, broker_name: str, updated_ms: int) -> Removal | None:
        """The removal that an item updated last at that instant may have fallen to."""
        last = self._last.get(broker_name)
        return None if last is None or updated_ms > last.at_ms + self._tolerance_ms else last

    def fell_back(self, topic: str) -> int | None:
        """When a choice of the topic was last made by the fallback, as far as is known."""
        return self._fell_back.get(topic)

    def note_rule(self, judgement: Judgement, choice: Choice, topic: str) -> None:
        """Remember that a choice may have been made by the fallback."""
        if judgement.rule not in ("available", "reachable") and judgement.verdict != "impossible":
            self._fell_back[topic] = choice.now_ms

    def note(self, removal: Removal, updated_ms: int | None) -> bool:
        """Remember what a choice (perhaps) forgot; ``updated_ms``: the broker's last update. Returns whether it is new.

        A doubtful removal goes on from the first of its kind; a sure one says when the item was surely gone.
        """
        earlier = self._last.get(removal.broker_name)
        superseded = earlier is None or (updated_ms is not None and updated_ms > earlier.at_ms + self._tolerance_ms)
        is_new = superseded or (removal.surely and earlier is not None and not earlier.surely)
        if is_new:
            self._last[removal.broker_name] = removal
        return is_new

"""Readings of a group's offsets in order in; which went back, were moved ahead, lag alone, or are
nearly deleted, out.

An offset that is read once is not to be trusted: clients commit every 5 s, one that was frozen commits what it held
before others took over, a broker that dies loses its last commits, a slave copies its master's every 10 s. So an
offset went back where it lies behind what it was ``offset_slack_s`` before, in readings that lie ``offset_commit_s``
apart; what goes back less far is taken as it is. A queue whose broker's offset goes back is another one by that name
(a broker or topic made anew, a slave that answers): what was known of it is forgotten.

Source of what a reading says: AdminBrokerProcessor#getConsumeStats, 4.0.0 to 5.5.0: an offset that nobody committed
reads as 0; ``consumeTps`` is what was handed out in the last minute, sampled every 10 s (BrokerStatsManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, NamedTuple

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.remoting.remoting_frames import RETRY_PREFIX

TopicQueue = tuple[str, str, int]  # topic, broker name, queue id
LOGICAL = "__syslo__"  # before the scope of a static topic, in place of a broker: MixAll, 5.0 on
_GROWN = 3  # readings on end that show more waiting each: not what comes between two commits
_STATS_S = 50  # of the minute that consumeTps covers, what is surely covered though sampled every 10 s


class Reading(NamedTuple):
    """One queue of one progress reading; offsets in messages, ``read_at`` epoch milliseconds.

    Attributes:
        tps: messages a second that the broker handed to the group in the last minute; None: not told.
        min_offset: the first that the broker still had when it was last asked before; None: not told.
        broker_asked: None: all brokers were asked.
    """

    queue: TopicQueue
    read_at: int
    broker_offset: int
    consumer_offset: int
    tps: float | None = None
    min_offset: int | None = None
    broker_asked: str | None = None


class Readings(NamedTuple):
    """A progress reading of a group by columns, a row a queue; see ``Reading``."""

    queues: Sequence[TopicQueue] = ()
    read_at: Sequence[int] = ()
    broker_offset: Sequence[int] = ()
    consumer_offset: Sequence[int] = ()
    tps: Sequence[float | None] = ()
    min_offset: Sequence[int | None] = ()
    broker_asked: Sequence[str | None] = ()

    @classmethod
    def of(cls, rows: Iterable[Reading]) -> Readings:
        """Of rows."""
        return cls(*map(list, zip(*rows, strict=True)))

    def shows(self, other: Readings) -> bool:
        """It tells of the same queues what another one does, at instants of its own."""
        same = self.queues == other.queues and self.min_offset == other.min_offset
        return same and self.broker_offset == other.broker_offset and self.consumer_offset == other.consumer_offset


NO_READINGS = Readings()


class Point(NamedTuple):
    """What is kept of an earlier reading."""

    read_at: int
    broker_offset: int
    consumer_offset: int


class Back(NamedTuple):
    """A group's offset that lies behind where it was; ``confirmed``: readings that lie far enough apart say so."""

    since: int
    high: int
    confirmed: bool


class Ahead(NamedTuple):
    """A group's offset that stood and then moved, from one reading to the next; ``confirmed``: handed to nobody."""

    stood_at: int
    moved_at: int
    consumer_offset_then: int
    consumer_offset: int
    confirmed: bool


class Ended(NamedTuple):
    """A queue whose end went back: when that was read first, and what it was; ``confirmed``: by a later reading."""

    at: int
    high: int
    confirmed: bool


class Deleting(NamedTuple):
    """What the broker deletes of a queue, from one deletion to the next, and how far the group came in between.

    A broker deletes files as a whole, by default once a day: messages go in jumps.

    Attributes:
        min_offset: the first that is there since the last deletion; before one was seen, since the first reading.
        consumer_offset: the group's offset then.
        deleted: by the last deletion; 0: none was seen.
        consumed: in the time before it, since the deletion before; None: not known.
    """

    min_offset: int
    consumer_offset: int
    deleted: int = 0
    consumed: int | None = None

    def then(self, floor: int, committed: int) -> Deleting:
        """With the next deletion; where the first offset went back, it is another queue by that name."""
        if floor < self.min_offset:
            return Deleting(floor, committed)
        came = committed - self.consumer_offset
        told = self.deleted > 0 or came == 0
        return Deleting(floor, committed, floor - self.min_offset, max(came, 0) if told else None)


@dataclass(slots=True)
class Mark:
    """What is remembered of one queue's offsets.

    Attributes:
        high: how far the group has come, as far as the broker held messages.
        top: how far it ever was seen to be, whatever became of the queue.
        later: the newest reading that is kept; ``before``: one that is at least ``offset_slack_s`` older.

    States hold the fields in this order.
    """

    read_at: int  # these three: of the last reading
    broker_offset: int
    consumer_offset: int
    high: int
    top: int
    later: Point
    before: Point | None = None
    back: Back | None = None
    ahead: Ahead | None = None
    lost: int = 0  # messages that the broker deleted and the group has not read
    deleting: Deleting | None = None
    beyond_since: int | None = None  # first reading that shows the group's offset beyond the queue's end
    ended: Ended | None = None
    grows_since: Point | None = None  # from which on each reading shows more messages waiting than the one before
    grown: int = 0  # in how many readings

    @classmethod
    def of(cls, first: Point, floor: int | None, top: int = 0, ended: Ended | None = None) -> Mark:
        """Of a first reading; ``ended``: of a queue whose end went back."""
        at, broker, committed = first
        made = cls(*first, min(committed, broker), max(top, committed), first, ended=ended)
        made.beyond_since = at if committed > broker else None
        made._take_floor(broker, committed, floor)
        return made

    @property
    def last(self) -> Point:
        """The last reading."""
        return Point(self.read_at, self.broker_offset, self.consumer_offset)

    @property
    def speaks(self) -> bool:
        """A rule may have something to say of it."""
        if self.back is not None or self.ahead is not None or self.lost:
            return True
        told = self.deleting
        risk = told is not None and told.deleted > 0 and self.at_risk
        return risk or self.beyond_since is not None or self.ended is not None

    @property
    def behind_s(self) -> int:
        """For how many seconds at least its first message that is not consumed has waited."""
        before = self.before
        if before is None or self.consumer_offset >= before.broker_offset:
            return 0
        return (self.read_at - before.read_at) // 1000

    @property
    def at_risk(self) -> bool:
        """The next deletion, if it is like the last, takes messages that wait, at the pace at which they are read."""
        told, committed = self.deleting, self.consumer_offset
        if told is None or told.consumed is None or self.lost or committed <= 0 or not self.behind_s:
            return False
        return committed + told.consumed < told.min_offset + told.deleted

    def take(self, at: int, broker: int, committed: int, tps: float | None, floor: int | None, timing: Timing) -> None:
        """Take in a later reading of the same queue."""
        due = at - self.later.read_at >= timing.offset_slack_s * 1000
        old = self.later if due else self.before
        if self.ahead is not None or (tps == 0 and committed != self.consumer_offset):
            self._take_ahead(at, committed, tps, old, timing)
        if committed < self.high:
            self._take_lower(at, committed, old, timing)
        else:
            self.high, self.back = committed if committed < broker else broker, None
        if due:
            self.before, self.later = self.later, Point(at, broker, committed)
        if committed > broker or self.beyond_since is not None:
            self.beyond_since = (self.beyond_since or at) if committed > broker else None
        if self.ended is not None:
            self._take_ended(self.ended, at, broker, timing)
        if broker - committed <= self.broker_offset - self.consumer_offset:
            self.grows_since, self.grown = None, 0
        else:
            self.grows_since, self.grown = self.grows_since or self.last, self.grown + 1
        self.read_at, self.broker_offset, self.consumer_offset = at, broker, committed
        if committed > self.top:
            self.top = committed
        told = self.deleting
        if self.lost or (floor is not None and (committed < floor or told is None or floor != told.min_offset)):
            self._take_floor(broker, committed, floor)

    def _take_ended(self, ended: Ended, at: int, broker: int, timing: Timing) -> None:
        """Tell an end that went back for a while; where it is soon as before, another broker had answered."""
        apart = at - ended.at
        if ended.confirmed:
            self.ended = ended if apart <= timing.offset_shown_s * 1000 else None
        elif broker >= ended.high:
            self.ended = None
        else:
            self.ended = ended._replace(confirmed=apart >= timing.offset_commit_s * 1000)

    def _take_lower(self, at: int, committed: int, old: Point | None, timing: Timing) -> None:
        if self.back is not None:
            apart = at - self.back.since >= timing.offset_commit_s * 1000
            self.back = self.back._replace(confirmed=self.back.confirmed or apart)
        elif old is not None and committed < old.consumer_offset:
            self.back = Back(at, self.high, False)
        else:
            self.high = committed
            self.later = _at_most(self.later, committed)
            self.before = None if self.before is None else _at_most(self.before, committed)

    def _take_ahead(self, at: int, committed: int, tps: float | None, old: Point | None, timing: Timing) -> None:
        last, ahead = self.last, self.ahead
        if ahead is not None and ahead.confirmed:
            self.ahead = ahead if at - ahead.moved_at <= timing.offset_shown_s * 1000 else None
        elif committed != last.consumer_offset:
            stood = old is not None and old.consumer_offset == last.consumer_offset and tps == 0
            new = committed > self.top and at - last.read_at <= _STATS_S * 1000
            self.ahead = Ahead(last.read_at, at, last.consumer_offset, committed, False) if stood and new else None
        elif ahead is not None and at - ahead.moved_at >= timing.offset_commit_s * 1000:
            told = tps == 0 and at - ahead.moved_at <= _STATS_S * 1000
            self.ahead = ahead._replace(confirmed=True) if told else None

    def _take_floor(self, broker: int, committed: int, floor: int | None) -> None:
        """Take in the first offset that is still there; None: it was not told."""
        self.lost = floor - committed if floor is not None and 0 < committed < floor <= broker else 0
        if floor is not None and (self.deleting is None or floor != self.deleting.min_offset):
            first = Deleting(floor, committed)
            self.deleting = first if self.deleting is None else self.deleting.then(floor, committed)


# What a state holds of a mark beside its last reading, and the shape of what is a list there.
_KEPT = tuple(one.name for one in fields(Mark))[3:]
_SHAPES = (None, None, Point, Point, Back, Ahead, None, Deleting, None, Ended, Point, None)


def _at_most(read: Point, committed: int) -> Point:
    return read if read.consumer_offset <= committed else read._replace(consumer_offset=committed)


@dataclass
class OffsetMarks:
    """The marks of a group's queues; ``to_state`` and ``of_state`` carry them over a date's end."""

    marks: dict[TopicQueue, Mark] = field(default_factory=dict)
    speaking: set[TopicQueue] = field(default_factory=set)
    behind: dict[str, set[TopicQueue]] = field(default_factory=dict)  # by topic, queues that lag for long
    growing: dict[str, set[TopicQueue]] = field(default_factory=dict)  # by topic, where ever more waits for a while
    retried: dict[TopicQueue, float] = field(default_factory=dict)  # messages a minute into retry queues

    def take(self, readings: Readings, timing: Timing) -> None:
        """Take in readings; one of a static topic's queue says nothing, nor does one that is no later."""
        marks, growing_ms = self.marks, timing.standstill_s * 1000
        for queue, at, broker, committed, tps, floor in zip(*readings[:6], strict=True):
            mark = marks.get(queue)
            if mark is None:
                if queue[1].startswith(LOGICAL):
                    continue
                mark = marks[queue] = Mark.of(Point(at, broker, committed), floor)
            elif at <= mark.read_at:
                continue
            elif broker < mark.broker_offset:
                first = Point(at, broker, committed)
                mark = marks[queue] = Mark.of(first, floor, mark.top, _ended(mark, at))
            else:
                mark.take(at, broker, committed, tps, floor, timing)
            self._index(queue, mark, growing_ms)

    def _index(self, queue: TopicQueue, mark: Mark, growing_ms: float = 0) -> None:
        if mark.speaks:
            self.speaking.add(queue)
        elif self.speaking:
            self.speaking.discard(queue)
        before, since = mark.before, mark.grows_since
        if queue[0].startswith(RETRY_PREFIX):
            self._index_retry(queue, mark)
            return
        lags = before is not None and mark.consumer_offset < before.broker_offset
        if lags or self.behind:
            _keep(self.behind, queue, lags)
        grows = since is not None and mark.grown >= _GROWN and mark.read_at - since.read_at >= growing_ms
        if grows or self.growing:
            _keep(self.growing, queue, grows)

    def _index_retry(self, queue: TopicQueue, mark: Mark) -> None:
        came = 0 if mark.before is None else mark.broker_offset - mark.before.broker_offset
        if mark.before is not None and came > 0:
            self.retried[queue] = came * 60_000 / (mark.read_at - mark.before.read_at)
        else:
            self.retried.pop(queue, None)

    def retries_a_minute(self) -> dict[str, float]:
        """Messages a minute into each retry topic, those with none left out."""
        found: dict[str, float] = {}
        for (topic, *_), rate in sorted(self.retried.items()):
            found[topic] = found.get(topic, 0.0) + rate
        return found

    def speak(self, timing: Timing) -> bool:
        """A rule may have something to say of the last readings."""
        if self.speaking or self.behind or self.growing:
            return True
        return any(rate >= timing.retries_a_minute for rate in self.retries_a_minute().values())

    def still_until(self, readings: Readings, timing: Timing) -> float:
        """When a reading of one of these queues is kept next."""
        kept = (mark.later.read_at for queue in readings.queues if (mark := self.marks.get(queue)) is not None)
        return min(kept, default=inf) + timing.offset_slack_s * 1000

    def to_state(self) -> list[list[Any]]:
        """The marks as JSON values, in an order that equal ones share."""
        return [[*queue, m.last, *(getattr(m, name) for name in _KEPT)] for queue, m in sorted(self.marks.items())]

    @classmethod
    def of_state(cls, state: Iterable[Sequence[Any]]) -> OffsetMarks:
        """The marks that ``to_state`` wrote; what states of earlier releases lack is as of a first reading."""
        made = cls()
        for topic, broker, queue_id, last, *kept in state:
            shaped = (shape(*value) if shape and value else value for shape, value in zip(_SHAPES, kept, strict=False))
            mark = made.marks[topic, broker, queue_id] = Mark(*last, *shaped)
            made._index((topic, broker, queue_id), mark)
        return made


def _keep(queues: dict[str, set[TopicQueue]], queue: TopicQueue, is_one: bool) -> None:
    if is_one:
        queues.setdefault(queue[0], set()).add(queue)
    elif queue in queues.get(queue[0], ()):
        queues[queue[0]].discard(queue)
        if not queues[queue[0]]:
            del queues[queue[0]]


def _ended(mark: Mark, at: int) -> Ended:
    """What is told of a queue whose end went back; one that goes back again went back from where it first was."""
    high = mark.broker_offset if mark.ended is None else max(mark.ended.high, mark.broker_offset)
    return Ended(at, high, False)

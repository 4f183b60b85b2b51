"""What became of one message in one group: its place, the group's readings and deliveries in, verdicts with causes out.

The records of one message, as plain values, are a `Life`. Several verdicts may hold together. What the records cannot
tell is ``unknown``, with what is missing: that nothing is recorded of a consumption means something only where consume
recorders of all who may have read the queue cover the time.

>>> at = datetime(2026, 11, 27, 12)
>>> place = Place("T", "broker-a", 0, 17)
>>> read = (Reading(at, 17), Reading(at + timedelta(seconds=30), 18))
>>> verdicts(Life(place, at, readings=read, owners=(Seen("c1", at, at),)))[0].verdict
'unknown'
>>> covered = {"c1": (Recorded(at, at + timedelta(seconds=60)),)}
>>> verdicts(Life(place, at, readings=read, owners=(Seen("c1", at, at),), recorded=covered))[0].verdict
'lost'

What a message id says of itself: by which process it was made and when, or where a broker stored the message.

A unique key (MessageClientIDSetter) is the client's: address, process, class loader, time in the month, counter. C++
(StringIdMaker) has the same parts, through 1.2.3 with their bytes turned round: days of such an id are wrong ones. An
offset message id (MessageDecoder#createMessageId) is the broker's: address, port, place in the commit log. Both have 32
hex digits with IPv4 and 56 with IPv6; ids of gRPC clients have 34 and begin with their version.

>>> days_of("7F000001000418B4AAC2" + "0A4CB800" + "0001")
(2, 3, 4)
>>> is_offset_id("7F00000100002A9F00000000000001F4")
True
>>> is_offset_id("7F000001000418B4AAC20A4CB8000001")
False
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from hindsight.udfs.producer.attempt_updates import failure_of

# How long after its last sign a process that is seen no more may have lived: recorders give one every 30 s.
SIGN = timedelta(seconds=35)
# How far apart readings of a queue's owners may lie, so that nobody can have had it between them unseen.
READ = timedelta(seconds=60)
MOST_RETRIES = 16  # DefaultMQPushConsumerImpl#getMaxReconsumeTimes, of -1; SubscriptionGroupConfig#retryMaxTimes
_DAY = timedelta(days=1)
# Its request never left, or the broker said no: it holds nothing. After others it may.
_NEVER_LEFT = frozenset({"RemotingConnectException", "RemotingTooMuchRequestException"})
_HEX = re.compile(r"[0-9A-Fa-f]+")
_GRPC_DIGITS, _GRPC_EPOCH = 34, datetime(2021, 1, 1, tzinfo=UTC)
_DIGITS = {32: 8, 56: 32}  # of the whole, and of the address in it
_DAY_MS = 86_400_000
_MONTH_MS = 31 * _DAY_MS


class Place(NamedTuple):
    """Where a message was stored; ``offset`` None: not recorded."""

    topic: str
    broker: str | None
    queue: int | None
    offset: int | None


class Reading(NamedTuple):
    """The next offset that a group will consume, or the first that a queue still has."""

    at: datetime
    offset: int


class Delivery(NamedTuple):
    """A listener was called with the message. ``success`` None: its end is not recorded."""

    began_at: datetime
    consumer: str
    success: bool | None = None
    cost_ms: int | None = None
    result: str = "no_end"
    retry_times: int = 0
    place: Place | None = None
    by_recorder: bool = True


class Seen(NamedTuple):
    """A client held the queue at readings from ``first`` to ``last``."""

    client_id: str
    first: datetime
    last: datetime


class Recorded(NamedTuple):
    """A consume recorder's life; ``lost_at``: when it told of lost lines; ``is_shut``: nothing came after its end."""

    first: datetime
    last: datetime
    lost_at: tuple[datetime, ...] = ()
    is_shut: bool = False


class Began(NamedTuple):
    """A client took the queue and began to read it at ``least``, or between that and ``most``.

    ``stored``: what ``stored_by``, who had it before, had stored as it gave it up; of nobody: 0, nothing was stored.
    ``is_after``: it had given the queue up by then, so what lies between was nobody's.
    """

    at: datetime
    client_id: str
    least: int
    most: int
    stored: int
    stored_by: str | None
    is_after: bool
    evidence: str

    def passed_over(self, offset: int) -> tuple[bool, bool]:
        """Whether an offset was skipped: for certain, and perhaps."""
        is_behind = self.is_after and offset >= self.stored
        return is_behind and offset < self.least, is_behind and offset < self.most

    def read_again(self, offset: int) -> tuple[bool, bool]:
        """Whether an offset was read again: for certain, and perhaps."""
        is_before = offset < self.stored
        return is_before and offset >= self.most, is_before and offset >= self.least

    def told(self, what: str) -> str:
        """The hand-over and what came of it, with its evidence."""
        where = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        before = f"{self.stored_by} had stored {self.stored}" if self.stored_by else "no offset was stored"
        order = before if self.is_after else f"{self.stored_by} stored {self.stored} later"
        return f"{what}: {self.client_id} began at {where}, {order} ({self.evidence})"


class Subscription(NamedTuple):
    """What a member subscribes to; ``tags`` empty: all; None: an expression that is not evaluated here."""

    client_id: str
    tags: frozenset[str] | None


class Verdict(NamedTuple):
    """A verdict, why it holds, and of ``unknown`` what is missing."""

    verdict: str
    cause: str


@dataclass(frozen=True)
class Life:
    """What is recorded of a message and a group. Instants are UTC.

    ``place``: None: nothing tells where it lies; ``why_no_place`` says why. ``max_retries`` None: retried without end.
    ``tag``: known only with ``is_tag_known``. ``overtaken``: deliveries of greater offsets of its queue that began
    before its own. ``jumps``: codes of findings about offsets of the queue. ``begins``: who took the queue since.
    """

    place: Place | None
    stored_at: datetime | None
    why_no_place: str = ""
    deliveries: tuple[Delivery, ...] = ()
    readings: tuple[Reading, ...] = ()
    firsts: tuple[Reading, ...] = ()
    owners: tuple[Seen, ...] = ()
    recorded: Mapping[str, tuple[Recorded, ...]] = field(default_factory=dict)
    subscriptions: tuple[Subscription, ...] = ()
    tag: str | None = None
    is_tag_known: bool = False
    is_broadcast: bool = False
    is_orderly: bool = False
    max_retries: int | None = MOST_RETRIES
    overtaken: int = 0
    jumps: tuple[str, ...] = ()
    begins: tuple[Began, ...] = ()
    late_s: int = 60


def recorded(signs: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Recorded, ...]]:
    """Of each client the lives of its recorders, by rows of ``consumer_recording`` in order of ``told_at``.

    Each begins with a start, or after signs that are missing: whatever came between is not covered.
    """
    lives: dict[str, list[list[Mapping[str, Any]]]] = defaultdict(list)
    for sign in signs:
        own = lives[sign["client_id"]]
        if not own or sign["kind"] == "start" or sign["told_at"] - own[-1][-1]["told_at"] > SIGN:
            own.append([])
        own[-1].append(sign)
    return {client: tuple(map(_recorded, of_client)) for client, of_client in lives.items()}


def _recorded(signs: Sequence[Mapping[str, Any]]) -> Recorded:
    lost = tuple(sign["told_at"] for sign in signs if sign["kind"] == "dropped")
    is_shut = signs[-1]["kind"] == "stop" and bool(signs[-1]["shut_down"])
    return Recorded(signs[0]["told_at"], signs[-1]["told_at"], lost, is_shut)


def stints(readings: Iterable[tuple[str, datetime]]) -> list[Seen]:
    """Who held a queue from when to when, by readings (client id, instant) in order."""
    found: list[Seen] = []
    for client, at in readings:
        held = next((n for n, one in enumerate(found) if one.client_id == client and at - one.last <= READ), None)
        if held is None:
            found.append(Seen(client, at, at))
        else:
            found[held] = found[held]._replace(last=at)
    return found


def verdicts(life: Life) -> list[Verdict]:
    """All that holds, the outcome first."""
    if life.deliveries:
        return [*_delivered(life), *_manner(life)]
    return [_not_delivered(life)]


def passed(life: Life) -> tuple[datetime | None, datetime | None]:
    """After when, and by when, the group's offset passed the message; None: no reading says so."""
    if life.place is None or life.place.offset is None:
        return None, None
    since = life.stored_at or datetime.min
    later = [reading for reading in sorted(life.readings) if reading.at >= since]
    by = next((reading.at for reading in later if reading.offset > life.place.offset), None)
    before = [r.at for r in life.readings if r.offset <= life.place.offset and (by is None or r.at < by)]
    return max(before, default=None), by


def moved(life: Life) -> list[tuple[datetime, str]]:
    """When its queue changed hands so that it was skipped or read again, or may have been."""
    offset = None if life.place is None else life.place.offset
    if offset is None:
        return []
    found = []
    for one in life.begins:
        for what, (is_certain, is_possible) in (
            ("skipped", one.passed_over(offset)),
            ("read again", one.read_again(offset)),
        ):
            if is_possible:
                found.append((one.at, one.told(what if is_certain else f"perhaps {what}")))
    return found


def _moved(life: Life, what: str) -> str:
    """The first hand-over that did so for certain; '': none."""
    return next((told for _, told in moved(life) if told.startswith(what)), "")


def send_verdict(attempts: Iterable[Mapping[str, Any]], transaction: str | None = None) -> Verdict | None:
    """Why the message may not be in its topic, by rows of ``send_attempt``; None: a broker said that it stored it."""
    outcomes = list(attempts)
    if transaction == "ROLLBACK_MESSAGE":
        return Verdict("not_sent", "its transaction was rolled back")
    of_own = next((a["queue_offset_of"] for a in outcomes if a.get("queue_offset_of") not in (None, "topic")), None)
    if of_own == "half" and transaction is None:
        return Verdict("unknown", "a half message: no record says how its transaction ended")
    if any(attempt["outcome"] not in ("EXCEPTION", "SUBMITTED", "UNKNOWN") for attempt in outcomes):
        return None
    if outcomes and all(_never_stored(attempt) for attempt in outcomes):
        last = outcomes[-1]
        return Verdict("not_sent", f"no attempt reached a broker that stored it; the last ended in {last['exception']}")
    why = "no attempt of it is recorded" if not outcomes else "no attempt has an answer, and a broker may hold it"
    return Verdict("send_unknown", why)


def _never_stored(attempt: Mapping[str, Any]) -> bool:
    exception = attempt["exception"]
    if exception is None or attempt["mode"] == "ASYNC":  # which hides the client's own retries
        return False
    return exception.rpartition(".")[2] in _NEVER_LEFT or failure_of(exception) in ("client", "broker")


def _delivered(life: Life) -> list[Verdict]:
    done = [one for one in life.deliveries if one.success]
    if life.is_broadcast:
        by = {one.consumer for one in done}
        twice = len(done) > len(by)
        told = f"broadcast: {len(by)} client(s) consumed it"
        return [Verdict("consumed_twice" if twice else "consumed_once" if by else "not_consumed_yet", told)]
    if len(done) > 1:
        return [Verdict("consumed_twice", _why_twice(life, done))]
    if done:
        return [_once(life, done[0])]
    last = max(life.deliveries)
    if last.success is None:
        return [Verdict("not_consumed_yet", f"{last.consumer} was given it and has not returned, as far as recorded")]
    if life.max_retries is not None and last.retry_times >= life.max_retries:
        told = f"delivery {last.retry_times + 1} failed ({last.result}), and {life.max_retries} retries are allowed"
        return [Verdict("dead_letter", told)]
    return [Verdict("not_consumed_yet", f"{len(life.deliveries)} deliveries failed; the next is still to come")]


def _once(life: Life, done: Delivery) -> Verdict:
    others = [one for one in life.deliveries if one is not done]
    failed = sum(one.success is False for one in others)
    told = f"by {done.consumer}"
    told += f", after {failed} that failed" if failed else ""
    ended = [one.consumer for one in others if one.success is None]
    told += f"; {ended[0]} was given it too and never returned" if ended else ""
    uncovered = _uncovered(life, done.began_at) if done.by_recorder else "traces may be lost"
    return Verdict("consumed_once", f"{told}; at least once, for {uncovered}" if uncovered else told)


def _why_twice(life: Life, done: list[Delivery]) -> str:
    first, second, *_ = sorted(done)
    by = first.consumer if first.consumer == second.consumer else f"{first.consumer} and {second.consumer}"
    told = f"{len(done)} times, by {by}"
    places = {one.place for one in done if one.place and one.place.topic == one.place.topic}
    own = {p for p in places if life.place is None or p.topic == life.place.topic}
    if len(own) > 1:
        return f"{told}: it was stored {len(own)} times, as the send was tried again"
    if any(one.place and one.retry_times for one in done):
        return f"{told}: it came again from the retry topic"
    again = _moved(life, "read again") if first.consumer != second.consumer else ""
    if again:
        return f"{told}: {again}"
    if _ends(first) and second.began_at < _ends(first):
        return f"{told}: both at one time: two clients read the queue"
    later = [reading for reading in sorted(life.readings) if reading.at >= first.began_at]
    offset = life.place.offset if life.place else None
    if offset is not None and _went_back(later, offset):
        return f"{told}: the group's offset went back to before it"
    changed = first.consumer != second.consumer
    return f"{told}: " + ("the next owner began before it" if changed else "it was read again; no record says why")


def _went_back(readings: list[Reading], offset: int) -> bool:
    is_past = False
    for reading in readings:
        if is_past and reading.offset <= offset:
            return True
        is_past = is_past or reading.offset > offset
    return False


def _ends(one: Delivery) -> datetime:
    return one.began_at + timedelta(milliseconds=one.cost_ms or 0)


def _manner(life: Life) -> list[Verdict]:
    """How it was consumed, beside how often."""
    found = []
    first = min(life.deliveries)
    late = timedelta(seconds=life.late_s)
    if life.stored_at and first.began_at - life.stored_at >= late:
        waited = (first.began_at - life.stored_at).total_seconds()
        found.append(Verdict("late", f"the listener was called {waited:.1f} s after it was stored"))
    slowest = max(life.deliveries, key=lambda one: one.cost_ms or 0)
    if timedelta(milliseconds=slowest.cost_ms or 0) >= late:
        found.append(Verdict("late", f"the listener took {(slowest.cost_ms or 0) / 1000:.1f} s"))
    if life.is_orderly and life.overtaken:
        found.append(Verdict("out_of_order", f"{life.overtaken} later message(s) of its queue were delivered before"))
    return found


def _not_delivered(life: Life) -> Verdict:
    filtered = _filtered(life)
    if filtered:
        return filtered
    if life.place is None or life.place.offset is None:
        return Verdict("unknown", life.why_no_place or "its offset in the queue is not recorded")
    after, by = passed(life)
    if not life.readings:
        return Verdict("unknown", "the group's offset of its queue was not read")
    gone = [first for first in life.firsts if first.offset > life.place.offset and (by is None or first.at <= by)]
    if gone:
        return Verdict("lost", f"deleted before the group read it: the queue began at {gone[0].offset} by {gone[0].at}")
    if by is None:
        last = max(life.readings)
        if life.stored_at and last.at < life.stored_at:
            return Verdict("unknown", "the group's offset was not read since it was stored")
        return Verdict("not_consumed_yet", f"the group stood at {last.offset} at {last.at}{_nobody(life, last.at)}")
    uncovered = _uncovered(life, by)
    if uncovered:
        return Verdict("unknown", f"the group's offset passed it, but {uncovered}")
    refusing = [one.client_id for one in life.subscriptions if life.is_tag_known and not _takes(one, life.tag)]
    if refusing:
        names = ", ".join(sorted(set(refusing)))
        told = f"{names} do not take tag {life.tag}, and brokers go by whichever member told last"
        return Verdict("filtered", told)
    if any(one.tags is None for one in life.subscriptions):
        return Verdict("unknown", "the group filters by an expression that is not evaluated here")
    return Verdict("lost", _why_skipped(life, after, by))


def _nobody(life: Life, at: datetime) -> str:
    is_owned = any(one.last >= at - timedelta(minutes=2) for one in life.owners)
    return "" if is_owned else "; no owner of its queue was read"


def _filtered(life: Life) -> Verdict | None:
    """Not one of those who were seen takes its tag, and they are all who held the queue."""
    known = {one.client_id for one in life.subscriptions}
    held = {one.client_id for one in life.owners if life.stored_at and one.last >= life.stored_at - SIGN}
    if not held or not held <= known or not life.is_tag_known or any(_takes(o, life.tag) for o in life.subscriptions):
        return None
    by = ", ".join(sorted({one.client_id for one in life.subscriptions})[:3])
    wanted = " || ".join(sorted(set().union(*(one.tags or () for one in life.subscriptions))))
    return Verdict("filtered", f"its tag is {life.tag}; {by} subscribe to {wanted}")


def _takes(one: Subscription, tag: str | None) -> bool:
    return not one.tags or tag in one.tags


def _why_skipped(life: Life, after: datetime | None, by: datetime) -> str:
    if by_hand_over := _moved(life, "skipped"):
        return by_hand_over
    if life.jumps:
        return f"skipped by an offset that was set ({', '.join(life.jumps)})"
    earliest = min(life.readings)
    if life.place is not None and earliest.offset > (life.place.offset or 0):
        return f"the group began behind it: its first known offset is {earliest.offset}, read at {earliest.at}"
    return f"skipped: its offset was passed between {after} and {by}, and no listener was called"


def _uncovered(life: Life, until: datetime) -> str:
    """What of those who may have read the queue is not recorded, from when it was stored to ``until``; '': nothing."""
    since = life.stored_at
    if since is None:
        return "nothing says when it was stored"
    owners = [one for one in life.owners if one.first <= until + SIGN and one.last >= since - SIGN]
    if not owners:
        return "no record says who owned the queue then"
    seen = since
    for owner in [*sorted(owners, key=lambda one: one.first), Seen("", until, until)]:
        if owner.first > seen + READ:
            return f"nobody read who held the queue between {seen} and {owner.first}"
        seen = max(seen, owner.last)
    for owner in owners:
        told = _gap_of(owner, life.recorded.get(owner.client_id, ()), since, until)
        if told:
            return told
    return ""


def _gap_of(owner: Seen, recorded: Iterable[Recorded], since: datetime, until: datetime) -> str:
    """Why the consume recorder of an owner does not tell of all that it read; '': it does."""
    spans = sorted(recorded)
    who = f"the consume recorder of {owner.client_id}"
    if not spans:
        return f"there is no consume recorder of {owner.client_id}"
    begin, end = max(since, owner.first), min(until, owner.last)
    if any(since <= at <= until + _DAY for span in spans for at in span.lost_at):
        return f"{who} lost lines"
    if spans[0].first > begin:
        return f"{who} began later, at {spans[0].first}"
    for before, after in pairwise(spans):
        if before.last + SIGN < after.first and not before.is_shut and before.last <= end and after.first >= begin:
            return f"{who} paused after {before.last}"
    if spans[-1].last + SIGN < end and not spans[-1].is_shut:
        return f"{who} ended before, at {spans[-1].last}"
    return ""


def is_offset_id(msg_id: str) -> bool:
    """It can be a broker's: where the port stands is one."""
    address = _DIGITS.get(len(msg_id))
    return bool(address and _HEX.fullmatch(msg_id) and 0 < int(msg_id[address : address + 8], 16) < 65_536)


def days_of(msg_id: str) -> tuple[int, ...] | date | None:
    """When a client made the id: days of a month, or for gRPC the date; None: it does not say.

    The month began in the client's own zone, so the days beside it count too.
    """
    if not _HEX.fullmatch(msg_id):
        return None
    if len(msg_id) == _GRPC_DIGITS:
        return (_GRPC_EPOCH + timedelta(seconds=int(msg_id[18:26], 16))).date()
    if len(msg_id) not in _DIGITS:
        return None
    since_ms = int(msg_id[-12:-4], 16)
    if since_ms >= _MONTH_MS + _DAY_MS:
        return None
    day = since_ms // _DAY_MS + 1
    return (day - 1, day, day + 1)


def may_be_of(day: date, told: tuple[int, ...] | date | None) -> bool:
    """Whether a message with such an id may have been sent on a date."""
    if told is None:
        return True
    if isinstance(told, date):
        return abs((day - told).days) <= 1
    # Of 0 it is the last day of the month before, and of a day behind a month's end the first of the next.
    after = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    last = (after - timedelta(days=1)).day
    wanted = {one for one in told if 1 <= one <= last}
    return day.day in wanted or (day.day == last and 0 in told) or (day.day == 1 and max(told) > 28)

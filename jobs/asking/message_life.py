"""The life of a message: its id in, what every record tells of it out, and a verdict of each group.

Reads the dates of which an id may be, then those on which the message was there to be consumed; the others only where
it is on none of the first: not every client makes ids by Java's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.explaining.explanation import answer, at_instant, on_date, same
from hindsight.udfs.telling.message_verdicts import (
    MOST_RETRIES,
    READ,
    Began,
    Delivery,
    Life,
    Place,
    Reading,
    Seen,
    Subscription,
    Verdict,
    days_of,
    is_offset_id,
    may_be_of,
    passed,
    recorded,
    send_verdict,
    stints,
    verdicts,
)

MOST_MESSAGES = 5
_MOST = 5_000
_AROUND = timedelta(minutes=10)
_JUMPS = ("OFFSET_JUMPED", "OFFSET_REWOUND")
FAILED = "EXCEPTION"


@dataclass
class Message:
    """What is recorded of one message; ``groups``: by group its deliveries, readings, owners and verdicts.

    ``printed``: the results of its send that applications printed into their logs.
    """

    cluster: str
    msg_id: str
    found_by: str
    attempts: list[Record]
    deliveries: list[Record]
    ends: list[Record]
    printed: list[Record]
    verdict: Verdict | None = None
    place: Place | None = None
    stored_at: datetime | None = None
    groups: dict[str, GroupLife] = field(default_factory=dict)
    shares_id: bool = False  # with the other messages of its batch, where nothing tells them apart


class GroupLife(NamedTuple):
    """What is recorded of the message in a group, and what follows."""

    life: Life
    verdicts: list[Verdict]


def messages(asker: Asker, name: str, *, by_key: bool, late_s: int, days: int) -> list[Message]:
    """The messages of an id, or of a business key: at most five. ``days``: how long after its send it is looked for."""
    found = [_message(asker, *each, days) for each in _found(asker, name, by_key=by_key)]
    for message in found:
        for group in _groups(asker, message, days):
            life = _life(asker, message, group, late_s, days)
            message.groups[group] = GroupLife(life, [message.verdict] if message.verdict else verdicts(life))
    return found


def _found(asker: Asker, name: str, *, by_key: bool) -> list[tuple[str, str, str]]:
    """Cluster, message id and by what it was found."""
    text = asker.literal(name)
    if by_key:
        # Keys stand in one text, parted by blanks; PUB records of traces have them so too.
        like = f"CONCAT(' ', message_key, ' ') LIKE CONCAT('% ', {text}, ' %')"
        return _ids(asker, "send_attempt", f"message_key = {text} OR {like}", "key")
    found = next(filter(None, (_found_among(asker, name, near) for near in _likely_first(asker, name))), [])
    if is_offset_id(name):
        of_broker, how = f"offset_msg_id = {text}", "offset message id"
        found += (
            _ids(asker, "send_attempt", of_broker, how)
            or _ids(asker, "message_trace", of_broker, how)
            or _ids(asker, "client_event", f"{_PRINTED} AND {of_broker}", f"{how} in a log")
        )
    return list(dict.fromkeys(found))[:MOST_MESSAGES]


def _likely_first(asker: Asker, msg_id: str) -> list[list[date]]:
    """The dates of the lake on which an id may have been made, and the others."""
    dates = [row["event_date"] for row in _answer(asker, "dates", {})]
    likely = [day for day in dates if may_be_of(day, days_of(msg_id))]
    return [likely, [day for day in dates if day not in likely]]


def _found_among(asker: Asker, name: str, near: list[date]) -> list[tuple[str, str, str]]:
    text, later = asker.literal(name), _among(near + _days_after(near))
    found = []
    for row in _answer(asker, "sent", {"msg_id": name}, near=_among(near), most=MOST_MESSAGES):
        batch = row["batch_msg_ids"] or [name]
        one_by_one = [name] if name in batch else batch[:MOST_MESSAGES]  # a batch by its own id: each of its messages
        found += [(row["cluster"], each, "message id" if each == name else "batch") for each in one_by_one]
    found = found or _ids(asker, "message_trace", f"msg_id = {text} AND {later}", "message id")
    if found:
        return found
    printed = _answer(asker, "printed_ids", {"msg_id": name}, near=later, most=MOST_MESSAGES)
    return [(row["cluster"], name, "message id in a log") for row in printed]


_PRINTED = "kind = 'send_returned'"  # of what applications printed into their logs


def _days_after(days: list[date]) -> list[date]:
    return [day + timedelta(days=1) for day in days]


def _among(days: Iterable[date]) -> str:
    listed = ", ".join(f"DATE'{day}'" for day in days)
    return f"event_date IN ({listed})" if listed else "FALSE"


def _ids(asker: Asker, table: str, where: str, how: str) -> list[tuple[str, str, str]]:
    found = _answer(asker, "ids", {}, table=table, where=where, most=MOST_MESSAGES)
    return [(row["cluster"], row["msg_id"], how) for row in found]


def _answer(asker: Asker, name: str, row: Record, **more: object) -> list[Record]:
    """The answer to one of ``queries/message.sql``."""
    return answer(asker, "message", name, row, **{"most": _MOST, **more})


def _message(asker: Asker, cluster: str, msg_id: str, how: str, days: int) -> Message:
    read = (_message_among(asker, cluster, msg_id, how, days, near) for near in _likely_first(asker, msg_id))
    message = next(read)
    return message if message.attempts or message.printed else next(read)


def _message_among(asker: Asker, cluster: str, msg_id: str, how: str, days: int, near: list[date]) -> Message:
    own = {"cluster": cluster, "msg_id": msg_id}
    attempts = _answer(asker, "attempts", own, near=_among(near))
    since = min((row["begin_at"] for row in attempts), default=None)
    until = f"AND {_between('event_date', since, days)}" if since else ""
    named = ", ".join(asker.literal(one) for one in sorted({msg_id, *_batches(attempts)}))
    deliveries = _answer(asker, "deliveries", own, named=named, until=until)
    ends = _answer(asker, "ends", own, until=until)
    printed = _answer(asker, "printed", own, near=_among(sorted({*near, *_days_after(near)})))
    message = Message(cluster, msg_id, how, attempts, deliveries, ends, printed)
    state = ends[-1]["transaction_state"] if ends else None
    answered = _place_answered(message)
    message.deliveries = [one for one in deliveries if one["msg_id"] == msg_id or _lies_at(one, answered[0])]
    message.shares_id = len(message.deliveries) < sum(one["queue_offset"] is None for one in deliveries)
    message.verdict = None if message.deliveries else send_verdict(attempts, state)
    if printed and message.verdict and message.verdict.verdict == "send_unknown":
        message.verdict = None  # a broker answered
    message.place, message.stored_at = _place_delivered(message) or _with_printed(message, *answered)
    return message


def _batches(attempts: list[Record]) -> set[str]:
    """Ids of batches that are none of a message's own: from 5.x on all messages of a batch lie under that one."""
    return {one["msg_id"] for one in attempts if one["batch_msg_ids"] and one["msg_id"] not in one["batch_msg_ids"]}


def _lies_at(delivery: Record, place: Place | None) -> bool:
    where = (delivery["stored_topic"], delivery["broker_name"], delivery["queue_id"], delivery["queue_offset"])
    return place is not None and place.offset is not None and where == place


def _between(column: str, since: datetime, days: int) -> str:
    return f"{column} BETWEEN {on_date(since)} AND {on_date(since + timedelta(days=days))}"


def _place_delivered(message: Message) -> tuple[Place, datetime | None] | None:
    """Where the message was stored in its topic, and when, by a delivery."""
    for one in message.deliveries:
        if one["queue_offset"] is not None and one["stored_topic"] == one["topic"]:
            return Place(one["topic"], one["broker_name"], one["queue_id"], one["queue_offset"]), one["stored_at"]
    return None


def _place_answered(message: Message) -> tuple[Place | None, datetime | None]:
    """The same by the answer that its producer got."""
    answered = [a for a in message.attempts if a["outcome"] not in (FAILED, "SUBMITTED", "UNKNOWN")]
    if not answered:
        return None, None
    last = answered[-1]
    offset = last["queue_offset"] if last["queue_offset_of"] == "topic" else None
    if offset is not None and last["batch_msg_ids"] and message.msg_id in last["batch_msg_ids"]:
        offset += last["batch_msg_ids"].index(message.msg_id)
    is_elsewhere = "ANSWERED_BY_ANOTHER" in (last["doubts"] or ())
    broker, queue = (None, None) if is_elsewhere else (last["broker_name"], last["queue_id"])
    return Place(last["topic"], broker, queue, offset if broker else None), last["end_at"]


def _with_printed(message: Message, place: Place | None, at: datetime | None) -> tuple[Place | None, datetime | None]:
    """The same, with the broker and queue that its application printed where nothing else tells."""
    if not message.printed or (place is not None and place.broker is not None):
        return place, at
    last = message.printed[-1]
    return Place(last["topic"], last["broker_name"], last["queue_id"], None), at or last["logged_at"]


def printed_offset(message: Message, printed: Record) -> int:
    """The offset that was printed for the message, of a batch in order of its messages."""
    batch = printed["batch_msg_ids"] or [message.msg_id]
    return int(printed["offset"]) + (batch.index(message.msg_id) if message.msg_id in batch else 0)


def why_no_place(message: Message) -> str:
    """Why nothing tells the offset at which it was stored; empty: something does."""
    of_own = {a["queue_offset_of"] for a in message.attempts} - {None, "topic"}
    if of_own:
        told = {"half": "a half message", "delay": "a delayed message", "timer": "a timer"}[min(of_own)]
        return f"{told} waits in a queue of RocketMQ's own first: no record shows its place in the topic"
    if message.shares_id:
        return "consumers see one id for all messages of its batch, and a trace tells no offset"
    if message.printed and message.place and message.place.offset is None:
        offset = printed_offset(message, message.printed[-1])
        return f"its application printed {offset}: of this queue, or of a transaction, a delay or a timer of another"
    return "" if message.place else "no record says where it was stored"


def topic_of(message: Message) -> str | None:
    """The topic that it was sent to."""
    rows = [*message.attempts, *message.deliveries, *message.printed]
    return next((row["topic"] for row in rows if row["topic"]), None)


def _groups(asker: Asker, message: Message, days: int) -> list[str]:
    """Groups that consumed it, or are recorded to consume its topic about that time."""
    found = {one["consumer_group"] for one in message.deliveries if one["consumer_group"]}
    topic, since = topic_of(message), message.stored_at or min((a["begin_at"] for a in message.attempts), default=None)
    if topic and since:
        own = {"cluster": message.cluster, "topic": topic}
        dated = _between("event_date", since, days)
        found |= {row["consumer_group"] for row in _answer(asker, "groups", own, dated=dated)}
    return sorted(found)


def _life(asker: Asker, message: Message, group: str, late_s: int, days: int) -> Life:
    place, since = None if message.shares_id else message.place, message.stored_at
    deliveries = tuple(_deliveries(message, group))
    since = since or min((one.began_at for one in deliveries), default=None)
    known = _Known(asker, message.cluster, group, since, days)
    started = known.recordings()
    settings = [row for row in started if row["kind"] == "start"]
    is_orderly = any(row["consume_orderly"] for row in settings)
    readings = tuple(known.readings("SELECT captured_at, consumer_offset FROM queue_progress", place))
    still_there = known.readings("SELECT captured_at, min_offset FROM topic_status", place, of_group=False)
    _, passed_by = passed(Life(place, message.stored_at, readings=readings))
    return Life(
        place,
        message.stored_at,
        why_no_place=why_no_place(message),
        deliveries=deliveries,
        readings=readings,
        firsts=tuple(still_there),
        owners=tuple(known.owners(place)),
        recorded=recorded(started),
        subscriptions=tuple(known.subscriptions(topic_of(message), started, passed_by)),
        tag=next((r["message_tag"] for r in [*message.attempts, *message.deliveries] if r["message_tag"]), None),
        is_tag_known=any(a["message_tag"] or a["queue_offset"] is not None for a in message.attempts),
        is_broadcast=known.is_broadcast(settings),
        is_orderly=is_orderly,
        max_retries=None if is_orderly else _max_retries(settings) or known.max_retries(),
        overtaken=known.overtaken(place, deliveries) if is_orderly else 0,
        jumps=tuple(known.jumps(place)),
        begins=tuple(known.begins(place)),
        late_s=late_s,
    )


def _deliveries(message: Message, group: str) -> Iterator[Delivery]:
    """Those that recorders tell, and those of traces that no recorder tells too."""
    own = [one for one in message.deliveries if one["consumer_group"] == group and one["began_at"]]
    told = [one for one in own if one["source"] != "trace_topic"]
    for one in own:
        by_recorder = one["source"] != "trace_topic"
        near = timedelta(seconds=1)
        if not by_recorder and any(abs(other["began_at"] - one["began_at"]) <= near for other in told):
            continue
        place = None
        if one["queue_offset"] is not None:
            place = Place(one["stored_topic"], one["broker_name"], one["queue_id"], one["queue_offset"])
        yield Delivery(
            one["began_at"],
            one["consumer"],
            one["success"],
            one["cost_ms"],
            one["result"],
            one["retry_times"] or 0,
            place,
            by_recorder,
        )


def _tags(subscribed: Record) -> frozenset[str] | None:
    return frozenset(subscribed["tags"] or ()) if subscribed["expression_type"] in (None, "TAG") else None


def _max_retries(settings: list[Record]) -> int | None:
    told = [row["max_reconsume_times"] for row in settings if row["max_reconsume_times"] is not None]
    return None if not told else MOST_RETRIES if told[-1] == -1 else int(told[-1])


@dataclass(frozen=True)
class _Known:
    """What is recorded of a group from when the message was stored."""

    asker: Asker
    cluster: str
    group: str
    since: datetime | None
    days: int

    def _rows(self, query: str, column: str, place: Place | None = None, *, of_group: bool = True) -> list[Record]:
        """Rows of the group, of one queue, from shortly before the message was stored."""
        if self.since is None or (place is not None and place.broker is None):
            return []
        own: dict[str, Any] = {"cluster": self.cluster}
        own |= {"consumer_group": self.group} if of_group else {}
        own |= {"topic": place.topic, "broker_name": place.broker, "queue_id": place.queue} if place else {}
        begin = self.since - _AROUND
        dated = _between("event_date", begin, self.days + 1)
        of_all = "" if place else f"LIMIT {_MOST}"
        return records(
            self.asker,
            f"""{query} WHERE {same(self.asker, own, *own)} AND {dated} AND {column} >= {at_instant(begin)}
            ORDER BY {column} {of_all}""",
        )

    def readings(self, query: str, place: Place | None, *, of_group: bool = True) -> Iterator[Reading]:
        """Instants and offsets of the queue, that ``query`` selects."""
        for row in self._rows(query, "captured_at", place, of_group=of_group) if place else ():
            yield Reading(*row.values())

    def owners(self, place: Place | None) -> list[Seen]:
        """Who held the queue."""
        query = "SELECT captured_at, client_id, dropped FROM queue_ownership"
        rows = self._rows(query, "captured_at", place) if place else ()
        return stints((row["client_id"], row["captured_at"]) for row in rows if not row["dropped"])

    def recordings(self) -> list[Record]:
        """The signs of the consume recorders of the group; those of mere life from shortly before it was stored."""
        if self.since is None:
            return []
        own = {"cluster": self.cluster, "consumer_group": self.group}
        begin, until = at_instant(self.since - _AROUND), on_date(self.since + timedelta(days=self.days + 1))
        return _answer(self.asker, "recordings", own, begin=begin, until=until)

    def subscriptions(self, topic: str | None, started: list[Record], until: datetime | None) -> Iterator[Subscription]:
        """What members subscribed to until the group's offset passed it, by the collector and their recorders."""
        query = "SELECT captured_at AS told_at, client_id, subscriptions FROM consumer_heartbeat"
        told = [row for row in [*self._rows(query, "captured_at"), *started] if row["subscriptions"] is not None]
        found = dict.fromkeys(
            Subscription(row["client_id"], _tags(one))
            for row in told
            if until is None or row["told_at"] <= until + READ
            for one in row["subscriptions"]
            if one["topic"] == topic
        )
        yield from found

    def is_broadcast(self, settings: list[Record]) -> bool:
        """The group consumes by broadcasting."""
        models = {row["message_model"] for row in settings if row["message_model"]}
        if not models:
            read = self._rows("SELECT captured_at, message_model FROM consumer_heartbeat", "captured_at")
            models = {row["message_model"] for row in read if row["message_model"]}
        return models == {"BROADCASTING"}

    def max_retries(self) -> int:
        """After how many retries the group's brokers give up."""
        rows = self._rows("SELECT captured_at, retry_max_times FROM subscription_group", "captured_at")
        return next((row["retry_max_times"] for row in rows if row["retry_max_times"] is not None), MOST_RETRIES)

    def overtaken(self, place: Place | None, deliveries: tuple[Delivery, ...]) -> int:
        """How many messages behind it in its queue were delivered before it was."""
        if place is None or place.offset is None or not deliveries:
            return 0
        began = min(one.began_at for one in deliveries)
        own: dict[str, Any] = {"cluster": self.cluster, "client_group": self.group, "stored_topic": place.topic}
        own |= {"broker_name": place.broker, "queue_id": place.queue}
        dated = _between("event_date", self.since or began, self.days)
        more = {"dated": dated, "offset": place.offset, "began": at_instant(began)}
        (row,) = _answer(self.asker, "overtaken", own, **more)
        return int(row["n"])

    def jumps(self, place: Place | None) -> list[str]:
        """Findings about offsets of the queue that moved by themselves."""
        rows = self._rows("SELECT round_at, code FROM allocation_drift", "round_at", place) if place else []
        return sorted({row["code"] for row in rows} & set(_JUMPS))

    def begins(self, place: Place | None) -> Iterator[Began]:
        """Who took the queue, and what that may have skipped or brought again."""
        if place is None or place.offset is None:
            return
        for row in self._rows("SELECT * FROM queue_hand_over", "changed_at", place):
            has_none = row["began_by"] in ("last", "timestamp")
            stored = 0 if has_none else row["stored_offset"]
            if None not in (stored, row["began_at_least"], row["began_at_most"]):
                yield Began(
                    row["changed_at"],
                    row["client_id"],
                    row["began_at_least"],
                    row["began_at_most"],
                    stored,
                    None if has_none else row["from_client_id"],
                    has_none or row["released_at"] is not None,
                    ", ".join(row["evidence"][:1]),
                )

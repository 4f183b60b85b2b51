"""The lines of one log in, what is found in them out: the little that a diagnosis goes by, in memory of its size.

Every line is read as a client's and as a broker's: which of the two a log is, its lines tell, not its name. Where
nobody wrote for long, the log tells nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta, timezone, tzinfo
from itertools import tee
from sys import intern
from typing import Any, Literal, NamedTuple

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import ClientLogLayout, ParsedLine, is_instant
from hindsight.udfs.logs.broker_log_lines import ISOLATIONS, is_server_s, parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from hindsight.udfs.logs.log_layouts import LogReading, line_digest, reading_of, without_colours, written_at
from hindsight.udfs.logs.log_stamps import Look
from hindsight.udfs.logs.log_wrappers import may_be_wrapped, unwrap, written

_OFFSETS = re.compile(r"\[persistAll\] Group: (?P<group>[^ ]++) ClientId: (?P<client_id>[^ ]++) updateConsume")
_BEAT = re.compile(r"HeartbeatData \[clientID=(?P<client_id>[^,\[\]]++), producerDataSet=")
_OF_GROUP = re.compile(
    r"ConsumerData \[groupName=(?P<group>[^,\[\]]++), consumeType=(?P<consume_type>[A-Z_]++), "
    r"messageModel=(?P<message_model>[A-Z_]++)"
)
_STOPPED = re.compile(r"the consumer \[(?P<group>[^\[\]]++)\] shutdown OK")
_MOST = 10_000  # stretches that are remembered; of a log that jumps about more often, what comes later is not known

LogKind = Literal["client_log", "broker_log", "both", "neither"]
CLIENT_LOG: LogKind = "client_log"
BROKER_LOG: LogKind = "broker_log"
BOTH: LogKind = "both"
NEITHER: LogKind = "neither"
CONSUMER_STOPPED = "consumer_stopped"  # beside the kinds of ``client_event`` and ``membership_event``
_FIRST_OF_PROCESS = ("InstanceIndex:0,", "FactoryIndex: 0 ", "FactoryIndex: 0,")
_LOOKED_AT = """
    kind language consumer_group client_group topic client_id broker_name queue_id queue_count member_count strategy
    detail client_version latency_ms duration_ms response_code exception arguments_lost broker_address failed_address
    time_left_ms invoke_id retry attempts offset new_offset min_offset max_offset reconsume_times held_by
    isolated_broker sub_string old_sub_string consume_type message_model address last_update_at error
"""
_KEPT = tuple(_LOOKED_AT.split())  # of a row
# Events that come with each queue or each beat, and tell a diagnosis nothing that another line does not.
_PER_QUEUE = "queue_dropped queue_kept heartbeat_sent failed_message queue_unlocked lock_acquired send_returned"
_LEFT_OUT = frozenset(_PER_QUEUE.split())
_ASSUMED = timezone(timedelta(hours=13, minutes=13))  # nobody's: a time that it moves has no zone of its own

Judge = Callable[[Iterable[ParsedLine]], Iterator[ParsedLine]]


class Event(NamedTuple):
    """A line that tells something: its instant, its number in its file, who wrote it, and what.

    ``identity`` is equal for copies of one line, in whatever file.
    """

    at: int
    line: int
    kind: str
    pid: int | None
    identity: bytes
    row: dict[str, Any]


class RefusedLine(NamedTuple):
    """A line that could not be read."""

    line: int
    code: str
    detail: str
    text: str


@dataclass
class LogFindings:
    """What one log holds; ``lives``: by process id (None: the layout writes none), ``own_lives``: by client id.

    ``consumes``: client id, group, consume type and message model, as heartbeats say.
    ``brokers``: the names that its lines give to a broker's address. ``others``: lines of Go, C++ and gRPC clients,
    which own queues by other rules.
    """

    path: str
    lines: int = 0
    kind: LogKind = "neither"
    events: list[Event] = field(default_factory=list)
    memberships: list[Event] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    first_refused: dict[str, RefusedLine] = field(default_factory=dict)
    lives: dict[int | None, Life] = field(default_factory=dict)
    own_lives: dict[str, Life] = field(default_factory=dict)
    consumes: set[tuple[str, str, str, str]] = field(default_factory=set)
    zone_assumed: bool = False
    brokers: dict[str, set[str]] = field(default_factory=dict)
    others: list[Event] = field(default_factory=list)

    def wrote(self) -> tuple[int, int] | None:
        """When its first and its last word were written; None: no line says when."""
        stretches = [one for life in self.lives.values() for one in life.stretches()]
        if not stretches:
            return None
        return min(one.start for one in stretches), max(one.end for one in stretches)

    def clients(self) -> set[str]:
        """The client ids that its lines name as their writers'."""
        return clients_named(self.events) | self.own_lives.keys()


def clients_named(events: Iterable[Event]) -> set[str]:
    """The client ids in the rows of events."""
    return {str(one.row["client_id"]) for one in events if one.row.get("client_id")}


def find_in_log(
    lines: Iterable[Line],
    *,
    path: str,
    zone: tzinfo,
    silence_ms: int,
    layout: ClientLogLayout | None = None,
    kind: LogKind | None = None,
    judge: Judge = iter,
    look: Look | None = None,
) -> LogFindings:
    """Read a log once.

    Args:
        lines: of one file.
        path: its path, as far as it is known; a broker's log is named by it.
        zone: of times that name none.
        silence_ms: what is no longer a pause of a writer, see ``Life``.
        layout: what the settings say of this log.
        kind: what it is, where somebody has said so; else its lines tell.
        judge: the rules at the door.
        look: gives the lines anew; None: they can be read only once.
    """
    finder = _Finder(path, reading_of(layout, zone, path, look), reading_of(layout, _ASSUMED, path, look), silence_ms)
    of_client, of_broker = tee(lines)
    pairs = zip(
        judge(parse_client_log(of_client, zone=zone, file=path, layout=layout, look=look)),
        judge(parse_broker_log(of_broker, zone=zone, file=path, look=look)),
        strict=True,
    )
    for client, broker in pairs:
        finder.take(client, broker)
    return finder.done(kind)


class _Finder:
    """Takes each line as both kinds' reader gives it."""

    def __init__(self, path: str, reading: LogReading, elsewhere: LogReading, silence_ms: int) -> None:
        self.found = LogFindings(path)
        self.reading = reading
        self.elsewhere: LogReading | None = elsewhere
        self.silence_ms = silence_ms
        self.refused: dict[str, dict[str, RefusedLine]] = {CLIENT_LOG: {}, BROKER_LOG: {}}  # the first of each code
        self.counts: dict[str, Counter[str]] = {CLIENT_LOG: Counter(), BROKER_LOG: Counter()}

    def take(self, client: ParsedLine, broker: ParsedLine) -> None:
        self.found.lines += 1
        for kind, (line, _, refusal) in ((CLIENT_LOG, client), (BROKER_LOG, broker)):
            if refusal is not None:
                self.counts[kind][refusal.code] += 1
                if refusal.code not in self.refused[kind]:
                    self.refused[kind][refusal.code] = RefusedLine(line.number, *refusal, line.text[:160])
        for _, row in broker.records:
            self.found.memberships.append(_event(broker, row, row["kind"], None))
        if client.refusal is None and client.line.text[:1] not in ("\t", ""):
            self._hear(client)

    def done(self, kind: LogKind | None) -> LogFindings:
        found = self.found
        found.kind = kind or _kind(found)
        if found.kind == CLIENT_LOG:
            found.memberships.clear()
        if found.kind == BROKER_LOG:
            for of_clients in (found.events, found.others, found.own_lives, found.consumes):
                of_clients.clear()
        readers = {BOTH: (CLIENT_LOG, BROKER_LOG), NEITHER: (CLIENT_LOG, BROKER_LOG)}.get(found.kind, (found.kind,))
        told = max(readers, key=lambda reader: self.counts[reader].total())
        found.refused = self.counts[told]
        found.first_refused = dict(reversed(self.refused[told].items()))
        return found

    def _hear(self, parsed: ParsedLine) -> None:
        text = parsed.line.text
        wrapped = unwrap(text) if may_be_wrapped(text) else None
        text = without_colours(written(wrapped.text if wrapped else text))
        head = written_at(text, self.reading)
        if head is not None and not is_instant(head.at_ms):
            head = None
        at, pid = (head.at_ms, head.pid) if head else (None, None)
        if head is not None and self.elsewhere is not None:
            moved = written_at(text, self.elsewhere)
            self.found.zone_assumed = moved is not None and moved.at_ms != head.at_ms
            self.elsewhere = None
        for _, row in parsed.records:
            at = row["logged_at"]
            self._keep(parsed, row, pid)
        if at is not None:
            self._live(self.found.lives, pid).hear(at)
            self._hear_ordinary(text, parsed.line.number, at, pid)

    def _hear_ordinary(self, text: str, number: int, at: int, pid: int | None) -> None:
        """Take in what a line tells beside its events; most tell nothing."""
        found = None
        if "[persistAll] " in text:
            found = _OFFSETS.search(text)
        elif "HeartbeatData [" in text:
            if found := _BEAT.search(text):
                self.found.consumes.update((found[1], one[1], one[2], one[3]) for one in _OF_GROUP.finditer(text))
        elif "] shutdown OK" in text and (stopped := _STOPPED.search(text)):
            row = {"consumer_group": stopped["group"]}
            self.found.events.append(Event(at, number, CONSUMER_STOPPED, pid, line_digest(text), row))
        if found is not None:
            self._live(self.found.own_lives, found["client_id"]).hear(at)

    def _keep(self, parsed: ParsedLine, row: dict[str, Any], pid: int | None) -> None:
        kind = row.get("kind", "rebalance_result")
        if row.get("language") not in (None, "JAVA"):
            if kind not in _LEFT_OUT and kind != "queue_began":
                self.found.others.append(_event(parsed, row, kind, row.get("pid")))
            return
        client_id = row.get("client_id")
        if client_id is not None:
            self._live(self.found.own_lives, client_id).hear(row["logged_at"])
        for address, broker_name in _brokers_named(row):
            self.found.brokers.setdefault(intern(address), set()).add(intern(broker_name))
        if kind not in _LEFT_OUT:
            self.found.events.append(_event(parsed, row, kind, row.get("pid") or pid))

    def _live(self, lives: dict[Any, Life], writer: Any) -> Life:
        if writer not in lives:
            lives[writer] = Life(self.silence_ms)
        return lives[writer]


def _brokers_named(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Brokers that a line names by address and name."""
    own = (row.get("broker_address") or row.get("failed_address"), row.get("broker_name"))
    masters = ((broker["master_address"], broker["broker_name"]) for broker in row.get("route") or ())
    yield from ((address, name) for address, name in (own, *masters) if address and name)


def _kind(found: LogFindings) -> LogKind:
    """What a log is by what was found in it: a broker's holds a client's lines of its own, but no consumer's."""
    of_both = {"route_changed"} | (ISOLATIONS if is_server_s(found.path) else set())
    is_client = bool(found.own_lives or found.others) or any(one.kind not in of_both for one in found.events)
    if found.memberships:
        return "both" if is_client else "broker_log"
    return "client_log" if is_client or found.events else "neither"


def _event(parsed: ParsedLine, row: dict[str, Any], kind: str, pid: int | None) -> Event:
    return Event(row["logged_at"], parsed.line.number, kind, pid, _identity(row), _trimmed(row))


def _identity(row: dict[str, Any]) -> bytes:
    """What copies of one line share. Lines that name no client say less than their file: whose they are."""
    told = row.get("line_digest") or "\0".join(
        str(row.get(name)) for name in (*_KEPT, "logged_at", "queues_text") if name != "detail"
    )
    return line_digest(f"{told}\0{row['occurrence']}")


def _trimmed(row: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in _KEPT:
        value = row.get(name)
        if value is not None:
            kept[name] = intern(value) if type(value) is str else value
    if "queues" in row:
        kept["queues"] = tuple((intern(q["broker_name"]), q["queue_id"]) for q in row["queues"])
    if "route" in row:
        kept["queue_count"] = sum(broker["read_queue_nums"] for broker in row["route"] if broker["perm"] & 4)
    if row.get("brokers_sent"):
        kept["brokers_sent"] = tuple(map(intern, row["brokers_sent"]))
    if row.get("members") is not None:
        kept["member_count"] = len(row["members"])
    text = row.get("text") or ""
    if row.get("kind") == "queues_assigned":
        kept["is_shared"] = "Mode=POP" in text or any(number < 0 for _, number in kept.get("queues", ()))
    if row.get("kind") == "client_created":
        kept["is_first_of_process"] = any(mark in text for mark in _FIRST_OF_PROCESS)
    return kept


class Stretch(NamedTuple):
    """From the first to the last word, epoch milliseconds, both inclusive."""

    start: int
    end: int


class Life:
    """The stretches of one writer, in bounded memory; ``silence_ms``: what is no longer a pause."""

    def __init__(self, silence_ms: int) -> None:
        self.silence_ms = silence_ms
        self._done: list[Stretch] = []
        self._start = self._end = -1
        self._is_full = False

    def hear(self, at: int) -> None:
        """Take in an instant; they come nearly in order."""
        if self._end < 0:
            self._start = self._end = at
        elif self._start - self.silence_ms <= at <= self._end + self.silence_ms:
            self._start, self._end = min(self._start, at), max(self._end, at)
        elif self._has_room():
            self._done.append(Stretch(self._start, self._end))
            self._start = self._end = at

    def stretches(self) -> list[Stretch]:
        """In order, with more than ``silence_ms`` between any two."""
        now = [Stretch(self._start, self._end)] if self._end >= 0 else []
        return joined([*self._done, *now], self.silence_ms)

    def _has_room(self) -> bool:
        if len(self._done) >= _MOST and not self._is_full:
            self._done = joined(self._done, self.silence_ms)
            self._is_full = len(self._done) > _MOST // 2
        return not self._is_full


def joined(stretches: Iterable[Stretch], silence_ms: int) -> list[Stretch]:
    """The stretches in order, those joined between which nobody was silent for longer."""
    found: list[Stretch] = []
    for one in sorted(stretches):
        if found and one.start - found[-1].end <= silence_ms:
            found[-1] = Stretch(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def stretch_at(stretches: list[Stretch], at: int) -> Stretch | None:
    """Which of them, in order and apart, holds an instant."""
    place = bisect_right(stretches, at, key=lambda one: one.start) - 1
    return stretches[place] if place >= 0 and at <= stretches[place].end else None

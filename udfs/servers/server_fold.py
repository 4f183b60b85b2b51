"""What sweeps show of a cluster's servers in; their incidents out, and what each sweep's troubles explain in groups.

Brokers and name servers are walked as groups are, under the group '': findings become incidents by the same ledger, and
the state goes from date to date and from run to run.

An example: a broker is frozen at 10:00:10 and killed at 10:01:00; sweeps begin every 15 s.

    10:00:00  it answers
    10:00:15  none of its 40 questions is answered in 3 s: BROKER_NOT_ANSWERING, kind SILENT, HIGH: opened
    10:00:30  the same: CRITICAL, and what groups show since 10:00:00 of queues and members is its effect
    10:01:15  its port refuses connections: kind REFUSES
    10:03:00  it answers again: three sweeps and 60 s later the incident is resolved; what groups still show then and
              175 s later is theirs

Captures and routes in; what each sweep shows of brokers and name servers out, a row for each server and sign.

A server that answers anything, a refusal too, is there. What is lost on the way to it says how: it refuses connections
(nobody listens: the process is gone), it is silent (it takes connections and answers nothing: frozen, or its host is),
or it cannot be reached. Running infos are the clients' answers: that one does not come says nothing of the broker.

Source: AdminBrokerProcessor#callConsumer, 4.0.0 to 5.5.0, for a channel to a client that is dead and still listed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.group_rows import to_instant
from hindsight.udfs.consumer.listed_members import INFO
from hindsight.udfs.consumer.round_reads import OF_CHANNEL
from hindsight.udfs.consumer.topic_routes import ROUTE
from hindsight.udfs.drift.drift_rows import incident_row
from hindsight.udfs.drift.finding import Finding, Subject, clock
from hindsight.udfs.drift.incidents import RESOLVED, Ledger, Seen
from hindsight.udfs.drift.root_cause import BROKER_DOWN, NAME_SERVER_DOWN, Cause, Trouble
from hindsight.udfs.groups.group_walk import INCIDENT, STATE, WalkSettings
from hindsight.udfs.lines.parsed_line import NOT_ASKED, UNREADABLE
from hindsight.udfs.values.columns import DAY_MS, DAY_US, EPOCH, microseconds, whole
from hindsight.udfs.values.kept_states import state_of, state_text

ANSWERED, REFUSES, SILENT, UNREACHED = "answered", "refuses", "silent", "unreached"
DEAD_CHANNEL, WRITABLE, READ_ONLY, ROUTES_READ = "dead channel", "writable", "read only", "routes read"
SIGNS = pa.schema(
    [
        ("collector", pa.string()),
        ("round_us", pa.int64()),
        ("broker_name", pa.string()),
        ("name_server", pa.string()),  # neither: of the sweep
        ("said", pa.string()),
        ("consumer_group", pa.string()),  # of a dead channel; else null
        ("count", pa.int64()),  # of questions; of topics, or of clients
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),  # when it was asked last
        ("evidence", pa.string()),  # file and line of one of them
    ]
)
_OF_SERVER = ["collector", "round_us", "broker_name", "name_server", "said", "consumer_group"]
_LOST_SIGNS = (
    ("RemotingConnectException", UNREACHED),
    ("RemotingSendRequestException", UNREACHED),
    ("RemotingTimeoutException", SILENT),
    ("no connection in time", SILENT),
    ("Connection refused", REFUSES),
)
_ANSWERS = ("RemotingCommandException", UNREADABLE)
MARKS = (*(words for words, _ in _LOST_SIGNS), _ANSWERS[0], OF_CHANNEL)  # what is looked for in the error of a question
_WRITE = 2


def signs_of(captures: pa.Table) -> pa.Table:
    """``SIGNS`` of rows of ``snapshot_capture``, one file's, each of a round: others may have more of it."""
    asked = captures.filter(pc.invert(pc.equal(captures["kind"], NOT_ASKED)))
    said = said_of_servers(asked)
    group = pc.if_else(pc.equal(said, DEAD_CHANNEL), whole(asked, "consumer_group"), None)
    columns = _columns(asked, {"said": said, "name_server": asked["name_server"], "consumer_group": group})
    named = pc.or_(pc.is_valid(asked["broker_name"]), pc.is_valid(asked["name_server"]))
    of_servers = columns.filter(pc.and_(named, pc.is_valid(said)))
    routes = columns.filter(pc.and_(pc.equal(asked["kind"], ROUTE), pc.equal(said, ANSWERED)))
    nobody = pa.nulls(len(routes), pa.string())
    of_sweep = routes.set_column(2, "broker_name", nobody).set_column(3, "name_server", nobody)
    of_sweep = of_sweep.set_column(4, "said", pa.repeat(pa.scalar(ROUTES_READ), len(routes)))
    return counted(pa.concat_tables([of_servers, of_sweep]))


def said_of_servers(asked: pa.Table) -> pa.Array:
    """What each question says of who was asked; null: nothing."""
    error, is_info = whole(asked, "error").fill_null(""), pc.equal(whole(asked, "kind"), INFO)
    came = pc.or_(whole(asked, "answered"), pc.is_valid(whole(asked, "error_code")))
    for unread in _ANSWERS:
        came = pc.or_(came, pc.match_substring(error, unread))
    found: pa.Array = pa.nulls(len(asked), pa.string())
    for words, what in _LOST_SIGNS:
        found = pc.if_else(pc.match_substring(error, words), what, found)
    left_out = pc.or_(pc.starts_with(error, "not asked: "), is_info)
    found = pc.if_else(left_out, pa.scalar(None, pa.string()), found)
    found = pc.if_else(came, ANSWERED, found)
    return pc.if_else(pc.and_(is_info, pc.match_substring(error, OF_CHANNEL)), DEAD_CHANNEL, found)


def signs_of_routes(entries: pa.Table) -> pa.Table:
    """``SIGNS`` of rows of ``topic_route``: whether brokers may be written to."""
    bits = pc.bit_wise_and(pc.cast(whole(entries, "perm"), pa.int32()), pa.scalar(_WRITE, pa.int32()))
    said, nothing = pc.if_else(pc.equal(bits, 0), READ_ONLY, WRITABLE), pa.nulls(len(entries), pa.string())
    return counted(_columns(entries, {"said": said, "name_server": nothing, "consumer_group": nothing}))


def _columns(rows: pa.Table, more: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """``SIGNS`` of single rows."""
    begun = microseconds(rows, "captured_at")
    columns = {"collector": rows["collector"], "round_us": pa.array(microseconds(rows, "round_at"))}
    columns |= {"broker_name": rows["broker_name"], **more, "count": pa.array(np.ones(len(rows), np.int64))}
    columns |= {"first_us": pa.array(begun), "last_us": pa.array(begun)}
    lines = pc.cast(whole(rows, "source_line"), pa.string())
    columns["evidence"] = pc.binary_join_element_wise(whole(rows, "source_file"), lines, ":")
    return pa.table({name: columns[name] for name in SIGNS.names}).cast(SIGNS)


def counted(signs: pa.Table) -> pa.Table:
    """``SIGNS``, those of one sweep, server and kind as one, sorted by sweep."""
    sums = [("count", "sum"), ("first_us", "min"), ("last_us", "max"), ("evidence", "min")]
    made = signs.group_by(_OF_SERVER).aggregate(sums)
    made = made.rename_columns([*_OF_SERVER, "count", "first_us", "last_us", "evidence"]).select(SIGNS.names)
    return made.sort_by([(name, "ascending") for name in _OF_SERVER]).cast(SIGNS)


SERVERS = ""  # the group under which servers stand
KEEPS_DEAD, IS_READ_ONLY = "BROKER_KEEPS_DEAD_CONNECTION", "BROKER_READ_ONLY"
SERVER_CODES = (BROKER_DOWN, NAME_SERVER_DOWN, KEEPS_DEAD, IS_READ_ONLY)
GONE = "GONE"
_LOST = (REFUSES, SILENT, UNREACHED)  # the surest first
_HOW = {
    REFUSES: "it refuses connections",
    SILENT: "it answers nothing in time",
    UNREACHED: "it cannot be reached",
    GONE: "no route names it any more",
}
_KEPT_MS = 120_000  # a broker lists a connection for so long after its end: groups may show that before it is used
_SURE = 4  # questions on end without an answer, which single losses are not
Server = tuple[str, str]  # its name or address, and the code of its being down


class _Sign(NamedTuple):
    times: int
    first_us: int
    evidence: str


class _Sweep(NamedTuple):
    round_us: int
    at: int  # ms
    signs: Mapping[Server, Mapping[str, _Sign]]
    routes_read: int
    route_line: str  # the first read of a route; '' where none was read
    by_dead_channels: Mapping[Server, tuple[str, ...]]  # the groups that a broker lists members of by dead connections

    def is_told(self, server: Server) -> bool:
        """It answered."""
        return ANSWERED in self.signs.get(server, {})


class ServerFold:
    """The servers of a cluster as one collector saw them; to the job it is one more group."""

    is_assigned = False
    uncollected: Collection[str] = ()

    def __init__(
        self,
        key: tuple[str, str, str],
        signs: pa.Table,
        settings: WalkSettings,
        opening: Mapping[str, Any] | None = None,
        kept: str | None = None,
    ) -> None:
        """``signs``: of this collector, ``SIGNS``; ``opening``, ``kept``: as ``GroupFold`` has them."""
        # A server that was well for long enough and fails again is another incident.
        self._timing = replace(settings.timing, flapping_rounds=0)
        self.key, self._carry_ms = key, settings.carry_days * DAY_MS
        self._sweeps = list(_sweeps(signs))
        self._next = 0
        self.read_until = self.longest = 0
        self._begin({}, {})
        if kept is not None:
            state = state_of(kept)
            self._begin(state["state"], state["evidence"])
            self._ledger.take_finished(state["finished"])
        elif opening is not None:
            evidence = {entry["incident_id"]: entry["lines"] for entry in opening["evidence"] or ()}
            self._begin(state_of(opening["state"]), evidence)
        # Troubles after each sweep, its instant epoch us.
        self._walked: list[tuple[int, tuple[Trouble, ...]]] = [(0, self._explaining())]

    def _begin(self, state: Mapping[str, Any], evidence: Mapping[str, Sequence[str]]) -> None:
        self._ledger = (
            Ledger.of_state(self.key, self._timing, state["ledger"], evidence)
            if state
            else Ledger(self.key, self._timing)
        )
        self._number, self._last_at, self._interval = state.get("sweeps", [0, 0, 0])
        # Servers that answered nothing: since when, questions so far, sweeps.
        self._failing: dict[Server, list[int]] = {(n, code): of for n, code, of in state.get("failing", ())}
        # Brokers that routes named: when last, and how many routes were read then.
        self._routed: dict[str, list[int]] = dict(state.get("routed", {}))
        self._troubles: dict[Cause, Trouble] = {}
        for name, cause_key, incident, since, settles, until, groups in state.get("troubles", ()):
            cause, own = Cause(name, cause_key), tuple(groups) if name == KEEPS_DEAD else None
            self._troubles[cause] = Trouble(cause, incident, since, settles, until, own)

    def _state(self) -> dict[str, Any]:
        return {
            "ledger": self._ledger.to_state(),
            "sweeps": [self._number, self._last_at, self._interval],
            "failing": [[*server, of] for server, of in sorted(self._failing.items())],
            "routed": dict(sorted(self._routed.items())),
            "troubles": [
                [*cause, *trouble[1:-1], list(trouble.groups or ())]
                for cause, trouble in sorted(self._troubles.items())
            ],
        }

    def state(self) -> str:
        """What the fold needs to go on from here: JSON."""
        of = {"state": self._state(), "evidence": self._ledger.evidence(), "finished": self._ledger.finished_state()}
        return state_text(of)

    def troubles(self, round_us: int, at: int) -> tuple[Trouble, ...]:
        """The troubles of servers that a group's round may show effects of; ``at``: epoch ms."""
        found = bisect_right(self._walked, round_us, key=lambda one: one[0])
        return tuple(one for one in self._walked[found - 1][1] if at <= one.until)

    def walk(
        self, _owned: Any, until_us: int, day: date | None, _popped: Any = None, from_us: int = 0
    ) -> Sequence[tuple[str, Any]]:
        """Take in the sweeps that begin before an instant, epoch us; those before ``from_us`` are not judged."""
        if day is not None:
            self._take_until(until_us, max(from_us, _midnight_us(day)))
        return ()

    def _take_until(self, until_us: int, from_us: int) -> None:
        while self._next < len(self._sweeps) and self._sweeps[self._next].round_us < until_us:
            sweep = self._sweeps[self._next]
            self._next += 1
            self.read_until = max(self.read_until, sweep.at * 1000)
            self.longest = max(self.longest, sweep.at * 1000 - sweep.round_us)
            if sweep.round_us >= from_us:
                self._advance(sweep)
                self._walked.append((sweep.round_us, self._explaining()))

    def close(self, day: date, *, is_last: bool) -> Iterator[tuple[str, Any]]:
        """Rows that the end of a date gives."""
        midnight_us = _midnight_us(day)
        self._take_until(midnight_us + DAY_US, midnight_us)
        cluster, collector, group = self.key
        place = {"cluster": cluster, "collector": collector, "consumer_group": group, "event_date": day}
        self._ledger.close_date(day.isoformat())
        finished, self._ledger.finished = self._ledger.finished, []
        live = [incident for _, incident in sorted(self._ledger.incidents.items())]
        forgotten = midnight_us // 1000 - self._last_at > self._carry_ms
        ended = [(incident, True) for incident in finished]
        ended += [(incident, forgotten) for incident in live if is_last or forgotten]
        yield from ((INCIDENT, place | incident_row(one, 0, settled, self._timing)) for one, settled in ended)
        if self._number and not forgotten:
            row = {
                "state": state_text(self._state()),
                "evidence": [{"incident_id": i, "lines": e} for i, e in self._ledger.evidence().items()],
                "open_incidents": sum(incident.state != RESOLVED for incident in live),
                "last_round_at": to_instant(self._last_at),
            }
            yield STATE, place | row

    def _advance(self, sweep: _Sweep) -> None:
        """Judge a sweep."""
        before = self._last_at or sweep.at
        self._number, self._interval, self._last_at = self._number + 1, sweep.at - before, sweep.at
        seen = [*self._down(sweep), *self._gone(sweep), *self._beside(sweep)]
        self._ledger.advance(sweep.at, self._number, seen, lambda subject, last: self._is_well(sweep, subject, last))
        self._explain(sweep)

    def _is_well(self, sweep: _Sweep, subject: Subject, last_true_at: int) -> bool:
        """Whether the sweep shows that a finding of before holds no more."""
        signs = sweep.signs.get(_server_of(subject), {})
        if subject.family == IS_READ_ONLY:
            return WRITABLE in signs
        if subject.kind == GONE:
            return (
                WRITABLE in signs or READ_ONLY in signs or ANSWERED in signs or subject.broker_name not in self._routed
            )
        return ANSWERED in signs or sweep.at - last_true_at > self._carry_ms

    def _down(self, sweep: _Sweep) -> Iterator[Seen]:
        """Servers that were asked and answered nothing."""
        anybody = any(sweep.is_told(server) for server in sweep.signs)
        for server, signs in sorted(sweep.signs.items()):
            lost = [what for what in _LOST if what in signs]
            if ANSWERED in signs:
                self._failing.pop(server, None)
            # Where nobody answers anything, the collector's own way is in doubt; a refusal is an answer of the host.
            if ANSWERED in signs or not lost or not (anybody or REFUSES in signs):
                continue
            first = min(signs[what].first_us for what in lost) // 1000
            since, questions, sweeps = self._failing.get(server, [first, 0, 0])
            questions += sum(signs[what].times for what in lost)
            self._failing[server] = [since, questions, sweeps + 1]
            if questions >= _SURE or (REFUSES in signs and sweeps):
                others = any(sweep.is_told(one) for one in sweep.signs if one[1] == server[1])
                yield _seen(_finding_of_down(server, lost[0], since, questions, sweeps, others, signs[lost[0]]), server)

    def _gone(self, sweep: _Sweep) -> Iterator[Seen]:
        """Brokers that were in routes, are in none of as many, and that nobody asks."""
        named = [server[0] for server, signs in sweep.signs.items() if WRITABLE in signs or READ_ONLY in signs]
        for broker in named:
            self._routed[broker] = [sweep.at, sweep.routes_read]
            self._failing.pop((broker, GONE), None)
        for broker, (last_at, routes_read) in sorted(self._routed.items()):
            server = (broker, BROKER_DOWN)
            if broker in named or not named or sweep.routes_read < routes_read or sweep.signs.get(server):
                continue
            if sweep.at - last_at > self._timing.data_gap_s * 1000:
                del self._routed[broker]  # it was taken away
                continue
            since, _, sweeps = self._failing.get((broker, GONE), [sweep.at, 0, 0])
            self._failing[broker, GONE] = [since, 0, sweeps + 1]
            if sweeps and server not in self._failing:
                told = f"broker {broker} is in no route any more since {clock(since)}: it is down, or was taken away."
                lines = (sweep.route_line,)  # of a route without it
                finding = Finding(BROKER_DOWN, "MEDIUM", told, kind=GONE, trust="possible", since=since, evidence=lines)
                yield _seen(finding, server)

    def _beside(self, sweep: _Sweep) -> Iterator[Seen]:
        """Brokers that answer: those that keep dead connections, or take no messages."""
        for server, signs in sorted(sweep.signs.items()):
            broker, code = server
            if code != BROKER_DOWN:
                continue
            if DEAD_CHANNEL in signs:
                clients = signs[DEAD_CHANNEL].times
                many = f"{clients} clients" if clients > 1 else "a client"
                told = f"broker {broker} lists {many} by a dead connection: it fails as soon as the broker uses it."
                yield _seen(Finding(KEEPS_DEAD, "LOW", told, evidence=(signs[DEAD_CHANNEL].evidence,)), server)
            if READ_ONLY in signs and WRITABLE not in signs:
                told = f"broker {broker} takes no messages: in every route it lacks the permission to write."
                trust = "certain" if signs[READ_ONLY].times > 1 else "possible"
                evidence = (signs[READ_ONLY].evidence,)
                yield _seen(Finding(IS_READ_ONLY, "INFO", told, trust=trust, evidence=evidence), server)

    def _explain(self, sweep: _Sweep) -> None:
        """Take in which incidents of servers explain what groups show, and until when."""
        settle = int(self._timing.broker_grace_s * 1000) + self._interval
        last = int(self._timing.broker_death_s * 1000) + settle
        for subject, track in self._ledger.tracks.items():
            if track.incident is None or track.code == IS_READ_ONLY or track.last_true_at != sweep.at:
                continue
            incident = self._ledger.incidents[track.incident]
            known = self._troubles.get(incident.cause)
            since = known.since if known else incident.first_seen_at - self._interval
            groups = None
            if track.code == KEEPS_DEAD:
                since = known.since if known else since - _KEPT_MS
                listed = sweep.by_dead_channels.get(_server_of(subject), ())
                groups = tuple(sorted({*(known.groups or () if known else ()), *listed}))
            of = incident.cause, incident.incident_id, since
            self._troubles[incident.cause] = Trouble(*of, sweep.at + settle, sweep.at + last, groups)
        self._troubles = {cause: one for cause, one in self._troubles.items() if sweep.at <= one.until}

    def _explaining(self) -> tuple[Trouble, ...]:
        """The troubles, first those of servers that do not answer."""
        return tuple(sorted(self._troubles.values(), key=lambda one: (one.cause.name == KEEPS_DEAD, one.cause)))


def _finding_of_down(
    server: Server, how: str, since: int, questions: int, sweeps: int, others: bool, sign: _Sign
) -> Finding:
    name, code = server
    is_broker = code == BROKER_DOWN
    what = "broker" if is_broker else "name server"
    is_worst = (sweeps or how == REFUSES) if is_broker else not others
    told = f"{what} {name} has answered none of {questions} questions since {clock(since)}: {_HOW[how]}."
    severity = "CRITICAL" if is_worst else "HIGH"
    return Finding(code, severity, told, kind=how.upper(), since=since, evidence=(sign.evidence,))


def _seen(finding: Finding, server: Server) -> Seen:
    """A finding of a server: the way in which it is down may change, and it stays the same finding."""
    name, of = server
    is_broker = of == BROKER_DOWN
    kind = finding.kind if finding.kind == GONE else None if is_broker else name
    subject = Subject(finding.code, None, name if is_broker else None, None, None, kind)
    return Seen(subject, finding, [Cause(finding.code, name)], None)


def _server_of(subject: Subject) -> Server:
    if subject.broker_name is None:
        return subject.kind or "", NAME_SERVER_DOWN
    return subject.broker_name, BROKER_DOWN


def _sweeps(signs: pa.Table) -> Iterator[_Sweep]:
    """The sweeps in order; parts of one that stood in several files are one."""
    of_sweep: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in counted(signs).to_pylist():
        of_sweep[row["round_us"]].append(row)
    for round_us, rows in sorted(of_sweep.items()):
        found: dict[Server, dict[str, _Sign]] = defaultdict(dict)
        dead: dict[Server, list[str]] = defaultdict(list)
        for row in rows:
            broker, name_server = row["broker_name"], row["name_server"]
            if broker is not None or name_server is not None:
                server = (broker, BROKER_DOWN) if broker is not None else (name_server, NAME_SERVER_DOWN)
                before = found[server].get(row["said"], _Sign(0, row["first_us"], row["evidence"]))
                first_us, line = min(before[1:], (row["first_us"], row["evidence"]))
                found[server][row["said"]] = _Sign(before.times + row["count"], first_us, line)
                if row["said"] == DEAD_CHANNEL and row["consumer_group"] is not None:
                    dead[server].append(row["consumer_group"])
        routes = [row for row in rows if row["said"] == ROUTES_READ]
        route_line = min(((row["first_us"], row["evidence"]) for row in routes), default=(0, ""))[1]
        of = {server: tuple(groups) for server, groups in dead.items()}
        routes_read = sum(row["count"] for row in routes)
        yield _Sweep(round_us, max(row["last_us"] for row in rows) // 1000, found, routes_read, route_line, of)


def _midnight_us(day: date) -> int:
    return (datetime.combine(day, time(), UTC) - EPOCH) // timedelta(microseconds=1)

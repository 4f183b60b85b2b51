"""Captures and round markers in; which captures are one round, what members said in it, and which rounds show the same.

Rounds get a number for what they show, instants and evidence aside: what follows from one is not worked out again for
another of the same number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.clients.client_kinds import GRPC, GRPC_CLIENT_ID, OTHER, REMOTING_PROXY, UNKNOWN
from hindsight.udfs.consumer.listed_members import ID_LIST, INFO, LISTING, OF_MEMBERS
from hindsight.udfs.consumer.round_reads import OF_GROUPS, refused_by_proxy
from hindsight.udfs.consumer.rows_of_rounds import RowsOfRounds, rows_of_rounds, with_evidence
from hindsight.udfs.values.columns import FAR, NEVER, BoolArray, IntArray, differs, flags, microseconds, ranks, whole
from hindsight.udfs.values.message_queues import REVIVE_GROUP, is_system_group
from hindsight.udfs.values.row_hashes import (
    HashArray,
    have_keys_of,
    mixed,
    places_of_keys,
    row_hashes,
    sums,
    value_hashes,
)

RETRY = timedelta(seconds=15)  # mqadmin waits 5 s for an answer, and takes up to 10 s to start

_RUN = ("cluster", "collector", "run_at")
_ORDER = ("captured_at", "source_file", "source_line")
_SHOWN = (
    "kind", "name_server", "client_id", "answered", "error", "error_code", "client_version",
    "consume_type", "message_model", "consume_from_where", "consume_orderly", "client_rebalance", "client_started_at",
    "client_kind", "member_ids", "subscriptions",
)  # fmt: skip
_CONNECTED = ("client_id", "broker_name", "address", "language", "client_version", "client_kind", "message_model")


def rounds_of_runs(captures: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each capture with ``round_at``, an instant of its run at or before it.

    ``captures``: run by run (``cluster``, ``collector``, ``run_at``) and by ``at`` in each, one row an instant:
    ``asked`` holds the questions put then, ``unanswered`` those of them that got no answer at all.
    """
    for _, run in groupby(captures, key=lambda capture: [capture[name] for name in _RUN]):
        round_at = None
        so_far: set[int] = set()
        before: dict[str, Any] | None = None
        for capture in run:
            again = so_far.intersection(capture["asked"])
            if round_at is None or (again and not _is_retry(capture, before, again)):
                round_at, so_far = capture["at"], set()
            so_far.update(capture["asked"])
            before = capture
            yield {**capture, "round_at": round_at}


def _is_retry(capture: dict[str, Any], before: dict[str, Any] | None, again: set[int]) -> bool:
    return before is not None and again <= set(before["unanswered"]) and capture["at"] - before["at"] <= RETRY


COLLECTOR = ("cluster", "collector")
CAPTURE = (*COLLECTOR, "captured_at")
QUESTION = ("kind", "subject", "broker_name", "name_server")  # what makes two captures ask the same
MEMBER = (*COLLECTOR, "consumer_group", "client_id")
_INSTANT = pa.timestamp("us", "UTC")
_LONG_AGO = -(2**62)
ASKED = pa.schema(
    [
        *((name, pa.string()) for name in COLLECTOR),
        ("captured_at", _INSTANT),
        *((name, pa.string()) for name in QUESTION),
        ("answered", pa.bool_()),
        ("error_code", pa.int32()),
    ]
)
MARKERS = pa.schema([*((name, pa.string()) for name in COLLECTOR), ("round_at", _INSTANT)])
ROUNDS = pa.schema([*(ASKED.field(name) for name in CAPTURE), ("round_at", _INSTANT), ("kind", pa.string())])


class RoundLimits(NamedTuple):
    """How long a round lasts at most, and after which pause the next begins, by collector ("": any other); seconds."""

    max_round_s: int
    gap_s: Mapping[str, float]

    def gap_of(self, collector: str) -> timedelta:
        """The pause of a collector."""
        return timedelta(seconds=self.gap_s.get(collector, self.gap_s[""]))


class _Instant(NamedTuple):
    """What a collector asked at an instant, as hashes, and what of that nobody answered."""

    at: datetime
    asked: set[int]
    unanswered: set[int]


def capture_rounds(captures: Iterable[pa.Table], markers: pa.Table, limits: RoundLimits) -> pa.Table:
    """The round of each distinct capture instant of a collector (``ROUNDS``).

    A capture belongs to the latest marker at or before it, if that is not older than a round lasts. Captures without
    one form rounds of their own: a long pause begins the next, at its first capture, and so does a question that is
    asked again (``repeated_questions``).

    Args:
        captures: pieces of ``ASKED``; one without a ``kind`` puts no question.
        markers: of ``MARKERS``.
    """
    marks = {collector: np.unique(microseconds(rows, "round_at")) for collector, rows in _of_collectors(markers)}
    begun: dict[tuple[str, str], list[IntArray]] = defaultdict(list)
    loose: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
    for piece in captures:
        for collector, rows in _of_collectors(piece):
            at = microseconds(rows, "captured_at")
            is_begun = at - _latest(marks.get(collector), at) <= limits.max_round_s * 1_000_000
            begun[collector].append(np.unique(at[is_begun]))
            loose[collector].append(rows.filter(pa.array(~is_begun)))
    found = [ROUNDS.empty_table()]
    for collector, instants in begun.items():
        at = np.unique(np.concatenate(instants))
        latest = pa.array(_latest(marks.get(collector), at)).cast(_INSTANT)
        found.append(_rounds(collector, pa.array(at).cast(_INSTANT), latest, "marker"))
        runs = list(rounds_of_runs(_runs(collector, _instants(loose[collector]), limits)))
        captured_at, round_at = (pa.array([one[name] for one in runs], _INSTANT) for name in ("at", "round_at"))
        found.append(_rounds(collector, captured_at, round_at, "gap"))
    return pa.concat_tables(found)


def _latest(marks: IntArray | None, at: IntArray) -> IntArray:
    """The latest marker at or before each instant, in microseconds; long ago where there is none."""
    if marks is None:
        return np.full(len(at), _LONG_AGO)
    return np.concatenate([[_LONG_AGO], marks])[np.searchsorted(marks, at, side="right")]


def _rounds(collector: tuple[str, str], at: pa.Array, round_at: pa.Array, kind: str) -> pa.Table:
    """Instants and the rounds of each, as rows ``ROUNDS``."""
    texts = [pa.array([text] * len(at), pa.string()) for text in (*collector, kind)]
    return pa.table([*texts[:2], at, round_at, texts[2]], schema=ROUNDS)


def _of_collectors(rows: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    for one in rows.select(COLLECTOR).group_by(COLLECTOR).aggregate([]).to_pylist():
        is_own = [pc.equal(rows[name], one[name]) for name in COLLECTOR]
        yield (one["cluster"], one["collector"]), rows.filter(pc.and_(*is_own))


def _instants(captures: Iterable[pa.Table]) -> list[_Instant]:
    """The instants of a collector in order."""
    found: dict[datetime, _Instant] = {}
    for piece in captures:
        named = pa.table([piece[name].fill_null("") for name in QUESTION], list(QUESTION))
        is_silent = pc.and_(pc.invert(piece["answered"]), pc.is_null(piece["error_code"]))
        told = (row_hashes(named, QUESTION), piece["kind"].is_valid().to_pylist(), is_silent.to_pylist())
        for at, question, is_asked, silent in zip(piece["captured_at"].to_pylist(), *told, strict=True):
            instant = found.setdefault(at, _Instant(at, set(), set()))
            if is_asked:
                instant.asked.add(int(question))
            if is_asked and silent:
                instant.unanswered.add(int(question))
    return [found[at] for at in sorted(found)]


def _runs(collector: tuple[str, str], loose: Sequence[_Instant], limits: RoundLimits) -> Iterator[dict[str, Any]]:
    """Captures of a collector that no marker began, each with the first one of its run, a stretch without pause.

    A run that has lasted for longer than a round at midnight begins anew: rounds follow from the captures near them.
    """
    pause, most = limits.gap_of(collector[1]), timedelta(seconds=limits.max_round_s)
    before = run_at = first_of_date = None
    for instant in loose:
        if before is None or run_at is None or instant.at - before > pause:
            run_at = first_of_date = instant.at
        elif instant.at.date() != before.date():
            midnight = instant.at.replace(hour=0, minute=0, second=0, microsecond=0)
            first_of_date = instant.at if midnight - run_at > most else run_at
        before = instant.at
        of_run = dict(zip(("cluster", "collector", "run_at"), (*collector, first_of_date), strict=True))
        yield {**of_run, **instant._asdict()}


def with_rounds(rows: pa.Table, rounds: pa.Table) -> pa.Table:
    """Rows of captures with ``round_at`` set from ``capture_rounds``."""
    places = places_of_keys(rows, rounds, CAPTURE)
    return _set(rows, "round_at", rounds["round_at"].take(pa.array(places, mask=places < 0)))


def with_own_words(heartbeats: pa.Table, infos: pa.Table, proxies: pa.Table) -> pa.Table:
    """Heartbeats with what the member's running infos of the same round last told: its subscriptions, else null, and
    its kind, else what its connection alone says.

    The subscription table of the group follows whichever member sent the last heartbeat, and is not used.

    Args:
        heartbeats: with their rounds.
        infos: captures with their rounds, the answered running infos among them.
        proxies: of ``asked_proxies``.
    """
    infos = infos.filter(pc.and_(pc.equal(infos["kind"], "consumerRunningInfo"), infos["answered"]))
    told = infos.sort_by("captured_at")
    own_kind = _last_told(heartbeats, told, "client_kind")
    through_proxy = have_keys_of(heartbeats, proxies, PROXY.names)
    kind = pc.coalesce(own_kind, _kind_of_connection(heartbeats, pa.array(through_proxy)))
    heartbeats = _set(heartbeats, "subscriptions", _last_told(heartbeats, told, "subscriptions"))
    return _set(heartbeats, "client_kind", kind)


def _last_told(heartbeats: pa.Table, infos: pa.Table, column: str) -> pa.ChunkedArray:
    """``infos``: in the order of their instants."""
    member = [*MEMBER, "round_at"]
    telling = infos.select([*member, column]).drop_null()
    places = places_of_keys(heartbeats, telling, member)
    return telling[column].take(pa.array(places, mask=places < 0))


PROXY = pa.schema([*((name, pa.string()) for name in COLLECTOR), ("event_date", pa.date32())])


def asked_proxies(captures: pa.Table) -> pa.Table:
    """Which collectors asked a proxy instead of a name server, by date (``PROXY``): it supports none of what every
    broker answers.
    """
    return captures.filter(refused_by_proxy()).select(PROXY.names).group_by(PROXY.names).aggregate([])


def _kind_of_connection(heartbeats: pa.Table, through_proxy: pa.Array) -> pa.ChunkedArray:
    """The kind of a member by its connection alone: the form of its id, its language, and whether a proxy listed it."""
    ids = heartbeats["client_id"]
    is_grpc = pc.is_in(ids, pa.array([one for one in pc.unique(ids).to_pylist() if _is_of_grpc(one)], pa.string()))
    is_java = pc.equal(heartbeats["language"].fill_null("JAVA"), "JAVA")
    of_java = pc.if_else(through_proxy, REMOTING_PROXY, UNKNOWN)
    return pc.if_else(is_grpc, GRPC, pc.if_else(is_java, of_java, OTHER))


def _is_of_grpc(client_id: str | None) -> bool:
    return client_id is not None and re.search(GRPC_CLIENT_ID, client_id) is not None


def _set(rows: pa.Table, name: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    index = rows.column_names.index(name)
    return rows.set_column(index, rows.schema.field(index), values)


class CapturedRounds(NamedTuple):
    """The rounds in which groups were read, at the places of ``captures``. Instants are epoch us.

    Attributes:
        captures: of kinds ``OF_GROUPS``, of groups that are not RocketMQ's own, ``REVIVE_GROUP`` excepted.
        connections: that they list, by the same keys.
        shows: equal where two rounds show the same; 0: the round may show something else in each order of its reads.
        at: when its members were read last; NEVER: they were not.
        read_until: when the last of these reads ended.
        swept_until: when anything of the group was read last.
        spread_ms: from the first to the last successful read of its members.
    """

    captures: RowsOfRounds
    connections: RowsOfRounds
    shows: HashArray
    at: IntArray
    read_until: IntArray
    swept_until: IntArray
    spread_ms: IntArray


def captured_rounds(captures: pa.Table, connections: pa.Table) -> CapturedRounds:
    """Of rows of ``snapshot_capture`` and ``consumer_heartbeat``."""
    sorted_captures = rows_of_rounds(_of_groups(captures), "consumer_group", _ORDER)
    sorted_connections = rows_of_rounds(connections, "consumer_group", ("captured_at", "client_id", "address"))
    rows, starts = sorted_captures.rows, sorted_captures.starts
    if not len(starts):
        nothing = np.zeros(0, np.int64)
        return CapturedRounds(sorted_captures, sorted_connections, nothing.view(np.uint64), *[nothing] * 4)
    begin = microseconds(rows, "captured_at")
    ended = microseconds(rows, "captured_end_at")
    end = np.where(ended == NEVER, begin, ended)
    # Of what brokers popped in vain there are offsets, and no members.
    of_members = _is_in(rows, "kind", OF_MEMBERS) | _is_in(rows, "consumer_group", (REVIVE_GROUP,))
    answered = of_members & flags(rows["answered"])
    last = np.maximum.reduceat(np.where(answered, end, NEVER), starts)
    first = np.minimum.reduceat(np.where(answered, begin, FAR), starts)
    return CapturedRounds(
        sorted_captures,
        sorted_connections,
        _shows(sorted_captures, sorted_connections),
        at=np.maximum.reduceat(np.where(of_members, begin, NEVER), starts),
        read_until=np.maximum.reduceat(np.where(of_members, end, NEVER), starts),
        swept_until=np.maximum.reduceat(begin, starts),
        spread_ms=np.where(last == NEVER, 0, last // 1000 - first // 1000),
    )


def _of_groups(captures: pa.Table) -> pa.Table:
    named = captures.filter(
        pc.and_(pc.is_in(captures["kind"], pa.array(OF_GROUPS)), pc.is_valid(captures["consumer_group"]))
    )
    system = [
        name
        for name in pc.unique(named["consumer_group"]).to_pylist()
        if is_system_group(name) and name != REVIVE_GROUP
    ]
    return with_evidence(named.filter(pc.invert(pc.is_in(named["consumer_group"], pa.array(system, pa.string())))))


def _shows(captures: RowsOfRounds, connections: RowsOfRounds) -> HashArray:
    """A hash of each round's rows, in whatever order but for reads that failed: what is missing is told in theirs."""
    rows = captures.rows
    number = captures.numbers()
    failed = np.flatnonzero(~flags(rows["answered"]))
    # Through which broker a client was asked says something beside reads that failed alone.
    is_whole = np.ones(len(captures.starts), np.bool_)
    is_whole[number[failed]] = False
    through = value_hashes(rows, ("broker_name",))
    through[_is_in(rows, "kind", (INFO,)) & is_whole[number]] = 0
    hashes = mixed(value_hashes(rows, _SHOWN) + through)
    hashes[failed] = mixed(hashes[failed] + _places(number[failed]).astype(np.uint64))
    found = mixed(sums(hashes, captures.starts))
    if len(connections.starts):
        of_each = mixed(sums(value_hashes(connections.rows, _CONNECTED), connections.starts))
        own = np.array([captures.place_of.get(key, -1) for key in connections.place_of])
        found[own[own >= 0]] += of_each[own >= 0]
    found[number[_asked_twice(captures, _repeats_connections(captures, connections))]] = 0
    found[_strays(captures, connections)] = 0
    return found


def _places(numbers: IntArray) -> IntArray:
    """The place of each among the equal ones beside it; equal ones stand together."""
    begins = np.flatnonzero(differs(numbers))
    return np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))


def _repeats_connections(captures: RowsOfRounds, connections: RowsOfRounds) -> BoolArray:
    """The lists of ids that name whom their place's connections name: whichever is read last says the same."""
    rows, number, answered = captures.rows, captures.numbers(), flags(captures.rows["answered"])
    listing, ids = (np.flatnonzero(_is_in(rows, "kind", (kind,)) & answered) for kind in (LISTING, ID_LIST))
    named = whole(rows, "member_ids").take(pa.array(ids))
    of_round = np.array([captures.place_of.get(key, -1) for key in connections.place_of], np.int64)
    instants = pa.table(_instants_of_rounds(rows, number)).take(pa.array(listing))
    connected = places_of_keys(
        pa.table(_instants_of_rounds(connections.rows, of_round[connections.numbers()])),
        instants,
        instants.column_names,
    )
    place = pc.coalesce(whole(rows, "broker_name"), whole(rows, "name_server"), "")
    members = {
        "listing": (connected, whole(connections.rows, "client_id")),
        "ids": (pc.list_parent_indices(named).to_numpy(), pc.list_flatten(named)),
    }
    told = {}
    for (name, (of, clients)), own in zip(members.items(), (listing, ids), strict=True):
        sum_of = np.zeros(len(own) + 1, np.uint64)  # the last: of no list
        np.add.at(sum_of, of, mixed(value_hashes(pa.table({"client": clients.cast(pa.string())}), ["client"])))
        told[name] = pa.table(
            {"round": number[own], "place": place.take(pa.array(own)), "members": sum_of[:-1].view(np.int64)}
        )
    found = np.zeros(len(number), np.bool_)
    found[ids] = have_keys_of(told["ids"], told["listing"], told["ids"].column_names)
    return found


def _instants_of_rounds(rows: pa.RecordBatch, number: IntArray) -> dict[str, Any]:
    broker = pc.coalesce(whole(rows, "broker_name"), "")
    return {"round": number, "broker": broker, "at": microseconds(rows, "captured_at")}


def _asked_twice(captures: RowsOfRounds, repeats: BoolArray) -> BoolArray:
    """The rows that ask what another one of the round asks too: a place for its list, a client for its own words; those
    that ``repeats`` names ask nothing of the others."""
    rows = captures.rows
    is_list, is_info = _is_in(rows, "kind", (LISTING, ID_LIST)), _is_in(rows, "kind", (INFO,))
    place = pa.table({"name": pc.coalesce(whole(rows, "broker_name"), whole(rows, "name_server"), "")})
    whom = np.where(is_list, ranks(place, "name"), ranks(rows, "client_id"))
    question = captures.numbers(), is_list + 2 * (is_info | repeats), whom
    order = np.lexsort(question[::-1])
    again: BoolArray = is_list | is_info
    again[order] &= ~differs(*(column[order] for column in question))
    return again


def _strays(captures: RowsOfRounds, connections: RowsOfRounds) -> list[int]:
    """The rounds with connections of an instant at which no list was asked for."""
    rows, of_lists = captures.rows, _is_in(captures.rows, "kind", (LISTING, ID_LIST))
    asked = set(zip(captures.numbers()[of_lists].tolist(), *_place_and_instant(rows, of_lists), strict=True))
    found = set()
    number = {place: captures.place_of.get(key) for key, place in connections.place_of.items()}
    every = np.ones(connections.rows.num_rows, np.bool_)
    told = zip(connections.numbers().tolist(), *_place_and_instant(connections.rows, every), strict=True)
    for place, broker_name, instant in set(told):
        own = number[place]
        if own is not None and (own, broker_name, instant) not in asked:
            found.add(own)
    return sorted(found)


def _place_and_instant(rows: pa.RecordBatch, wanted: BoolArray) -> tuple[list[str], list[int]]:
    own = rows.select(["broker_name", "captured_at"]).filter(pa.array(wanted))
    return own["broker_name"].fill_null("").to_pylist(), microseconds(own, "captured_at").tolist()


def _is_in(rows: pa.RecordBatch, name: str, values: tuple[str, ...]) -> BoolArray:
    return flags(pc.is_in(rows[name], pa.array(values)))

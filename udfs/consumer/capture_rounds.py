"""Captures and round markers in; the round of each capture, and what members said of themselves in it, out."""

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
from hindsight.udfs.values.row_hashes import IntArray, have_keys_of, places_of_keys, row_hashes

RETRY = timedelta(seconds=15)  # mqadmin waits 5 s for an answer, and takes up to 10 s to start

_RUN = ("cluster", "collector", "run_at")


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
_NOT_SUPPORTED = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_EVERY_BROKER_ANSWERS = ("consumerRunningInfo", "consumeStats")


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
    marks = {collector: np.unique(_micros(rows["round_at"])) for collector, rows in _of_collectors(markers)}
    begun: dict[tuple[str, str], list[IntArray]] = defaultdict(list)
    loose: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
    for piece in captures:
        for collector, rows in _of_collectors(piece):
            at = _micros(rows["captured_at"])
            is_begun = at - _latest(marks.get(collector), at) <= limits.max_round_s * 1_000_000
            begun[collector].append(np.unique(at[is_begun]))
            loose[collector].append(rows.filter(pa.array(~is_begun)))
    found = [ROUNDS.empty_table()]
    for collector, instants in begun.items():
        at = np.unique(np.concatenate(instants))
        found.append(_of_markers(collector, at, _latest(marks.get(collector), at)))
        runs = _runs(collector, _instants(loose[collector]), limits)
        rounds = [_round(collector, one["at"], one["round_at"], "gap") for one in rounds_of_runs(runs)]
        found.append(pa.Table.from_pylist(rounds, schema=ROUNDS))
    return pa.concat_tables(found)


def _latest(marks: IntArray | None, at: IntArray) -> IntArray:
    """The latest marker at or before each instant, in microseconds; long ago where there is none."""
    if marks is None:
        return np.full(len(at), _LONG_AGO)
    return np.concatenate([[_LONG_AGO], marks])[np.searchsorted(marks, at, side="right")]


def _of_markers(collector: tuple[str, str], at: IntArray, round_at: IntArray) -> pa.Table:
    texts = [pa.array([text] * len(at), pa.string()) for text in (*collector, "marker")]
    instants = [pa.array(each, pa.int64()).cast(_INSTANT) for each in (at, round_at)]
    return pa.table([*texts[:2], *instants, texts[2]], schema=ROUNDS)


def _round(collector: tuple[str, str], captured_at: datetime, round_at: datetime, kind: str) -> dict[str, Any]:
    return dict(zip(ROUNDS.names, (*collector, captured_at, round_at, kind), strict=True))


def _of_collectors(rows: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    for one in rows.select(COLLECTOR).group_by(COLLECTOR).aggregate([]).to_pylist():
        is_own = [pc.equal(rows[name], one[name]) for name in COLLECTOR]
        yield (one["cluster"], one["collector"]), rows.filter(pc.and_(*is_own))


def _micros(instants: pa.ChunkedArray) -> IntArray:
    micros: IntArray = instants.cast(_INSTANT).cast(pa.int64()).to_numpy()
    return micros


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
    refused = pc.equal(captures["error_code"], _NOT_SUPPORTED)
    refused = pc.and_(refused, pc.is_in(captures["kind"], pa.array(_EVERY_BROKER_ANSWERS)))
    refused = pc.and_(refused, pc.is_null(captures["broker_name"]))
    return captures.filter(refused).select(PROXY.names).group_by(PROXY.names).aggregate([])


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

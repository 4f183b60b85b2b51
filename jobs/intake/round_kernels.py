"""Kernels that place captures in rounds: captures meet by their collector, members' own words by the member."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import chosen, conformed_rows, meets
from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.runner import Blob, Given
from hindsight.jobs.intake.intake_kernels import TableFile
from hindsight.schemas import COLLECTION_ROUND, CONSUMER_HEARTBEAT, SNAPSHOT_CAPTURE, Table
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.consumer.capture_rounds import (
    ASKED,
    CAPTURE,
    COLLECTOR,
    MARKERS,
    MEMBER,
    PROXY,
    ROUNDS,
    RoundLimits,
    asked_proxies,
    capture_rounds,
    with_own_words,
    with_rounds,
)
from hindsight.udfs.landing.landing_formats import OWN_SNAPSHOTS
from hindsight.udfs.values.row_hashes import BoolArray, have_keys_of, places_of_keys

CAPTURES, MARKS = "captures", "marks"  # by collector
ROUNDS_OF, GAPS, PROXIES = "rounds", "gaps", "proxies"
INFOS, HEARTBEATS = "infos", "heartbeats"  # by member
MOVED, MOVED_DATES = "moved ", "moved dates"
_SOURCE = ("source", "source_file", "source_line", "ingested_at", "run_id")
_OF_CAPTURES = [*ASKED.names, *_SOURCE]
_OF_INFOS = [*MEMBER, "captured_at", "kind", "answered", "subscriptions", "client_kind"]
_WORDS = ["round_at", "subscriptions", "client_kind"]
_INFO = "consumerRunningInfo"


def told_of_rounds(table: str, rows: pa.Table, place: int) -> Iterator[Blob]:
    """What rows tell of rounds, by their collector: captures with what they asked, and markers."""
    if table == SNAPSHOT_CAPTURE.name:
        asks = rows.select(_OF_CAPTURES)
        # Captures that only follow from rows of one's own put no question.
        kind = pc.if_else(pc.equal(rows["source"], OWN_SNAPSHOTS), pa.scalar(None, pa.string()), rows["kind"])
        yield from _by_collector(CAPTURES, asks.set_column(asks.column_names.index("kind"), "kind", kind), place)
    elif table == COLLECTION_ROUND.name:
        yield from _by_collector(MARKS, rows.filter(pc.equal(rows["kind"], "marker")).select(MARKERS.names), place)


def _by_collector(name: str, rows: pa.Table, place: int) -> Iterator[Blob]:
    of_collectors = rows.select(COLLECTOR).group_by(COLLECTOR).aggregate([])
    for cluster, collector in zip(*(of_collectors[each].to_pylist() for each in COLLECTOR), strict=True):
        own = rows.filter(pc.and_(pc.equal(rows["cluster"], cluster), pc.equal(rows["collector"], collector)))
        yield Blob(name, _hash(f"{cluster}\0{collector}"), place, own)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def stored_captures(task: TableFile) -> Iterator[Blob]:
    """What a stored file tells of rounds; also which collectors asked a proxy, by date."""
    is_of_captures = task.folder.table is SNAPSHOT_CAPTURE or task.folder.table.name == SNAPSHOT_CAPTURE.name
    columns = [*_OF_CAPTURES, "event_date"] if is_of_captures else [*MARKERS.names, "kind"]
    for rows in task.folder.pieces(task.file, columns):
        yield from told_of_rounds(task.folder.table.name, rows, task.number)
        if is_of_captures:
            yield Blob(PROXIES, 0, task.number, asked_proxies(rows))


@dataclass(frozen=True)
class RoundsOf:
    """Places the captures of collectors in rounds."""

    limits: RoundLimits

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Each capture instant's round; rounds that no marker began, as rows of collection_round."""
        markers = pa.concat_tables([MARKERS.empty_table(), *given.tables(MARKS)])
        rounds = capture_rounds(given.tables(CAPTURES), markers, self.limits)
        yield Blob(ROUNDS_OF, key, 0, rounds)
        begun = pc.and_(pc.equal(rounds["kind"], "gap"), pc.equal(rounds["captured_at"], rounds["round_at"]))
        yield Blob(GAPS, key, 0, _gaps(rounds.filter(begun), given))


def _gaps(first: pa.Table, given: Given) -> pa.Table:
    """Rounds that no marker began stand in the table too, sourced from their first capture."""
    columns = [*CAPTURE, *_SOURCE]
    schema = row_schema(SNAPSHOT_CAPTURE)
    some = [
        rows.filter(pa.array(have_keys_of(rows, first, CAPTURE))).select(columns) for rows in given.tables(CAPTURES)
    ]
    empty = pa.schema([schema.field(name) for name in columns]).empty_table()
    sources = pa.concat_tables([empty, *(rows.cast(empty.schema) for rows in some)])
    # The last of a key is taken.
    sources = sources.sort_by([("source_file", "descending"), ("source_line", "descending")])
    found = sources.take(pa.array(places_of_keys(first, sources, CAPTURE))).select(_SOURCE)
    for name in (*COLLECTOR, "round_at", "kind"):
        found = found.append_column(name, first[name])
    found = found.append_column("event_date", first["round_at"].cast(pa.date32(), safe=False))
    return conformed_rows(found, COLLECTION_ROUND)


@dataclass(frozen=True)
class Placed:
    """Sets the round in rows of captures before they are stored."""

    rounds: pa.Table
    tables: frozenset[str]

    def __call__(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows of a table."""
        return with_rounds(rows, self.rounds) if table in self.tables else rows


@dataclass(frozen=True)
class Misplaced:
    """Finds rows of a stored file, of captures that meet a condition, whose round is no longer right."""

    rounds: pa.Table
    where: Where

    def __call__(self, task: TableFile) -> Iterator[Blob]:
        """Their keys with the round that is."""
        table = task.folder.table
        columns = list(dict.fromkeys([*table.key, *CAPTURE, "event_date", "round_at"]))
        for place, piece in enumerate(task.folder.pieces(task.file, columns)):
            rows = chosen(piece, self.where)
            yield from _moved(table, rows, with_rounds(rows, self.rounds), ["round_at"], task.number, place)


def _moved(table: Table, before: pa.Table, now: pa.Table, columns: list[str], key: int, place: int) -> Iterator[Blob]:
    differs = np.zeros(len(now), np.bool_)
    for name in columns:
        differs |= _differ(before[name], now[name])
    if differs.any():
        moved = now.filter(pa.array(differs)).select([*table.key, *columns])
        yield Blob(MOVED + table.name, key, place, moved)
        days = pc.unique(moved["event_date"])
        yield Blob(MOVED_DATES, key, place, pa.table({"table": pa.repeat(table.name, len(days)), "event_date": days}))


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> BoolArray:
    """Which values differ; null is a value of its own."""
    if pa.types.is_nested(old.type):
        return np.fromiter((a != b for a, b in zip(old.to_pylist(), new.to_pylist(), strict=True)), np.bool_, len(new))
    other = pc.fill_null(pc.not_equal(old, new), pa.scalar(False))
    found: BoolArray = pc.or_(other, pc.xor(pc.is_null(old), pc.is_null(new))).to_numpy()
    return found


@dataclass(frozen=True)
class ByMember:
    """Brings heartbeats and running infos with their rounds to the bucket of their member."""

    rounds: pa.Table
    where: Where
    buckets: int

    def __call__(self, task: TableFile) -> Iterator[Blob]:
        """Heartbeats that meet a condition, with the round they had as ``before``; running infos, of any date."""
        is_info = task.folder.table.name == SNAPSHOT_CAPTURE.name
        of_heartbeats = [*CONSUMER_HEARTBEAT.key, *CAPTURE, "consumer_group", "client_id", "event_date", "language"]
        columns = _OF_INFOS if is_info else list(dict.fromkeys([*of_heartbeats, *_WORDS]))
        for place, piece in enumerate(task.folder.pieces(task.file, columns)):
            if is_info:
                rows = piece.filter(pc.and_(pc.equal(piece["kind"], _INFO), piece["answered"]))
                rows = chosen(rows, Where(since=self.where.since))
                rows = with_rounds(
                    rows.append_column("round_at", pa.nulls(len(rows), ROUNDS.field("round_at").type)), self.rounds
                )
            else:
                rows = chosen(piece, self.where)
            yield from self._split(INFOS if is_info else HEARTBEATS, rows, task.number, place)

    def _split(self, name: str, rows: pa.Table, number: int, place: int) -> Iterator[Blob]:
        encoded = rows["client_id"].combine_chunks().dictionary_encode(null_encoding="encode")
        of_each = np.array([_hash(one or "") % self.buckets for one in encoded.dictionary.to_pylist()], np.int64)
        bucket = of_each[encoded.indices.to_numpy()]
        for key in np.unique(bucket).tolist():
            yield Blob(name, key, number, rows.filter(pa.array(bucket == key)))


@dataclass(frozen=True)
class Words:
    """Finds heartbeats, of rounds that meet a condition, whose round, or member's own words, are no longer right."""

    rounds: pa.Table
    proxies: pa.Table
    where: Where

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Their keys with what is."""
        infos = list(given.tables(INFOS))
        schema = row_schema(SNAPSHOT_CAPTURE)
        empty = pa.schema([schema.field(name) for name in [*_OF_INFOS, "round_at"]]).empty_table()
        told = pa.concat_tables([empty, *(rows.cast(empty.schema) for rows in infos)])
        for place, before in enumerate(given.tables(HEARTBEATS)):
            placed = with_rounds(before, self.rounds)
            is_of_round = meets(placed, self.where)
            before, placed = (rows.filter(is_of_round) if self.where.since else rows for rows in (before, placed))
            now = with_own_words(placed, told, self.proxies.cast(PROXY))
            yield from _moved(CONSUMER_HEARTBEAT, before, now, _WORDS, key, place)

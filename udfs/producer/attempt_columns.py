"""Send attempts as an Arrow table in, numpy columns out: codes for texts, milliseconds of a date for instants.

Every kernel of the producer fold works on these columns. An instant is counted from the UTC midnight of the date that
is folded, so it is negative on the date before it. ``NEVER`` stands for an instant that is not known, or was not;
``FAR`` lies after every one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

NEVER, FAR = -(1 << 40), 1 << 40

# Texts that many rows share: codes of the distinct ones from their file to their row.
CODED = (
    *("producer_group", "client_id", "topic", "broker_name", "last_broker_name", "mode", "thread", "exception"),
    *("error", "queue_selected_by", "source", "client_version", "outcome"),
)
_INSTANTS = ("begin_at", "end_at", "submit_end_at", "callback_end_at")
# The columns of ``send_attempt`` that the fold reads, beside the date and cluster that it is asked for.
ATTEMPTS = pa.schema(
    [
        *((name, pa.string()) for name in (*CODED, "msg_id")),
        *((name, pa.timestamp("us", "UTC")) for name in _INSTANTS),
        ("attempt", pa.int32()),
        ("queue_id", pa.int32()),
        ("response_code", pa.int32()),
        ("latency_ms", pa.int64()),
        ("latency_fault_enabled", pa.bool_()),
        ("exceptions_observable", pa.bool_()),
    ]
)
SYNC, ONEWAY, ASYNC = "SYNC", "ONEWAY", "ASYNC"


class Texts(NamedTuple):
    """A text column: ``codes`` are places in ``values``, -1 where it is null."""

    codes: IntArray
    values: list[str]

    def are(self, *wanted: str) -> BoolArray:
        """Where the text is one of these."""
        found: BoolArray = np.array([*(value in wanted for value in self.values), False], dtype=np.bool_)
        return found[self.codes]

    def in_order_of(self, names: list[str]) -> IntArray:
        """The places of the texts in ``names``; -1 for null, and for what is not there."""
        place = {name: i for i, name in enumerate(names)}
        found: IntArray = np.array([*(place.get(value, -1) for value in self.values), -1], dtype=np.int64)
        return found[self.codes]


class Attempts(NamedTuple):
    """n attempts.

    Attributes:
        table: the rows themselves, with the columns ``ATTEMPTS``.
        midnight_ms: epoch ms with which the date begins.
        begin, end, submit_end, callback_end: ms of the date.
        attempt: its number; -1: not recorded.
        pinned: somebody else than the client chose the queue.
        on_date: it began on the date.
        is_async: its mode is ASYNC.
    """

    table: pa.Table
    midnight_ms: int
    begin: IntArray
    end: IntArray
    submit_end: IntArray
    callback_end: IntArray
    attempt: IntArray
    pinned: BoolArray
    on_date: BoolArray
    is_async: BoolArray

    def texts(self, name: str) -> Texts:
        """A text column as codes."""
        return texts(self.table[name])

    def strings(self, rows: IntArray, *names: str) -> dict[str, pa.ChunkedArray]:
        """Text columns of these rows, plain."""
        own = self.table.select(list(names)).take(pa.array(rows))
        return {name: own[name].cast(pa.string()) for name in names}

    def flags(self, name: str) -> BoolArray:
        """Where a column of booleans is true; null is not."""
        found: BoolArray = _values(pc.fill_null(self.table[name], False))
        return found

    def first_instant(self) -> IntArray:
        """The earliest instant of each attempt: its begin, unless a clock stepped back before it ended."""
        known = [np.where(at == NEVER, self.begin, at) for at in (self.end, self.submit_end, self.callback_end)]
        first: IntArray = np.minimum.reduce([self.begin, *known])
        return first

    def last_instant(self) -> IntArray:
        """The latest instant of each attempt."""
        last: IntArray = np.maximum.reduce([self.begin, self.end, self.submit_end, self.callback_end])
        return last


class Producers(NamedTuple):
    """Producers: ``codes`` of each attempt, places in ``names``, (producer group, client id)."""

    codes: IntArray
    names: list[tuple[str, str]]


def producers_of(a: Attempts) -> Producers:
    """Who made each attempt."""
    groups, clients = a.texts("producer_group"), a.texts("client_id")
    count = max(len(clients.values), 1)
    codes, pairs = compact(groups.codes.astype(np.int64) * count + clients.codes, len(groups.values) * count)
    return Producers(
        codes, [(groups.values[g], clients.values[c]) for g, c in (divmod(p, count) for p in pairs.tolist())]
    )


def compact(codes: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Numbers from 0 to ``size`` as places in those that occur, and these, in order."""
    if size > max(4 * len(codes), 1 << 16):  # a table of all would cost more than a sort
        found, places = np.unique(codes, return_inverse=True)
        return places, found
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[codes] = True
    return (np.cumsum(occurs) - 1)[codes], np.flatnonzero(occurs)


def order_of(columns: Mapping[str, Any]) -> IntArray:
    """The places of rows in the order of these columns, nulls first."""
    order = pc.sort_indices(pa.table(dict(columns)), sort_keys=[(name, "ascending", "at_start") for name in columns])
    places: IntArray = order.to_numpy()
    return places


def spread(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Rows as often as each one counts: their places, and of each repetition its number, from 0 on."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def attempts_of(table: pa.Table, midnight_ms: int) -> Attempts:
    """The columns of ``table`` (``ATTEMPTS``), counted from this midnight, epoch ms."""
    table = encoded(table)
    begin, end, submit_end, callback_end = (instants(table[name], midnight_ms) for name in _INSTANTS)
    chosen_by, mode = texts(table["queue_selected_by"]), texts(table["mode"])
    return Attempts(
        table=table,
        midnight_ms=midnight_ms,
        begin=begin,
        end=end,
        submit_end=submit_end,
        callback_end=callback_end,
        attempt=_values(pc.fill_null(table["attempt"], -1)).astype(np.int64),
        pinned=(chosen_by.codes >= 0) & ~chosen_by.are("client"),
        on_date=(begin >= 0) & (begin < DAY_MS),
        is_async=mode.are(ASYNC),
    )


def sent_by(table: pa.Table, producers: Iterable[tuple[str, str]]) -> pa.Table:
    """The attempts of these producers, and of others that share a client id with one of them."""
    clients = texts(encoded(table.select(["client_id"]))["client_id"])
    return table.filter(pa.array(clients.are(*(client for _, client in producers))))


def encoded(table: pa.Table) -> pa.Table:
    """The table, each text that many rows share once: so it is looked at once, however often a kernel asks."""
    for place, name in enumerate(table.column_names):
        if name in CODED:
            column = table[name]
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            table = table.set_column(place, name, encoded.unify_dictionaries())
    return table


def texts(column: pa.ChunkedArray) -> Texts:
    """A dictionary-encoded text column as codes."""
    chunks = column.chunks
    if not chunks:
        return Texts(np.zeros(0, dtype=np.int64), [])
    codes = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return Texts(np.concatenate(codes), chunks[0].dictionary.to_pylist())


def instants(column: pa.ChunkedArray, midnight_ms: int) -> IntArray:
    """A column of timestamps as ms of the date; ``NEVER`` where it is null."""
    ms = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    known = _values(pc.fill_null(ms, 0)) // 1000 - midnight_ms
    return known if not ms.null_count else np.where(_values(pc.is_null(ms)), NEVER, known)


def timestamps(ms: IntArray, midnight_ms: int) -> pa.Array:
    """Ms of the date as timestamps; null where ``NEVER``."""
    return pa.array((ms + midnight_ms) * 1000, pa.int64(), mask=ms == NEVER).cast(pa.timestamp("us", "UTC"))


def _values(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False) if column.num_chunks else column.to_numpy()


SEND = ["producer_group", "client_id", "topic", "msg_id"]


def sends_that_lack(attempts: pa.Table) -> pa.Table:
    """The sends of which a retry does not name its last broker: each once."""
    return attempts.filter(_lack(attempts)).select(SEND).group_by(SEND).aggregate([])


def lacks_last_broker(attempts: pa.Table) -> bool:
    """Whether some retry does not name its last broker."""
    return bool(pc.any(_lack(attempts)).as_py())


def brokers_before(parts: Sequence[pa.Table], sends: pa.Table) -> pa.Table:
    """Of these sends, per number of an attempt the one broker that the attempt before it went to, as ``told``.

    ``parts``: all attempts that may be of them.
    """
    own = pa.concat_tables(
        [
            part.select([*SEND, "attempt", "broker_name"])
            .cast(_PLAIN)
            .join(sends.cast(pa.schema([(name, pa.string()) for name in SEND])), SEND, join_type="left semi")
            for part in parts
        ]
    )
    own = own.set_column(4, "attempt", pc.add(own["attempt"], pa.scalar(1, pa.int32())))
    counted = own.group_by([*SEND, "attempt"]).aggregate(
        [("broker_name", "min"), ("broker_name", "count_distinct"), ([], "count_all"), ("broker_name", "count")]
    )
    sure = pc.and_(
        pc.equal(counted["broker_name_count_distinct"], 1),
        pc.equal(counted["broker_name_count"], counted["count_all"]),
    )
    return counted.filter(sure).select([*SEND, "attempt", "broker_name_min"]).rename_columns([*SEND, "attempt", "told"])


_PLAIN = pa.schema([*((name, pa.string()) for name in SEND), ("attempt", pa.int32()), ("broker_name", pa.string())])


def with_last_brokers(attempts: pa.Table, told: pa.Table) -> pa.Table:
    """Attempts, retries without ``last_broker_name`` with the broker before them as ``told`` (``brokers_before``)."""
    lack = _lack(attempts)
    if not told.num_rows or not lacks_last_broker(attempts):
        return attempts
    retries = attempts.filter(lack)
    keys = retries.select([*SEND, "attempt"]).cast(pa.schema([_PLAIN.field(n) for n in (*SEND, "attempt")]))
    keys = keys.append_column("place", pa.array(range(len(keys))))
    named = keys.join(told, [*SEND, "attempt"], join_type="left outer").sort_by("place")["told"]
    place = attempts.schema.get_field_index("last_broker_name")
    retries = retries.set_column(place, attempts.schema.field(place), named.cast(attempts.schema.field(place).type))
    return pa.concat_tables([attempts.filter(pc.invert(lack)), retries])


def _lack(attempts: pa.Table) -> pa.ChunkedArray:
    is_retry = pc.fill_null(pc.greater(attempts["attempt"], 0), False)
    return pc.and_(is_retry, pc.is_null(attempts["last_broker_name"]))

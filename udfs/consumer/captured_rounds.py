"""Captures and connections of many groups' rounds in; of each round its instants, and a number for what it shows, out.

Two rounds with the same number show the same, instants and evidence aside, so what follows from one is not worked out
for the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.listed_members import ID_LIST, INFO, LISTING, OF_MEMBERS
from hindsight.udfs.consumer.round_reads import OF_GROUPS
from hindsight.udfs.consumer.rows_of_rounds import (
    NEVER,
    RowsOfRounds,
    is_true,
    microseconds,
    ranks,
    rows_of_rounds,
    with_evidence,
)
from hindsight.udfs.values.message_queues import REVIVE_GROUP, is_system_group
from hindsight.udfs.values.row_hashes import (
    BoolArray,
    HashArray,
    IntArray,
    have_keys_of,
    mixed,
    places_of_keys,
    sums,
    value_hashes,
    whole,
)

_ORDER = ("captured_at", "source_file", "source_line")
_SHOWN = (
    "kind", "name_server", "client_id", "answered", "error", "error_code", "client_version",
    "consume_type", "message_model", "consume_from_where", "consume_orderly", "client_rebalance", "client_started_at",
    "client_kind", "member_ids", "subscriptions",
)  # fmt: skip
_CONNECTED = ("client_id", "broker_name", "address", "language", "client_version", "client_kind", "message_model")
_FAR = 1 << 62


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
    answered = of_members & is_true(rows, "answered")
    last = np.maximum.reduceat(np.where(answered, end, NEVER), starts)
    first = np.minimum.reduceat(np.where(answered, begin, _FAR), starts)
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
    failed = np.flatnonzero(~is_true(rows, "answered"))
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
    if not len(numbers):
        return numbers
    begins = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    return np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))


def _repeats_connections(captures: RowsOfRounds, connections: RowsOfRounds) -> BoolArray:
    """The lists of ids that name whom their place's connections name: whichever is read last says the same."""
    rows, number, answered = captures.rows, captures.numbers(), is_true(captures.rows, "answered")
    listing, ids = (np.flatnonzero(_is_in(rows, "kind", (kind,)) & answered) for kind in (LISTING, ID_LIST))
    named = whole(rows, "member_ids").take(pa.array(ids))
    of_round = np.array([captures.place_of.get(key, -1) for key in connections.place_of], np.int64)
    instants = pa.table(_instants(rows, number)).take(pa.array(listing))
    connected = places_of_keys(
        pa.table(_instants(connections.rows, of_round[connections.numbers()])), instants, instants.column_names
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


def _instants(rows: pa.RecordBatch, number: IntArray) -> dict[str, Any]:
    broker = pc.coalesce(whole(rows, "broker_name"), "")
    return {"round": number, "broker": broker, "at": microseconds(rows, "captured_at")}


def _asked_twice(captures: RowsOfRounds, repeats: BoolArray) -> BoolArray:
    """The rows that ask what another one of the round asks too: a place for its list, a client for its own words; those
    that ``repeats`` names ask nothing of the others."""
    rows = captures.rows
    is_list, is_info = _is_in(rows, "kind", (LISTING, ID_LIST)), _is_in(rows, "kind", (INFO,))
    place = pa.table({"name": pc.coalesce(whole(rows, "broker_name"), whole(rows, "name_server"), "")})
    whom = np.where(is_list, ranks(place, "name"), ranks(rows, "client_id"))
    question = np.stack([captures.numbers(), is_list + 2 * (is_info | repeats), whom], axis=1)
    order = np.lexsort(question.T[::-1])
    again = np.zeros(len(order), np.bool_)
    same = (question[order][1:] == question[order][:-1]).all(axis=1)
    again[order[1:]] = same & (is_list | is_info)[order[1:]]
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
    found: BoolArray = pc.is_in(whole(rows, name), pa.array(values)).to_numpy(zero_copy_only=False)
    return found

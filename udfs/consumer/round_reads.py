"""Captures of one group's round in; every running info that was asked for, and what they say of the group, out.

Progress with names that mqadmin may have cut, and what routes and subscriptions name, in; the whole names, out.

Running infos that did not come in; what each says of its client out: that it is silent, or nothing.

A client is unreachable when it answers through nobody. So nothing is said of it by an answer that cannot be read, by
one that the collector lost itself, by a question that was left out, and by a broker that at once names an error of its
channel to the client: it may be a connection that the client left long ago, while another broker reaches it.

Source: AdminBrokerProcessor#callConsumer, 4.0.0 to 5.5.0: code 207 where the client did not answer in time, else code 1
with ``invoke consumer <group> <client> Exception``, as soon as its channel fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.listed_members import INFO, OF_MEMBERS, STATS, STATUS, Row, again
from hindsight.udfs.consumer.round_facts import NOT_SUPPORTED
from hindsight.udfs.formats.mqadmin_command import BROKER_MAYBE_CUT, TOPIC_MAYBE_CUT, whole_name
from hindsight.udfs.lines.parsed_line import UNREADABLE

NOTHING = "nothing"  # it says nothing of the client
CHANNEL = "channel"  # the broker's channel to the client fails: nothing, until another broker was asked too
LEFT_OUT = "left_out"  # it was not asked, as it had not answered before
UNHEARD_MS = 120_000  # who gave no answer for so long is silent, though the collector loses answers

_NOT_ASKED, _AGAIN = "not asked: ", "did not answer before"
OF_CHANNEL = "invoke consumer <"
# What the collector met on its own way to a server.
_OWN_WAY = ("RemotingConnectException", "RemotingSendRequestException", "RemotingCommandException")
OF_GROUPS = (*OF_MEMBERS, STATS, STATUS)  # kinds of captures that say something of a group
READ = (
    "client_id",
    "broker_name",
    "answered",
    "error",
    "error_code",
    "client_kind",
    "consume_orderly",
    "client_rebalance",
    "consume_type",
    "client_version",
    "subscriptions",
    "message_model",
    "consume_from_where",
    "client_started_at",
    "captured_at",
    "evidence",
)
# The columns of captures that lists and reads are made of; and those that a round has for itself that shows the same.
NEEDED = list(dict.fromkeys([*READ, "kind", "broker_name", "name_server", "member_ids"]))
NEEDED_AGAIN = ["kind", "broker_name", "name_server", "client_id", "captured_at", "evidence"]
TOPIC, BROKER = "topic", "broker_name"
_DOUBTS = {TOPIC: TOPIC_MAYBE_CUT, BROKER: BROKER_MAYBE_CUT}
# What is named where: ``column`` is of which kind of name.
NAMED = pa.schema(
    [
        ("collector", pa.string()),
        ("round_at", pa.timestamp("us", "UTC")),
        ("column", pa.string()),
        ("name", pa.string()),
    ]
)


def losses(captures: Iterable[Row]) -> tuple[frozenset[str | None], bool]:
    """What a round lost of what it asked brokers about the group, beside running infos: the brokers that answered
    nothing; and whether one that answered gave no answer to another question.

    ``captures``: lists and offsets that were asked for, as rows of ``snapshot_capture``.
    """
    rows = list(captures)
    # A refusal has a code, and what cannot be read was an answer.
    came = {_broker(row) for row in rows if not _is_lost(row)}
    lost = {_broker(row) for row in rows if _is_lost(row)}
    return frozenset(lost - came), bool(lost & came)


def said_by_failure(row: Row, silent: Collection[str | None], failed_at: Collection[str | None]) -> str | None:
    """What a running info that did not come says of its client: None: it is silent; else why that is not said.

    Of the round's brokers, ``silent``: those that answered nothing; ``failed_at``: whose channels to the client failed.
    """
    if row["answered"]:
        return None
    error = row["error"] or ""
    if error.startswith(_NOT_ASKED):
        return LEFT_OUT if _AGAIN in error and _tells(error.partition("s: ")[2]) else NOTHING
    if OF_CHANNEL in error:
        return None if len(failed_at) > 1 else CHANNEL
    if not _tells(error, row["error_code"]) or (row["error_code"] is None and _broker(row) in silent):
        return NOTHING
    return None


def channels_failed(infos: Iterable[Row]) -> dict[str, set[str | None]]:
    """By client, the brokers that named an error of their channel to it."""
    found: dict[str, set[str | None]] = {}
    for row in infos:
        if not row["answered"] and OF_CHANNEL in (row["error"] or ""):
            found.setdefault(row["client_id"], set()).add(_broker(row))
    return found


def _tells(error: str, code: int | None = None) -> bool:
    if error.startswith(UNREADABLE) or OF_CHANNEL in error:
        return False
    return code is not None or not any(name in error for name in _OWN_WAY)


def _is_lost(row: Row) -> bool:
    unread = (row["error"] or "").startswith(UNREADABLE)
    return not row["answered"] and row["error_code"] is None and not unread


def _broker(row: Row) -> str | None:
    return row["broker_name"] or None


def refused_by_proxy() -> pc.Expression:
    """Captures of what every broker answers, and a proxy supports none of."""
    is_asked_of_all = pc.field("kind").isin([INFO, STATS])
    return (pc.field("error_code") == NOT_SUPPORTED) & is_asked_of_all & pc.field("broker_name").is_null()


def refusals(captures: pa.Table) -> set[tuple[str, date]]:
    """Collectors and dates of a cluster on which a proxy was asked."""
    refused = captures.filter(refused_by_proxy())
    return set(zip(refused["collector"].to_pylist(), refused["event_date"].to_pylist(), strict=True))


class Reads(NamedTuple):
    """What the running infos of a round say.

    Attributes:
        reads: each that was asked for (``READ``); ``failure``: why one that did not come says nothing of its client.
        statuses: what became of the command that asks for all of them.
        subscribed: the topics that any capture names, each once.
        model: the message model that members tell.
        ordered: whether a member consumes in order; None: not read.
        offsets: each read of the group's offsets: broker asked, and the line.
        loses_answers: a broker that answered gave no answer to another question of the round.
        was_cut: the collector had no time to ask everything in this round.
    """

    reads: list[dict[str, Any]]
    statuses: list[dict[str, Any]]
    subscribed: tuple[str, ...]
    model: str | None
    ordered: bool | None
    offsets: Sequence[tuple[str | None, str]] = ()
    loses_answers: bool = False
    was_cut: bool = False


def reads_of(captures: Iterable[Row], *, was_cut: bool = False) -> Reads:
    """The reads of one round, in the captures' order; ``captures``: of the round and group, of kinds ``OF_GROUPS``."""
    rows = list(captures)
    infos = [row for row in rows if row["kind"] == INFO]
    silent, loses_answers = losses(row for row in rows if row["kind"] not in (INFO, STATUS))
    failed = channels_failed(infos)
    return Reads(
        reads=[
            {name: row[name] for name in READ}
            | {"failure": said_by_failure(row, silent, failed.get(row["client_id"], ()))}
            for row in infos
        ],
        statuses=[
            {name: row[name] for name in ("answered", "error", "error_code")} for row in rows if row["kind"] == STATUS
        ],
        subscribed=tuple(dict.fromkeys(s["topic"] for row in rows for s in row["subscriptions"] or ())),
        model=max((row["message_model"] for row in infos if row["message_model"] is not None), default=None),
        offsets=[(row["broker_name"], row["evidence"]) for row in rows if row["kind"] == STATS],
        was_cut=was_cut,
        ordered=max((row["consume_orderly"] for row in infos if row["consume_orderly"] is not None), default=None),
        loses_answers=loses_answers,
    )


def reads_again(reads: Reads, captures: Iterable[Row]) -> Reads:
    """The reads of a round that shows the same, in its own order; its own are instants, lines and brokers asked."""
    said = {read["client_id"]: read for read in reads.reads}
    infos = [row for row in captures if row["kind"] == INFO]
    own = [again(said[row["client_id"]], row) | {"broker_name": row["broker_name"]} for row in infos]
    return reads._replace(reads=own)


def broker_assigns(reads: Sequence[Row], model: str | None, ordered: bool | None) -> bool:
    """The broker assigns the queues: a member gave up its own rebalance, which ordered and broadcasting ones cannot.

    Source: RebalancePushImpl#clientRebalance, 5.0.0 on.
    """
    gave_up = any(read["client_rebalance"] is False or read["client_kind"] == "pop" for read in reads)
    return gave_up and not ordered and model != "BROADCASTING"


def printed_names(progress: pa.Table) -> set[tuple[str, str]]:
    """The names in doubt, each with its column."""
    if progress["doubts"].null_count == progress.num_rows:
        return set()
    rows = progress.filter(progress["doubts"].is_valid()).select([TOPIC, BROKER, "doubts"]).to_pylist()
    return {(column, row[column]) for row in rows for column, doubt in _DOUBTS.items() if doubt in row["doubts"]}


class KnownNames:
    """The names that a cluster's routes and subscriptions tell."""

    def __init__(self, named: Iterable[tuple[str, Any, str, str]]) -> None:
        """``named``: collector, round, column and name."""
        self._of_round: dict[tuple[str, Any, str], set[str]] = {}
        self._of_date: dict[tuple[Any, str], set[str]] = {}
        for collector, round_at, column, name in named:
            self._of_round.setdefault((collector, round_at, column), set()).add(name)
            self._of_date.setdefault((round_at.date(), column), set()).add(name)

    def with_whole_names(self, progress: pa.Table) -> pa.Table:
        """Rows of ``queue_progress`` with the topic and broker that ``whole_name`` tells.

        Known are the group's own retry topic, then what the round's routes and subscriptions name, then what those of
        the cluster's date do, whoever collected them. Rows without such a doubt stay as they are.
        """
        if not printed_names(progress):
            return progress
        rows = progress.to_pylist()
        for row in rows:
            for column in (column for column, doubt in _DOUBTS.items() if doubt in (row["doubts"] or ())):
                row[column] = self._whole(row, column)
        return pa.Table.from_pylist(rows, schema=progress.schema)

    def _whole(self, row: dict[str, Any], column: str) -> str:
        own = [f"%RETRY%{row['consumer_group']}"] if column == TOPIC else []
        of_round = self._of_round.get((row["collector"], row["round_at"], column), ())
        of_date = self._of_date.get((row["round_at"].date(), column), ())
        return whole_name(row[column], own, of_round, of_date)

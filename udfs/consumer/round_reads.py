"""Captures of one group's round in; every running info that was asked for, and what they say of the group, out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.consumer.failed_reads import channels_failed, losses, said_by_failure
from hindsight.udfs.consumer.listed_members import INFO, OF_MEMBERS, STATS, STATUS, Row, again

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
    lost, failed = losses(row for row in rows if row["kind"] not in (INFO, STATUS)), channels_failed(infos)
    return Reads(
        reads=[
            {name: row[name] for name in READ}
            | {"failure": said_by_failure(row, lost, failed.get(row["client_id"], ()))}
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
        loses_answers=lost.by_chance,
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

"""Running infos that did not come in; what each says of its client out: that it is silent, or nothing.

A client is unreachable when it answers through nobody. So nothing is said of it by an answer that cannot be read, by
one that the collector lost itself, by a question that was left out, and by a broker that at once names an error of its
channel to the client: it may be a connection that the client left long ago, while another broker reaches it.

Source: AdminBrokerProcessor#callConsumer, 4.0.0 to 5.5.0: code 207 where the client did not answer in time, else code 1
with ``invoke consumer <group> <client> Exception``, as soon as its channel fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.listed_members import INFO, STATS
from hindsight.udfs.limits.unread_answers import UNREADABLE

Row = Mapping[str, Any]

NOTHING = "nothing"  # it says nothing of the client
CHANNEL = "channel"  # the broker's channel to the client fails: nothing, until another broker was asked too
LEFT_OUT = "left_out"  # it was not asked, as it had not answered before
UNHEARD_MS = 120_000  # who gave no answer for so long is silent, though the collector loses answers

_NOT_ASKED, _AGAIN = "not asked: ", "did not answer before"
OF_CHANNEL = "invoke consumer <"
# What the collector met on its own way to a server.
_OWN_WAY = ("RemotingConnectException", "RemotingSendRequestException", "RemotingCommandException")


class Losses(NamedTuple):
    """What a round lost of what it asked brokers about the group, beside running infos.

    ``silent``: brokers that answered nothing; ``by_chance``: one that answered gave no answer to another question.
    """

    silent: frozenset[str | None]
    by_chance: bool


def losses(captures: Iterable[Row]) -> Losses:
    """``captures``: lists and offsets that were asked for, as rows of ``snapshot_capture``."""
    rows = list(captures)
    # A refusal has a code, and what cannot be read was an answer.
    came = {_broker(row) for row in rows if not _is_lost(row)}
    lost = {_broker(row) for row in rows if _is_lost(row)}
    return Losses(frozenset(lost - came), bool(lost & came))


def said_by_failure(row: Row, lost: Losses, failed_at: Collection[str | None]) -> str | None:
    """What a running info that did not come says of its client: None: it is silent; else why that is not said.

    ``failed_at``: the brokers whose channels to the client failed in this round.
    """
    if row["answered"]:
        return None
    error = row["error"] or ""
    if error.startswith(_NOT_ASKED):
        return LEFT_OUT if _AGAIN in error and _tells(error.partition("s: ")[2]) else NOTHING
    if OF_CHANNEL in error:
        return None if len(failed_at) > 1 else CHANNEL
    if not _tells(error, row["error_code"]) or (row["error_code"] is None and _broker(row) in lost.silent):
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


NEEDED = ("collector", "event_date", "kind", "error_code", "broker_name")
_NOT_SUPPORTED = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_EVERY_BROKER_ANSWERS = (INFO, STATS)


def refusals(captures: pa.Table) -> set[tuple[str, date]]:
    """Collectors and dates of a cluster on which a proxy was asked: it supports none of what every broker answers."""
    refused = captures.filter(
        (pc.field("error_code") == _NOT_SUPPORTED)
        & pc.field("kind").isin(list(_EVERY_BROKER_ANSWERS))
        & pc.field("broker_name").is_null()
    )
    return set(zip(refused["collector"].to_pylist(), refused["event_date"].to_pylist(), strict=True))

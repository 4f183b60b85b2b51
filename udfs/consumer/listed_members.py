"""Captures and heartbeats of one group's round in; who its members are, as each broker lists them, out.

A list that was asked of a named broker is that broker's view. One without a name is some broker's, drawn by lot from
those that a name server knows: it counts where no broker was asked by name, one for each name server. Clients
rebalance by what one broker answers, so views that differ are a fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hindsight.udfs.allocation import java_string_key

Row = Mapping[str, Any]

INFO, LISTING, ID_LIST = "consumerRunningInfo", "consumerConnection", "consumerIdList"
STATS = "consumeStats"
STATUS = "consumerStatus"  # the command that asks for running infos and prints none
OF_MEMBERS = (INFO, LISTING, ID_LIST)
_UNNAMED = ""
_NOT_ONLINE = 206  # ResponseCode.CONSUMER_NOT_ONLINE
_NO_CONSUMER = "no consumer for this group"  # ConsumerManageProcessor, with ResponseCode.SYSTEM_ERROR
_CONNECTION = ("client_id", "version", "language", "broker_name", "address", "kind")


class Listed(NamedTuple):
    """The member list of a round, duplicates kept as the broker gave them, and what its connections say.

    Attributes:
        listings: each place that was asked, its answer or error.
        broker_views: the members of each that told them, none where it knows of nobody (CODE 206).
        connections: of all of these, sorted.
        model: the message model that they tell.
        members: whoever is in a view, in RocketMQ's order; None where no place told.
        distinct_views: different lists among them.
    """

    listings: list[dict[str, Any]]
    broker_views: list[dict[str, Any]]
    connections: list[dict[str, Any]]
    model: str | None
    members: list[str] | None
    distinct_views: int


def listed_members(captures: Iterable[Row], heartbeats: Iterable[Row]) -> Listed | None:
    """The list of one round; None: nobody asked for one.

    Args:
        captures: of the round and group, of any kind; instants compare, ``evidence`` is the line of each.
        heartbeats: the connections that they list; one belongs to the capture of its broker and instant.
    """
    lists = [row for row in captures if row["kind"] in (LISTING, ID_LIST)]
    if not lists:
        return None
    connected: dict[tuple[str, Any], list[Row]] = {}
    for beat in heartbeats:
        connected.setdefault((beat["broker_name"] or _UNNAMED, beat["captured_at"]), []).append(beat)
    places: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in lists:
        broker = row["broker_name"] or _UNNAMED
        answer = _answer(row, broker, connected.get((broker, row["captured_at"])))
        places.setdefault(_place(row), []).append(answer)
    said = [_last(answers) for _, answers in sorted(places.items())]
    is_named = any(answer["place"] != _UNNAMED and answer["told"] for answer in said)
    asked = [answer for answer in said if not is_named or answer["place"] != _UNNAMED]
    told = [answer for answer in asked if answer["told"]]
    views = {tuple(answer["members"]) for answer in told}
    connections = [connection for answer in told for connection in answer["connections"] or ()]
    return Listed(
        listings=[
            {"broker_name": answer["place"] or None}
            | {n: answer[n] for n in ("name_server", "captured_at", "told", "error", "error_code", "evidence")}
            for answer in asked
        ],
        broker_views=[{"broker_name": answer["place"] or None, "members": answer["members"]} for answer in told],
        connections=sorted(connections, key=lambda c: [nulls_first(c[name]) for name in _CONNECTION]),
        model=min((answer["model"] for answer in told if answer["model"] is not None), default=None),
        members=_everybody(views) if told else None,
        distinct_views=len(views),
    )


def listed_again(listed: Listed, captures: Iterable[Row]) -> Listed:
    """The list of a round that shows the same: only instants and lines are its own."""
    lists = [row for row in captures if row["kind"] in (LISTING, ID_LIST)]
    own = {_place(row): row for row in sorted(lists, key=lambda row: (row["captured_at"], row["evidence"]))}
    return listed._replace(listings=[again(said, own[_place(said)]) for said in listed.listings])


def views_asked(broker_views: Iterable[Row], route_brokers: Collection[str] | None) -> list[tuple[str, ...]]:
    """The member lists of the brokers that a topic's clients may ask, each distinct one once: of its route, if known.

    A broker that knows of nobody has no list to share by: a client that asks it keeps what it has.
    """
    asked = (v for v in broker_views if route_brokers is None or v["broker_name"] in (None, *route_brokers))
    return sorted({tuple(view["members"]) for view in asked if view["members"]})


def _place(row: Row) -> tuple[str, str]:
    """Whose list a row is: a broker's, else that of whichever broker a name server gave."""
    broker = row["broker_name"] or _UNNAMED
    return broker, _UNNAMED if broker else row["name_server"] or _UNNAMED


def again(said: Row, row: Row) -> dict[str, Any]:
    """What was said once, with the instant and the line of another capture that says the same."""
    return {**said, "captured_at": row["captured_at"], "evidence": row["evidence"]}


def nulls_first(value: Any) -> tuple[bool, Any]:
    """What a value sorts by that may be None."""
    return value is not None, value


def _answer(row: Row, place: str, connected: Sequence[Row] | None) -> dict[str, Any]:
    is_listing = row["kind"] == LISTING
    nobody = row["error_code"] == _NOT_ONLINE if is_listing else _NO_CONSUMER in (row["error"] or "")
    ids = [beat["client_id"] for beat in connected or ()] if is_listing else row["member_ids"] or ()
    return {
        "place": place,
        "name_server": row["name_server"],
        "told": row["answered"] or nobody,
        "captured_at": row["captured_at"],
        "error": row["error"],
        "error_code": row["error_code"],
        "evidence": row["evidence"],
        "members": sorted(ids, key=java_string_key),
        "connections": None if connected is None else [_connection(beat) for beat in connected],
        "model": connected[0]["message_model"] if connected else None,
    }


def _connection(beat: Row) -> dict[str, Any]:
    return {
        "client_id": beat["client_id"],
        "version": beat["client_version"],
        "language": beat["language"] or "JAVA",
        "broker_name": beat["broker_name"],
        "address": beat["address"],
        "kind": beat["client_kind"],
    }


def _last(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a place said last; an answer counts before a failure.

    An id list names no addresses: those are of the last list of connections, whichever came later.
    """
    parts = ("told", "captured_at", "error", "error_code", "evidence", "members")
    last = max(answers, key=lambda answer: [nulls_first(answer[name]) for name in parts])
    connected = [answer for answer in answers if answer["connections"] is not None]
    if not connected:
        return last
    latest = max(connected, key=lambda answer: answer["captured_at"])
    return last | {"connections": latest["connections"], "model": latest["model"]}


def _everybody(views: Iterable[Sequence[str]]) -> list[str]:
    """Whoever is in a view; an id that one view holds twice is there twice."""
    most: Counter[str] = Counter()
    for view in views:
        most |= Counter(view)
    return sorted(most.elements(), key=java_string_key)

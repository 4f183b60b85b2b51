"""Walked processes and what brokers saw in, the members of each group out, and those of which no line tells a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event, clients_named
from hindsight.udfs.diagnosis.log_processes import STAMPS_ERR_MS, Process
from hindsight.udfs.diagnosis.logged_ownership import (
    NO_CLIENT_LOG,
    NO_RESULT,
    STOPPED,
    UNKNOWN,
    Consumes,
    Key,
    Ownership,
    ProcessWalk,
)


class Sign(NamedTuple):
    """A member that came (``joined``) or went, as a broker's log tells."""

    at: int
    consumer_group: str
    client_id: str
    joined: bool
    how: str
    broker_name: str


_SIGNS: Mapping[str, tuple[bool, str]] = {
    "consumer_connected": (True, "connected"),
    "consumer_unregistered": (False, "unregistered"),
    "consumer_channel_closed": (False, "channel closed"),
    "proxy_client_gone": (False, "forgotten by a proxy"),
}


def signs_of(memberships: Iterable[tuple[str, Event]]) -> list[Sign]:
    """Members that came and went, as brokers' logs tell."""
    return [
        Sign(event.at, event.row["client_group"], event.row["client_id"], *_SIGNS[event.kind], broker_name)
        for broker_name, event in memberships
        if event.kind in _SIGNS and event.row.get("client_group")
    ]


class Member(NamedTuple):
    """A client in a group. ``log`` None: none of its own logs is there; ``wrote``: first and last word of its process.

    ``signs``: when it came and went, as brokers' logs tell.
    """

    consumer_group: str
    client_id: str
    consume_type: str | None
    message_model: str | None
    client_version: str | None
    log: str | None
    pid: int | None
    wrote: tuple[int, int] | None
    started_at: int | None
    stopped_at: int | None
    signs: tuple[Sign, ...]

    def left_at(self) -> int | None:
        """When the last broker saw it go; None: one has not."""
        last = {sign.broker_name: sign for sign in self.signs}
        return None if any(sign.joined for sign in last.values()) else max(sign.at for sign in last.values())


def members_of(walks: list[ProcessWalk], consumes: Consumes, signs: list[Sign]) -> list[Member]:
    """Every client of a group that any line names, by group and client id."""
    pairs = {(group, client_id) for client_id, group in consumes}
    pairs |= {(sign.consumer_group, sign.client_id) for sign in signs}
    pairs |= {(key.consumer_group, key.client_id) for walk in walks for key in walk.said if key.client_id}
    home: dict[str, ProcessWalk] = {}
    for walk in walks:
        for client_id in clients_named(walk.process.events):
            home[client_id] = walk  # of several the last: the order is by log and process id
    return [_member(*pair, home.get(pair[1]), consumes, signs) for pair in sorted(pairs)]


class SameId(NamedTuple):
    """A client id that two processes had at once, epoch ms; ``processes``: log and process id of each.

    Brokers take them for one member: both get the same queues, and each message may be consumed twice.
    """

    client_id: str
    consumer_groups: tuple[str, ...]
    processes: tuple[tuple[str, int | None], ...]
    since: int
    until: int


def same_ids(walks: list[ProcessWalk]) -> list[SameId]:
    """Client ids that run in two processes at once, for longer than stamps may err."""
    runs: dict[str, list[tuple[int, int, ProcessWalk]]] = {}
    for walk in walks:
        for client_id in clients_named(walk.process.events):
            lives, stopped = walk.process.lives_of(client_id), walk.stopped.get(client_id)
            first = min(one.at for one in walk.process.events if one.row.get("client_id") == client_id)
            if lives:
                runs.setdefault(client_id, []).append((first, stopped or lives[-1].end, walk))
    found = []
    for client_id, of_client in sorted(runs.items()):
        for number, (since, until, walk) in enumerate(of_client):
            for began, ended, other in of_client[number + 1 :]:
                both = max(since, began), min(until, ended)
                if both[1] - both[0] > STAMPS_ERR_MS:
                    groups = {key.consumer_group for one in (walk, other) for key in one.said if key[2] == client_id}
                    named = tuple((one.process.log, one.process.pid) for one in (walk, other))
                    found.append(SameId(client_id, tuple(sorted(groups)), named, *both))
    return found


def _member(group: str, client_id: str, walk: ProcessWalk | None, consumes: Consumes, signs: list[Sign]) -> Member:
    consume_type, message_model = consumes.get((client_id, group), (None, None))
    own = tuple(sign for sign in signs if (sign.consumer_group, sign.client_id) == (group, client_id))
    if walk is None:
        return Member(group, client_id, consume_type, message_model, None, None, None, None, None, None, own)
    process, lives = walk.process, walk.process.lives_of(client_id)
    wrote = (lives[0].start, lives[-1].end) if lives else None
    return Member(
        group,
        client_id,
        consume_type,
        message_model,
        _version(process, client_id),
        process.log,
        process.pid,
        wrote,
        walk.created.get(client_id),
        _stopped_at(walk, group, client_id),
        own,
    )


def _stopped_at(walk: ProcessWalk, group: str, client_id: str) -> int | None:
    said = [all_said[-1] for key, all_said in walk.said.items() if (key[0], key[2]) == (group, client_id)]
    if said and all(one.state == STOPPED for one in said):
        return max(one.at for one in said)
    return walk.stopped.get(client_id)


def _version(process: Process, client_id: str) -> str | None:
    created = [one.row for one in process.events if one.kind == "client_created"]
    own = [row for row in created if row["client_id"] == client_id]
    return next((version for row in reversed(own or created) if (version := row.get("client_version"))), None)


def of_nothing_said(members: list[Member], known: list[Ownership]) -> list[Ownership]:
    """Members of which no line tells any queue."""
    told = {(one.key.consumer_group, one.key.client_id) for one in known}
    found = []
    for member in members:
        if (member.consumer_group, member.client_id) in told:
            continue
        since = min([sign.at for sign in member.signs] + ([member.wrote[0]] if member.wrote else []), default=None)
        if since is not None:
            key = Key(member.consumer_group, "", member.client_id)
            reason = NO_RESULT if member.log else NO_CLIENT_LOG
            until = member.stopped_at if member.log else member.left_at()
            found.append(Ownership(key, since, until, UNKNOWN, (), reason, member.log or "", member.pid))
    return found

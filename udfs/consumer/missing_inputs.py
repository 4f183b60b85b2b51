"""A topic of a group's round in; what was not asked for, and what was asked for and did not come, out, in words.

Nobody asked, a server refused, the answer could not be read, no answer came: each is said in words of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from hindsight.udfs.consumer.listed_members import Listed, Row
from hindsight.udfs.consumer.round_reads import Reads
from hindsight.udfs.consumer.topic_routes import TopicRoute
from hindsight.udfs.limits.unread_answers import UNREADABLE

_IGNORED = (
    "running infos: asked and ignored: consumerStatus -g prints no queues, the files that it writes into a folder do"
)


_CUT = "not asked for: the sweep was cut"


class Inputs(NamedTuple):
    """What there is of a topic of a group's round.

    Attributes:
        route: of the topic; None: it was not asked for in the round.
        is_route_collected: it was asked for on that date.
        listed: None: nobody asked who the members are.
    """

    topic: str
    route: TopicRoute | None
    is_route_collected: bool
    listed: Listed | None
    reads: Reads

    @property
    def members(self) -> Sequence[str]:
        """Listed ones."""
        return (self.listed.members if self.listed else None) or ()

    @property
    def model(self) -> str | None:
        """The message model: as the list tells it, else as members do."""
        told = self.listed.model if self.listed else None
        return self.reads.model if told is None else told


def not_asked(of: Inputs) -> list[str]:
    """Inputs that nobody asked for in this round: without them there is no verdict at all.

    A round that had to be cut was to have them: they are missing.
    """
    if of.reads.was_cut:
        return []
    missing = []
    if not of.is_route_collected:
        missing.append(f"topic_route of {of.topic}: not_collected")
    if _lacks_infos(of):
        missing.append("running infos: not asked for in this round")
    return missing


def unanswered(of: Inputs) -> list[str]:
    """Inputs that were due in this round and did not come."""
    return [*_lists(of), *_group_and_route(of), *_cut_off(of), *_running_infos(of.reads, of.members)]


def _lacks_infos(of: Inputs) -> bool:
    return bool(of.members) and not of.reads.reads and not of.reads.statuses


def _cut_off(of: Inputs) -> list[str]:
    if not of.reads.was_cut:
        return []
    missing = [] if of.is_route_collected else [f"topic_route of {of.topic}: {_CUT}"]
    return [*missing, f"running infos: {_CUT}"] if _lacks_infos(of) else missing


def _fate(row: Row) -> str:
    """What became of a read that was tried: refused by a server, answered so that it cannot be read, or no answer."""
    error: str | None = row["error"]
    if error is not None and error.startswith(UNREADABLE):
        return error
    return "no answer" if row["error_code"] is None else f"refused, CODE {row['error_code']}"


def _lists(of: Inputs) -> list[str]:
    if of.listed is None:
        return []
    failed = [
        f"consumer list{'' if place['broker_name'] is None else ' of ' + place['broker_name']}: {_fate(place)}"
        for place in of.listed.listings
        if not place["told"]
    ]
    named = [place["broker_name"] for place in of.listed.listings if place["broker_name"] is not None]
    brokers = (of.route.route_brokers if of.route else None) or ()
    unasked = [b for b in dict.fromkeys(brokers) if b not in named] if named else []
    return [*failed, *(f"consumer list of {broker}: not asked for" for broker in unasked)]


def _group_and_route(of: Inputs) -> list[str]:
    missing = []
    if of.listed is None:
        missing.append("consumer list: not asked for in this round")
    if of.is_route_collected and (of.route is None or of.route.queues is None):
        missing.append(f"topic_route of {of.topic}: {_fate_of_route(of.route)}")
    if of.route is not None and of.route.routes_differ:
        missing.append(f"topic_route of {of.topic}: the name servers differ")
    if of.model is None and of.members:
        missing.append("message model: not read")
    return missing


def _fate_of_route(route: TopicRoute | None) -> str:
    return "not read in this round" if route is None else _fate({"error": route.error, "error_code": route.error_code})


def _running_infos(told: Reads, members: Collection[str]) -> list[str]:
    missing = []
    if told.reads:
        asked = {read["client_id"] for read in told.reads}
        came = {read["client_id"] for read in told.reads if read["answered"]}
        failed = {r["client_id"]: r for r in told.reads if r["client_id"] not in came}
        missing += [f"running info of {client_id}: {_fate(read)}" for client_id, read in failed.items()]
        missing += [f"running info of {c}: not asked for" for c in dict.fromkeys(members) if c not in asked]
    missing += [f"running info of a member: {_fate(status)}" for status in told.statuses if not status["answered"]]
    if not told.reads and any(status["answered"] for status in told.statuses):
        missing.append(_IGNORED)
    return missing

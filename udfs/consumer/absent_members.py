"""Member lists drawn by lot, round by round, in; members that such a list lacks though they most likely live, out.

Who asks for a group's members without naming a broker is answered by one drawn by lot. Where the brokers' lists differ,
members seem to leave and to join from round to round. One that came back without a new start had never left: while a
list lacks it again it stays a member, one that was not asked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hindsight.udfs.allocation import sort_client_ids
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.values.kept_states import Kept

_EXPIRY_MS = 120_000  # after so long without a heartbeat a broker gives a member up: ClientManager#scanNotActiveChannel
_REMEMBERED_MS = 600_000  # that a member came back without a new start


class Absent(NamedTuple):
    """A member that the last lists lack: since when, its start, and whether it had not answered either."""

    since: int
    started: int | None
    was_silent: bool


@dataclass
class Absence(Kept):
    """The members that lists lack, and when one last came back as it was. Epoch milliseconds."""

    members: dict[str, Absent] = field(default_factory=dict)
    came_back: dict[str, int] = field(default_factory=dict)

    def take(
        self,
        group: GroupRound,
        members: Iterable[str],
        starts: Mapping[str, int],
        silent: Container[str],
        timing: Timing,
    ) -> GroupRound:
        """The round with the members that its list lacks by lot.

        ``members``, ``starts``, ``silent``: of the round before, as memory has them. That a silent one is no longer
        listed is what was to come: the broker heard nothing of it either.
        """
        if not group.is_drawn_by_lot:
            if group.listed:
                self.members, self.came_back = {}, {}
            return group
        listed = set(group.members)
        self.forget(group.at)
        returned = frozenset(c for c in listed & self.members.keys() if self._is_as_it_was(c, group))
        self.came_back |= dict.fromkeys(returned, group.at)
        lacking = {*members, *self.members} - listed
        absent = {c: self.members.get(c) or Absent(group.at, starts.get(c), c in silent) for c in lacking}
        self.members = {c: one for c, one in absent.items() if group.at - one.since < _EXPIRY_MS}
        doubted = self.members.keys() & self.came_back.keys()
        lately = group.at - timing.membership_grace_s * 1000
        missed = [
            c for c, one in self.members.items() if c not in doubted and not one.was_silent and one.since > lately
        ]
        if not (doubted or missed or returned):
            return group
        return replace(
            group,
            members=tuple(sort_client_ids((*group.members, *doubted))) if doubted else group.members,
            doubted=tuple(sort_client_ids(doubted)),
            missed=tuple(sorted(missed)),
            returned=returned,
        )

    def forget(self, now: int) -> None:
        """Let go of what is not remembered any more."""
        self.came_back = {c: at for c, at in self.came_back.items() if now - at < _REMEMBERED_MS}

    def _is_as_it_was(self, client_id: str, group: GroupRound) -> bool:
        """It did not start anew, as far as it says."""
        started, read = self.members[client_id].started, group.reads.get(client_id)
        now = read.started_at if read is not None else None
        return started is None or now is None or started == now

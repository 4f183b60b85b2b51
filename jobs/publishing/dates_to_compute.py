"""Tells which dates a run computes, and in which order; what they are computed from it does not know.

A date is computed anew when the files that touch it, the settings or the columns of the tables have changed, when the
state that the date before it hands over is no longer the one it began with, or when a row of it waited for the record
of a later date that is there now. So the recomputation goes forward until a date closes as it did before. A run that
was asked for dates computes these, changed or not, after what has changed of earlier ones, whose state they begin with;
later dates it leaves to a run that was not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication_record import Computed
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange

NOTHING = "nothing"  # in the place of a digest: there are no files, there is no date before
EMPTY = "empty"  # the same: the date hands nothing on


class NextDates(NamedTuple):
    """Dates to compute at once, of each cluster adjacent known ones; the known date before and after those."""

    dates: list[ClusterDate]
    previous: dict[str, date]
    following: dict[str, date]


@dataclass
class Progress:
    """Of each date: a digest of the files and settings it rests on, its last computation, and that of this run."""

    files: dict[ClusterDate, str]
    stored: dict[ClusterDate, Computed]
    asked: DateRange
    computed: dict[ClusterDate, Computed] = field(default_factory=dict)

    def known(self, cluster: str) -> list[date]:
        """Dates with files or rows. One that lost both hands nothing on: it counts no more."""
        every = {*self.files, *self.stored, *self.computed}
        return sorted(d.event_date for d in every if d.cluster == cluster and not self._is_void(d))

    def _is_void(self, at: ClusterDate) -> bool:
        last = self.computed.get(at) or self.stored.get(at)
        return at not in self.files and last is not None and last.closing == EMPTY

    def clusters(self) -> list[str]:
        """All of which a date is known."""
        return sorted({d.cluster for d in (*self.files, *self.stored)})

    def last_recorded(self) -> dict[str, date]:
        """Each cluster's last date with files."""
        return {c: max(d.event_date for d in self.files if d.cluster == c) for c in {d.cluster for d in self.files}}

    def closing(self, cluster: str, day: date | None) -> str:
        """A digest of the state that a date hands to the next one."""
        if day is None:
            return NOTHING
        at = ClusterDate(cluster, day)
        last = self.computed.get(at) or self.stored.get(at)
        return last.closing if last else NOTHING

    def computed_by(self) -> dict[ClusterDate, int]:
        """The publications in which dates were computed last, of those that still begin as they did then."""
        found = {}
        for cluster in self.clusters():
            previous: date | None = None
            for day in self.known(cluster):
                stored = self.stored.get(ClusterDate(cluster, day))
                if stored is not None and stored.opening == self.closing(cluster, previous):
                    found[ClusterDate(cluster, day)] = stored.number
                previous = day
        return found

    def remember(
        self, dates: Iterable[ClusterDate], closing: Mapping[ClusterDate, str], waiting: Collection[ClusterDate]
    ) -> None:
        """Note of dates that were computed with which state each began, and with which it closed.

        ``closing``: a digest of the state that a date hands on; ``waiting``: those that a later record may change.
        """
        ordered = sorted(dates)
        known = {cluster: self.known(cluster) for cluster in {at.cluster for at in ordered}}
        for at in ordered:
            days = known[at.cluster]
            position = bisect_left(days, at.event_date)
            opening = self.closing(at.cluster, days[position - 1] if position else None)
            closed = closing.get(at, EMPTY)
            self.computed[at] = Computed(self.files.get(at, NOTHING), opening, closed, at in waiting)
            # A date that hands nothing on may count no more, one that had no rows may count now.
            counted = days[position : position + 1] == [at.event_date]
            days[position : position + counted] = [] if self._is_void(at) else [at.event_date]

    def left(self) -> int:
        """How many dates wait for a run that is not asked for earlier ones."""
        unasked = replace(self, asked=EVERY_DATE)
        known = {cluster: self.known(cluster) for cluster in self.clusters()}
        return sum(_is_dirty(unasked, cluster, days, i) for cluster, days in known.items() for i in range(len(days)))


def next_dates(progress: Progress) -> NextDates | None:
    """Of each cluster, the first dirty date and the dirty dates right after it."""
    dates: list[ClusterDate] = []
    previous, following = {}, {}
    for cluster in progress.clusters():
        known = progress.known(cluster)
        first = next((i for i, day in enumerate(known) if _is_dirty(progress, cluster, known, i)), None)
        if first is None:
            continue
        last = first
        while last + 1 < len(known) and _is_to_be_computed(progress, ClusterDate(cluster, known[last + 1])):
            last += 1
        dates += [ClusterDate(cluster, day) for day in known[first : last + 1]]
        if first > 0:
            previous[cluster] = known[first - 1]
        if last + 1 < len(known):
            following[cluster] = known[last + 1]
    if not dates:
        return None
    return NextDates(dates, previous, following)


def _is_dirty(progress: Progress, cluster: str, known: list[date], i: int) -> bool:
    at = ClusterDate(cluster, known[i])
    if at in progress.computed or progress.asked.ends_before(at.event_date):
        return False
    if _is_to_be_computed(progress, at):
        return True
    return progress.stored[at].opening != progress.closing(cluster, known[i - 1] if i else None)


def _is_to_be_computed(progress: Progress, at: ClusterDate) -> bool:
    """Asked for, other files or settings than at its last computation, or the later record that a row waited for."""
    if at in progress.computed or progress.asked.ends_before(at.event_date):
        return False
    if progress.asked.is_given and at.event_date in progress.asked:
        return True
    stored = progress.stored.get(at)
    if stored is None or stored.files != progress.files.get(at, NOTHING):
        return True
    return stored.is_open and at.event_date < progress.last_recorded().get(at.cluster, at.event_date)

"""A lake's ledger and publications in; what a job knows of a cluster's dates when it computes some of them, out."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, NamedTuple

from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.dates_to_compute import EMPTY
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.publishing.publication_record import computed_before
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import CLIENT_EVENT, INGESTED_FILE, TOPIC_ROUTE
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of

_JOBS = {"consumer": "flag_allocation_drift", "producer": "rebuild_availability"}


class KnownDates(NamedTuple):
    """Dates of one cluster; ``formats``: of all files that bear on any date of the lake."""

    dates: list[date]
    previous: date | None
    following: date | None
    last_recorded: date
    recorded: list[date]
    formats: list[str]

    def stretch(self, lake: LocalLake, context: RunContext, cluster: str) -> Stretch[Any]:
        """The dates as a job computes them at once."""
        return Stretch(
            lake,
            context,
            [ClusterDate(cluster, day) for day in self.dates],
            {} if self.previous is None else {cluster: self.previous},
            {} if self.following is None else {cluster: self.following},
            {cluster: self.last_recorded},
            frozenset(ClusterDate(cluster, day) for day in self.recorded),
            frozenset(),
            frozenset(self.formats),
        )


Side = Literal["producer", "consumer"]


def known_dates(lake: LocalLake, side: Side, cluster: str, first: date, last: date) -> KnownDates:
    """What is known of a cluster from ``first`` to ``last``; ``side``: ``consumer`` or ``producer``."""
    own = frozenset(formats_of(side))
    beside = (n for n, f in FORMATS.items() if {TOPIC_ROUTE.name, CLIENT_EVENT.name} & {*f.tables})
    bearing = own if side == "consumer" else own.union(beside)
    files = lake.rows(INGESTED_FILE, ["cluster", "format", "event_dates"], Where(values={"format": sorted(bearing)}))
    touching: dict[ClusterDate, set[str]] = {}
    for file in files.to_pylist():
        for day in file["event_dates"]:
            touching.setdefault(ClusterDate(file["cluster"], day), set()).add(file["format"])
    with_files = {at: formats for at, formats in touching.items() if formats & own}
    stored, _ = computed_before(lake, _JOBS[side])
    handing_on = {at for at, computed in stored.items() if computed.closing != EMPTY}
    known = sorted(at.event_date for at in {*with_files, *handing_on} if at.cluster == cluster)
    recorded = sorted(at.event_date for at in with_files if at.cluster == cluster)
    return KnownDates(
        [day for day in known if first <= day <= last],
        max((day for day in known if day < first), default=None),
        min((day for day in known if day > last), default=None),
        max(recorded, default=last),
        recorded,
        sorted({name for formats in with_files.values() for name in formats}),
    )

"""Where the walk of a date of producers goes on: what is kept of their buckets, and which are apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.runner import Blob, Blobs
from hindsight.jobs.lake.cluster_dates import Addresses, ClusterDate, midnight_of
from hindsight.jobs.producers.producer_buckets import (
    APART,
    FOLDS,
    KEPT_FOLDS,
    KEPT_SENDS,
    SENDS,
    WATCHED,
    WEIGHED,
    WENT_ON,
    day_at,
)
from hindsight.jobs.publishing.kept_walks import Cut, Kept, KeptWalks, Start, cuts_of, midnight_us
from hindsight.schemas import CLIENT_EVENT, SEND_ATTEMPT
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.values.columns import DAY_MS, near


class Buckets(NamedTuple):
    """How many there are of a cluster's producers, the last one of those ``apart``, told by their whole date."""

    number: int
    apart: frozenset[Producer]

    def listed(self) -> dict[str, Any]:
        """As a list of what is kept says it."""
        return {"buckets": self.number, "apart": sorted(self.apart)}


class ProducerWalks(KeptWalks):
    """The walks of producers. What is new beside attempts, the fold itself finds (``Belief``)."""

    def __init__(self, watched_ms: int) -> None:
        """``watched_ms``: see there."""
        super().__init__("_producer_walks", [SEND_ATTEMPT])
        self._watched_us = watched_ms * 1000

    def seen_of(self, listed: Mapping[str, Any]) -> Buckets:
        """The buckets."""
        return Buckets(listed["buckets"], frozenset((group, client) for group, client in listed["apart"]))

    def may_go_on(self, lake: Any, day: date) -> bool:
        """Clients' logs confirm windows of a whole date."""
        return not lake.files(CLIENT_EVENT, near([day]))

    def window_us(self, cut: Cut) -> int:
        """Attempts are read again while brokers are watched."""
        return self._watched_us


@dataclass(frozen=True)
class Going:
    """Which walks of a run go on.

    Attributes:
        starts: by cluster, of its first date.
        whole: keys of buckets that are folded whole.
        keeps: states are kept.
    """

    starts: Mapping[str, Start] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    keeps: bool = False

    def apart(self) -> dict[str, frozenset[Producer]]:
        """The producers told by their whole date, by cluster."""
        return {cluster: start.seen.apart for cluster, start in self.starts.items()}

    def states(self, addresses: Addresses) -> dict[int, Mapping[str, Any]]:
        """What was kept of the buckets that go on, by key."""
        since = self.since(addresses)
        return {key: row for key, row in self._stored(addresses).items() if key in since}

    def since(self, addresses: Addresses) -> dict[int, tuple[int, int]]:
        """By key of a bucket that goes on, its date's midnight, and from when on its attempts are read.

        Of a bucket that had no producers nothing was kept, and there is nothing else to read.
        """
        stored, found = self._stored(addresses), {}
        for cluster, start in self.starts.items():
            midnight_ms = midnight_of(start.at.event_date)
            for key in addresses.keys(cluster)[:-1]:
                if key not in self.whole and (key not in stored or stored[key]["state"] is not None):
                    found[key] = midnight_ms, start.since_us // 1000 - midnight_ms
        return found

    def _stored(self, addresses: Addresses) -> dict[int, Mapping[str, Any]]:
        return {
            addresses.key(cluster, row["key"]): row
            for cluster, start in self.starts.items()
            for row in start.states.to_pylist()
        }

    def blobs(self, addresses: Addresses) -> Iterator[Blob]:
        """What was kept of them, for their folds."""
        going_on = self.since(addresses)
        for key, row in self._stored(addresses).items():
            cluster, state = addresses.cluster_of(key), pa.table({"state": pa.array([row["state"]], pa.large_binary())})
            midnight_ms = midnight_of(self.starts[cluster].at.event_date)
            if key in going_on:
                yield Blob(WENT_ON, key, midnight_ms, state)
                told = self.starts[cluster].told
                yield Blob(WATCHED, key, midnight_ms, told.filter(pc.equal(told["key"], row["key"])).select(["state"]))
            elif key == addresses.keys(cluster)[-1] and row["state"] is not None:
                yield Blob(WEIGHED, key, midnight_ms, state)


def keep_at(
    lasts: Iterable[pa.Table], dates: Mapping[str, Sequence[int]], starts: Mapping[str, Start]
) -> dict[ClusterDate, list[int]]:
    """At which instants, ms of the date, folds are kept: of the last two recorded ``dates`` (midnights) of clusters."""
    first: dict[ClusterDate, int] = {}
    last: dict[ClusterDate, dict[Producer, int]] = defaultdict(dict)
    for row in (row for table in lasts for row in table.to_pylist()):
        at = ClusterDate(row["cluster"], day_at(row["midnight_ms"]))
        who = row["producer_group"], row["client_id"]
        first[at] = min(first.get(at, row["first_ms"]), row["first_ms"])
        last[at][who] = max(last[at].get(who, 0), row["last_ms"])
    found = {}
    for at, of_date in last.items():
        if midnight_of(at.event_date) >= max(dates[at.cluster]) - DAY_MS:
            midnight, start = midnight_us(at.event_date), starts.get(at.cluster)
            from_us = start.cut.until_us if start and start.at == at else 0
            first_us, *last_us = (midnight + ms * 1000 for ms in (first[at], *of_date.values()))
            cuts = cuts_of(at.event_date, first_us, last_us, from_us)
            found[at] = [(cut - midnight) // 1000 for cut in cuts]
    return found


def keep(walks: ProducerWalks, dates: Iterable[ClusterDate], going: Going, addresses: Addresses, made: Blobs) -> None:
    """Note what is kept of each date once it is published.

    A run that ends at no new cut leaves those before as they are, unless it folded a bucket whole.
    """
    folds, sends = (
        pa.concat_tables([schema.empty_table(), *made.tables(name)])
        for name, schema in ((KEPT_FOLDS, FOLDS), (KEPT_SENDS, SENDS))
    )
    apart = [row for table in made.tables(APART) for row in table.to_pylist()]
    for at in dates:
        start = going.starts.get(at.cluster)
        start = start if start is not None and start.at == at else None
        if start is not None:
            walks.starts[at] = start
        own_folds, own_sends = (_of(rows, at, addresses) for rows in (folds, sends))
        stays = start is not None and not own_folds.num_rows and going.whole.isdisjoint(addresses.keys(at.cluster))
        if own_folds.num_rows or stays:
            own = {(row["producer_group"], row["client_id"]) for row in apart if row["cluster"] == at.cluster}
            own |= going.apart().get(at.cluster, frozenset())
            walks.kept[at] = Kept(
                Buckets(addresses.buckets, frozenset(own)),
                start.earlier if start else (),
                start.told if start and stays else own_sends,
                own_folds,
            )


def _of(rows: pa.Table, at: ClusterDate, addresses: Addresses) -> pa.Table:
    """The rows of a date, each with its bucket as key."""
    day = pa.scalar(at.event_date, pa.date32())
    own = rows.filter(pc.and_(pc.equal(rows["cluster"], at.cluster), pc.equal(rows["event_date"], day)))
    first = addresses.key(at.cluster, 0)
    return own.set_column(own.schema.get_field_index("key"), "key", pc.subtract(own["key"], first))

"""Where the walk of groups goes on, beside what holds for every walk (``jobs/publishing/kept_walks.py``).

Kept in ``<lake>/_walks``: the states of groups, and what captures of the date have shown so far.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.walk_cuts import NOT_KEPT, STATES, TOLD, UNCOLLECTED
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.kept_walks import Cut, Kept, KeptWalks, Start
from hindsight.schemas import CLIENT_EVENT, CLIENT_HEARTBEAT, MEMBERSHIP_EVENT, REBALANCE_RESULT, Table
from hindsight.udfs.consumer.rows_of_rounds import near

FOLDER = "_walks"
OF_LOGS = (REBALANCE_RESULT, CLIENT_EVENT, CLIENT_HEARTBEAT, MEMBERSHIP_EVENT)
_EPOCH = date(1970, 1, 1)


class Seen(NamedTuple):
    """What a date's captures show that holds for all of its rounds."""

    routes: frozenset[tuple[str, str]] = frozenset()  # collectors, and topics of which they asked for a route
    proxies: frozenset[str] = frozenset()  # collectors that asked a proxy
    sources: frozenset[str] = frozenset()
    by_address: bool = False  # a broker is named by its address

    def listed(self) -> dict[str, Any]:
        """As a list of what is kept says it; never by an address."""
        return {name: sorted(getattr(self, name)) for name in ("routes", "proxies", "sources")}

    @classmethod
    def of_list(cls, listed: Mapping[str, Any]) -> Seen:
        """And back."""
        routes = frozenset((collector, topic) for collector, topic in listed["routes"])
        return cls(routes, frozenset(listed["proxies"]), frozenset(listed["sources"]))

    def both(self, other: Seen) -> Seen:
        """What this and another show."""
        routes, proxies = self.routes | other.routes, self.proxies | other.proxies
        return Seen(routes, proxies, self.sources | other.sources, self.by_address or other.by_address)


NOTHING_SEEN = Seen()


class Walks(KeptWalks):
    """The walks of groups."""

    def __init__(self, inputs: Sequence[Table], lookback_s: int, valid_s: int) -> None:
        """``lookback_s``, ``valid_s``: how far rounds look back on others, and on readings."""
        super().__init__(FOLDER, inputs)
        self._lookback_s, self._valid_s = lookback_s, valid_s

    def seen_of(self, listed: Mapping[str, Any]) -> Seen:
        """What captures of the date have shown."""
        return Seen.of_list(listed)

    def may_go_on(self, lake: Any, day: date) -> bool:
        """Logs tell of a whole date."""
        return not has_logs(lake, day)

    def told_until(self, told: pa.Table, cut: Cut) -> pa.Table:
        """What comes again after the cut is left out."""
        return told.filter(pc.less_equal(told["until_us"], cut.until_us))

    def window_us(self, cut: Cut) -> int:
        """Other rounds are looked back on, and readings."""
        return max(self._lookback_s, self._valid_s + cut.longest_us // 1_000_000 + 1) * 1_000_000


def has_logs(lake: Any, day: date) -> bool:
    """Whether logs or heartbeats were taken in of a date or of one beside it."""
    return any(lake.files(table, near([day])) for table in OF_LOGS)


def is_otherwise(start: Start, seen: Seen) -> bool:
    """Whether what the rows of this run show changes what was said of the date's earlier rounds."""
    missed = start.told.filter(pc.equal(start.told["kind"], UNCOLLECTED))
    topics = (json.loads(value) for value in missed["value"].to_pylist())
    asked = set(zip(missed["collector"].to_pylist(), topics, strict=True))
    return bool(asked & (seen.routes - start.seen.routes)) or not seen.proxies <= start.seen.proxies


def kept_of(
    at: ClusterDate, start: Start | None, seen: Seen, states: Sequence[pa.Table], told: Sequence[pa.Table]
) -> Kept | None:
    """What is kept of a date; None: nothing may be. A run that ends at no new cut leaves those before as they are."""
    day = pa.scalar(at.event_date, pa.date32())
    own_states, own_told = (
        pa.concat_tables([schema.empty_table(), *tables]).filter(pc.equal(pc.field("event_date"), day))
        for schema, tables in ((STATES, states), (TOLD, told))
    )
    if pc.any(pc.equal(own_told["kind"], NOT_KEPT)).as_py():
        return None
    if start is None or start.at != at:
        return Kept(seen, (), own_told, own_states) if own_states.num_rows else None
    return Kept(start.seen.both(seen), start.earlier, _told_once(pa.concat_tables([start.told, own_told])), own_states)


def _told_once(told: pa.Table) -> pa.Table:
    """The same; of topics that a collector asked no route of the first time alone, as each round tells of them."""
    is_missed = pc.equal(told["kind"], UNCOLLECTED)
    missed, names = told.filter(is_missed), [name for name in told.column_names if name != "until_us"]
    first = missed.group_by(names).aggregate([("until_us", "min")]).rename_columns([*names, "until_us"])
    return pa.concat_tables([told.filter(pc.invert(is_missed)), first.select(told.column_names).cast(told.schema)])


def seen_of(rows: Iterable[pa.Table], asked: Iterable[tuple[str, str, str]]) -> dict[ClusterDate, Seen]:
    """What captures show of each date (``SEEN_SCHEMA``); and clusters, collectors and dates of which one asked a
    proxy."""
    found: dict[ClusterDate, tuple[set[Any], ...]] = defaultdict(lambda: (set(), set(), set(), set()))
    for row in (row for table in rows for row in table.to_pylist()):
        routes, _, sources, by_address = found[ClusterDate(row["cluster"], _EPOCH + timedelta(days=row["day"]))]
        sources.add(row["source"])
        by_address.add(row["by_address"])
        if row["topic"] is not None:
            routes.add((row["collector"], row["topic"]))
    for cluster, collector, day in asked:
        found[ClusterDate(cluster, date.fromisoformat(day))][1].add(collector)
    return {
        at: Seen(frozenset(routes), frozenset(proxies), frozenset(sources), True in by_address)
        for at, (routes, proxies, sources, by_address) in found.items()
    }


def last_rounds(rows: Iterable[pa.Table]) -> dict[ClusterDate, dict[str, int]]:
    """By date the last round of each collector, epoch us."""
    last: dict[ClusterDate, dict[str, int]] = defaultdict(dict)
    for row in (row for table in rows for row in table.to_pylist()):
        of_date = last[ClusterDate(row["cluster"], _EPOCH + timedelta(days=row["day"]))]
        of_date[row["collector"]] = max(row["round_us"], of_date.get(row["collector"], 0))
    return last

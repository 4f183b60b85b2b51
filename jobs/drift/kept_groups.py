"""Where the walk of groups goes on, beside what holds for every walk (``jobs/publishing/kept_walks.py``).

Two things are kept at a cut, in ``<lake>/_walks``: of each group the state of its walk (``STATES``), and what the date
has told so far that later rounds may need, or that is written again as a whole when the date closes (``TOLD``, by the
cut that came next). Beside these stands what captures of the date have shown so far (``Seen``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import END_SCHEMA, OF_LOGS
from hindsight.jobs.engines.runner import Given
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.kept_walks import Cut, Kept, KeptWalks, Start
from hindsight.schemas import Table
from hindsight.udfs.consumer.member_rules import Sighting
from hindsight.udfs.consumer.topic_facts import Expected
from hindsight.udfs.groups.group_fold import GroupFold
from hindsight.udfs.rebalances.round_shares import ShareRound
from hindsight.udfs.servers.server_fold import ServerFold
from hindsight.udfs.values.columns import EPOCH, near
from hindsight.udfs.values.kept_states import form_of

FOLDER = "_walks"
KEPT_STATES, KEPT_TOLD = "kept states", "told so far"
_CUT = [("cluster", pa.string()), ("event_date", pa.date32()), ("until_us", pa.int64())]
_WHOSE = [("collector", pa.string()), ("consumer_group", pa.string())]
STATES = pa.schema([*_CUT, ("read_until_us", pa.int64()), ("longest_us", pa.int64()), *_WHOSE, ("state", pa.string())])
TOLD = pa.schema([*_CUT, ("kind", pa.string()), *_WHOSE, ("value", pa.string())])
SHARE, EXPECTED, CHANGE, SHOWN_BY, UNCOLLECTED, END_OF_QUEUE, NOT_KEPT = (
    "share", "expected", "change", "shown", "uncollected", "end", "not kept",
)  # fmt: skip
_US = timedelta(microseconds=1)
Group = tuple[str, str]  # consumer group, collector


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
        routes, _, sources, by_address = found[ClusterDate(row["cluster"], EPOCH.date() + timedelta(days=row["day"]))]
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


def ends_of_rounds(rows: Iterable[pa.Table]) -> dict[ClusterDate, tuple[int, dict[str, int]]]:
    """By date its first round, and the last one of each collector, epoch us."""
    found: dict[ClusterDate, tuple[int, dict[str, int]]] = {}
    for row in (row for table in rows for row in table.to_pylist()):
        at = ClusterDate(row["cluster"], EPOCH.date() + timedelta(days=row["day"]))
        first, last = found.get(at, (row["first_us"], {}))
        last[row["collector"]] = max(row["round_us"], last.get(row["collector"], 0))
        found[at] = min(first, row["first_us"]), last
    return found


class Cuts(NamedTuple):
    """Where the walks of a cluster's groups are cut.

    Attributes:
        from_us: the instant from which rounds of the first date are judged, epoch us; 0: all of them.
        at: by date, the instants at which states are kept.
        collected: topics, collectors and days since 1970 of route reads that are not among the rows.
    """

    from_us: int = 0
    at: Mapping[date, Sequence[int]] = {}
    collected: Sequence[tuple[str, str, int]] = ()


NO_CUTS = Cuts()


class KeptSoFar:
    """What was kept of a bucket's groups where this run goes on."""

    def __init__(self, given: Given) -> None:
        self.states: dict[Group, str] = {}
        for rows in given.tables(KEPT_STATES):
            columns = (rows[name].to_pylist() for name in ("consumer_group", "collector", "state"))
            self.states |= {(group, collector): state for group, collector, state in zip(*columns, strict=True)}
        self._told: dict[str, list[tuple[str, str, Any]]] = defaultdict(list)
        for rows in given.tables(KEPT_TOLD):
            columns = (rows[name].to_pylist() for name in ("kind", "consumer_group", "collector", "value"))
            for kind, group, collector, value in zip(*columns, strict=True):
                self._told[kind].append((group, collector, json.loads(value)))

    def shares(self) -> dict[Group, list[ShareRound]]:
        """The rounds of the date that showed something else than the one before."""
        found: dict[Group, list[ShareRound]] = defaultdict(list)
        for group, collector, value in self._told[SHARE]:
            found[group, collector].append(form_of(ShareRound).read(value))
        return found

    def sightings(self) -> list[dict[str, Any]]:
        """When clients showed their strategies, as rows ``SHOWN``; instants epoch us."""
        names = ("client_id", "source", "strategy", "at")
        return [
            {"consumer_group": group, **dict(zip(names, value, strict=True))}
            for group, _, value in self._told[SHOWN_BY]
        ]

    def expected(self) -> set[tuple[Any, ...]]:
        """Groups and names of the date's expectations."""
        return {(group, *value) for group, _, value in self._told[EXPECTED]}

    def changes(self) -> set[tuple[Any, ...]]:
        """Groups, collectors and keys of the date's membership changes; instants epoch us."""
        return {(group, collector, *value) for group, collector, value in self._told[CHANGE]}


class CutRows:
    """What is kept at the cuts of a bucket's walk, one after the other."""

    def __init__(
        self,
        cluster: str,
        folds: Sequence[GroupFold | ServerFold],
        sightings: Mapping[str, Sequence[Sighting]],
        ends: pa.Table,
        from_us: int,
        lookback_s: int,
        shares: Mapping[Group, int],
    ) -> None:
        """``ends``: what was told of queues' ends, as far as it was new, also ``lookback_s`` before a date;
        ``from_us``: what is earlier was kept, of each group's shares so many."""
        self._cluster, self._folds, self._sightings, self._ends = cluster, folds, sightings, ends
        self._last_us, self._ends_us, self._lookback_us = from_us, from_us, lookback_s * 1_000_000
        self._shares: dict[Group, int] = defaultdict(int, shares)
        self._expected: set[tuple[str, tuple[Any, ...]]] = set()
        self._uncollected: set[tuple[str, str, str]] = set()

    def at(
        self,
        day: date,
        cut_us: int,
        shares: Mapping[Group, Sequence[ShareRound]],
        expected: Iterable[tuple[str, Expected]],
        changes: list[tuple[Group, tuple[Any, ...]]],
    ) -> Iterator[tuple[str, pa.Table]]:
        """Rows ``STATES`` and ``TOLD`` of a cut; what the date has made so far is given. ``changes`` is emptied."""
        place = {"cluster": self._cluster, "event_date": day, "until_us": cut_us}
        states = [
            place
            | {"read_until_us": fold.read_until, "longest_us": fold.longest, "collector": fold.key[1]}
            | {"consumer_group": fold.key[2], "state": fold.state()}
            for fold in self._folds
        ]
        yield KEPT_STATES, pa.Table.from_pylist(states, STATES)
        told = [
            *self._new_shares(shares),
            *self._new_expectations(expected),
            *((CHANGE, of, list(key)) for of, key in changes),
            *self._new_sightings(cut_us),
            *self._new_ends(cut_us),
            *self._of_folds(),
        ]
        changes.clear()
        rows = [
            place | {"kind": kind, "consumer_group": group, "collector": collector, "value": _text(value)}
            for kind, (group, collector), value in told
        ]
        yield KEPT_TOLD, pa.Table.from_pylist(rows, TOLD)
        self._last_us = self._ends_us = cut_us

    def close_date(self, midnight_us: int) -> None:
        """The next date begins."""
        self._ends_us = midnight_us - self._lookback_us
        self._shares.clear()
        self._expected.clear()
        self._uncollected.clear()

    def _new_shares(self, shares: Mapping[Group, Sequence[ShareRound]]) -> Iterator[tuple[str, Group, Any]]:
        for of, rounds in shares.items():
            yield from ((SHARE, of, form_of(ShareRound).write(one)) for one in rounds[self._shares[of] :])
            self._shares[of] = len(rounds)

    def _new_expectations(self, expected: Iterable[tuple[str, Expected]]) -> Iterator[tuple[str, Group, Any]]:
        for group, one in expected:
            name = tuple(one.key.values())
            if (group, name) not in self._expected:
                self._expected.add((group, name))
                yield EXPECTED, (group, ""), list(name)

    def _new_sightings(self, cut_us: int) -> Iterator[tuple[str, Group, Any]]:
        for group, sightings in self._sightings.items():
            for one in sightings:
                if self._last_us <= one.at < cut_us:
                    yield SHOWN_BY, (group, ""), [one.client_id, one.source, one.strategy, one.at]

    def _new_ends(self, cut_us: int) -> Iterator[tuple[str, Group, Any]]:
        at = self._ends["captured_at"].cast(pa.int64())
        wanted = [self._ends_us <= one < cut_us for one in at.to_pylist()]
        rows = self._ends.filter(pa.array(wanted, pa.bool_()))
        plain = pa.table(
            [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns], rows.column_names
        )
        yield from ((END_OF_QUEUE, ("", ""), list(row.values())) for row in plain.to_pylist())

    def _of_folds(self) -> Iterator[tuple[str, Group, Any]]:
        for fold in self._folds:
            _, collector, group = fold.key
            if fold.is_assigned:
                yield NOT_KEPT, (group, collector), "brokers assign"
            for topic in sorted(fold.uncollected):
                if (group, collector, topic) not in self._uncollected:
                    self._uncollected.add((group, collector, topic))
                    yield UNCOLLECTED, (group, collector), topic


def ends_of(told: pa.Table) -> pa.Table:
    """What was kept of queues' ends, as rows ``END_SCHEMA``."""
    values = [json.loads(value) for value in told["value"].to_pylist()]
    columns = list(zip(*values, strict=True)) or [()] * len(END_SCHEMA)
    fields = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in END_SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields)).cast(END_SCHEMA)


def change_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What names a membership change of a group and collector; instants epoch us."""
    return row["topic"], (row["changed_at"] - EPOCH) // _US, (row["settled_at"] - EPOCH) // _US


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

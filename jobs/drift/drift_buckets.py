"""The kernel that folds a bucket of consumer groups into rows of the derived tables: hour by hour, group by group."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.jobs.drift.drift_cut import (
    END_SCHEMA,
    ENDS,
    LOGGED,
    LOGGED_NAMELESS,
    LOGGED_SCHEMA,
    NAMES,
    ROUTE_ENTRIES,
    ROUTE_SCHEMAS,
    SHOWS,
    SIGNS_OF_SERVERS,
    cut_schema,
)
from hindsight.jobs.drift.drift_rebalances import Rebalances
from hindsight.jobs.drift.drift_tables import OF_KIND, expected_rows, group_round_rows, plain_rows
from hindsight.jobs.drift.group_split import HOUR_US
from hindsight.jobs.drift.kept_groups import NO_CUTS, CutRows, Cuts, KeptSoFar, change_key
from hindsight.jobs.engines.arrow_columns import Lineage
from hindsight.jobs.engines.runner import Blob, Given, rare_collections
from hindsight.jobs.lake.cluster_dates import DAY_MS, OPENING, Addresses, midnight_of
from hindsight.schemas import Table
from hindsight.udfs.consumer.broker_assignment import RequestModes
from hindsight.udfs.consumer.capture_rounds import CapturedRounds, captured_rounds
from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.consumer.member_rules import (
    EVENTS,
    SHOWN,
    Heartbeats,
    Shown,
    Sighting,
    handed_on,
    setting_of,
    telling,
)
from hindsight.udfs.consumer.offset_marks import Readings
from hindsight.udfs.consumer.owned_queues import Lags, OwnedQueues, PoppedQueues, reading_instants
from hindsight.udfs.consumer.queue_ends import QueueEnds
from hindsight.udfs.consumer.round_reads import NAMED, KnownNames
from hindsight.udfs.consumer.rows_of_rounds import RoundKey, rows_of_rounds
from hindsight.udfs.consumer.topic_facts import Expected, JudgedTopic
from hindsight.udfs.consumer.topic_routes import RoutedTopics, rounds_of, rows_of, with_names_of_brokers
from hindsight.udfs.drift.root_cause import Trouble
from hindsight.udfs.drift.told_beside import Beside, Setting
from hindsight.udfs.groups.group_fold import JUDGED, GroupFold
from hindsight.udfs.groups.group_walk import CHANGE, FoldSettings, Recorded, Told
from hindsight.udfs.groups.supposed_groups import SupposedFold, supposed_captures, supposed_connections, supposed_routes
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.round_shares import SHARES, ShareRound
from hindsight.udfs.scenarios.premises import NOTHING_SUPPOSED, Premises
from hindsight.udfs.servers.server_fold import SERVERS, SIGNS, ServerFold
from hindsight.udfs.strategies.member_families import Declaration, declared_of
from hindsight.udfs.values.columns import NEVER, microseconds

HOURS = 24  # of a date
_NAMING = (
    "topic", "strategy", "strategy_parameters", "profile", "queue_list_hash", "member_list_hash", "claims_hash",
)  # fmt: skip
_SLICE_ROWS = 250_000  # of ownership that is looked at together
_US = pa.timestamp("us", "UTC")


class ClusterDates(NamedTuple):
    """The dates of a cluster that are judged, each with whether no later one is known."""

    dates: Sequence[tuple[date, bool]]
    asks_proxy: frozenset[tuple[str, date]]
    cut_rounds: frozenset[tuple[str, int]]


class DriftOptions(NamedTuple):
    """By what groups are folded; see ``hindsight.conf.settings.Drift``.

    Attributes:
        strategies: what settings say of groups: see ``setting_of``.
        clients: what they say of single members.
        hears: heartbeats were taken in; ``has_logs``: brokers' logs were.
    """

    fold: FoldSettings
    strategies: Sequence[Mapping[str, Any]]
    clients: Sequence[Declaration]
    heartbeat_expiry_s: int
    strategy_carry_days: int
    hears: bool
    has_logs: bool
    premises: Premises = NOTHING_SUPPOSED


class _Slice(NamedTuple):
    """Hours of one date, since 1970, that are looked at together: from one to before another."""

    day: date | None
    first: int
    last: int


@dataclass(frozen=True)
class DriftFold:
    """The fold of a bucket of a cluster's groups."""

    addresses: Addresses
    clusters: Mapping[str, ClusterDates]
    options: DriftOptions
    lineage: Lineage
    cuts: Mapping[str, Cuts] = field(default_factory=dict)

    def __call__(self, key: int, given: Given) -> Iterator[Blob]:
        """Rows of the tables, slice by slice; and what is kept at cuts (``KEPT_STATES``, ``KEPT_TOLD``)."""
        cluster = self.addresses.cluster_of(key)
        with rare_collections():
            cuts = self.cuts.get(cluster, NO_CUTS)
            tells_of_servers = key == self.addresses.keys(cluster)[0]
            bucket = _Bucket(cluster, self.clusters[cluster], self.options, given, cuts, tells_of_servers)
            for place, (of, rows) in enumerate(bucket.tables()):
                if rows.num_rows:
                    yield Blob(of, key, place, rows) if isinstance(of, str) else self.lineage.of(of, key, place, rows)


class _Bucket:
    def __init__(
        self, cluster: str, of: ClusterDates, options: DriftOptions, given: Given, cuts: Cuts, tells_of_servers: bool
    ) -> None:
        self._tells_of_servers = tells_of_servers
        self._cluster, self._of, self._options, self._given, self._cuts = cluster, of, options, given, cuts
        self._kept = KeptSoFar(given)
        names = _rows(given, NAMES, NAMED)
        self._names = KnownNames(zip(*(column.to_pylist() for column in names.columns), strict=True))
        told = _rows(given, ROUTE_ENTRIES, ROUTE_SCHEMAS[ROUTE_ENTRIES])
        asked = (_of_table(given, table.name) for table in (schemas.SNAPSHOT_CAPTURE, schemas.CONSUMER_HEARTBEAT))
        self._read = [with_names_of_brokers(rows, told) for rows in asked]
        self._captured = captured_rounds(*self._read)
        self._rounds = _rounds_of_groups(self._captured)
        self._read_in = rounds_of((collector, at) for _, collector, at in self._captured.captures.place_of)
        self._slices = list(self._sliced())
        self._sightings = self._shown()
        # Where the walk goes on from a cut, what the date began with is in what was kept there.
        opening = [] if cuts.from_us else self._opening(schemas.GROUP_DRIFT_STATE)
        self._states = {(row["consumer_group"], row["collector"]): row for row in opening}
        self._servers = self._server_folds()

    def _opening(self, table: Table) -> list[dict[str, Any]]:
        return [row for rows in self._given.tables(OPENING + table.name) for row in rows.to_pylist()]

    def _sliced(self) -> Iterator[_Slice]:
        """The hours in which rounds begin, cut where a date ends and where there are many rows."""
        days = {midnight_of(day) // DAY_MS: day for day, _ in self._of.dates}
        hours = sorted({at // HOUR_US for rounds in self._rounds.values() for at, _ in rounds})
        begun: list[int] = []
        rows = 0
        for hour in hours:
            more = sum(table.num_rows for table in self._given.tables(schemas.QUEUE_OWNERSHIP.name, hour, hour + 1))
            if begun and (begun[0] // HOURS != hour // HOURS or rows + more > _SLICE_ROWS):
                yield _Slice(days.get(begun[0] // HOURS), begun[0], begun[-1] + 1)
                begun, rows = [], 0
            begun.append(hour)
            rows += more
        if begun:
            yield _Slice(days.get(begun[0] // HOURS), begun[0], begun[-1] + 1)

    def _shown(self) -> dict[str, list[Sighting]]:
        renamed = {"known_since": "at", "strategy_source": "source"}
        kept = [
            {renamed.get(n, n): value for n, value in row.items()}
            for row in self._opening(schemas.CLIENT_STRATEGY_STATE)
        ]
        told = [pa.Table.from_pylist(rows, schema=SHOWN) for rows in (kept, self._kept.sightings())]
        shown = [_rows(self._given, SHOWS, SHOWN), *told]
        found: dict[str, list[Sighting]] = defaultdict(list)
        for one in telling(pa.concat_tables(shown)):
            found[one.consumer_group].append(one)
        return found

    def tables(self) -> Iterator[tuple[Table | str, pa.Table]]:
        """Rows of the tables, date by date; and rows that are kept at cuts, by name."""
        yield schemas.CLIENT_STRATEGY_STATE, self._strategy_states()
        ends = QueueEnds(_rows(self._given, ENDS, END_SCHEMA), self._options.fold.lookback_s)
        slices, from_us = deque(self._slices), self._cuts.from_us
        # Servers first: groups ask what they explain. One bucket of the cluster tells of them.
        servers, groups = list(self._servers.values()), self._folds(ends)
        folds: list[GroupFold | ServerFold] = [*servers, *groups]
        carry_days = self._options.fold.walk.carry_days
        rebalances = Rebalances(self._cluster, self._given, self._opening(schemas.REBALANCE_STATE), carry_days)
        made = self._going_on(self._of.dates[0][0])
        shares = {of: len(own) for of, own in made.shares.items()}
        told = folds if self._tells_of_servers else groups
        kept = CutRows(self._cluster, told, self._sightings, ends.told, from_us, self._options.fold.lookback_s, shares)
        for day, is_last in self._of.dates:
            made = made if made.day == day else _Made(self._cluster, day)
            cuts = deque(self._cuts.at.get(day, ()))
            while slices and slices[0].last <= (midnight_of(day) + DAY_MS) * 1000 // HOUR_US:
                yield from self._walked(slices.popleft(), folds, made, cuts, kept)
            while cuts:
                for of_servers in servers:
                    of_servers.walk(None, cuts[0], day, from_us=from_us)
                yield from made.kept_at(cuts.popleft(), kept)
            for fold in folds:
                rows = list(fold.close(day, is_last=is_last))
                made.add(fold.key, rows if fold in told else ())
            kept.close_date((midnight_of(day) + DAY_MS) * 1000)
            yield from made.of_date()
            yield from rebalances.of_date(day, made.shares)

    def _walked(
        self, one: _Slice, folds: Sequence[GroupFold | ServerFold], made: _Made, cuts: deque[int], kept: CutRows
    ) -> Iterator[tuple[Table | str, pa.Table]]:
        """Walk a slice, cut by cut."""
        owned = OwnedQueues(_of_table(self._given, schemas.QUEUE_OWNERSHIP.name, one.first, one.last))
        popped = PoppedQueues(_of_table(self._given, schemas.POP_ASSIGNMENT.name, one.first, one.last))
        end = one.last * HOUR_US
        while cuts and cuts[0] < end:
            for fold in folds:
                made.add(fold.key, fold.walk(owned, cuts[0], one.day, popped, self._cuts.from_us))
            yield from made.kept_at(cuts.popleft(), kept)
        for fold in folds:
            made.add(fold.key, fold.walk(owned, end, one.day, popped, self._cuts.from_us))
        yield from made.of_slice()

    def _going_on(self, day: date) -> _Made:
        """What the first date has made so far, as it was kept."""
        made, changes = _Made(self._cluster, day, self._kept.expected()), self._kept.changes()
        for of, rounds in self._kept.shares().items():
            made.shares[of] += rounds
        for row in self._opening(schemas.MEMBERSHIP_CHANGE):
            if (row["consumer_group"], row["collector"], *change_key(row)) in changes:
                made.stored[schemas.MEMBERSHIP_CHANGE].append(row)
        for row in self._opening(schemas.EXPECTED_ALLOCATION):
            if (row["consumer_group"], *(row[name] for name in _NAMING)) in made.known:
                made.stored[schemas.EXPECTED_ALLOCATION].append(row)
        return made

    def _strategy_states(self) -> pa.Table:
        days = [day for day, _ in self._of.dates]
        rows = [
            {
                "cluster": self._cluster,
                "consumer_group": one.consumer_group,
                "client_id": one.client_id,
                "event_date": day,
                "strategy": one.strategy,
                "strategy_source": one.source,
                "known_since": pa.scalar(one.at, _US).as_py(),
            }
            for sightings in self._sightings.values()
            for day, one in handed_on(sightings, days, self._options.strategy_carry_days)
        ]
        return plain_rows(schemas.CLIENT_STRATEGY_STATE, rows)

    def _folds(self, ends: QueueEnds) -> list[GroupFold]:
        recorded = Recorded(
            self._captured,
            self._rounds,
            RoutedTopics(*self._routes(), self._read_in, self._cuts.collected),
            self._readings(),
            self._lags(ends),
            self._of.asks_proxy,
            self._of.cut_rounds,
            ends,
            self._modes(),
            self._troubles,
        )
        told: dict[str, Told] = {}
        expectations: dict[str, dict[tuple[Any, ...], Expected]] = defaultdict(dict)
        beats, events = self._beats(), self._events()
        premises = self._options.premises.of_cluster(self._cluster)
        supposed = self._supposed(recorded, premises) if premises.about_consumers else recorded
        supposed_expectations: dict[str, dict[tuple[Any, ...], Expected]] = defaultdict(dict)
        folds: list[GroupFold] = []
        lines, settings = self._lines(), self._settings()
        for group, collector in sorted({*self._rounds, *self._states, *self._kept.states}):
            if group == SERVERS:
                continue
            if group not in told:
                told[group] = self._told(group, beats.get(group, ()), events.get(group, ()))
            beside = Beside(lines.get(group), settings.get((group, collector), ()))
            opening = self._states.get((group, collector))
            of_group = told[group]._replace(beside=beside), self._options.fold, expectations[group], opening
            kept = self._kept.states.get((group, collector))
            folds.append(GroupFold((self._cluster, collector, group), recorded, *of_group, kept))
            if premises.about_consumers:
                own = [premise for premise in premises.groups if premise.is_about(self._cluster, group)]
                of_group = told[group], self._options.fold, supposed_expectations[group], opening
                folds[-1] = SupposedFold(folds[-1], own, folds[-1].key, supposed, *of_group)
        return folds

    def _server_folds(self) -> dict[str, ServerFold]:
        """The servers as each collector saw them."""
        signs, walk = _rows(self._given, SIGNS_OF_SERVERS, SIGNS), self._options.fold.walk
        known = {collector for group, collector in (*self._states, *self._kept.states) if group == SERVERS}
        return {
            collector: ServerFold(
                (self._cluster, collector, SERVERS),
                signs.filter(pc.equal(signs["collector"], collector)),
                walk,
                self._states.get((SERVERS, collector)),
                self._kept.states.get((SERVERS, collector)),
            )
            for collector in sorted(known | set(pc.unique(signs["collector"]).to_pylist()))
        }

    def _troubles(self, collector: str, round_us: int, at: int) -> Sequence[Trouble]:
        fold = self._servers.get(collector)
        return fold.troubles(round_us, at) if fold is not None else ()

    def _supposed(self, recorded: Recorded, premises: Premises) -> Recorded:
        """What would be known if what is supposed were true; the places of its rounds are its own."""
        captures, connections = self._read
        captured = captured_rounds(
            supposed_captures(captures, premises.groups), supposed_connections(connections, premises.groups)
        )
        reads, routes = self._routes()
        rounds = _rounds_of_groups(captured)
        return recorded._replace(
            captured=captured,
            rounds=rounds,
            routes=RoutedTopics(reads, supposed_routes(routes, premises.topics), self._read_in),
        )

    def _routes(self) -> tuple[pa.Table, pa.Table]:
        reads, entries = (_rows(self._given, *named) for named in ROUTE_SCHEMAS.items())
        return reads, rows_of(entries, self._read_in)

    def _lags(self, ends: QueueEnds) -> Callable[[RoundKey], Readings]:
        """The readings of offsets; those of the last two slices are kept, as a reading is valid for a while."""
        slices = {hour: one for one in self._slices for hour in range(one.first, one.last)}

        @lru_cache(maxsize=2)
        def lags(first: int, last: int) -> Lags:
            rows = _of_table(self._given, schemas.QUEUE_PROGRESS.name, first, last)
            return Lags(self._names.with_whole_names(rows), ends)

        def of(key: RoundKey) -> Readings:
            hour = key[2] // HOUR_US
            own = slices.get(hour)
            return (lags(own.first, own.last) if own is not None else lags(hour, hour + 1)).of(key)

        return of

    def _modes(self) -> RequestModes:
        rows = rows_of_rounds(_of_table(self._given, schemas.MESSAGE_REQUEST_MODE.name), "consumer_group").rows
        return RequestModes(rows.to_pylist(), self._options.fold.lookback_s)

    def _told(self, group: str, beats: Iterable[tuple[str, int]], events: Sequence[tuple[int, str, str]]) -> Told:
        options, lookback_s = self._options, self._options.fold.lookback_s
        heard = Heartbeats(beats, lookback_s=lookback_s, expiry_s=options.heartbeat_expiry_s)
        return Told(
            Shown((one.client_id, one.at, one.strategy, one.source) for one in self._sightings.get(group, ())),
            setting_of(options.strategies, self._cluster, group),
            partial(declared_of, options.clients, self._cluster, group),
            heard if options.hears else None,
            events if options.has_logs else None,
        )

    def _beats(self) -> dict[str, list[tuple[str, int]]]:
        rows, found = _of_table(self._given, schemas.CLIENT_HEARTBEAT.name), defaultdict(list)
        texts = (rows[name].to_pylist() for name in ("consumer_group", "client_id"))
        for group, client, at in zip(*texts, microseconds(rows, "received_at").tolist(), strict=True):
            found[group].append((client, at))
        return found

    def _events(self) -> dict[str, list[tuple[int, str, str]]]:
        rows, found = _of_table(self._given, schemas.MEMBERSHIP_EVENT.name), defaultdict(list)
        instants = microseconds(rows, "logged_at").tolist()
        for row, at in zip(rows.drop_columns(["logged_at"]).to_pylist(), instants, strict=True):
            subject = next(row[n] for n in ("client_id", "address", "consumer_group") if row[n] is not None)
            found[row["consumer_group"]].append((at, EVENTS[row["kind"]], subject))
        return found

    def _lines(self) -> dict[str, pa.Table]:
        """Lines of logs that add something to findings, by group; those that name none are of a log's only group."""
        lines = _rows(self._given, LOGGED, LOGGED_SCHEMA)
        nameless = _rows(self._given, LOGGED_NAMELESS, LOGGED_SCHEMA)
        groups: dict[str, set[str]] = defaultdict(set)
        for rows in (
            lines,
            *(_of_table(self._given, name) for name in (schemas.REBALANCE_RESULT.name, schemas.CLIENT_EVENT.name)),
        ):
            pairs = zip(rows["source_file"].to_pylist(), rows["consumer_group"].to_pylist(), strict=True)
            for file, group in set(pairs) if nameless.num_rows else ():
                groups[log_of(file)].add(group)
        whose = [groups.get(log_of(file), set()) for file in nameless["source_file"].to_pylist()]
        named = pa.array([next(iter(of)) if len(of) == 1 else None for of in whose], pa.string())
        lines = pa.concat_tables([lines, nameless.set_column(0, LOGGED_SCHEMA.field(0), named)])
        at = pc.cast(pc.cast(lines["logged_at"], pa.timestamp("ms", "UTC"), safe=False), pa.int64())
        lines = lines.append_column("at", at).filter(pc.field("consumer_group").is_valid())
        order = [(name, "ascending") for name in ("consumer_group", "at", "source_file", "source_line")]
        lines = lines.sort_by(order).combine_chunks()
        names = pc.unique(lines["consumer_group"]).to_pylist()
        return {name: lines.filter(pc.field("consumer_group") == name) for name in names}

    def _settings(self) -> dict[tuple[str, str], list[Setting]]:
        """What brokers told of the groups that one of them does not let consume, by group and collector."""
        rows = _of_table(self._given, schemas.SUBSCRIPTION_GROUP.name)
        refused = pc.unique(rows.filter(pc.invert(rows["consume_enable"]))["consumer_group"])
        found: dict[tuple[str, str], list[Setting]] = defaultdict(list)
        for row in rows.filter(pc.is_in(rows["consumer_group"], refused)).to_pylist():
            at, enabled = to_ms(row["captured_at"]) or 0, row["consume_enable"] is not False
            place = f"{row['source_file']}:{row['source_line']}"
            found[row["consumer_group"], row["collector"]].append(Setting(at, row["broker_name"], enabled, place))
        return found

    def _readings(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for hour in self._given.places(schemas.QUEUE_PROGRESS.name):
            progress = _of_table(self._given, schemas.QUEUE_PROGRESS.name, hour, hour + 1)
            for (group, collector, round_us), at in reading_instants(progress):
                found[group, collector].append((at, round_us))
        return {key: sorted(readings) for key, readings in found.items()}


def _rounds_of_groups(captured: CapturedRounds) -> dict[tuple[str, str], list[tuple[int, int]]]:
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    read_at = captured.at.tolist()
    for (group, collector, at), place in captured.captures.place_of.items():
        if read_at[place] != NEVER:
            found[group, collector].append((at, place))
    return {key: sorted(rounds) for key, rounds in found.items()}


class _Made:
    """Rows of a date as groups give them; ``stored``: those of before, of the tables that are written as a whole."""

    def __init__(self, cluster: str, day: date, known: Collection[tuple[Any, ...]] = ()) -> None:
        """``known``: groups and names of the expectations that are stored."""
        self.day, self.known = day, known
        self._place = {"cluster": cluster, "event_date": day}
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._rounds: list[tuple[tuple[str, str, str], JudgedTopic]] = []
        self._expected: dict[int, tuple[str, Expected]] = {}
        self.shares: dict[tuple[str, str], list[ShareRound]] = defaultdict(list)  # by group and collector
        self.stored: dict[Table, list[Mapping[str, Any]]] = defaultdict(list)
        self._changes: list[tuple[tuple[str, str], tuple[Any, ...]]] = []  # since the last cut

    def add(self, key: tuple[str, str, str], rows: Iterable[tuple[str, Any]]) -> None:
        """Take what a group's fold gives."""
        for kind, row in rows:
            if kind == SHARES:
                self.shares[key[2], key[1]].append(row)
            elif kind == JUDGED:
                self._rounds.append((key, row))
                if row.facts.expected is not None:
                    self._expected[id(row.facts.expected)] = key[2], row.facts.expected
            else:
                self._rows[kind].append(row)
                if kind == CHANGE:
                    self._changes.append(((key[2], key[1]), change_key(row)))

    def kept_at(self, cut_us: int, kept: CutRows) -> Iterator[tuple[str, pa.Table]]:
        """What is kept at a cut."""
        return kept.at(self.day, cut_us, self.shares, self._new_expected(), self._changes)

    def _new_expected(self) -> list[tuple[str, Expected]]:
        return [(group, one) for group, one in self._expected.values() if (group, *one.key.values()) not in self.known]

    def of_slice(self) -> Iterator[tuple[Table, pa.Table]]:
        """Rows that nothing is added to any more; what is expected is told once a date."""
        for kind, rows in self._rows.items():
            yield OF_KIND[kind], plain_rows(OF_KIND[kind], rows)
        if self._rounds:
            yield schemas.GROUP_ROUND, group_round_rows(self._place, self._rounds)
        self._rows.clear()
        self._rounds.clear()

    def of_date(self) -> Iterator[tuple[Table, pa.Table]]:
        """Rows that are left when the date closes."""
        yield from self.of_slice()
        for table, rows in self.stored.items():
            yield table, plain_rows(table, [{**row, **self._place} for row in rows])
        if expected := self._new_expected():
            yield schemas.EXPECTED_ALLOCATION, expected_rows(self._place, expected)


def _rows(given: Given, name: str, schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *given.tables(name)])


def _of_table(given: Given, name: str, first: int | None = None, last: int | None = None) -> pa.Table:
    """The rows of a table, whose names may be numbers of dictionaries; those of several blobs get one."""
    tables = list(given.tables(name, first, last)) or [cut_schema(name).empty_table()]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()

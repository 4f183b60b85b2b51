"""A lake and a subject in; what a bundle of it holds, out: proved, since the rows that it claims were derived again."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import hindsight.schemas as schemas
from hindsight.conf.failure import ExpectedError
from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.derived_again import KnownDates, Side, derived_again, known_dates, own_rows
from hindsight.jobs.bundling.renamed_rows import (
    compared_columns,
    found_names,
    note_settings,
    renamed,
    renamed_settings,
    settings_of,
)
from hindsight.jobs.bundling.subject import Subject, is_claimed
from hindsight.jobs.drift.drift_cut import subscribed
from hindsight.jobs.drift.drift_derivation import CLOSING
from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.bundles.new_names import NewNames, Recorded, RingRecorder
from hindsight.udfs.consumer.listed_members import INFO
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX
from hindsight.udfs.consumer.round_reads import BROKER, TOPIC, KnownNames, printed_names, refusals
from hindsight.udfs.consumer.rows_of_rounds import of_rounds
from hindsight.udfs.consumer.topic_routes import ROUTE
from hindsight.udfs.drift.told_beside import LOGGED_KINDS
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.producer.send_calls import REACH_MS
from hindsight.udfs.producer.window_confirmations import tells_of_faults
from hindsight.udfs.rebalances.rebalance_fold import OF_GROUP, OF_LOG
from hindsight.udfs.servers.server_fold import ANSWERED, SERVERS, said_of_servers
from hindsight.udfs.values.columns import near, on_dates

Rows = dict[Table, pa.Table]
_OF_ROUNDS = (schemas.CONSUMER_HEARTBEAT, schemas.QUEUE_OWNERSHIP, schemas.POP_ASSIGNMENT, schemas.QUEUE_PROGRESS)
_ABOUT = ("consumer_group", "client_id", "topic", "producer_group", "strategy", "subscriptions", "member_ids")


class GroupSlice:
    """The rows of one consumer group, and of the dates that are judged and looked back on."""

    def __init__(self, lake: LocalLake, cluster: str, group: str, dates: Sequence[date], lookback_s: int) -> None:
        self._lake, self._cluster, self._group = lake, cluster, group
        self._dates, self._lookback_s = dates, lookback_s
        self._near = [ClusterDate(cluster, day) for day in near(dates)]

    def rows(self) -> Rows:
        """By table."""
        found = {table: self._judged(self._own(table)) for table in _OF_ROUNDS}
        captures = self._own(schemas.SNAPSHOT_CAPTURE)
        found[schemas.QUEUE_PROGRESS] = self._with_whole_names(found[schemas.QUEUE_PROGRESS])
        topics = self._topics(self._judged(captures), found)
        of_cluster = [*self._cluster_s_captures(topics), self._of_servers(topics)]
        found[schemas.SNAPSHOT_CAPTURE] = pa.concat_tables([self._of_captures(captures), *of_cluster])
        of_topics = (
            {} if self._group == SERVERS else {"topic": topics}
        )  # any route tells whether a broker takes messages
        found[schemas.TOPIC_ROUTE] = self._judged(self._all(schemas.TOPIC_ROUTE, **of_topics))
        dead = f"{DEAD_LETTER_PREFIX}{self._group}"
        found[schemas.TOPIC_STATUS] = self._judged(self._all(schemas.TOPIC_STATUS, topic=[*topics, dead]))
        modes = self._judged(self._all(schemas.MESSAGE_REQUEST_MODE))
        of_group = pc.or_kleene(pc.is_null(modes["consumer_group"]), pc.equal(modes["consumer_group"], self._group))
        found[schemas.MESSAGE_REQUEST_MODE] = modes.filter(of_group)
        results = self._own(schemas.REBALANCE_RESULT)
        found[schemas.SUBSCRIPTION_GROUP] = self._judged(self._own(schemas.SUBSCRIPTION_GROUP))
        found[schemas.REBALANCE_RESULT] = results.filter(pa.array(on_dates(results, near(self._dates, (-1, 0)))))
        found[schemas.CLIENT_EVENT] = self._events(found[schemas.REBALANCE_RESULT])
        for table in (schemas.CLIENT_HEARTBEAT, schemas.MEMBERSHIP_EVENT):
            found[table] = self._all(table, client_group=[self._group])
        return found

    def opening(self, previous: date | None) -> Rows:
        """The state that a date handed on."""
        if previous is None:
            return {}
        where = Where(dates=[ClusterDate(self._cluster, previous)], values={"consumer_group": [self._group, SERVERS]})
        return {table: self._lake.rows(table, where=where) for table in CLOSING}

    def _all(self, table: Table, **values: Iterable[Any]) -> pa.Table:
        return self._lake.rows(table, where=Where(dates=self._near, values={n: list(v) for n, v in values.items()}))

    def _own(self, table: Table) -> pa.Table:
        return self._all(table, consumer_group=[self._group])

    def _judged(self, rows: pa.Table) -> pa.Table:
        """Rows of rounds that are judged or looked back on."""
        return rows.filter(pa.array(of_rounds(rows, self._dates, self._lookback_s)))

    def _of_captures(self, captures: pa.Table) -> pa.Table:
        """The group's own: of its rounds, and those in which clients showed their strategies."""
        shows = pc.and_(pc.equal(captures["kind"], INFO), pc.is_valid(captures["strategy"]))
        shown = pc.and_(shows, pa.array(on_dates(captures, near(self._dates, (-1, 0)))))
        return captures.filter(pc.or_(shown, pa.array(of_rounds(captures, self._dates, self._lookback_s))))

    def _cluster_s_captures(self, topics: Sequence[str]) -> Iterable[pa.Table]:
        """Reads of routes; and of the reads that tell of a proxy one a collector and date."""
        yield self._judged(self._all(schemas.SNAPSHOT_CAPTURE, topic=topics, kind=[ROUTE]))
        others = self._judged(self._all(schemas.SNAPSHOT_CAPTURE, error_code=[3]))
        for place in range(len(others)):
            one = others.slice(place, 1)
            told = refusals(one)
            if told and not told & refusals(others.slice(0, place)) and one["consumer_group"][0].as_py() != self._group:
                yield one

    def _of_servers(self, topics: Sequence[str]) -> pa.Table:
        """What shows how servers were, without who was asked about: all that was lost, and of each server and sweep the
        last answer.
        """
        rows = self._judged(self._all(schemas.SNAPSHOT_CAPTURE)).sort_by("captured_at")
        place = ["collector", "round_at", "broker_name", "name_server"]
        told = rows.select(place).append_column("said", said_of_servers(rows))
        told = told.append_column("last", pa.array(range(len(rows)), pa.int64()))
        answered = told.filter(pc.equal(told["said"], ANSWERED)).group_by(place).aggregate([("last", "max")])
        lost = told.filter(pc.not_equal(told["said"], ANSWERED))["last"]
        rows = rows.take(pa.array(sorted({*answered["last_max"].to_pylist(), *lost.to_pylist()}), pa.int64()))
        is_own = pc.fill_null(pc.equal(rows["consumer_group"], self._group), False)
        is_route = pc.fill_null(pc.is_in(rows["topic"], pa.array(topics, pa.string())), False)
        named = pc.or_(pc.is_valid(rows["broker_name"]), pc.is_valid(rows["name_server"]))
        rows = rows.filter(pc.and_(named, pc.invert(pc.or_(is_own, is_route))))
        for name in (*_ABOUT, "subject"):
            place_of, field = rows.schema.get_field_index(name), rows.schema.field(name)
            nothing = pa.array([""] * len(rows), field.type) if name == "subject" else pa.nulls(len(rows), field.type)
            rows = rows.set_column(place_of, field, nothing)
        return rows

    def _topics(self, captures: pa.Table, found: Rows) -> list[str]:
        told = [subscribed(captures, ("consumer_group",)), *(found[t] for t in _OF_ROUNDS if "topic" in t.schema.names)]
        return sorted({topic for rows in told for topic in pc.unique(rows["topic"]).to_pylist() if topic is not None})

    def _events(self, results: pa.Table) -> pa.Table:
        events = self._lake.rows(
            schemas.CLIENT_EVENT,
            where=Where(dates=[ClusterDate(self._cluster, day) for day in near(self._dates, (-1, 0))]),
        )
        kinds = [*OF_GROUP, *LOGGED_KINDS]
        own = events.filter((pc.field("consumer_group") == self._group) & pc.field("kind").isin(kinds))
        logs = {log_of(file) for rows in (results, own) for file in pc.unique(rows["source_file"]).to_pylist()}
        nameless = events.filter(pc.field("consumer_group").is_null() & pc.field("kind").isin(list(OF_LOG)))
        of_logs = [log_of(file) in logs for file in nameless["source_file"].to_pylist()]
        logged = events.filter(pc.field("consumer_group").is_null() & pc.field("kind").isin(list(LOGGED_KINDS)))
        others = pc.field("consumer_group") != self._group  # whose lines in a log leave open of whom it says this
        every = (events.filter(others), self._all(schemas.REBALANCE_RESULT).filter(others))
        shared = {log_of(file) for rows in every for file in pc.unique(rows["source_file"]).to_pylist()}
        of_one = [log_of(file) in logs - shared for file in logged["source_file"].to_pylist()]
        found = (own, nameless.filter(pa.array(of_logs, pa.bool_())), logged.filter(pa.array(of_one, pa.bool_())))
        return pa.concat_tables(found)

    def _with_whole_names(self, progress: pa.Table) -> pa.Table:
        """Names that mqadmin cut are made whole here: new names do not begin as the old ones did."""
        if not printed_names(progress):
            return progress
        routes, captures = (
            self._judged(self._all(schemas.TOPIC_ROUTE)),
            self._judged(self._all(schemas.SNAPSHOT_CAPTURE)),
        )
        topics = subscribed(captures, ("collector", "round_at"))
        told = [(routes, TOPIC), (routes, BROKER), (topics, TOPIC)]
        named = [
            (collector, at, column, name)
            for rows, column in told
            for collector, at, name in zip(
                *(rows[c].to_pylist() for c in ("collector", "round_at", column)), strict=True
            )
        ]
        whole = KnownNames(named).with_whole_names(progress)
        place, doubts = whole.schema.get_field_index("doubts"), progress.schema.field("doubts")
        nobody_doubts = pa.nulls(len(whole), no_rows(schemas.QUEUE_PROGRESS)["doubts"].type)
        return whole.set_column(place, doubts, nobody_doubts)


_REACH = max(timedelta(hours=1), timedelta(milliseconds=REACH_MS))
_INSTANTS = ("begin_at", "end_at", "submit_end_at", "callback_end_at")


def producer_rows(lake: LocalLake, cluster: str, of: Mapping[str, str], dates: Sequence[date]) -> Rows:
    """By table; ``of``: producer group and client id, empty: all producers of the cluster."""
    own = {name: [value] for name, value in of.items()}
    on, beside = ([ClusterDate(cluster, day) for day in days] for days in (dates, near(dates)))
    attempts = _near(lake.rows(schemas.SEND_ATTEMPT, where=Where(dates=beside, values=own)), dates)
    topics = pc.unique(attempts["topic"]).to_pylist()
    events = lake.rows(schemas.CLIENT_EVENT, where=Where(dates=[] if of else on))
    return {
        schemas.SEND_ATTEMPT: attempts,
        schemas.PRODUCER_INSTANCE: lake.rows(schemas.PRODUCER_INSTANCE, where=Where(dates=on, values=own)),
        schemas.LOST_LINES: lake.rows(schemas.LOST_LINES, where=Where(dates=beside, values=own)),
        schemas.TOPIC_ROUTE: lake.rows(schemas.TOPIC_ROUTE, where=Where(dates=on, values={"topic": topics})),
        schemas.CLIENT_EVENT: events.filter(pc.is_in(events["kind"], pc.unique(tells_of_faults(events)["kind"]))),
    }


def producer_opening(lake: LocalLake, cluster: str, of: Mapping[str, str], previous: date | None) -> Rows:
    """The rows with which the first date begins."""
    if previous is None:
        return {}
    where = Where(dates=[ClusterDate(cluster, previous)], values={name: [value] for name, value in of.items()})
    return {table: lake.rows(table, where=where) for table in (schemas.PRODUCER_REPLAY, schemas.FAULT_ITEM_STATE)}


def _near(attempts: pa.Table, dates: Sequence[date]) -> pa.Table:
    """Attempts of the dates, and those about midnight that may be of one send with them."""
    first, last = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (min(dates), max(dates)))
    since, until = (
        pa.scalar(at, pa.timestamp("us", "UTC")) for at in (first - _REACH, last + timedelta(days=1) + _REACH)
    )
    wanted = pa.scalar(False)
    for name in _INSTANTS:
        at = attempts[name]
        inside = pc.and_(pc.greater_equal(at, since), pc.less(at, until))
        wanted = pc.or_(wanted, pc.fill_null(inside, False))
    return attempts.filter(wanted)


class DoesNotFollowError(ExpectedError):
    """Raised where rows of the lake do not follow from its inputs under these settings and this release."""


class Bundle(NamedTuple):
    """What a bundle holds; every name in it is a new one.

    Attributes:
        of: the columns by which claimed rows are the subject's own.
        inputs: by table.
        claims: rows as they were derived, by table.
        named: the row that was asked for, as it was derived; its table's name first.
        ring: positions on CONSISTENT_HASH's ring.
    """

    cluster: str
    of: Mapping[str, str]
    of_groups: bool
    dates: KnownDates
    settings: Mapping[str, Any]
    inputs: Mapping[Table, pa.Table]
    claims: Mapping[Table, pa.Table]
    named: tuple[str, dict[str, Any]]
    ring: Recorded


def made_bundle(lake: LocalLake, settings: Settings, subject: Subject) -> Bundle:
    """A bundle of a subject.

    Raises: DoesNotFollowError: what was derived again is not what the lake holds.
    """
    side: Side = "consumer" if subject.is_of_group else "producer"
    dates = known_dates(lake, side, subject.cluster, subject.first, subject.last)
    inputs = _inputs(lake, settings, subject, dates)
    stored = {table: _stored(lake, table, subject, dates) for table in subject.claimed}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for table, rows in (*inputs.items(), *stored.items()):
        found_names(rows, table, found)
    found["cluster"].add(subject.cluster)
    note_settings(settings, found)
    names = NewNames(found)
    own_settings = renamed_settings(settings, subject.cluster, names)
    new = {
        table: renamed(rows.select(table.contract_columns), table, names) for table, rows in inputs.items() if len(rows)
    }
    cluster, of = names.of("cluster", subject.cluster), _renamed_key(subject.of, names)
    recorder = RingRecorder(names)
    derived = derived_again(new, dates, cluster, settings_of(own_settings), recorder, of_groups=subject.is_of_group)
    claims = {table: own_rows(derived[table.name], table, of, dates.dates) for table in subject.claimed}
    wanted = {table: _compared(renamed(rows, table, names).to_pylist(), table) for table, rows in stored.items()}
    _require_same(wanted, {table: _compared(rows, table) for table, rows in claims.items()})
    return Bundle(
        cluster,
        of,
        subject.is_of_group,
        dates,
        own_settings,
        new,
        {table: as_table(rows, table) for table, rows in claims.items()},
        (subject.table.name, _named(subject, names, claims[subject.table])),
        recorder.positions,
    )


def _inputs(lake: LocalLake, settings: Settings, subject: Subject, dates: KnownDates) -> Rows:
    if not subject.is_of_group:
        found = producer_rows(lake, subject.cluster, subject.of, dates.dates)
        return found | producer_opening(lake, subject.cluster, subject.of, dates.previous)
    group = subject.of["consumer_group"]
    sliced = GroupSlice(lake, subject.cluster, group, dates.dates, settings.drift.lookback_s)
    return sliced.rows() | sliced.opening(dates.previous)


def _stored(lake: LocalLake, table: Table, subject: Subject, dates: KnownDates) -> pa.Table:
    """The rows of the lake that are claimed."""
    days = [ClusterDate(subject.cluster, day) for day in dates.dates]
    rows = lake.rows(table, where=Where(dates=days, values={name: [value] for name, value in subject.of.items()}))
    return rows.filter(pa.array([is_claimed(table, subject.of, row) for row in rows.to_pylist()], pa.bool_()))


def _renamed_key(of: Mapping[str, str], names: NewNames) -> dict[str, str]:
    kinds = {"consumer_group": "group", "producer_group": "group", "client_id": "client"}
    return {name: names.of(kinds[name], value) for name, value in of.items()}


def as_table(rows: list[dict[str, Any]], table: Table) -> pa.Table:
    """Claimed rows as a table, in an order that equal rows share."""
    schema = arrow_schema(table)
    fields = [schema.field(name).with_nullable(True) for name in table.contract_columns]
    ordered = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))
    return pa.Table.from_pylist(ordered, schema=pa.schema(fields))


def _compared(rows: list[dict[str, Any]], table: Table) -> Counter[str]:
    columns = compared_columns(table)
    return Counter(json.dumps({name: row[name] for name in columns}, default=str) for row in rows)


def _require_same(wanted: Mapping[Table, Counter[str]], derived: Mapping[Table, Counter[str]]) -> None:
    for table, rows in wanted.items():
        lacks, more = rows - derived[table], derived[table] - rows
        if lacks or more:
            raise DoesNotFollowError(
                f"{table.name}: {lacks.total()} row(s) of the lake do not follow from its inputs under these settings "
                f"and this release, and {more.total()} other(s) do; run the pipeline with the settings of this "
                "command, or give those of the last run with --settings. Nothing was written."
            )


def _named(subject: Subject, names: NewNames, claims: list[dict[str, Any]]) -> dict[str, Any]:
    """The row that was asked for among those that were derived."""
    row = renamed(pa.Table.from_pylist([dict(subject.row)], arrow_schema(subject.table)), subject.table, names)
    (wanted,) = _compared(row.to_pylist(), subject.table)
    return next(one for one in claims if _compared([one], subject.table) == Counter([wanted]))

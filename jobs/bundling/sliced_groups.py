"""A lake and a consumer group in; the rows of input tables from which what is said of the group follows, out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import subscribed
from hindsight.jobs.engines.arrow_columns import no_rows
from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import (
    CLIENT_EVENT,
    CLIENT_HEARTBEAT,
    CLIENT_STRATEGY_STATE,
    CONSUMER_HEARTBEAT,
    GROUP_DRIFT_STATE,
    MEMBERSHIP_EVENT,
    MESSAGE_REQUEST_MODE,
    POP_ASSIGNMENT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    REBALANCE_STATE,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
    TOPIC_STATUS,
    Table,
)
from hindsight.udfs.consumer.listed_members import INFO
from hindsight.udfs.consumer.proxies import refusals
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX
from hindsight.udfs.consumer.round_dates import near, of_rounds, on_dates
from hindsight.udfs.consumer.topic_routes import ROUTE
from hindsight.udfs.consumer.whole_names import BROKER, TOPIC, KnownNames, printed_names
from hindsight.udfs.diagnosis.log_processes import log_of
from hindsight.udfs.rebalances.log_lines_of_groups import OF_GROUP, OF_LOG

Rows = dict[Table, pa.Table]
_OF_ROUNDS = (CONSUMER_HEARTBEAT, QUEUE_OWNERSHIP, POP_ASSIGNMENT, QUEUE_PROGRESS)
OPENING = (CLIENT_STRATEGY_STATE, GROUP_DRIFT_STATE, REBALANCE_STATE)


class GroupSlice:
    """The rows of one consumer group, and of the dates that are judged and looked back on."""

    def __init__(self, lake: LocalLake, cluster: str, group: str, dates: Sequence[date], lookback_s: int) -> None:
        self._lake, self._cluster, self._group = lake, cluster, group
        self._dates, self._lookback_s = dates, lookback_s
        self._near = [ClusterDate(cluster, day) for day in near(dates)]

    def rows(self) -> Rows:
        """By table."""
        found = {table: self._judged(self._own(table)) for table in _OF_ROUNDS}
        captures = self._own(SNAPSHOT_CAPTURE)
        found[QUEUE_PROGRESS] = self._with_whole_names(found[QUEUE_PROGRESS])
        topics = self._topics(self._judged(captures), found)
        found[SNAPSHOT_CAPTURE] = pa.concat_tables([self._of_captures(captures), *self._cluster_s_captures(topics)])
        found[TOPIC_ROUTE] = self._judged(self._all(TOPIC_ROUTE, topic=topics))
        dead = f"{DEAD_LETTER_PREFIX}{self._group}"
        found[TOPIC_STATUS] = self._judged(self._all(TOPIC_STATUS, topic=[*topics, dead]))
        modes = self._judged(self._all(MESSAGE_REQUEST_MODE))
        of_group = pc.or_kleene(pc.is_null(modes["consumer_group"]), pc.equal(modes["consumer_group"], self._group))
        found[MESSAGE_REQUEST_MODE] = modes.filter(of_group)
        results = self._own(REBALANCE_RESULT)
        found[REBALANCE_RESULT] = results.filter(pa.array(on_dates(results, near(self._dates, (-1, 0)))))
        found[CLIENT_EVENT] = self._events(found[REBALANCE_RESULT])
        for table in (CLIENT_HEARTBEAT, MEMBERSHIP_EVENT):
            found[table] = self._all(table, client_group=[self._group])
        return found

    def opening(self, previous: date | None) -> Rows:
        """The state that a date handed on."""
        if previous is None:
            return {}
        where = Where(dates=[ClusterDate(self._cluster, previous)], values={"consumer_group": [self._group]})
        return {table: self._lake.rows(table, where=where) for table in OPENING}

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
        yield self._judged(self._all(SNAPSHOT_CAPTURE, topic=topics, kind=[ROUTE]))
        others = self._judged(self._all(SNAPSHOT_CAPTURE, error_code=[3]))
        for place in range(len(others)):
            one = others.slice(place, 1)
            told = refusals(one)
            if told and not told & refusals(others.slice(0, place)) and one["consumer_group"][0].as_py() != self._group:
                yield one

    def _topics(self, captures: pa.Table, found: Rows) -> list[str]:
        told = [subscribed(captures, ("consumer_group",)), *(found[t] for t in _OF_ROUNDS if "topic" in t.schema.names)]
        return sorted({topic for rows in told for topic in pc.unique(rows["topic"]).to_pylist() if topic is not None})

    def _events(self, results: pa.Table) -> pa.Table:
        events = self._lake.rows(
            CLIENT_EVENT, where=Where(dates=[ClusterDate(self._cluster, day) for day in self._dates])
        )
        own = events.filter((pc.field("consumer_group") == self._group) & pc.field("kind").isin(list(OF_GROUP)))
        logs = {log_of(file) for rows in (results, own) for file in pc.unique(rows["source_file"]).to_pylist()}
        nameless = events.filter(pc.field("consumer_group").is_null() & pc.field("kind").isin(list(OF_LOG)))
        of_logs = [log_of(file) in logs for file in nameless["source_file"].to_pylist()]
        return pa.concat_tables([own, nameless.filter(pa.array(of_logs, pa.bool_()))])

    def _with_whole_names(self, progress: pa.Table) -> pa.Table:
        """Names that mqadmin cut are made whole here: new names do not begin as the old ones did."""
        if not printed_names(progress):
            return progress
        routes, captures = self._judged(self._all(TOPIC_ROUTE)), self._judged(self._all(SNAPSHOT_CAPTURE))
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
        return whole.set_column(
            whole.schema.get_field_index("doubts"), progress.schema.field("doubts"), no_doubts(whole)
        )


def no_doubts(rows: pa.Table) -> pa.Array:
    """Nobody doubts these rows."""
    return pa.nulls(len(rows), no_rows(QUEUE_PROGRESS)["doubts"].type)

"""A lake and a producer in, or a cluster's producers; the rows of input tables from which their windows follow, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.bundling.sliced_groups import Rows
from hindsight.jobs.engines.arrow_lake import Where
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import (
    CLIENT_EVENT,
    FAULT_ITEM_STATE,
    LOST_LINES,
    PRODUCER_INSTANCE,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    TOPIC_ROUTE,
)
from hindsight.udfs.consumer.round_dates import near
from hindsight.udfs.producer.send_calls import REACH_MS
from hindsight.udfs.producer.window_confirmations import tells_of_faults

_REACH = max(timedelta(hours=1), timedelta(milliseconds=REACH_MS))
_INSTANTS = ("begin_at", "end_at", "submit_end_at", "callback_end_at")


def producer_rows(lake: LocalLake, cluster: str, of: Mapping[str, str], dates: Sequence[date]) -> Rows:
    """By table; ``of``: producer group and client id, empty: all producers of the cluster."""
    own = {name: [value] for name, value in of.items()}
    on, beside = ([ClusterDate(cluster, day) for day in days] for days in (dates, near(dates)))
    attempts = _near(lake.rows(SEND_ATTEMPT, where=Where(dates=beside, values=own)), dates)
    topics = pc.unique(attempts["topic"]).to_pylist()
    events = lake.rows(CLIENT_EVENT, where=Where(dates=[] if of else on))
    return {
        SEND_ATTEMPT: attempts,
        PRODUCER_INSTANCE: lake.rows(PRODUCER_INSTANCE, where=Where(dates=on, values=own)),
        LOST_LINES: lake.rows(LOST_LINES, where=Where(dates=beside, values=own)),
        TOPIC_ROUTE: lake.rows(TOPIC_ROUTE, where=Where(dates=on, values={"topic": topics})),
        CLIENT_EVENT: events.filter(pc.is_in(events["kind"], pc.unique(tells_of_faults(events)["kind"]))),
    }


def producer_opening(lake: LocalLake, cluster: str, of: Mapping[str, str], previous: date | None) -> Rows:
    """The rows with which the first date begins."""
    if previous is None:
        return {}
    where = Where(dates=[ClusterDate(cluster, previous)], values={name: [value] for name, value in of.items()})
    return {table: lake.rows(table, where=where) for table in (PRODUCER_REPLAY, FAULT_ITEM_STATE)}


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

"""Minute counts and held minutes of some producers in, their share in the fleet's minutes out; and of all, its rows.

A share is a handful of sums, so those of any parts of a cluster's producers add up to the fleet's: every minute with an
active producer, by every broker of the date. Nothing here looks beyond one date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.producer.minute_counts import MINUTE_MS, MINUTES, HeldMinutes, MinuteCounts, standing_of
from hindsight.udfs.producer.producer_finding import Fleet, FleetMinute, Refusals
from hindsight.udfs.producer.producer_rows import FLEET_MINUTE, INSTANT
from hindsight.udfs.producer.recorded_routes import Route
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

ACTIVE = pa.schema(
    [("minute", pa.int64()), *((n, pa.int64()) for n in ("active", "doubtful", "active_unknown", "active_off"))]
)
_BROKER_MINUTE = ("broker_name", "minute")
BY_BROKER = pa.schema(
    [
        ("minute", pa.int64()),
        ("broker_name", pa.string()),
        *((name, pa.int64()) for name in ("isolating", "isolating_at_least", "isolating_doubtful")),
        *((name, pa.int64()) for name in ("attempts", "busy", "not_store_ok")),
    ]
)
QUEUES = pa.schema([("topic", pa.string()), ("broker_name", pa.string()), ("queues", pa.int64())])


class Share(NamedTuple):
    """What some producers add to the fleet.

    Attributes:
        active: per minute, the active ones among them (``ACTIVE``).
        by_broker: per minute and broker, who isolated it, of these those whose windows are certain and those of whom
            too little is known, the attempts to it, and of these those that it refused as too busy or stored without
            SEND_OK (``BY_BROKER``).
        queues: per topic and broker that they sent to, the highest queue id seen, plus 1 (``QUEUES``); null: none was.
        isolating: the held minutes of active, replayed producers.
    """

    active: pa.Table
    by_broker: pa.Table
    queues: pa.Table
    isolating: HeldMinutes


def share_of(day: Day, facts: pa.Table, counts: MinuteCounts, held: HeldMinutes, *, min_sends_per_minute: int) -> Share:
    """The share of a date's producers; active is who sent so much in a minute."""
    busy = counts.sends.numbers[counts.sends.counts >= min_sends_per_minute]
    process, minute = busy // MINUTES, busy % MINUTES
    standing = np.array(standing_of(day), dtype=object)[process]
    is_doubtful = np.array([p.certainty != "certain" for p in day.processes], dtype=np.bool_)
    replayed = standing == "replayed"
    kinds = (replayed, replayed & is_doubtful[process], standing == "unknown", standing == "off")
    minutes = np.unique(minute)
    sums = [np.bincount(minute[kind], minlength=MINUTES)[minutes] for kind in kinds]
    who = np.isin(held.process * MINUTES + held.minute, busy[replayed])
    isolating = HeldMinutes(*(column[who] for column in held))
    return Share(
        pa.table([minutes, *sums], schema=ACTIVE),
        _by_broker(day, counts, held, isolating, is_doubtful[isolating.process]),
        _queues(facts),
        isolating,
    )


def _queues(facts: pa.Table) -> pa.Table:
    sent = facts.filter(pc.and_(pc.greater(facts["attempts"], 0), facts["broker_name"].is_valid()))
    most = sent.group_by(["topic", "broker_name"]).aggregate([("top_queue", "max")])
    return most.set_column(2, "queues", pc.add(most["top_queue_max"], 1)).cast(QUEUES)


def _by_broker(
    day: Day, counts: MinuteCounts, held: HeldMinutes, isolating: HeldMinutes, is_doubtful: BoolArray
) -> pa.Table:
    """A broker that was held, but by nobody active, has its minutes too: it is one of the date's.

    ``is_doubtful``: of each minute of ``isolating``, whether too little is known of its process.
    """
    sure = isolating.certainty == 0
    numbers = {
        "isolating": _numbers(isolating),
        "isolating_at_least": _numbers(isolating)[sure],
        "isolating_doubtful": _numbers(isolating)[is_doubtful],
        "attempts": counts.traffic.each(),
        "busy": counts.busy.each(),
        "not_store_ok": counts.not_store_ok.each(),
    }
    size = len(day.brokers) * MINUTES
    sums = {name: np.bincount(each, minlength=size) for name, each in numbers.items()}
    there = np.union1d(_numbers(held), counts.traffic.numbers)
    names = pa.array(day.brokers, pa.string()).take(pa.array(there // MINUTES))
    return pa.table([there % MINUTES, names, *(each[there] for each in sums.values())], schema=BY_BROKER)


def _numbers(held: HeldMinutes) -> IntArray:
    numbers: IntArray = held.broker * MINUTES + held.minute
    return numbers


def fleet_rows(cluster: str, midnight_ms: int, shares: Sequence[Share]) -> pa.Table:
    """Rows of fleet_minute of one cluster and date; ``shares``: of all its producers."""
    active = _summed([share.active for share in shares], ["minute"])
    own = _summed([share.by_broker for share in shares], ["minute", "broker_name"])
    minutes, brokers = active["minute"].to_numpy(), pc.unique(own["broker_name"])
    every_broker = brokers.take(pa.array(np.tile(np.arange(len(brokers)), len(minutes))))
    grid = pa.table({"minute": np.repeat(minutes, len(brokers)), "broker_name": every_broker})
    grid = grid.join(active, "minute", join_type="left outer")
    grid = grid.join(own, ["minute", "broker_name"], join_type="left outer")
    n = {name: grid[name].fill_null(0).to_numpy() for name in grid.column_names if name != "broker_name"}
    # A producer of which too little is known may have isolated what no window of it shows. Of one of which enough is,
    # single windows may be doubted; it has no others.
    unseen = n["doubtful"] - n["isolating_doubtful"]
    n["isolating_at_most"] = n["isolating"] + unseen + n["active_unknown"]
    at = pa.array((n["minute"] * MINUTE_MS + midnight_ms) * 1000).cast(INSTANT)
    head = [
        pa.repeat(pa.scalar(cluster), len(grid)),
        pa.repeat(pa.scalar(midnight_ms // DAY_MS, pa.int32()), len(grid)).cast(pa.date32()),
        at,
        grid["broker_name"],
    ]
    return pa.table([*head, *(n[name] for name in FLEET_MINUTE.names[len(head) :])], schema=FLEET_MINUTE)


def _summed(tables: Sequence[pa.Table], keys: list[str]) -> pa.Table:
    every = pa.concat_tables(tables)
    names = [name for name in every.column_names if name not in keys]
    return every.group_by(keys).aggregate([(name, "sum") for name in names]).rename_columns([*keys, *names])


def fleet_of(rows: pa.Table, shares: Sequence[Share], routes: Iterable[Mapping[str, Any]]) -> Fleet:
    """What the rules of findings look up; ``rows``: of ``fleet_rows``; ``routes``: rows of topic_route of the date."""
    at = rows["minute_at"].cast(pa.int64()).to_numpy() // (MINUTE_MS * 1000) % MINUTES
    counts = zip(*(rows[name].to_pylist() for name in FleetMinute._fields), strict=True)
    keys = zip(rows["broker_name"].to_pylist(), at.tolist(), strict=True)
    queues: dict[str, dict[str, int | None]] = defaultdict(dict)
    for row in pa.concat_tables(share.queues for share in shares).to_pylist():
        known, own = queues[row["topic"]].get(row["broker_name"]), row["queues"]
        queues[row["topic"]][row["broker_name"]] = own if known is None else max(known, own or 0)
    traffic = _summed([share.by_broker for share in shares], ["minute", "broker_name"])
    traffic = traffic.filter(pc.greater(traffic["attempts"], 0)).sort_by([(n, "ascending") for n in _BROKER_MINUTE])
    return Fleet(
        {key: FleetMinute(*each) for key, each in zip(keys, counts, strict=True)},
        queues,
        writable_brokers(routes),
        frozenset(zip(*(traffic[name].to_pylist() for name in _BROKER_MINUTE), strict=True)),
        _refusals(traffic),
    )


def _refusals(traffic: pa.Table) -> dict[tuple[str, int], Refusals]:
    rows = traffic.filter(pc.greater(pc.add(traffic["busy"], traffic["not_store_ok"]), 0)).to_pylist()
    return {(row["broker_name"], row["minute"]): Refusals(*(row[name] for name in Refusals._fields)) for row in rows}


def writable_brokers(routes: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """By topic, brokers that a producer keeps of topic_route rows: perm has W, a master is there, queues to write to.

    Or, where the route has an orderTopicConf, those that it gives queues, and no others.
    Source: MQClientInstance#topicRouteData2TopicPublishInfo, 4.0.0 to 5.3.3.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for row in routes:
        route = Route.of([row])
        entries = {name: route.entry(name) for name in route.brokers()} if route else {}
        found[row["topic"]].update(name for name, entry in entries.items() if entry.is_listed())
    return {topic: frozenset(brokers) for topic, brokers in found.items()}

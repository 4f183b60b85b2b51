"""Brokers that trace records know by address only, versus the kernel that names one address at one instant."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.producers.broker_naming import KnownAddress, StoreHosts, name_brokers
from hindsight.schemas import SEND_ATTEMPT, TOPIC_ROUTE, Table
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landing_formats import HOOK, TRACE
from tests.pipeline.test_quality_gate import sound

AT = datetime(2026, 1, 5, tzinfo=UTC)
DAYS = [AT.date(), date(2026, 1, 6)]
CLUSTERS = ["o'brien", "a\\"]
ADDRESSES = [f"h{n}:{port}" for n in range(3) for port in (10909, 10911)] + ["h", "h1:x", None]


def arrow(table: Table, rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist([sound(table, **row) for row in rows], arrow_schema(table))


@pytest.mark.parametrize("seed", range(3))
def test_records_of_the_dates_are_named_by_the_routes_known_by_now_and_corrected_when_more_are(tmp_path, seed):
    draw = random.Random(seed)
    lake = LocalLake(str(tmp_path), retention_days=7)
    attempts = [
        {
            "cluster": cluster,
            "event_date": day,
            "source": source,
            "broker_address": address,
            "broker_name": draw.choice(["a", None]) if source == TRACE else "kept",
            "msg_id": f"{number}",
            "begin_at": AT + timedelta(seconds=second),
        }
        for number, (cluster, day, source, address, second) in enumerate(
            (c, d, s, a, n)
            for c in CLUSTERS
            for d in DAYS
            for s in (TRACE, HOOK)
            for a in ADDRESSES
            for n in (-1, 5, 15)
        )
    ]
    lake.append(SEND_ATTEMPT, arrow(SEND_ATTEMPT, attempts))
    known: list[tuple] = []
    for _ in range(2):
        seen = [
            (draw.choice(CLUSTERS), draw.randrange(20), draw.choice(ADDRESSES), draw.choice("abc")) for _ in range(15)
        ]
        known += [one for one in seen if one[2]]
        routes = [
            {
                "cluster": c,
                "captured_at": AT + timedelta(seconds=s),
                "master_address": a,
                "broker_name": n,
                "topic": f"{i}",
            }
            for i, (c, s, a, n) in enumerate(seen)
        ]
        lake.append(TOPIC_ROUTE, arrow(TOPIC_ROUTE, routes))
        with LocalRunner(1) as runner:
            name_brokers(lake, runner, [ClusterDate(cluster, DAYS[0]) for cluster in CLUSTERS])
        hosts = {c: StoreHosts(KnownAddress(s, a, n) for of, s, a, n in known if of == c) for c in CLUSTERS}
        stored = {row["msg_id"]: row for row in lake.rows(SEND_ATTEMPT).to_pylist()}
        assert len(stored) == len(attempts)
        for attempt in attempts:
            name = attempt["broker_name"]
            if attempt["source"] == TRACE and attempt["event_date"] == DAYS[0]:
                second = (attempt["begin_at"] - AT).total_seconds()
                address = attempt["broker_address"]
                name = address and hosts[attempt["cluster"]].broker_of(address, int(second))
            assert stored[attempt["msg_id"]] == sound(SEND_ATTEMPT, **attempt) | {"broker_name": name}
    version = lake.version(SEND_ATTEMPT)
    with LocalRunner(1) as runner:
        name_brokers(lake, runner, [ClusterDate(cluster, DAYS[0]) for cluster in CLUSTERS])
    assert lake.version(SEND_ATTEMPT) == version

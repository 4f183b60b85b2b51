"""Masters and how replicas follow: the view beside a plain walk over random readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import BROKER_STATUS, TOPIC_ROUTE
from tests.pipeline.random_tables import one_row

START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def read(table, minute, broker, **more):
    at = START + timedelta(minutes=minute)
    own = {"cluster": "c", "event_date": at.date(), "collector": "", "broker_name": broker, "captured_at": at}
    return one_row(table, **own, **more)


@pytest.mark.parametrize("seed", range(4))
def test_who_was_master_and_which_replicas_lack_is_what_the_readings_say(tmp_path, seed):
    dice, status, routes, told = Random(seed), [], [], []
    for broker in ("a", "b"):
        routed = was_master = None
        for minute in range(0, 40, 2):
            if dice.random() < 0.4:
                routed = dice.randrange(3)
                slaves = [{"broker_id": n + 1, "address": f"10.0.0.{n}:1"} for n in range(routed)]
                routes += [read(TOPIC_ROUTE, minute, broker, topic=topic, slaves=slaves) for topic in ("T", "U")]
            is_master = dice.random() < 0.8
            behind = [dice.randrange(9) for _ in range(dice.randrange(3))] if is_master else None
            in_sync = sum(one < 5 for one in behind) if is_master else None
            replicas = behind and [{"address": "10.0.0.1:2", "in_sync": one < 5, "behind_bytes": one} for one in behind]
            own = {"is_master": is_master, "in_sync_replicas": in_sync, "replicas": replicas}
            status.append(read(BROKER_STATUS, minute + 1, broker, told_by="brokerHaStatus", **own))
            status.append(read(BROKER_STATUS, minute + 1, broker, told_by="brokerRuntimeInfo", log_end=7))
            missing = max(0, routed - in_sync) if is_master and routed is not None else None
            told.append((broker, is_master, was_master, in_sync, missing, max(behind or [], default=None)))
            was_master = is_master
    lake = LocalLake(str(tmp_path), retention_days=7)
    lake.append(BROKER_STATUS, pa.concat_tables(status))
    lake.append(TOPIC_ROUTE, pa.concat_tables(routes))
    names = "broker_name, is_master, was_master, in_sync_replicas, missing, behind_bytes"
    found = records(LocalAsker(lake), f"SELECT {names} FROM broker_replication ORDER BY broker_name, captured_at")
    assert [tuple(row.values()) for row in found] == told
    assert any(row[4] for row in told)

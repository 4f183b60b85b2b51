"""The fault table's functions in a query of Spark's, against the kernels on the same values."""

from __future__ import annotations

import random

from hindsight.udfs.fault_tolerance import PROFILES, FaultItem, FaultTable, not_available_duration
from hindsight.udfs.pandas_udfs import compute_not_available_duration, pick_one_at_least

SEND = "n long, profile string, latency_max array<bigint>, not_available array<bigint>, latency long, isolation boolean"
TABLE = """n long, profile string, names array<string>, latencies array<bigint>, starts array<bigint>,
    reachable array<boolean>, now long"""


def test_a_query_asks_how_long_a_broker_is_shunned(spark):
    dice = random.Random(1)
    rows = []
    for n in range(60):
        profile = PROFILES[dice.choice(list(PROFILES))]
        ladder = profile.latency_max_ms, profile.not_available_ms
        latency, isolation = dice.choice((-5, 0, 549, 550, 3_000, 15_000)), dice.random() < 0.3
        rows.append((n, profile.id, *map(list, ladder), latency, isolation))
    spark.createDataFrame(rows, SEND).createOrReplaceTempView("sends_of_a_test")
    spark.udf.register("compute_not_available_duration", compute_not_available_duration())
    asked = "compute_not_available_duration(profile, latency_max, not_available, latency, isolation)"
    found = spark.sql(f"SELECT {asked} FROM sends_of_a_test ORDER BY n").collect()
    expected = [not_available_duration(latency, isolated, PROFILES[p]) for _, p, _, _, latency, isolated in rows]
    assert [row[0] for row in found] == expected
    assert len(set(expected)) > 4


def test_a_query_asks_which_brokers_the_fallback_could_return(spark):
    dice = random.Random(2)
    rows, expected = [], []
    for n in range(60):
        profile, far = PROFILES[dice.choice(list(PROFILES))], 1_767_600_000_000
        table = {
            name: FaultItem(dice.choice((5, 5, 600)), dice.choice((None, far, far + 9_000)), dice.random() < 0.7)
            for name in dice.sample("abcdef", dice.randrange(6))
        }
        expected.append(sorted(FaultTable(profile, items=table).pick_one_at_least(far + 10)))
        columns = [list(column) for column in zip(*table.values(), strict=True)] or [[], [], []]
        rows.append((n, profile.id, list(table), *columns, far + 10))
    spark.createDataFrame(rows, TABLE).createOrReplaceTempView("tables_of_a_test")
    spark.udf.register("pick_one_at_least", pick_one_at_least())
    asked = "pick_one_at_least(profile, names, latencies, starts, reachable, now)"
    found = spark.sql(f"SELECT {asked} FROM tables_of_a_test ORDER BY n").collect()
    assert [row[0] for row in found] == expected
    assert {len(picks) for picks in expected} > {0, 1, 2}

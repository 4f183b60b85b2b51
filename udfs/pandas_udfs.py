"""Kernels of the fault table as pandas UDFs, for queries and DataFrames on Spark: the one border where they meet it.

Each is made by a function, because a decorated UDF cannot be made before there is a session:
``spark.udf.register("pick_one_at_least", pick_one_at_least())``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column
from pyspark.sql.pandas.functions import pandas_udf

from hindsight.udfs import not_available_duration
from hindsight.udfs.fault_tolerance import FaultItem, FaultTable
from hindsight.udfs.release_profiles import PROFILES, FaultProfile

Offered = Callable[..., Column]
# Its stub names no variant for a plain function and a DDL type, which is its documented use.
_make_udf: Any = pandas_udf


def compute_not_available_duration() -> Offered:
    """UDF: (profile, latencyMax, notAvailableDuration, latency, isolation) -> for how long a broker is shunned, ms.

    Within a batch each distinct ladder is one call of the kernel.
    Source: MQFaultStrategy#computeNotAvailableDuration, 4.2.0 to 5.3.3.
    """

    def duration(
        profile: pd.Series,
        latency_max_ms: pd.Series,
        not_available_ms: pd.Series,
        latency_ms: pd.Series,
        isolation: pd.Series,
    ) -> pd.Series:
        ladders = pd.Series(list(zip(profile, map(tuple, latency_max_ms), map(tuple, not_available_ms), strict=True)))
        durations = np.zeros(len(ladders), dtype=np.int64)
        for ladder in ladders.unique():
            own = (ladders == ladder).to_numpy()
            durations[own] = not_available_duration.compute_not_available_duration(
                latency_ms.to_numpy(dtype=np.int64)[own],
                isolation.to_numpy(dtype=np.bool_)[own],
                _with_ladders(*ladder),
            )
        return pd.Series(durations)

    return _offered(duration, "bigint")


def pick_one_at_least() -> Offered:
    """UDF: (profile, names, latencies, starts, reachable, now) -> every broker that the fallback could return, sorted.

    Names and what the client's table holds of each, latency and start in ms, are arrays of one length; a start is null
    where the broker was never isolated. ``now``: epoch ms as of the starts.
    Source: LatencyFaultToleranceImpl#pickOneAtLeast, 4.2.0 to 5.3.3.
    """

    def picks(
        profile: pd.Series,
        broker_names: pd.Series,
        current_latency_ms: pd.Series,
        start_ms: pd.Series,
        reachable: pd.Series,
        now_ms: pd.Series,
    ) -> pd.Series:
        rows = zip(profile, broker_names, current_latency_ms, start_ms, reachable, now_ms, strict=True)
        return pd.Series([_picks(*row) for row in rows])

    return _offered(picks, "array<string>")


def _offered(kernel: Callable[..., pd.Series], returns: str) -> Offered:
    made: Offered = _make_udf(kernel, returns)
    return made


@cache
def _with_ladders(profile: str, latency_max_ms: tuple[int, ...], not_available_ms: tuple[int, ...]) -> FaultProfile:
    return replace(PROFILES[profile], latency_max_ms=latency_max_ms, not_available_ms=not_available_ms)


def _picks(
    profile: str,
    names: Iterable[str],
    latencies: Iterable[int],
    starts: Iterable[float],
    reachable: Iterable[bool],
    now_ms: int,
) -> list[str]:
    # An array of whole numbers with nulls comes as floats.
    told = zip(names, latencies, starts, reachable, strict=True)
    items = {n: FaultItem(int(ms), None if pd.isna(start) else int(start), bool(up)) for n, ms, start, up in told}
    return sorted(FaultTable(PROFILES[profile], items=items).pick_one_at_least(int(now_ms)))

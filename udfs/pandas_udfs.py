"""The kernels as pandas UDFs: the one border where they meet Spark.

Each is made by a function, because a decorated UDF cannot be made before there is a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from udfs.choice_rows import ChoiceJudge
from udfs.cut_names import whole_name
from udfs.member_families import Declaration, declared_of, has_no_choice, profile_of_member
from udfs.not_available_duration import compute_not_available_duration
from udfs.release_profiles import PROFILES, FaultProfile, UnknownReleaseError, profile_for
from udfs.send_outcome import fault_update

RULES = (
    "profile string, problem string, extend_only boolean, has_reachable boolean, "
    "reachable_gates_availability boolean, last_broker_rule string, "
    "latency_max_ms array<bigint>, not_available_ms array<bigint>"
)
UPDATE = "isolation boolean, reachable boolean"


Offered = Callable[..., Column]
# Its stub names no variant for a plain function and a DDL type, which is its documented use.
_make_udf: Any = pandas_udf
_make_struct: Any = StructType.fromDDL


def _offered(kernel: Callable[..., Any], returns: str) -> Offered:
    """A kernel on pandas series as a scalar pandas UDF."""
    made: Offered = _make_udf(kernel, returns)
    return made


def release_rules() -> Offered:
    """UDF: client version -> the family's id, or why it is unknown, and its own ladders (``RULES``)."""

    def resolve(client_version: pd.Series) -> pd.DataFrame:
        return pd.DataFrame([_rules(v) for v in client_version], columns=_RULE_NAMES, dtype=object)

    return _offered(resolve, RULES)


def member_profiles(entries: Sequence[Declaration] = ()) -> Offered:
    """UDF: (language, version, stated release, client id, cluster, group) -> a member's families, and its strategy.

    ``bound``: AVG is all that they know; ``declared``: what the settings, ``entries``, say of its strategy.
    """

    def resolve(
        language: pd.Series,
        version: pd.Series,
        client_version: pd.Series,
        client_id: pd.Series,
        cluster: pd.Series,
        consumer_group: pd.Series,
    ) -> pd.DataFrame:
        rows = zip(language, version, client_version, client_id, cluster, consumer_group, strict=True)
        return pd.DataFrame([_member(entries, *row) for row in rows], columns=_MEMBER, dtype=object)

    return _offered(resolve, "profile string, bound boolean, declared string")


_MEMBER = ["profile", "bound", "declared"]


def _member(
    entries: Sequence[Declaration],
    language: Any,
    version: Any,
    client_version: Any,
    client_id: str,
    cluster: str,
    consumer_group: str,
) -> tuple[str | None, bool, str | None]:
    number = None if pd.isna(version) else int(version)
    declared = declared_of(entries, cluster, consumer_group, client_id)
    profile = profile_of_member(language, number, client_version, client_id, declared)
    return profile, has_no_choice(profile), declared.strategy


_FAMILY_RULES = ("extend_only", "has_reachable", "reachable_gates_availability", "last_broker_rule")
_RULE_NAMES = ["profile", "problem", *_FAMILY_RULES, "latency_max_ms", "not_available_ms"]
_UNKNOWN = (None,) * (len(_RULE_NAMES) - 2)


@cache
def _rules(client_version: str | None) -> tuple[Any, ...]:
    if client_version is None:
        return None, "client_version is not recorded", *_UNKNOWN
    try:
        profile = profile_for(client_version)
    except UnknownReleaseError as error:
        return None, str(error), *_UNKNOWN
    ladders = list(profile.latency_max_ms), list(profile.not_available_ms)
    return profile.id, None, *(getattr(profile, name) for name in _FAMILY_RULES), *ladders


def outcome_updates() -> Offered:
    """UDF: (profile, mode, phase, exception, error, detector) -> what the fault table was told (``UPDATE``).

    Null: nothing. Meant for attempts that ended in an exception; every other one tells (false, true).
    """

    def tell(
        profile: pd.Series,
        mode: pd.Series,
        phase: pd.Series,
        exception: pd.Series,
        error: pd.Series,
        detector_enabled: pd.Series,
    ) -> pd.DataFrame:
        rows = zip(profile, mode, phase, exception, error, detector_enabled, strict=True)
        return pd.DataFrame([_update(*row) for row in rows], columns=["isolation", "reachable"], dtype=object)

    return _offered(tell, UPDATE)


def _update(profile: str, mode: str, phase: str, exception: str, error: str | None, detector: bool) -> Any:
    told = fault_update(
        PROFILES[profile], mode=mode, phase=phase, exception=exception, error=error, detector_enabled=bool(detector)
    )
    return (None, None) if told is None else (told.isolation, told.reachable)


def whole_names() -> Offered:
    """UDF: (printed name, names known of the group's own, of the round, of the date) -> ``whole_name``."""

    def resolve(printed: pd.Series, own: pd.Series, of_round: pd.Series, of_date: pd.Series) -> pd.Series:
        return pd.Series([whole_name(*names) for names in zip(printed, own, of_round, of_date, strict=True)])

    return _offered(resolve, "string")


def not_available_durations() -> Offered:
    """UDF: (profile, latencyMax, notAvailableDuration, latency, isolation) -> computeNotAvailableDuration, ms.

    A scalar UDF over whole batches: within one, each distinct ladder is one vectorised call.
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
            latencies = latency_ms.to_numpy(dtype=np.int64)[own]
            isolated = isolation.to_numpy(dtype=np.bool_)[own]
            durations[own] = compute_not_available_duration(latencies, isolated, _with_ladders(*ladder))
        return pd.Series(durations)

    return _offered(duration, "bigint")


@cache
def _with_ladders(profile: str, latency_max_ms: tuple[int, ...], not_available_ms: tuple[int, ...]) -> FaultProfile:
    return replace(PROFILES[profile], latency_max_ms=latency_max_ms, not_available_ms=not_available_ms)


VERDICT = (
    "admissible array<string>, rule string, verdict string, reason string, "
    "removals array<struct<broker_name: string, at_ms: bigint, surely: boolean>>"
)


def judged_choices(recorded: DataFrame, process: Sequence[str], kept: Sequence[str], *, tolerance_ms: int) -> DataFrame:
    """Doubtful choices with their verdicts (``kept`` columns and ``VERDICT``): pickOneAtLeast and the rules around it.

    Grouped by process, its choices in order: a group is streamed, a batch at a time, whatever its size.
    """
    made = StructType([*recorded.select(*kept).schema.fields, *_make_struct(VERDICT).fields])
    arrow_schema = to_arrow_schema(made, timezone="UTC")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judge = ChoiceJudge(tolerance_ms)
        for batch in batches:
            rows = [{**{name: row[name] for name in kept}, **judge.verdict(row)} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema)

    in_order = recorded.repartition(*process).sortWithinPartitions(*process, "begin_at", "thread", "msg_id", "attempt")
    # Sorted by the group's keys first, the rows reach it in this order: grouping sorts no more.
    return in_order.groupBy(*process).applyInArrow(run, made)


def map_rows(
    frame: DataFrame, kernel: Callable[[dict[str, Any]], list[dict[str, Any]]], schema: StructType
) -> DataFrame:
    """Apply a kernel that makes rows of a row; the frame is streamed, a batch at a time."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [made for row in batch.to_pylist() for made in kernel(row)]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema)

    return frame.mapInArrow(run, schema)


_ROWS_AT_ONCE = 2000


def walk_rows(
    frame: DataFrame,
    kernel: Callable[[Iterator[dict[str, Any]]], Iterator[dict[str, Any]]],
    schema: StructType,
    *,
    on_demand: tuple[str, ...] = (),
) -> DataFrame:
    """Apply a kernel that walks the rows of each partition in their order; both sides are streamed.

    Columns ``on_demand`` come as functions that make the value: most rows are never asked for theirs.
    A UDF, because what a round means depends on the rounds before it.
    """
    arrow_schema = to_arrow_schema(schema, timezone="UTC")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        for batch in batches:
            at_once = {n: batch.column(n).to_pylist() for n in batch.schema.names if n not in on_demand}
            columns = {n: batch.column(n) for n in on_demand}
            for i in range(batch.num_rows):
                row = {name: values[i] for name, values in at_once.items()}
                yield row | {name: partial(_value, column, i) for name, column in columns.items()}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = kernel(rows(batches))
        while chunk := list(islice(made, _ROWS_AT_ONCE)):
            yield pa.RecordBatch.from_pylist(chunk, schema=arrow_schema)

    return frame.mapInArrow(run, schema)


def _value(column: Any, row: int) -> Any:
    return column[row].as_py()

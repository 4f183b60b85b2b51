"""Send attempts in, one row per producer, topic, broker and date out: how much was sent, and in which slots of time.

Every attempt is looked at once, by a hash aggregation; what else the rebuild must know of all attempts (the dates a
producer lives on, what its lines say of it, when it last updated a broker's item) follows from these few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.frames import rows_of
from jobs.transforms.null_safe_join import null_safe_semi_join
from jobs.transforms.producer_replay import PROCESS, PRODUCER, with_process
from udfs.release_profiles import PROFILES

# A slot is 4 minutes of a UTC date; a mask holds one bit for each of 60 slots.
SLOT_MS = 240_000
_DAY_MS = 86_400_000
SLOTS_A_DAY = _DAY_MS // SLOT_MS
# SQL: the slot of its date in which an attempt began.
SLOT_OF_DATE = f"unix_millis(begin_at) div {SLOT_MS} % {SLOTS_A_DAY}"
_MASK = 60
MASKS = tuple(f"mask_{number}" for number in range(SLOTS_A_DAY // _MASK))
# A quick attempt ends in its slot or early in the next one.
_QUICK_MS = 60_000
# What the lines say of the release, and what they are; strings must be keys, not values, of a hash aggregation.
_KEYS = ("topic", "broker_name", "event_date", "source", "client_version")

Ladders = tuple[Sequence[int] | None, Sequence[int] | None]


def least_slow_ms(ladders: Iterable[Ladders]) -> int:
    """The least latency, ms, for which any pairing of these ladders and the releases' own holds a broker back.

    ``ladders``: latency_max_ms and not_available_ms as configured; None: the release's own.
    """
    own: list[Ladders] = [(profile.latency_max_ms, profile.not_available_ms) for profile in PROFILES.values()]
    latencies, durations = zip(*own, *ladders, strict=True)
    rungs = (
        latency
        for latency_max_ms in set(filter(None, map(tuple, filter(None, latencies))))
        for not_available_ms in set(filter(None, map(tuple, filter(None, durations))))
        for latency, held in zip(latency_max_ms, not_available_ms, strict=False)
        if held > 0
    )
    least: int = min((*rungs, _QUICK_MS))
    return least


def is_striking(slow_ms: int) -> Column:
    """An attempt that failed, was slow or ended before it began, or a callback of a send to a chosen queue."""
    begin = F.unix_millis("begin_at")
    ends = [F.unix_millis(name) - begin for name in ("end_at", "submit_end_at", "callback_end_at")]
    chosen = F.coalesce((F.col("queue_selected_by") != "client") & (F.col("mode") == "ASYNC"), F.lit(False))
    return F.col("exception").isNotNull() | (F.greatest(*ends) >= slow_ms) | (F.least(*ends) < 0) | chosen


def updates_quickly(slow_ms: int) -> Column:
    """An attempt that is not striking and updated its broker's item."""
    pinned = F.coalesce(F.col("queue_selected_by") != "client", F.lit(False))
    ended = (
        F.coalesce(F.col("mode") != "ASYNC", F.lit(True)) | F.coalesce("submit_end_at", "callback_end_at").isNotNull()
    )
    return ~is_striking(slow_ms) & ~pinned & ended


def broker_activity(attempts: DataFrame, *, slow_ms: int, who: Sequence[str] = PRODUCER) -> DataFrame:
    """Attempts counted by ``who``, topic, broker, date and release.

    The masks tell in which slots of the date quick attempts began that updated the broker's item, ``settled_at`` when
    the last of them began that must have ended on the date; ``said_on_at`` and ``said_off_at`` when the lines last said
    that the switch is on, or off.
    """
    strikes, quick = is_striking(slow_ms), updates_quickly(slow_ms)
    is_async = F.coalesce(F.col("mode") == "ASYNC", F.lit(False))
    slot = F.expr(SLOT_OF_DATE)
    settles = F.expr(f"unix_millis(begin_at) % {_DAY_MS}") < _DAY_MS - slow_ms
    seen = attempts.select(
        *who,
        *_KEYS,
        "begin_at",
        "latency_fault_enabled",
        F.greatest("begin_at", "end_at", "submit_end_at", "callback_end_at").alias("last_at"),
        (is_async | ~F.col("exceptions_observable")).alias("partly_seen"),
        strikes.alias("strikes"),
        F.when(quick, slot).alias("slot"),
        F.when(quick & settles, F.col("begin_at")).alias("settled_at"),
    )
    bit = F.expr(f"shiftleft(1L, cast(slot % {_MASK} as int))")
    of_mask = F.expr(f"slot div {_MASK}")
    masks = (F.bit_or(F.when(of_mask == n, bit).otherwise(F.lit(0).cast("long"))).alias(m) for n, m in enumerate(MASKS))
    return seen.groupBy(*who, *_KEYS).agg(
        F.count("*").alias("attempts"),
        F.count_if("strikes").alias("striking"),
        F.min("begin_at").alias("first_begin_at"),
        F.max("begin_at").alias("last_begin_at"),
        F.max("last_at").alias("last_attempt_at"),
        F.max("settled_at").alias("settled_at"),
        F.max("partly_seen").alias("partly_seen"),
        F.max(F.when(F.col("latency_fault_enabled"), F.col("begin_at"))).alias("said_on_at"),
        F.max(F.when(~F.col("latency_fault_enabled"), F.col("begin_at"))).alias("said_off_at"),
        *masks,
    )


def by_process(activity: DataFrame, attempts: DataFrame, lives_of: DataFrame, *, slow_ms: int) -> DataFrame:
    """The rows of ``broker_activity`` with the process they are of; those in which a life begins are counted anew."""
    lived = activity.join(F.broadcast(lives_of), list(PRODUCER), "left")
    begins = F.exists(
        "lives", lambda life: (life["life_at"] > F.col("first_begin_at")) & (life["life_at"] <= F.col("last_begin_at"))
    )
    marked = lived.withColumn("splits", F.coalesce(begins, F.lit(False))).drop("lives")
    whole = with_process(marked.where("NOT splits").withColumn("begin_at", F.col("first_begin_at")), lives_of)
    whole = whole.drop("splits", "begin_at")
    if not rows_of(marked.where("splits").limit(1)):
        return whole  # and no attempt is looked at again
    key = [*PRODUCER, *_KEYS]
    split = with_process(null_safe_semi_join(attempts, marked.where("splits").select(*key), key), lives_of)
    parts = broker_activity(split, slow_ms=slow_ms, who=PROCESS)
    return whole.unionByName(parts)


def slots_of() -> Column:
    """The slots that the masks of a row tell, as numbers from the epoch on, in order."""
    first = F.expr(f"unix_date(event_date) * {SLOTS_A_DAY}L")
    told = [_slots_of_mask(F.col(name), first + number * _MASK) for number, name in enumerate(MASKS)]
    return F.concat(*told)


def _slots_of_mask(mask: Column, first: Column) -> Column:
    every = F.sequence(F.lit(0), F.lit(_MASK - 1))
    held = F.filter(every, lambda bit: F.getbit(mask, bit) == 1)
    return F.when(mask == 0, F.array().cast("array<bigint>")).otherwise(F.transform(held, lambda bit: first + bit))


def merged_masks() -> list[Column]:
    """The masks of a group of rows as one."""
    return [F.bit_or(name).alias(name) for name in MASKS]


def slot_of(at: Column) -> Column:
    """The slot in which an instant lies, as a number from the epoch on."""
    return F.floor(F.unix_millis(at) / SLOT_MS)

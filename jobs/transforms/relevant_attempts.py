"""All attempts in, those from which windows, closing items and verdicts follow out: the same results from few rows.

A quick success changes nothing that anybody sees, unless it ends a stretch, is the last word of a date, or is what a
choice in doubt looked at. So, of the quick ones, only those are kept that began in a slot of time in which their
producer's item for their broker matters; the striking ones (slow, failed, retries) are kept all. A slot too many is
harmless: what follows from the attempts kept is what follows from all, and two slots of one hash keep a row more.
Stretches in which a broker is held are known to the millisecond, and most are short: they pick minutes. What is known
from ``broker_activity`` picks its slots of 4 minutes.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.broker_activity import SLOT_MS, SLOTS_A_DAY, is_striking, merged_masks, slot_of, slots_of
from jobs.transforms.frames import staged
from jobs.transforms.null_safe_join import null_safe_semi_join
from jobs.transforms.producer_replay import PRODUCER

_PAIR = (*PRODUCER, "broker_name")
_MINUTE_MS = 60_000
_MINUTES = SLOT_MS // _MINUTE_MS


class RelevantAttempts:
    """The attempts of a stretch that matter, found in two steps: for the windows, then for the choices in doubt.

    ``attempts``: all of the stretch; ``activity``: their ``broker_activity``.
    """

    def __init__(self, attempts: DataFrame, activity: DataFrame, *, slow_ms: int) -> None:
        self._attempts = attempts
        self._kept_always = is_striking(slow_ms) | F.col("last_broker_name").isNotNull()
        self._striking = staged(attempts.where(self._kept_always))
        self._activity = activity
        self._slow_ms = slow_ms
        self._of_pairs = staged(_of_pairs(activity))
        self._minutes: list[DataFrame] = []

    @property
    def striking(self) -> DataFrame:
        """Attempts that are kept whatever else there is."""
        return self._striking

    def for_windows(self, updates: DataFrame, carried: DataFrame) -> DataFrame:
        """Attempts from which the stretches and closing items follow.

        ``updates``: what the striking attempts told the fault tables; ``carried``: fault_item_state rows with which the
        stretch of dates begins.
        """
        midnight = F.date_add("event_date", 1).cast("timestamp")
        handed_over = carried.select(
            *_PAIR,
            "reachable",
            midnight.alias("at"),
            (F.unix_millis("start_at") - F.unix_millis(midnight)).alias("duration_ms"),
        )
        told = staged(updates.select(*_PAIR, "reachable", "at", "duration_ms").unionByName(handed_over))
        self._minutes = [
            _held(told.where("duration_ms > 0"), self._slow_ms),
            _in_minutes(_after_failures(told.where("NOT reachable"), self._of_pairs)),
            _last_of_date(self._of_pairs, self._slow_ms),
        ]
        return self._kept()

    def for_choices(self, suspects: DataFrame) -> DataFrame:
        """These and the attempts that tell what the clients knew at each of the ``suspects``."""
        at = suspects.select(*PRODUCER, slot_of(F.col("begin_at")).alias("slot")).distinct()
        self._minutes.append(_in_minutes(_around(at, self._of_pairs)))
        self._minutes.append(_in_minutes(_first_and_last(self._activity, at.select(*PRODUCER).distinct())))
        return self._kept()

    def _kept(self) -> DataFrame:
        """The striking attempts and those of the minutes: a semi-join with hashes, which are broadcast."""
        every = reduce(DataFrame.unionByName, self._minutes)
        # The client's id says almost always of which group and cluster it is; each text more is hashed in every row.
        wanted = every.select(F.xxhash64("client_id", "broker_name", "minute").alias("wanted")).distinct()
        mine = F.xxhash64("client_id", "broker_name", _minute_of(F.col("begin_at")))
        quick = self._attempts.where(~self._kept_always)
        return self._striking.unionByName(quick.join(F.broadcast(wanted), mine == F.col("wanted"), "left_semi"))


def _minute_of(at: Column) -> Column:
    """The minute in which an instant lies, as a number from the epoch on."""
    return F.floor(F.unix_millis(at) / _MINUTE_MS)


def _in_minutes(slots: DataFrame) -> DataFrame:
    """Slots, minute by minute."""
    first = F.col("slot") * _MINUTES
    return slots.select(*_PAIR, F.explode(F.sequence(first, first + (_MINUTES - 1))).alias("minute"))


def _of_pairs(activity: DataFrame) -> DataFrame:
    """Per producer, broker and date, the slots in which quick updates began, and ``settled_at``."""
    merged = activity.groupBy(*_PAIR, "event_date").agg(F.max("settled_at").alias("settled_at"), *merged_masks())
    return merged.select(*_PAIR, "event_date", "settled_at", slots_of().alias("slots"))


def _held(told: DataFrame, slow_ms: int) -> DataFrame:
    """The minutes in which the quick attempts began that ended while a broker was held."""
    began = F.timestamp_millis(F.unix_millis("at") - slow_ms)
    until = F.timestamp_millis(F.unix_millis("at") + F.col("duration_ms"))
    return told.select(*_PAIR, F.explode(F.sequence(_minute_of(began), _minute_of(until))).alias("minute"))


def _after_failures(failures: DataFrame, of_pairs: DataFrame) -> DataFrame:
    """The slots around each failure, the first later one in which a quick update began, and the one after that."""
    failed = failures.select(
        *_PAIR, F.to_date("at").alias("failed_date"), slot_of(F.col("at")).alias("slot")
    ).distinct()
    after = F.get(F.filter("slots", lambda s: s > F.col("slot")), F.lit(0))
    later = failed.join(of_pairs, list(_PAIR), "left").where("event_date IS NULL OR event_date >= failed_date")
    first = later.groupBy(*_PAIR, "slot").agg(F.min(after).alias("next"))
    around = failed.select(*_PAIR, F.explode(F.array(*(F.col("slot") + n for n in (-1, 0, 1)))).alias("slot"))
    next_ones = first.where("next IS NOT NULL").select(
        *_PAIR, F.explode(F.array("next", F.col("next") + 1)).alias("slot")
    )
    return around.unionByName(next_ones)


def _last_of_date(of_pairs: DataFrame, slow_ms: int) -> DataFrame:
    """The minutes in which the last quick update that ended on each date can have begun.

    Just before midnight; or, where those all ended on the next date, about when the last one began that did not.
    """
    before_midnight = F.timestamp_millis(F.unix_millis(F.date_add("event_date", 1).cast("timestamp")) - 1)
    both = F.array(_ends_after(before_midnight, slow_ms), _ends_after(F.col("settled_at"), slow_ms))
    return of_pairs.select(*_PAIR, F.explode(F.flatten(F.array_compact(both))).alias("minute"))


def _ends_after(at: Column, slow_ms: int) -> Column:
    """The minutes in which a quick update may have begun that ended at this instant or later, and began by it."""
    return F.sequence(_minute_of(F.timestamp_millis(F.unix_millis(at) - slow_ms)), _minute_of(at))


def _around(at: DataFrame, of_pairs: DataFrame) -> DataFrame:
    """For each producer's slot and each of its brokers: the slot, its neighbours, and the last one before these."""
    day = F.expr(f"date_from_unix_date(cast(slot div {SLOTS_A_DAY} as int))")
    probes = at.withColumn("event_date", day).join(of_pairs, [*PRODUCER, "event_date"])
    before = F.array_max(F.filter("slots", lambda s: s < F.col("slot") - 1))
    every = F.array(*(F.col("slot") + n for n in (-1, 0, 1)), before, before - 1)
    return probes.select(*_PAIR, F.explode(F.array_compact(every)).alias("slot")).distinct()


def _first_and_last(activity: DataFrame, producers: DataFrame) -> DataFrame:
    """The first and last use of each broker for each topic, by process and date."""
    own = null_safe_semi_join(activity, producers, PRODUCER)
    both = F.array(slot_of(F.col("first_begin_at")), slot_of(F.col("last_begin_at")))
    return own.select(*_PAIR, F.explode(both).alias("slot")).distinct()

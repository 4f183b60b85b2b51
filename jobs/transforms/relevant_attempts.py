"""All attempts in, those from which windows, closing items and verdicts follow out: the same results from few rows.

A quick success changes nothing that anybody sees, unless it ends a stretch, is the last word of a date, or is what a
choice in doubt looked at. So the striking attempts (slow, failed, retries) are kept all; of the quick ones those are
that began in a minute in which their producer's item for their broker matters to a window, and, once the choices in
doubt are known, those that tell what was held, happened and was in use at each. A minute too many is harmless: what
follows from the attempts kept is what follows from all, and two minutes of one hash keep a row more. Stretches in which
a broker is held are known to the millisecond, the last updates before choices in doubt by their second; what
``broker_activity`` tells is known by its slots of 4 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.broker_activity import (
    SLOT_MS,
    is_striking,
    merged_masks,
    slot_of,
    slots_of,
    updates_quickly,
)
from jobs.transforms.frames import staged
from jobs.transforms.last_brokers import is_retry
from jobs.transforms.null_safe_join import null_safe_semi_join
from jobs.transforms.producer_replay import PRODUCER
from udfs.choice_readings import ROUTE_POLL_MS

_PAIR = (*PRODUCER, "broker_name")
_MINUTE_MS = 60_000
_MINUTES = SLOT_MS // _MINUTE_MS


class RelevantAttempts:
    """The attempts of a stretch that matter: those that make the windows, and those that choices in doubt looked at.

    ``attempts``: all of the stretch; ``activity``: their ``broker_activity``; ``tolerance_ms``: how far clocks may err.
    """

    def __init__(self, attempts: DataFrame, activity: DataFrame, *, slow_ms: int, tolerance_ms: int) -> None:
        kept_always = is_striking(slow_ms) | F.col("last_broker_name").isNotNull() | is_retry()
        self._striking = staged(attempts.where(kept_always))
        self._quick = attempts.where(~kept_always)
        self._activity = activity
        self._slow_ms = slow_ms
        self._tolerance_ms = tolerance_ms
        self._of_pairs = staged(_of_pairs(activity))

    @property
    def striking(self) -> DataFrame:
        """Attempts that are kept whatever else there is."""
        return self._striking

    def quick_for_windows(self, updates: DataFrame, carried: DataFrame) -> DataFrame:
        """The quick attempts from which, with the striking ones, stretches, closing items and choices in doubt follow.

        ``updates``: what the striking attempts told the fault tables; ``carried``: fault_item_state rows with which the
        stretch of dates begins. Both are read twice.
        """
        midnight = F.date_add("event_date", 1).cast("timestamp")
        handed_over = carried.select(
            *_PAIR,
            "reachable",
            midnight.alias("at"),
            (F.unix_millis("start_at") - F.unix_millis(midnight)).alias("duration_ms"),
        )
        told = updates.select(*_PAIR, "reachable", "at", "duration_ms").unionByName(handed_over)
        minutes = [
            _held(_while_recorded(told, self._of_pairs), self._slow_ms, self._tolerance_ms),
            _in_minutes(_after_failures(told.where("NOT reachable"), self._of_pairs)),
            _last_of_date(self._of_pairs, self._slow_ms),
        ]
        return self._quick_in(reduce(DataFrame.unionByName, minutes))

    def that_updated_last(self, suspects: DataFrame) -> DataFrame:
        """The quick attempts that tell what the clients' tables held shortly before the ``suspects``."""
        surely_ended = F.timestamp_millis(F.unix_millis("begin_at") - (self._slow_ms + self._tolerance_ms))
        cuts = suspects.select(*PRODUCER, "event_date", _second_of(surely_ended).alias("cut"))
        last = _last_begun_before(cuts, self._quick.where(updates_quickly(self._slow_ms)))
        # What began earlier, by less than a quick attempt takes, may have ended later.
        seconds = F.sequence(*(_second_of(F.timestamp_millis(F.col("last_ms") - ms)) for ms in (self._slow_ms, 0)))
        return self._quick_in(last.select("client_id", "broker_name", F.explode(seconds).alias("second")))

    def that_updated_near(self, suspects: DataFrame) -> DataFrame:
        """The quick attempts that ended when the ``suspects`` began, or nearly so."""
        near = _around(_second_of, self._slow_ms + self._tolerance_ms, self._tolerance_ms)
        return self._quick_in(suspects.select("client_id", near.alias("second")))

    def that_used(self, suspects: DataFrame) -> DataFrame:
        """The quick attempts that tell which brokers the clients used for the topics of the ``suspects``, and when."""
        near = _around(_minute_of, ROUTE_POLL_MS, ROUTE_POLL_MS)
        of_topic = suspects.select("client_id", "topic", near.alias("minute"))
        return self._quick_in(of_topic.unionByName(_first_and_last(self._activity, suspects)))

    def _quick_in(self, wanted: DataFrame) -> DataFrame:
        """The quick attempts of these clients, brokers, topics and times: a semi-join with hashes, which are broadcast.

        The client's id says almost always of which group and cluster it is; each text more is hashed in every row.
        """
        times = {"minute": _minute_of(F.col("begin_at")), "second": _second_of(F.col("begin_at"))}
        names = [name for name in ("client_id", "topic", "broker_name", *times) if name in wanted.columns]
        hashes = wanted.select(F.xxhash64(*names).alias("wanted")).distinct()
        mine = F.xxhash64(*(times.get(name, F.col(name)) for name in names))
        return self._quick.join(F.broadcast(hashes), mine == F.col("wanted"), "left_semi")


def _minute_of(at: Column) -> Column:
    """The minute in which an instant lies, as a number from the epoch on."""
    return F.floor(F.unix_millis(at) / _MINUTE_MS)


def _second_of(at: Column) -> Column:
    return F.floor(F.unix_millis(at) / 1000)


def _around(unit_of: Callable[[Column], Column], before_ms: int, after_ms: int) -> Column:
    """The minutes, or seconds, that a choice's begin lies in, and those so long before and after it."""
    begin_ms = F.unix_millis("begin_at")
    since, until = (unit_of(F.timestamp_millis(begin_ms + ms)) for ms in (-before_ms, after_ms))
    return F.explode(F.sequence(since, until))


def _in_minutes(slots: DataFrame) -> DataFrame:
    """Slots, minute by minute."""
    first = F.col("slot") * _MINUTES
    return slots.select(*_PAIR, F.explode(F.sequence(first, first + (_MINUTES - 1))).alias("minute"))


def _of_pairs(activity: DataFrame) -> DataFrame:
    """Per producer, broker and date, the masks of the slots in which quick updates began, and ``settled_at``."""
    return activity.groupBy(*_PAIR, "event_date").agg(F.max("settled_at").alias("settled_at"), *merged_masks())


def _while_recorded(told: DataFrame, of_pairs: DataFrame) -> DataFrame:
    """The updates that held a broker, no longer than to the end of the last date with quick updates: none is later."""
    last = of_pairs.agg(F.date_add(F.max("event_date"), 1).cast("timestamp").alias("recorded_until"))
    recorded_ms = F.unix_millis("recorded_until") - F.unix_millis("at")
    held = told.where("duration_ms > 0").crossJoin(F.broadcast(last))
    return held.withColumn("duration_ms", F.greatest(F.lit(0), F.least("duration_ms", recorded_ms)))


def _held(told: DataFrame, slow_ms: int, tolerance_ms: int) -> DataFrame:
    """The minutes in which the quick attempts began that began or ended while a broker was held, or nearly so."""
    began = F.timestamp_millis(F.unix_millis("at") - (slow_ms + tolerance_ms))
    until = F.timestamp_millis(F.unix_millis("at") + F.col("duration_ms") + tolerance_ms)
    return told.select(*_PAIR, F.explode(F.sequence(_minute_of(began), _minute_of(until))).alias("minute"))


def _after_failures(failures: DataFrame, of_pairs: DataFrame) -> DataFrame:
    """The slots around each failure, the first later one in which a quick update began, and the one after that."""
    failed = failures.select(
        *_PAIR, F.to_date("at").alias("failed_date"), slot_of(F.col("at")).alias("slot")
    ).distinct()
    after = F.get(F.filter(slots_of(), lambda s: s > F.col("slot")), F.lit(0))
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


def _last_begun_before(cuts: DataFrame, updates: DataFrame) -> DataFrame:
    """For each cut of a producer's date and each of its brokers: when the last of the ``updates`` before it began.

    By a hash aggregation over the time between two cuts; nothing is sorted. Where nothing began in such a time, the
    last before its end is that of an earlier one. ``cuts``: producer, date and a second ``cut``, whose own updates
    are read anyway (``that_updated_near``): seconds bound how many cuts a slot has, whatever a producer sends.
    """
    began = F.col("begin_at")
    made = updates.select(
        *_PAIR,
        "event_date",
        slot_of(began).alias("slot"),
        _second_of(began).alias("second"),
        F.unix_millis(began).alias("ms"),
    )
    between = made.join(F.broadcast(_between_cuts(cuts)), [*PRODUCER, "slot"])
    times = between.where("second >= since AND second < cut").groupBy(*_PAIR, "event_date", "cut")
    return times.agg(F.max("ms").alias("last_ms"))


def _between_cuts(cuts: DataFrame) -> DataFrame:
    """Per producer, the seconds from one cut, or the date's first one, up to the next, once in each slot they reach.

    Rows of their own, not lists to be searched: Spark compiles a join, and interprets what it does with lists.
    """
    midnight = F.unix_seconds(F.col("event_date").cast("timestamp"))
    by_date = cuts.groupBy(*PRODUCER, "event_date").agg(F.array_sort(F.collect_set("cut")).alias("cuts"))
    own = F.filter("cuts", lambda cut: cut > midnight)
    each = by_date.select(*PRODUCER, F.posexplode(own).alias("n", "cut"), own.alias("own"), midnight.alias("midnight"))
    since = F.coalesce(F.get("own", F.col("n") - 1), F.col("midnight"))
    first, last = F.timestamp_seconds(since), F.timestamp_seconds(F.col("cut") - 1)
    slots = F.sequence(slot_of(first), slot_of(last))
    return each.select(*PRODUCER, F.explode(slots).alias("slot"), since.alias("since"), "cut")


def _first_and_last(activity: DataFrame, suspects: DataFrame) -> DataFrame:
    """The minutes in which the clients first and last used each broker for each topic, by process and date."""
    own = null_safe_semi_join(activity, suspects, PRODUCER)
    both = F.array(_minute_of(F.col("first_begin_at")), _minute_of(F.col("last_begin_at")))
    return own.select("client_id", "topic", F.explode(both).alias("minute"))

"""Lines in which a client tells of its own fault table, and replayed windows in; which line shows which window, out.

A log names neither the client nor the topic, and may be that of several clients. The line's thread tells: a sending
thread's line is of a producer that sends on it, any other line is of an ASYNC callback, or of the detector.
Source: LatencyFaultToleranceImpl.updateFaultItem and detectByOneRound, 5.1.4 on.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.producer_replay import PRODUCER
from udfs.release_profiles import PROFILES

# Kinds of client_event that tell of the fault table, with the state of the window they can show.
STATES = {"broker_isolated": "unavailable", "broker_unreachable": "unreachable", "broker_reachable": "unreachable"}
_FACTS = ("log_folder", "thread", "broker_name", "kind", "duration_ms")
LINE = ("cluster", "event_date", "logged_at", "line_digest", "occurrence", *_FACTS)
_PROFILES = [profile.id for profile in PROFILES.values() if profile.has_reachable]  # of clients that write such lines
_OWN_THREAD = ""  # of the client itself: callbacks and the detector
_WINDOW = ("producer_group", "client_id", "started_at", "window_start")


def window_confirmations(lines: DataFrame, windows: DataFrame, writers: DataFrame, *, within_ms: int) -> DataFrame:
    """Rows of window_confirmation: each line, with the one window that it shows, if any.

    Args:
        lines: rows of client_event of the kinds in ``STATES``, with the columns ``LINE``.
        windows: rows of broker_availability_window.
        writers: per process of the same dates, the threads that may write its lines; '' for the client's own.
        within_ms: how far the instants of one event may lie apart, in the log and in the replay.
    """
    writers = writers.select(*PRODUCER, "writer").distinct()
    windows = windows.where(F.col("profile").isin(*_PROFILES))
    named = writers.select("cluster", F.col("writer").alias("thread")).distinct().withColumn("sends", F.lit(True))
    told = (
        lines.select(*LINE)
        .join(F.broadcast(named), ["cluster", "thread"], "left")
        .withColumns(
            {
                "state": F.create_map(*(F.lit(text) for pair in STATES.items() for text in pair))[F.col("kind")],
                "writer": F.when(F.col("sends"), F.col("thread")).otherwise(_OWN_THREAD),
                "minute": _minute(F.unix_millis("logged_at")),
            }
        )
        .drop("sends")
    )
    shown = (
        told.join(_by_minute(windows, within_ms), ["cluster", "broker_name", "state", "minute"], "left")
        .join(F.broadcast(writers.withColumn("writes", F.lit(True))), [*PRODUCER, "writer"], "left")
        .withColumns({"shows": _shows(within_ms), "offset_ms": _offset()})
    )
    # A line is of one client: of several that it fits, the one whose replayed instant is nearest.
    shown = shown.withColumn("rank", F.when(F.col("shows") == "lasted", 1).when(F.col("shows").isNotNull(), 0))
    order = F.struct("rank", F.abs("offset_ms"), *_WINDOW)
    window = F.struct(*_WINDOW, "shows", F.when(F.col("shows") != "lasted", F.col("offset_ms")).alias("offset_ms"))
    fits = F.col("shows").isNotNull()
    best = shown.groupBy(*LINE).agg(
        F.min_by(F.when(fits, window), F.when(fits, order)).alias("window"),
        F.count_if(fits & (F.col("rank") == 0)).cast("int").alias("candidates"),
    )
    return best.select("*", "window.*").drop("window").fillna("nothing", ["shows"])


def _by_minute(windows: DataFrame, within_ms: int) -> DataFrame:
    """Windows, once for each minute in which a line may tell of them, so that lines find them without a wide join."""
    start, end = F.unix_millis("window_start"), F.unix_millis("until")
    midnight = F.timestamp_millis(F.unix_millis(F.col("event_date").cast("timestamp")) + F.lit(86_400_000))
    return windows.withColumn("until", F.coalesce("window_end", midnight)).select(
        "cluster",
        *_WINDOW,
        "broker_name",
        "state",
        "continues_previous",
        "not_available_ms",
        "until",
        F.explode(F.sequence(_minute(start - within_ms), _minute(end + within_ms))).alias("minute"),
    )


def _minute(millis: Column) -> Column:
    return F.floor(millis / 60_000)


def _shows(within_ms: int) -> Column:
    """What a line shows of a window: that it opened, that it lasted, that it ended; null: it shows another one."""
    at, ends = F.unix_millis("logged_at"), F.unix_millis("until") + within_ms
    since = at - F.unix_millis("window_start")
    lasts = (since >= -within_ms) & (at + F.coalesce("duration_ms", F.lit(0)) <= ends)
    of_opening = (F.col("kind") == "broker_unreachable") | (F.col("duration_ms") == F.col("not_available_ms"))
    opens = F.col("writes") & (F.abs(since) <= within_ms) & of_opening & ~F.col("continues_previous")
    # The detector finds a broker reachable for any producer of its process.
    is_end = F.col("kind") == "broker_reachable"
    return (
        F.when(is_end & lasts, "ended")
        .when(~is_end & opens, "opened")
        .when(~is_end & F.col("writes") & lasts, "lasted")
    )


def _offset() -> Column:
    replayed = F.when(F.col("kind") == "broker_reachable", F.col("until")).otherwise(F.col("window_start"))
    return F.unix_millis("logged_at") - F.unix_millis(replayed)

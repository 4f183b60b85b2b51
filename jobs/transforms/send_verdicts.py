"""Send attempts and the stretches in which brokers were held in, a verdict on every choice that is in doubt out.

A choice is beyond doubt when its broker was not held at the time and no rule of its release looks at the broker
before it: whatever else the table held, the client could take it. Spark finds the others (a join of begins with
stretches, by the minute) and, by window functions, what is recorded of every broker around each; that is exact, and
only these few reach Python. pickOneAtLeast and the rules around it then run as a grouped UDF, one group a process,
its choices in order, because a fallback may forget a broker that later choices depend on.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.frames import staged
from jobs.transforms.last_brokers import is_retry
from jobs.transforms.null_safe_join import null_safe_join
from jobs.transforms.producer_replay import PROCESS
from udfs.pandas_udfs import judged_choices

_RULES = (
    "profile",
    "latency_max_ms",
    "not_available_ms",
    "latency_fault_enabled",
    "detector_enabled",
    "reachable_gates_availability",
    "last_broker_rule",
)
_WHO = ("topic", "thread", "msg_id", "mode", "attempt", "broker_name", "queue_id", "begin_at")
_CHOICE = (*PROCESS, "event_date", *_WHO)
_SLOT_MS = 60_000
_NO_LAST = "last_broker_name of a retry is not recorded, and no one attempt before it tells it"
_FOREVER = "9999-12-31"


def choices(attempts: DataFrame, rules: DataFrame) -> DataFrame:
    """Each attempt with the rules it was made under, whether its begin alone puts it in doubt, and what is ``missing``
    to judge it (null: nothing).
    """
    own = rules.select(*PROCESS, "event_date", "verdict", "reasons", *_RULES)
    sent = attempts.select(*PROCESS, "event_date", *_WHO, "last_broker_name", "queue_selected_by")
    made = null_safe_join(sent, F.broadcast(own), [*PROCESS, "event_date"]).withColumns(
        {
            "begin_ms": F.unix_millis("begin_at"),
            "pinned": F.coalesce(F.col("queue_selected_by") != "client", F.lit(False)),
        }
    )
    last, rule = F.col("last_broker_name"), F.col("last_broker_rule")
    on_again = F.coalesce(last == F.col("broker_name"), F.lit(False))
    off = F.col("verdict") == "off"
    # Switched on, 4.8.0 to 5.1.0 do not look at the last broker; without the switch every release does.
    lacks_last = is_retry() & last.isNull() & (off | (rule != "none")) & ~F.col("pinned")
    missing = F.when(F.col("verdict") == "unknown", F.array_join("reasons", "; ")).when(lacks_last, F.lit(_NO_LAST))
    looks_back = (
        F.when(off, on_again)
        .when(rule == "equals", last.isNotNull())
        .when(rule.isin("not_equal", "filter"), on_again)
        .otherwise(F.lit(False))
    )
    return made.withColumns({"looks_back": looks_back & ~F.col("pinned"), "missing": missing})


def unknown_verdicts(made: DataFrame) -> DataFrame:
    """Verdicts on the attempts of which it is not known by what their clients went."""
    return made.where("missing IS NOT NULL").select(
        *_CHOICE,
        "last_broker_name",
        F.col("queue_selected_by").isNull().alias("choice_assumed"),
        F.lit(None).cast("array<string>").alias("admissible"),
        F.lit(None).cast("string").alias("rule"),
        F.lit("unknown").alias("verdict"),
        F.col("missing").alias("reason"),
        "profile",
    )


def doubtful(made: DataFrame, whole: DataFrame, *, until: Column, tolerance_ms: int) -> DataFrame:
    """The choices that need judging: of a broker that was held within the tolerance, or as a rule looks back.

    ``choice`` is a number for each, the same as long as the frame is not computed anew.
    ``whole``: stretches; one without end counts up to the instant ``until``.
    """
    replayed = made.where(F.col("missing").isNull() & ~F.col("pinned"))
    start = F.unix_millis("stretch_start") - tolerance_ms
    end = F.unix_millis(F.least("stretch_end", until)) + tolerance_ms
    last_instant = F.least("stretch_end", until) - F.expr("INTERVAL '0.000001' SECOND")
    slots = F.sequence(F.floor(start / _SLOT_MS), F.floor(end / _SLOT_MS))
    held = whole.select(
        *(F.col(name).alias(f"held_{name}") for name in (*PROCESS, "broker_name", "state")),
        start.alias("held_from_ms"),
        end.alias("held_to_ms"),
        # The tolerance does not reach over midnight: a date knows nothing of what another one held no more, or not yet.
        F.to_date("stretch_start").alias("held_first"),
        F.to_date(F.greatest("stretch_start", last_instant)).alias("held_last"),
        F.explode(slots).alias("held_slot"),
    )
    keys = (F.col(name).eqNullSafe(F.col(f"held_{name}")) for name in (*PROCESS, "broker_name"))
    at_that_time = (
        (F.floor(F.col("begin_ms") / _SLOT_MS) == F.col("held_slot"))
        & F.col("begin_ms").between(F.col("held_from_ms"), F.col("held_to_ms"))
        & F.col("event_date").between(F.col("held_first"), F.col("held_last"))
        & ((F.col("held_state") == "unavailable") | F.col("reachable_gates_availability"))
    )
    back, fresh = replayed.where("looks_back"), replayed.where("NOT looks_back")
    in_doubt = back.unionByName(fresh.join(held, reduce(Column.__and__, keys) & at_that_time, "left_semi"))
    return in_doubt.withColumn("choice", F.monotonically_increasing_id())


def uses(attempts: DataFrame) -> DataFrame:
    """When processes used brokers for topics."""
    return attempts.select(*PROCESS, "event_date", "topic", "broker_name", F.unix_millis("begin_at").alias("begin_ms"))


class Recorded(NamedTuple):
    """What is recorded that a doubtful choice may have looked at.

    ``items``: updates and carried items with the item after each (``with_stretches``), ``start_at`` null: as the one
    before left it; ``near``: those of them that are near choices, and at least one of every broker; ``used``: ``uses``.
    """

    items: DataFrame
    near: DataFrame
    used: DataFrame


def records(suspects: DataFrame, recorded: Recorded, routes: DataFrame, *, tolerance_ms: int) -> DataFrame:
    """Each doubtful choice with what is recorded of every broker that its process knew (``CHOICE_RECORD``).

    ``routes``: of ``held_routes``.
    Only what lies on the choice's own date counts, and the items that the dates before it left, so that a date says the
    same whichever dates are computed with it. ``on_date``: the process updated or used the broker on the date.
    """
    # A process is the number of its first choice here: one key instead of five, two of which may be null.
    processes = F.broadcast(suspects.groupBy(*PROCESS).agg(F.min("choice").alias("process")))

    def own(frame: DataFrame) -> DataFrame:
        named = frame.withColumnRenamed("broker_name", "known_broker")
        return null_safe_join(named, processes, PROCESS).drop(*PROCESS)

    near, used = own(recorded.near), own(recorded.used)
    choice = null_safe_join(suspects, processes, PROCESS).select("choice", "process", "topic", "event_date", "begin_ms")
    probe = staged(_with_known_brokers(choice, near, used))
    seen = _with_item(probe, own(recorded.items), tolerance_ms)
    seen = _with_near_updates(seen, near, tolerance_ms)
    seen = _with_uses(seen, used)
    broker = F.struct("known_broker", "on_date", "item", "near", "used_before_ms", "used_after_ms")
    each = seen.groupBy("choice").agg(F.array_sort(F.collect_list(broker)).alias("brokers"))
    with_routes = suspects.join(routes, ["cluster", "topic", "event_date", "begin_at"], "left")
    return with_routes.join(each, "choice").drop("choice")


def _with_known_brokers(choice: DataFrame, rows: DataFrame, used: DataFrame) -> DataFrame:
    """Each choice once per broker that its process updated or used on its date, or has an item of from before it."""
    keys = ("process", "known_broker")
    is_update = F.col("row_rank") == 1
    told = rows.select(*keys, F.when(is_update, F.col("event_date")).alias("day"), F.col("event_date").alias("since"))
    known = (
        told.unionByName(used.select(*keys, F.col("event_date").alias("day")), allowMissingColumns=True)
        .groupBy(*keys)
        .agg(F.collect_set("day").alias("days"), F.min("since").alias("since"))
    )
    on_date, has_item = F.array_contains("days", F.col("event_date")), F.col("since") <= F.col("event_date")
    return (
        choice.join(known, "process")
        .withColumn("on_date", on_date)
        .where(on_date | F.coalesce(has_item, F.lit(False)))
        .drop("days", "since")
    )


def _with_item(probe: DataFrame, rows: DataFrame, tolerance_ms: int) -> DataFrame:
    """The item as the last update before the tolerance left it; of earlier dates, every update."""
    updated = F.struct(
        F.col("latency_ms"),
        F.col("reachable"),
        F.unix_millis("last_update_at").alias("updated_at_ms"),
        F.unix_millis("forgotten_at").alias("forgotten_at_ms"),
    )
    updates = rows.select(
        "process",
        "known_broker",
        F.unix_millis("at").alias("order_ms"),
        (F.col("row_rank") * 2).alias("order_rank"),
        F.struct("begin_at", "thread", "msg_id", "attempt", "phase_rank").alias("order_tie"),
        updated.alias("updated"),
        F.unix_millis("start_at").alias("start_ms"),
    )
    midnight_ms = F.unix_millis(F.col("event_date").cast("timestamp"))
    probes = probe.select(
        "choice",
        "process",
        "known_broker",
        F.greatest(F.col("begin_ms") - tolerance_ms, midnight_ms).alias("order_ms"),
        F.lit(1).alias("order_rank"),  # after a carried item, before an update of the same instant
    )
    both = updates.unionByName(probes, allowMissingColumns=True)
    so_far = Window.partitionBy("process", "known_broker").orderBy("order_ms", "order_rank", "order_tie")
    before = so_far.rowsBetween(Window.unboundedPreceding, -1)
    last = {name: F.last(name, ignorenulls=True).over(before) for name in ("updated", "start_ms")}
    item = F.when(F.col("updated").isNotNull(), F.col("updated").withField("start_ms", F.col("start_ms")))
    items = both.withColumns(last).where("choice IS NOT NULL").select("choice", "known_broker", item.alias("item"))
    return probe.join(items, ["choice", "known_broker"])


def _with_near_updates(seen: DataFrame, rows: DataFrame, tolerance_ms: int) -> DataFrame:
    """The updates of the same date within the tolerance of each choice, in their order."""
    slot_ms = max(tolerance_ms, 1) * 4
    wanted = F.sequence(
        F.floor((F.col("begin_ms") - tolerance_ms) / slot_ms), F.floor((F.col("begin_ms") + tolerance_ms) / slot_ms)
    )
    update = F.struct(
        F.unix_millis("at").alias("at_ms"),
        F.unix_millis("begin_at").alias("update_begin_ms"),
        F.col("thread").alias("update_thread"),
        F.col("msg_id").alias("update_msg_id"),
        F.col("attempt").alias("update_attempt"),
        "phase_rank",
        "latency_ms",
        "isolation",
        "reachable",
    )
    slot = F.floor(F.unix_millis("at") / slot_ms)
    made = rows.where(F.col("row_rank") == 1).select(
        "process", "known_broker", "event_date", slot.alias("slot"), update.alias("update")
    )
    slots = seen.select("choice", "process", "event_date", "begin_ms", "known_broker", F.explode(wanted).alias("slot"))
    close = slots.join(made, ["process", "event_date", "known_broker", "slot"]).where(
        F.abs(F.col("update.at_ms") - F.col("begin_ms")) <= tolerance_ms
    )
    # A set: the same update may be there for its stretch and for being near.
    near = close.groupBy("choice", "known_broker").agg(F.array_sort(F.collect_set("update")).alias("near"))
    return seen.join(near, ["choice", "known_broker"], "left")


def _with_uses(seen: DataFrame, used: DataFrame) -> DataFrame:
    """When the process last used each broker for the topic, and when it did so next, on the same date."""
    both = used.withColumn("use_ms", F.col("begin_ms")).unionByName(seen, allowMissingColumns=True)
    of_topic = Window.partitionBy("process", "topic", "known_broker", "event_date")
    # A frame that grows with the rows; one that shrinks is computed anew for each row.
    by_time = of_topic.orderBy("begin_ms").rangeBetween(Window.unboundedPreceding, 0)
    backwards = of_topic.orderBy(F.desc("begin_ms")).rangeBetween(Window.unboundedPreceding, -1)
    return (
        both.withColumns(
            {
                "used_before_ms": F.max("use_ms").over(by_time),
                "used_after_ms": F.min("use_ms").over(backwards),
            }
        )
        .where("choice IS NOT NULL")
        .drop("use_ms")
    )


def judged(recorded: DataFrame, *, tolerance_ms: int) -> DataFrame:
    """Doubtful choices with their verdicts and ``removals``: what a choice (perhaps) made its client forget."""
    shown = recorded.withColumn("choice_assumed", F.col("queue_selected_by").isNull())
    kept = [*_CHOICE, "last_broker_name", "choice_assumed", "profile"]
    return judged_choices(shown, [*PROCESS], kept, tolerance_ms=tolerance_ms)


def removals(verdicts: DataFrame) -> DataFrame:
    """What choices made their clients forget: ``ITEM``, the instant ``at``, and whether they ``surely`` did."""
    gone = verdicts.select(*PROCESS, F.explode("removals").alias("removal"))
    return gone.select(
        *PROCESS, "removal.broker_name", F.timestamp_millis("removal.at_ms").alias("at"), "removal.surely"
    )

"""A topic of a group's round in, as columns; what was not asked for, and what was asked for and did not come, out.

Nobody asked, a server refused, the answer could not be read, no answer came: each is said in words of its own.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from udfs.unread_answers import UNREADABLE


def not_asked() -> Column:
    """Inputs that nobody asked for in this round: without them there is no verdict at all."""
    nobody_to_ask = F.col("is_listed") & (F.size("members") == 0)
    return F.array_compact(
        F.array(
            F.when(
                F.col("route_collected").isNull(),
                F.concat(F.lit("topic_route of "), F.col("topic"), F.lit(": not_collected")),
            ),
            F.when(
                (F.size("reads") == 0) & (F.size("statuses") == 0) & ~nobody_to_ask & (F.size("members") > 0),
                F.lit("running infos: not asked for in this round"),
            ),
        )
    )


def _fate(error: Column, error_code: Column) -> Column:
    """What became of a read that was tried: refused by a server, answered so that it cannot be read, or no answer."""
    return (
        F.when(error.startswith(UNREADABLE), error)
        .when(error_code.isNotNull(), F.concat(F.lit("refused, CODE "), error_code.cast("string")))
        .otherwise(F.lit("no answer"))
    )


def unanswered() -> Column:
    """Inputs that were due in this round and did not come."""
    asked = F.transform("reads", lambda r: r["client_id"])
    silent = F.filter("reads", lambda r: ~r["answered"])
    unread = F.array_except(F.array_distinct("members"), asked)
    failed = F.filter(F.coalesce("listings", F.array().cast(_LISTINGS)), lambda p: ~p["told"])
    none = F.array().cast("array<string>")
    of_broker = F.transform(
        failed,
        lambda p: F.concat(
            F.lit("consumer list"),
            F.when(p["broker_name"].isNull(), F.lit("")).otherwise(F.concat(F.lit(" of "), p["broker_name"])),
            F.lit(": "),
            _fate(p["error"], p["error_code"]),
        ),
    )
    named = F.array_compact(F.transform("listings", lambda p: p["broker_name"]))
    unasked = F.transform(
        F.array_except("route_brokers", named),
        lambda b: F.concat(F.lit("consumer list of "), b, F.lit(": not asked for")),
    )
    of_route = F.concat(F.lit("topic_route of "), F.col("topic"), F.lit(": "))
    route_fate = F.when(F.col("route").isNull(), F.lit("not read in this round")).otherwise(
        _fate(F.col("route.error"), F.col("route.error_code"))
    )
    route_missing = F.col("route_collected").isNotNull() & F.col("queues").isNull()
    single = F.array_compact(
        F.array(
            F.when(F.col("listings").isNull(), F.lit("consumer list: not asked for in this round")),
            F.when(route_missing, F.concat(of_route, route_fate)),
            F.when(F.col("routes_differ"), F.concat(of_route, F.lit("the name servers differ"))),
            F.when(F.col("message_model").isNull() & (F.size("members") > 0), F.lit("message model: not read")),
        )
    )
    infos = F.when(
        F.size("reads") > 0,
        F.concat(
            F.transform(
                silent,
                lambda r: F.concat(
                    F.lit("running info of "), r["client_id"], F.lit(": "), _fate(r["error"], r["error_code"])
                ),
            ),
            F.transform(unread, lambda c: F.concat(F.lit("running info of "), c, F.lit(": not asked for"))),
        ),
    ).otherwise(none)
    unreached = F.transform(
        F.filter("statuses", lambda s: ~s["answered"]),
        lambda s: F.concat(F.lit("running info of a member: "), _fate(s["error"], s["error_code"])),
    )
    ignored = F.when((F.size("reads") == 0) & F.exists("statuses", lambda s: s["answered"]), F.array(F.lit(_IGNORED)))
    of_others = F.when(F.size(named) > 0, unasked)
    return F.concat(of_broker, F.coalesce(of_others, none), single, infos, unreached, F.coalesce(ignored, none))


_IGNORED = (
    "running infos: asked and ignored: consumerStatus -g prints no queues, the files that it writes into a folder do"
)
_LISTINGS = (
    "array<struct<broker_name: string, captured_at: timestamp, told: boolean, error: string, error_code: int, "
    "evidence: string>>"
)

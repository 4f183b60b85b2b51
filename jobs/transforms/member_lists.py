"""Captures and heartbeats in; per round and group who the members are, as each broker lists them, out.

A list that was asked of a named broker is that broker's view. One without a name is some broker's, drawn by lot: it
counts where no broker was asked by name. Clients rebalance by what one broker answers, so views that differ are a fact.
Java compares strings by UTF-16 code units, which is the order of their UTF-16BE bytes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import GROUP_OF_ROUND, ID_LIST, LISTING, evidence

_PLACE = [*GROUP_OF_ROUND, "place"]
_UNNAMED = ""
_NOT_ONLINE = 206  # ResponseCode.CONSUMER_NOT_ONLINE
_NO_CONSUMER = "no consumer for this group"  # ConsumerManageProcessor, with ResponseCode.SYSTEM_ERROR


def listed_members(captures: DataFrame, heartbeats: DataFrame) -> DataFrame:
    """Per round and group: the member list, duplicates kept as the broker gave them, and what its connections say.

    ``listings``: each place that was asked, its answer or error; ``broker_views``: the members of each that told them,
    none where it knows of nobody (CODE 206); ``members``: whoever is in a view, null where no place told.
    """
    places = _places(captures, heartbeats)
    by_name = (F.col("place") != _UNNAMED) & F.col("told")
    said = F.struct(
        "place", "told", "captured_at", "error", "error_code", "evidence", "members", "connections", "message_model"
    )
    groups = places.groupBy(*GROUP_OF_ROUND).agg(
        F.array_sort(F.collect_list(said)).alias("places"), F.max(by_name).alias("is_named")
    )
    asked = F.filter("places", lambda p: ~F.col("is_named") | (p["place"] != _UNNAMED))
    told = F.filter("asked", lambda p: p["told"])
    return (
        groups.withColumn("asked", asked)
        .withColumn("told", told)
        .select(
            *GROUP_OF_ROUND,
            F.transform("asked", _listing).alias("listings"),
            F.transform("told", lambda p: F.struct(_name(p["place"]), p["members"].alias("members"))).alias(
                "broker_views"
            ),
            F.array_sort(F.flatten(F.transform("told", lambda p: p["connections"]))).alias("connections"),
            F.array_min(F.transform("told", lambda p: p["message_model"])).alias("listed_model"),
            F.array_distinct(F.transform("told", lambda p: p["members"])).alias("lists"),
        )
        .withColumns(
            {
                "members": F.when(F.size("lists") > 0, _everybody(F.col("lists"))),
                "distinct_views": F.size("lists"),
            }
        )
        .drop("lists")
    )


def _places(captures: DataFrame, heartbeats: DataFrame) -> DataFrame:
    """Per round, group and place: its last list, or why there is none; an answer counts before a failure."""
    nobody = F.when(F.col("kind") == LISTING, F.col("error_code") == _NOT_ONLINE).otherwise(
        F.col("error").contains(_NO_CONSUMER)
    )
    lists = captures.where(F.col("kind").isin(LISTING, ID_LIST) & F.col("consumer_group").isNotNull()).select(
        *GROUP_OF_ROUND,
        F.coalesce("broker_name", F.lit(_UNNAMED)).alias("place"),
        "kind",
        "captured_at",
        "error",
        "error_code",
        "member_ids",
        evidence(captures).alias("evidence"),
        (F.col("answered") | F.coalesce(nobody, F.lit(False))).alias("told"),
    )
    none = F.array().cast("array<string>")
    ids = F.when(F.col("kind") == ID_LIST, F.col("member_ids")).when(F.col("kind") == LISTING, F.col("connected"))
    answers = lists.join(_connections(heartbeats), [*_PLACE, "captured_at"], "left").withColumn(
        "members", _in_java_order(F.coalesce(ids, none))
    )
    said = F.struct("told", "captured_at", "error", "error_code", "evidence", "members")
    # An id list names no addresses: those are of the last list of connections, whichever came later.
    connected = F.when(F.col("connections").isNotNull(), F.struct("captured_at", "connections", "message_model"))
    return (
        answers.groupBy(*_PLACE)
        .agg(F.max(said).alias("said"), F.max(connected).alias("connected"))
        .select(*_PLACE, "said.*", "connected.connections", "connected.message_model")
        .withColumn("connections", F.coalesce("connections", F.array().cast(_CONNECTIONS)))
    )


_CONNECTIONS = (
    "array<struct<client_id: string, version: int, language: string, broker_name: string, address: string, "
    "kind: string>>"
)


def _connections(heartbeats: DataFrame) -> DataFrame:
    """Per listing of connections: who is in it, with what is known of each."""
    connection = F.struct(
        "client_id",
        F.col("client_version").alias("version"),
        F.coalesce("language", F.lit("JAVA")).alias("language"),
        "broker_name",
        "address",
        F.col("client_kind").alias("kind"),
    )
    return (
        heartbeats.withColumn("place", F.coalesce("broker_name", F.lit(_UNNAMED)))
        .groupBy(*_PLACE, "captured_at")
        .agg(
            F.collect_list("client_id").alias("connected"),
            F.collect_list(connection).alias("connections"),
            F.first("message_model").alias("message_model"),
        )
    )


def _listing(place: Column) -> Column:
    return F.struct(
        _name(place["place"]),
        place["captured_at"].alias("captured_at"),
        place["told"].alias("told"),
        place["error"].alias("error"),
        place["error_code"].alias("error_code"),
        place["evidence"].alias("evidence"),
    )


def _name(place: Column) -> Column:
    return F.when(place != _UNNAMED, place).alias("broker_name")


def _everybody(views: Column) -> Column:
    """Whoever is in a view; an id that one view holds twice is there twice. Views are sorted.

    Ids are counted only where they are doubled: to count each of a thousand members takes a million steps a round.
    """
    doubled = F.flatten(F.transform(views, lambda view: F.filter(view, lambda c, i: c == F.get(view, i - 1))))

    def further(client_id: Column) -> Column:
        most = F.array_max(F.transform(views, lambda view: F.size(F.filter(view, lambda c: c == client_id))))
        return F.array_repeat(client_id, most - 1)

    again = F.flatten(F.transform(F.array_distinct(doubled), further))
    return _in_java_order(F.concat(F.array_distinct(F.flatten(views)), again))


def _in_java_order(array: Column) -> Column:
    """An array of strings sorted as Java's String.compareTo sorts them, duplicates kept."""
    keyed = F.transform(array, lambda s: F.struct(F.encode(s, "UTF-16BE").alias("k"), s.alias("s")))
    return F.transform(F.array_sort(keyed), lambda pair: pair["s"])

"""What clients showed of their strategies in; each member's rule and the group's own, per round, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.transforms.group_rounds import GROUP_OF_ROUND, INFO
from jobs.transforms.overrides import first_override
from udfs.allocation import STRATEGIES
from udfs.member_families import Declaration
from udfs.pandas_udfs import member_profiles
from udfs.round_facts import OTHER_CLASS


def strategy_events(rebalances: DataFrame, captures: DataFrame, carried: DataFrame) -> DataFrame:
    """Every time a client showed its strategy: its log line, its running info, or what the date before handed over."""
    member = ("cluster", "consumer_group", "client_id")
    # Go's clients do not write theirs.
    told = rebalances.where(F.col("strategy") != "")
    logged = told.select(*member, F.col("logged_at").alias("at"), "strategy", F.lit("client_log").alias("source"))
    shown = captures.where((F.col("kind") == INFO) & F.col("strategy").isNotNull()).select(
        *member, F.col("captured_at").alias("at"), "strategy", F.lit("running_info").alias("source")
    )
    kept = carried.select(
        *member, F.col("known_since").alias("at"), "strategy", F.col("strategy_source").alias("source")
    )
    return logged.unionByName(shown).unionByName(kept)


def member_rules(
    groups: DataFrame,
    events: DataFrame,
    *,
    configured: Sequence[Mapping[str, Any]],
    declared: Sequence[Declaration] = (),
) -> DataFrame:
    """Per round and group: each distinct member's strategy as last shown, its release family, and the group's own rule.

    ``declared``: what settings say of single members. In order of trust: client log, running info, settings; a class
    that is none of RocketMQ's own says least. Clients that know AVG only have that, whatever is said. The group's:
    configured, else the majority of the known ones (ties in the order of STRATEGIES), else AVG, which is RocketMQ's
    default.
    """
    known = F.when(_is_known(F.col("shown")), F.col("shown"))
    source = (
        F.when(F.col("rules.bound"), F.lit("release"))
        .when(F.col("logged").isNotNull(), F.lit("client_log"))
        .when(known.isNotNull(), F.lit("running_info"))
        .when(F.coalesce("rules.declared", "set").isNotNull(), F.lit("settings"))
        .when(F.col("shown").isNotNull(), F.lit("running_info"))
    )
    rule = F.struct(
        "client_id",
        F.when(F.col("rules.bound"), F.lit("AVG"))
        .otherwise(F.coalesce("logged", known, "rules.declared", "set", "shown"))
        .alias("strategy"),
        source.alias("source"),
        F.col("rules.profile").alias("profile"),
    )
    of_group = (
        _last_shown(_probes(groups), events, configured, declared)
        .groupBy(*GROUP_OF_ROUND)
        .agg(
            F.array_sort(F.collect_list(rule)).alias("member_rules"),
            F.first("set").alias("set"),
            F.first("parameters").cast("string").alias("parameters"),
        )
    )
    majority, profile = _majority("strategy", list(STRATEGIES)), _majority("profile", [])
    return of_group.select(
        *GROUP_OF_ROUND,
        "member_rules",
        F.coalesce(F.col("set"), majority["value"], F.lit("AVG")).alias("strategy"),
        F.when(F.col("set").isNotNull(), F.lit("settings"))
        .otherwise(F.coalesce(majority["source"], F.lit("default")))
        .alias("strategy_source"),
        profile["value"].alias("profile"),
        F.coalesce("parameters", F.lit("")).alias("strategy_parameters"),
    )


def _is_known(strategy: Column) -> Column:
    return ~strategy.startswith(OTHER_CLASS)


def _probes(groups: DataFrame) -> DataFrame:
    """Per round, group and distinct member: when it was read, and what tells its release.

    The newest version that its connections report, with their language, and what its own running infos state.
    """
    member = [*GROUP_OF_ROUND, "at", "client_id"]
    of_round = groups.select(*GROUP_OF_ROUND, F.col("read_until").alias("at"), "connections", "reads")
    reported = of_round.select("*", F.inline("connections")).select(
        *member, F.struct("version", "language").alias("said")
    )
    stated = of_round.select("*", F.inline("reads")).select(*member, "client_version")
    return (
        reported.unionByName(stated, allowMissingColumns=True)
        .groupBy(*member)
        .agg(F.max("said").alias("said"), F.max("client_version").alias("client_version"))
        .where(F.col("said").isNotNull())
        .select(*member, "said.*", "client_version")
    )


def _last_shown(
    probes: DataFrame, events: DataFrame, configured: Sequence[Mapping[str, Any]], declared: Sequence[Declaration]
) -> DataFrame:
    """The probes with what each member last showed until then, by source, and what settings say of it."""
    so_far = Window.partitionBy("cluster", "consumer_group", "client_id").orderBy("at", F.col("round_at").isNotNull())

    def last(source: str) -> Column:
        return F.last(F.when(F.col("source") == source, F.col("strategy")), ignorenulls=True).over(so_far)

    return (
        events.unionByName(probes, allowMissingColumns=True)
        .withColumns({"logged": last("client_log"), "shown": last("running_info")})
        .where(F.col("round_at").isNotNull())
        .withColumn("set", first_override(configured, "name", ("cluster", "consumer_group")))
        .withColumn("parameters", first_override(configured, "parameters", ("cluster", "consumer_group")))
        .withColumn(
            "rules",
            member_profiles(declared)(
                "language", "version", "client_version", "client_id", "cluster", "consumer_group"
            ),
        )
    )


def _majority(name: str, order: list[str]) -> Column:
    """The most frequent known value of ``member_rules``, with its most trusted source; ties by ``order``, then by name.

    Few values are distinct, members may be many: nothing here is worked out for each member.
    """
    place = F.array(*map(F.lit, [*order, ""]))

    def ranked(value: Column) -> Column:
        own = F.filter("member_rules", lambda r: r[name] == value)
        rank = F.coalesce(F.nullif(F.array_position(place, value), F.lit(0)), F.lit(999))
        source = F.array_min(F.transform(own, lambda r: r["source"]))
        return F.struct((-F.size(own)).alias("n"), rank.alias("rank"), value.alias("value"), source.alias("source"))

    values = F.array_compact(F.array_distinct(F.transform("member_rules", lambda r: r[name])))
    return F.try_element_at(F.array_sort(F.transform(F.filter(values, _is_known), ranked)), F.lit(1))

"""Progress with names that mqadmin may have cut, and what routes and subscriptions name, in; the whole names, out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from udfs.cut_names import BROKER_MAYBE_CUT, TOPIC_MAYBE_CUT
from udfs.pandas_udfs import whole_names

_READING = ("cluster", "collector", "round_at", "consumer_group", "printed")


def with_whole_names(progress: DataFrame, captures: DataFrame, routes: DataFrame) -> DataFrame:
    """Rows of ``queue_progress`` with the topic and broker that ``udfs.cut_names.whole_name`` tells.

    Known are the group's own retry topic, then what the round's routes and subscriptions name, then what those of the
    cluster's date do, whoever collected them. Rows without such a doubt stay as they are.
    """
    retry = F.array(F.concat(F.lit("%RETRY%"), "consumer_group"))
    subscribed = captures.withColumn("topic", F.explode(F.expr("subscriptions.topic")))
    topics = _named(routes, "topic").unionByName(_named(subscribed, "topic"))
    whole_topics = _resolved(progress, topics, "topic", TOPIC_MAYBE_CUT, retry)
    brokers = _named(routes, "broker_name")
    return _resolved(whole_topics, brokers, "broker_name", BROKER_MAYBE_CUT, F.array().cast("array<string>"))


def _named(rows: DataFrame, column: str) -> DataFrame:
    told_in = F.struct("cluster", "collector", "round_at").alias("told_in")
    return rows.select(told_in, F.to_date("round_at").alias("told_on"), F.col(column).alias("name")).distinct()


def _resolved(progress: DataFrame, named: DataFrame, column: str, doubt: str, own: Column) -> DataFrame:
    in_doubt = F.coalesce(F.array_contains("doubts", doubt), F.lit(False))
    rows = progress.withColumn("printed", F.when(in_doubt, F.col(column)))
    doubtful = rows.where(in_doubt).select(*_READING).distinct()
    of_date = (F.col("told_in.cluster") == F.col("cluster")) & (F.col("told_on") == F.to_date("round_at"))
    begun = doubtful.join(named, of_date & F.col("name").startswith(F.col("printed")), "left")
    of_round = F.when(F.col("told_in") == F.struct("cluster", "collector", "round_at"), F.col("name"))
    names = (F.collect_set(of_round).alias("of_round"), F.collect_set("name").alias("of_date"))
    known = begun.groupBy(*_READING).agg(*names)
    whole = known.select(*_READING, whole_names()("printed", own, "of_round", "of_date").alias("whole"))
    return (
        rows.join(whole, list(_READING), "left")
        .withColumn(column, F.coalesce("whole", column))
        .select(*progress.columns)
    )

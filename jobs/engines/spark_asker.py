"""Answers about a lake with Spark, for lakes that one machine cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typing_extensions import override

from hindsight.jobs.engines.asker import Asker, BadQueryError, no_column, no_table, only_read
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.spark_sql import sql_text
from hindsight.jobs.lake.what_ifs import supposed_in, what_if_root
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from hindsight.schemas import Table

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_DOES = ("Command", "ParsedStatement")
_RUNS = ("InsertIntoDir", "UnresolvedExecuteImmediate")  # which are neither
_TELLS = ("Describe", "Show", "Explain")


class SparkAsker(Asker):
    """The tables and views of a lake in a session of Spark's; see ``Asker``."""

    lake: Lake

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """The views must be in place: ``sql_views.create_views``."""
        self.lake = lake
        self._spark = spark

    @override
    def answer(self, query: str, limit: int | None = None) -> pa.RecordBatchReader:
        for word, name, table in supposed_in(query, self._spark, self.lake.root):
            of = Lake(self._spark, what_if_root(self.lake.root, name), retention_days=self.lake.retention_days)
            of.read(table).createOrReplaceTempView(word)
        try:
            self._require_question(query)
            found = self._spark.sql(query)
            rows = (found if limit is None else found.limit(limit)).toArrow()
        except (AnalysisException, ParseException) as error:
            raise _explained(error) from error
        return rows.to_reader()

    def _require_question(self, query: str) -> None:
        """Refuse what would do more than ask: Spark runs a command as soon as it is given one."""
        plan = self._spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
        if not _name_of(plan).startswith(_TELLS):
            # One of each class: every question about a node goes to the JVM and back.
            of_class = {str(node.getClass().getName()): node for node in _nodes(plan)}
            for node in of_class.values():
                if _name_of(node) in _RUNS or any(_is_a(node, kind) for kind in _DOES):
                    raise only_read(_name_of(node))

    def answers(self, queries: Sequence[str]) -> list[pa.Table]:
        """The rows of independent queries, asked at once: small ones keep only the driver waiting."""
        return [reader.read_all() for reader in self.lake.together(partial(self.answer, query) for query in queries)]

    @override
    def stored(self, table: Table, dates: DateRange = EVERY_DATE) -> DataFrame:
        rows = self.lake.read(table)
        first, last = F.lit(dates.first or date.min), F.lit(dates.last or date.max)
        return rows.where(rows["event_date"].between(first, last)) if dates.is_given else rows

    @override
    def name(self, name: str, rows: pa.Table) -> None:
        self._spark.createDataFrame(rows).createOrReplaceTempView(name)

    @override
    def literal(self, text: str) -> str:
        return sql_text(text)


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan of Spark's and all below it."""
    yield plan
    children = plan.children()
    for place in range(children.size()):
        yield from _nodes(children.apply(place))


def _name_of(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _is_a(plan: Any, kind: str) -> bool:
    return bool(plan.getClass().getClassLoader().loadClass(_PLANS + kind).isInstance(plan))


def _explained(error: AnalysisException | ParseException) -> BadQueryError:
    """What is wrong with a query, in one sentence."""
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return no_table(_name(told["relationName"]))
    if condition.startswith("UNRESOLVED_COLUMN"):
        return no_column(_name(told["objectName"]))
    first = next(filter(None, map(str.strip, str(error).splitlines())), condition)
    return BadQueryError(first)


def _name(quoted: str) -> str:
    return quoted.replace("`", "").rpartition(".")[2]

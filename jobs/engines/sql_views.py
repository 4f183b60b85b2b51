"""Named tables and views for ad-hoc SQL: the views' texts, which both engines take as they are, and Spark's names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from hindsight.jobs.engines.spark_sql import sql_text
from hindsight.jobs.lake.table_schema import stored_schema
from hindsight.schemas import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindsight.jobs.engines.delta_tables import Lake

DATABASE = "hindsight"

# A view's file is Spark's own statement; this is what it is made of.
_VIEW = re.compile(
    r"CREATE OR REPLACE VIEW (?P<name>\w+) \((?P<columns>.+?)\n\) COMMENT '(?P<comment>.+?)'\nAS (?P<query>.+);\s*$",
    re.DOTALL,
)
_COLUMN = re.compile(r"^  (?P<name>\w+) COMMENT '(?P<comment>.+)',?$", re.MULTILINE)


class View(NamedTuple):
    """A view: its name, what it shows, what each column means, and the query that it stands for."""

    name: str
    comment: str
    columns: dict[str, str]
    query: str


def create_views(spark: SparkSession, lake: Lake) -> list[str]:
    """Make database ``hindsight`` Spark's current one, with every table of the lake and every view in it.

    The tables at their paths are the truth; these are names for them. One that has had no row yet is named too, and has
    none: it is not made, since who asks may not hold the lake. Where a metastore is configured the names persist, else
    they last as long as the session. Returns the names of the views.
    """
    # Its folder holds no row: every table that was made has a place of its own. Spark's default would be the working
    # directory.
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE} LOCATION {sql_text(lake.root + '/_database')}")
    spark.sql(f"USE {DATABASE}")
    there = lake.together(partial(_is_there, lake, table) for table in TABLES.values())
    for table, is_there in zip(TABLES.values(), there, strict=True):
        _name(spark, lake, table, is_there=is_there)
    texts = view_texts()
    for text in texts.values():
        spark.sql(text)
    return list(texts)


def views() -> Iterator[View]:
    """Each view, in the order of their files."""
    for text in view_texts().values():
        found = _VIEW.search(text)
        if found is None:
            raise ValueError(f"this is no view: {text[:80]}")
        columns = {name: _plain(comment) for name, comment in _COLUMN.findall(found["columns"])}
        yield View(found["name"], _plain(found["comment"]), columns, found["query"])


def _plain(comment: str) -> str:
    return comment.replace("\\'", "'")


def columns_by_name() -> dict[str, list[str]]:
    """The columns of each table and view."""
    return {table.name: table.schema.names for table in TABLES.values()} | {v.name: list(v.columns) for v in views()}


def view_texts() -> dict[str, str]:
    """Each view's SQL by its name, in the order of their files."""
    sources = sorted(files("hindsight.schemas").joinpath("views").iterdir(), key=lambda source: source.name)
    return {s.name.removesuffix(".sql"): s.read_text(encoding="utf-8") for s in sources if s.name.endswith(".sql")}


def _is_there(lake: Lake, table: Table) -> bool:
    """Whether the table was made; with the columns of its contract by then."""
    if lake.exists(table):
        lake.create(table)
        return True
    return False


def _name(spark: SparkSession, lake: Lake, table: Table, *, is_there: bool) -> None:
    """Point the table's name at this lake; where a metastore kept it for another one, only the name is dropped."""
    if spark.catalog.tableExists(table.name):
        spark.sql(f"DROP TABLE `{table.name}`")
    if is_there:
        spark.sql(f"CREATE TABLE `{table.name}` USING delta LOCATION {sql_text(lake.path(table))}")
    else:
        spark.catalog.createTable(table.name, source="parquet", schema=stored_schema(table))

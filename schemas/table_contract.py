"""What a table promises: columns with comments, natural key, value sets, which columns are lineage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from hindsight.schemas.column_types import StructType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkColumns


LINEAGE = frozenset({"ingested_at", "computed_at", "run_id"})


class Invariant(NamedTuple):
    """What must hold in a candidate beyond its key and value sets, by name: SQL that selects the rows that break it.

    ``{batch}`` is the candidate, ``candidate_<table>`` that of another table, which is one of ``beside``. A critical
    rule that selects a row stops the publication; a warning is reported. Spark and DuckDB both take the queries, DuckDB
    with Spark's ``size`` and its own word for a function without a name.
    """

    name: str
    query: str
    severity: Literal["critical", "warning"] = "critical"

    @property
    def beside(self) -> tuple[str, ...]:
        """The other tables that it looks at."""
        return tuple(dict.fromkeys(re.findall(r"candidate_(\w+)", self.query)))


@dataclass(frozen=True)
class Part:
    """Columns of a row that one source line brings.

    Of rival lines the smallest ``order`` wins (SQL over the row ``{r}``); ``line`` names the columns that hold file
    and line; null there: the part is absent.
    """

    columns: tuple[str, ...]
    order: tuple[str, ...]
    line: tuple[str, str] = ("source_file", "source_line")


@dataclass(frozen=True)
class Table:
    """The contract of one Delta table at ``<lake>/<name>``; its columns are ``schema``.

    ``key`` identifies a row; ``lineage`` columns (ingestion time, run) are outside the promise that a rebuild
    gives equal contents; ``values`` are the only values a column may hold besides null; ``carried`` are the columns of
    a closing state on which the next date depends (by default all of the contract); ``verdicts``: a row whose key stays
    and one of these changes has flipped. A code that is part of a key cannot flip: such a row vanishes, and another
    appears. A table without verdicts holds facts or states; its rows change. ``rules``: what its gate asks besides.
    """

    name: str
    comment: str
    schema: StructType
    key: tuple[str, ...]
    dated: bool = True
    lineage: frozenset[str] = frozenset()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    parts: tuple[Part, ...] = ()
    carried: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    rules: tuple[Invariant, ...] = ()

    @property
    def columns(self) -> SparkColumns:
        """The columns in Spark's own types, for what works with Spark; this loads it."""
        return spark_columns(self.schema)

    @property
    def contract_columns(self) -> list[str]:
        """Names of the columns that equal inputs make equal."""
        return [name for name in self.schema.names if name not in self.lineage]

    @property
    def row_parts(self) -> tuple[Part, ...]:
        """The parts of a row; by default one: everything outside the key, ordered by the source line."""
        if self.parts:
            return self.parts
        rest = tuple(name for name in self.schema.names if name not in self.key)
        return (Part(rest, ("{r}.source_file", "{r}.source_line")),)

    @property
    def carried_columns(self) -> list[str]:
        """The columns of a closing state on which the next date depends."""
        return list(self.carried) or self.contract_columns

    def known(self, column: str) -> tuple[str, ...]:
        """The only values that a column of ``values`` may hold."""
        return dict(self.values)[column]

    @property
    def date_of(self) -> str:
        """The column whose UTC date ``event_date`` is."""
        return str(self.schema["event_date"].metadata["date_of"])

    @property
    def comment_of(self) -> dict[str, str]:
        """Each column's comment."""
        return {field.name: str(field.metadata["comment"]) for field in self.schema}


def beside(tables: Iterable[Table]) -> list[str]:
    """The tables that rules of these look at beside their own."""
    return sorted({name for table in tables for rule in table.rules for name in rule.beside})


def spark_columns(columns: StructType) -> SparkColumns:
    """Columns in Spark's own types; this loads Spark."""
    return _spark_columns(columns.json())


@cache
def _spark_columns(columns: str) -> SparkColumns:
    from pyspark.sql.types import StructType as SparkColumns  # whatever runs without Spark never asks for it

    return SparkColumns.fromJson(json.loads(columns))

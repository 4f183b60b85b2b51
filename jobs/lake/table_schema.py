"""A contract's columns as Delta stores them, and whether a stored table is of this contract or an earlier one of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.running.run_log import tell
from hindsight.schemas import Table
from hindsight.schemas.column_types import ArrayType, DataType, StructField, StructType, of_json
from hindsight.schemas.table_contract import spark_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType as SparkColumns


class WrongSchemaError(ExpectedError):
    """Raised when a stored table differs from its contract in more than columns that came later."""


@cache
def stored_columns(table: Table) -> StructType:
    """The contract's columns as Delta can enforce them: NOT NULL only at the top level."""
    return StructType([StructField(f.name, nullable(f.dataType), f.nullable, f.metadata) for f in table.schema.fields])


def stored_schema(table: Table) -> SparkColumns:
    """The same in Spark's own types."""
    return spark_columns(stored_columns(table))


def with_absent_columns(rows: DataFrame, table: Table) -> DataFrame:
    """Rows of an earlier contract as this one has them: an absent column is null, nested ones too."""
    there = {field.name: field.dataType for field in of_json(rows.schema.json()).fields}
    fields = []
    for name, kind in ((field.name, nullable(field.dataType)) for field in table.schema.fields):
        found = there.get(name, kind)
        # Only what lacks a field is cast: Delta reads the values of each map as nullable.
        fields.append(StructField(name, found if found.simpleString() == kind.simpleString() else kind))
    return rows.to(spark_columns(StructType(fields)))


def tell_later(table: Table, columns: Sequence[str]) -> None:
    """Tell that a table has got columns that its rows so far do not fill."""
    hint = "rows stored before have null there; dates of derived tables are computed anew"
    tell("columns came later", table=table.name, columns=", ".join(columns), hint=hint)


def later_columns(found: StructType | SparkColumns, table: Table, place: str) -> list[str]:
    """The columns that the contract has gained since the table at ``place`` was made; a dot leads into a struct.

    Raises: WrongSchemaError: it differs in anything else; nothing is read from it or written to it then.
    """
    own = found if isinstance(found, StructType) else of_json(found.json())
    differences = list(_differences(own, stored_columns(table)))
    wrong = "; ".join(said for said, later in differences if later is None)
    if wrong:
        raise WrongSchemaError(
            f"{place} is not as this release stores it: {wrong}. Use the release that wrote it, or build the lake "
            "again from its landing files, in another folder."
        )
    return [later for _, later in differences if later is not None]


def _differences(found: DataType, wanted: DataType, place: str = "") -> Iterator[tuple[str, str | None]]:
    """Where a stored table differs, in words; and the column that it only lacks, and that may be null."""
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        there, known = {field.name: field.dataType for field in found.fields}, {*wanted.names}
        for name in there:
            if name not in known:
                yield f"column {place}{name} is not known", None
        for field in wanted.fields:
            if field.name in there:
                yield from _differences(there[field.name], field.dataType, f"{place}{field.name}.")
            elif field.nullable:
                yield f"column {place}{field.name} is absent", f"{place}{field.name}"
            else:
                yield f"column {place}{field.name} is absent, and may not be null", None
    elif isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        yield from _differences(found.elementType, wanted.elementType, place)
    elif found.simpleString() != wanted.simpleString():
        of_type = f"{found.simpleString()}, expected {wanted.simpleString()}"
        yield f"column {place.rstrip('.')} is {of_type}", None


def nullable(kind: DataType) -> DataType:
    """The type with whatever is nested in it nullable."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType), containsNull=True)
    return kind

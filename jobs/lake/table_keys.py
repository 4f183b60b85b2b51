"""A table's contract in, how the kernels merge its rows by key out."""

from __future__ import annotations

from hindsight.schemas import Table
from hindsight.udfs.landing.rows_by_key import Keyed, RowPart, Term


def keyed_by(table: Table) -> Keyed:
    """The key and parts of a table's rows, as plain values that travel to the workers."""
    parts = (
        RowPart(part.columns, tuple(_term(term.format(r="")) for term in part.order), part.line[1])
        for part in table.row_parts
    )
    return Keyed(table.key, tuple(parts))


def _term(sql: str) -> Term:
    column = sql.removeprefix(".")
    return Term(column.removesuffix(" IS NULL"), column.endswith(" IS NULL"))

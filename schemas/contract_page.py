"""Contracts in, `docs/contracts.md` out: each table's grain, keys, and columns with type and comment.

`python -m hindsight.schemas.contract_page > docs/contracts.md`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from hindsight.schemas import TABLES, Table
from hindsight.schemas.column_types import ArrayType, DataType, StructField, StructType

_HEAD = """# Data contracts

Made from `schemas/` by `make contracts`; a test says when it is not current. Every table stands at `<lake>/<name>`.

- *required*: never null in a stored row. Other columns say in their comment what null means.
- *key*: identifies a row; a key is stored once.
- *lineage*: tells of the run itself and differs between reruns; all other columns do not.
- Dated tables are partitioned by `event_date`, a UTC date.
"""


def contract_page() -> str:
    """The whole document."""
    return "\n".join([_HEAD, *(line for table in TABLES.values() for line in _table(table))])


def _table(table: Table) -> Iterator[str]:
    values = dict(table.values)
    yield f"## {table.name}\n"
    yield f"{table.comment}\n"
    yield f"Key: {', '.join(f'`{name}`' for name in table.key)}.\n"
    yield "| column | type | | meaning |"
    yield "|---|---|---|---|"
    for field in table.schema.fields:
        marks = [
            *(["key"] if field.name in table.key else []),
            *(["required"] if not field.nullable else []),
            *(["lineage"] if field.name in table.lineage else []),
        ]
        known = f" One of {', '.join(f'`{value}`' for value in values[field.name])}." if field.name in values else ""
        yield _row(field.name, field.dataType, ", ".join(marks), str(field.metadata["comment"]) + known)
        yield from _inner(field, field.name)
    yield ""


def _inner(field: StructField, path: str) -> Iterator[str]:
    kind = field.dataType.elementType if isinstance(field.dataType, ArrayType) else field.dataType
    for part in kind.fields if isinstance(kind, StructType) else ():
        yield _row(f"{path}.{part.name}", part.dataType, "", str(part.metadata.get("comment", "")))
        yield from _inner(part, f"{path}.{part.name}")


def _row(name: str, kind: DataType, marks: str, comment: str) -> str:
    return f"| `{name}` | {_type(kind)} | {marks} | {comment.replace('|', '&#124;')} |"


def _type(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"array of {_type(kind.elementType)}"
    return "struct" if isinstance(kind, StructType) else kind.simpleString()


if __name__ == "__main__":
    sys.stdout.write(contract_page())

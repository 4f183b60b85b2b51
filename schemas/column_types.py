"""Types of columns, called as Spark and Delta call them: text in Delta's JSON in and out, and no Spark needed.

What holds Spark's own types makes these of them by their JSON (`of_json`), and the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


class DataType:
    """A type; the names of the methods are Spark's."""

    def jsonValue(self) -> Any:
        """What Delta's log says of it, as JSON's values."""
        match self:
            case PlainType(name):
                return name
            case ArrayType(inner, contains_null):
                return {"type": "array", "elementType": inner.jsonValue(), "containsNull": contains_null}
            case MapType(key, value, contains_null):
                kinds = {"keyType": key.jsonValue(), "valueType": value.jsonValue()}
                return {"type": "map", **kinds, "valueContainsNull": contains_null}
            case StructType():
                return {"type": "struct", "fields": [each.jsonValue() for each in self]}
        raise TypeError(f"{self!r} is no type of a column.")

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        match self:
            case PlainType(_, sql):
                return sql
            case ArrayType(inner):
                return f"array<{inner.simpleString()}>"
            case MapType(key, value):
                return f"map<{key.simpleString()},{value.simpleString()}>"
            case StructType():
                return f"struct<{','.join(f'{each.name}:{each.dataType.simpleString()}' for each in self)}>"
        raise TypeError(f"{self!r} is no type of a column.")

    def json(self) -> str:
        """The same as ``jsonValue``, as text."""
        return json.dumps(self.jsonValue(), separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True)
class PlainType(DataType):
    """A type without types in it, by its name in Delta's log and in SQL.

    ``names``: of a text what it names, or ``word`` where rules go by it. Without: it is for people.
    """

    name: str
    sql: str
    names: str | None = field(default=None, compare=False)


PLAIN = {
    kind.name: kind
    for kind in (
        PlainType("string", "string"),
        PlainType("long", "bigint"),
        PlainType("integer", "int"),
        PlainType("double", "double"),
        PlainType("boolean", "boolean"),
        PlainType("date", "date"),
        PlainType("timestamp", "timestamp"),  # an instant, in microseconds
    )
}


@dataclass(frozen=True)
class ArrayType(DataType):
    """A list of values of one type."""

    elementType: DataType
    containsNull: bool = True


@dataclass(frozen=True)
class MapType(DataType):
    """Values by keys."""

    keyType: DataType
    valueType: DataType
    valueContainsNull: bool = True


@dataclass(frozen=True)
class StructField:
    """A column, or a part of a value that has several."""

    name: str
    dataType: DataType
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)

    def jsonValue(self) -> dict[str, Any]:
        """What Delta's log says of it."""
        kind = self.dataType.jsonValue()
        return {"name": self.name, "type": kind, "nullable": self.nullable, "metadata": self.metadata}


class StructType(DataType):
    """Columns in their order, or the parts of a value."""

    def __init__(self, fields: Sequence[StructField] = ()) -> None:
        self.fields = list(fields)

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [each.name for each in self.fields]

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, name: str) -> StructField:
        return next(each for each in self.fields if each.name == name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(tuple(self.names))


def of_json(text: str) -> StructType:
    """Columns by their JSON, as Delta's log has it."""
    columns = _of_value(json.loads(text))
    if not isinstance(columns, StructType):
        raise ValueError("these are not columns.")
    return columns


def _of_value(told: Any) -> DataType:
    if isinstance(told, str):
        return PLAIN.get(told, PlainType(told, told))  # one that no contract has
    if told["type"] == "array":
        return ArrayType(_of_value(told["elementType"]), told["containsNull"])
    if told["type"] == "map":
        return MapType(_of_value(told["keyType"]), _of_value(told["valueType"]), told["valueContainsNull"])
    return StructType(
        [StructField(f["name"], _of_value(f["type"]), f["nullable"], f.get("metadata") or {}) for f in told["fields"]]
    )

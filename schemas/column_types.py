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
        raise NotImplementedError

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        raise NotImplementedError

    def json(self) -> str:
        """The same as ``jsonValue``, as text."""
        return json.dumps(self.jsonValue(), separators=(",", ":"), sort_keys=True)


class _Plain(DataType):
    """A type without types in it: ``NAMES`` are its name in JSON and in SQL."""

    NAMES: tuple[str, str]

    def jsonValue(self) -> str:
        return self.NAMES[0]

    def simpleString(self) -> str:
        return self.NAMES[1]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class StringType(_Plain):
    """Text; ``names``: what it names, or ``word`` where rules go by it. Without: it is for people."""

    NAMES = ("string", "string")

    def __init__(self, names: str | None = None) -> None:
        self.names = names


class LongType(_Plain):
    """A whole number of 64 bits."""

    NAMES = ("long", "bigint")


class IntegerType(_Plain):
    """A whole number of 32 bits."""

    NAMES = ("integer", "int")


class DoubleType(_Plain):
    """A number of 64 bits with a fraction."""

    NAMES = ("double", "double")


class BooleanType(_Plain):
    """True or false."""

    NAMES = ("boolean", "boolean")


class DateType(_Plain):
    """A date."""

    NAMES = ("date", "date")


class TimestampType(_Plain):
    """An instant, in microseconds."""

    NAMES = ("timestamp", "timestamp")


@dataclass(frozen=True)
class ArrayType(DataType):
    """A list of values of one type."""

    elementType: DataType
    containsNull: bool = True

    def jsonValue(self) -> dict[str, Any]:
        """What Delta's log says of it."""
        return {"type": "array", "elementType": self.elementType.jsonValue(), "containsNull": self.containsNull}

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        return f"array<{self.elementType.simpleString()}>"


@dataclass(frozen=True)
class MapType(DataType):
    """Values by keys."""

    keyType: DataType
    valueType: DataType
    valueContainsNull: bool = True

    def jsonValue(self) -> dict[str, Any]:
        """What Delta's log says of it."""
        kinds = {"keyType": self.keyType.jsonValue(), "valueType": self.valueType.jsonValue()}
        return {"type": "map", **kinds, "valueContainsNull": self.valueContainsNull}

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        return f"map<{self.keyType.simpleString()},{self.valueType.simpleString()}>"


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

    def jsonValue(self) -> dict[str, Any]:
        """What Delta's log says of it."""
        return {"type": "struct", "fields": [each.jsonValue() for each in self.fields]}

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        return f"struct<{','.join(f'{each.name}:{each.dataType.simpleString()}' for each in self.fields)}>"

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


PLAIN: dict[str, DataType] = {
    kind.NAMES[0]: kind()
    for kind in (StringType, LongType, IntegerType, DoubleType, BooleanType, DateType, TimestampType)
}


@dataclass(frozen=True)
class OtherType(DataType):
    """A type that no contract has; ``told`` is what Delta's log says of it."""

    told: str

    def jsonValue(self) -> str:
        """What Delta's log says of it."""
        return self.told

    def simpleString(self) -> str:
        """The type as SQL writes it, for all that a person is to be told of it."""
        return self.told


def of_json(text: str) -> StructType:
    """Columns by their JSON, as Delta's log has it."""
    columns = _of_value(json.loads(text))
    if not isinstance(columns, StructType):
        raise ValueError("these are not columns.")
    return columns


def _of_value(told: Any) -> DataType:
    if isinstance(told, str):
        return PLAIN.get(told, OtherType(told))
    if told["type"] == "array":
        return ArrayType(_of_value(told["elementType"]), told["containsNull"])
    if told["type"] == "map":
        return MapType(_of_value(told["keyType"]), _of_value(told["valueType"]), told["valueContainsNull"])
    return StructType(
        [StructField(f["name"], _of_value(f["type"]), f["nullable"], f.get("metadata") or {}) for f in told["fields"]]
    )

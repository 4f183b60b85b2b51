"""A field of a canonical row in, its value as a table stores it out, or why the row is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from hindsight.udfs.lines.parsed_line import (
    ERROR_CHARS,
    Fields,
    RefusedLineError,
    instant,
    is_instant,
    optional_flag,
    queue_id,
    text_field,
)


def instant_or_text(fields: Fields, name: str) -> int:
    """Epoch ms, or ISO 8601 with a zone."""
    value = fields[name]
    if type(value) is int and is_instant(value):
        return value
    if not isinstance(value, str):
        return instant(fields, name)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise RefusedLineError("BAD_TIMESTAMP", f"{name!r} is {value!r:.60}, no ISO 8601 time") from None
    if at.tzinfo is None:
        raise RefusedLineError("BAD_TIMESTAMP", f"{name!r} is {value!r:.60}, which names no zone")
    try:
        return instant({name: int(at.timestamp() * 1000)}, name)
    except (OverflowError, ValueError):
        raise RefusedLineError("TIMESTAMP_OUT_OF_RANGE", f"{name!r} is {value!r:.60}") from None


def one_of(*values: str) -> Callable[[Fields, str], str]:
    """A reader of texts of which only these are known."""

    def read(fields: Fields, name: str) -> str:
        value = text_field(fields, name)
        if value not in values:
            raise RefusedLineError("UNKNOWN_VALUE", f"{name!r} is {value!r:.80} (known: {', '.join(values)})")
        return value

    return read


def flag(fields: Fields, name: str) -> bool:
    """A flag, as JSON or as Parquet has it."""
    value = fields[name]
    return value if type(value) is bool else bool(optional_flag(fields, name))


def queue_or_all(fields: Fields, name: str) -> int:
    """A queue id, or -1: all queues of the broker."""
    return queue_id(fields, name, lowest=-1)


def bounded_text(fields: Fields, name: str) -> str:
    """A text, cut where an error's text is."""
    return text_field(fields, name)[:ERROR_CHARS]


def text_or_empty(fields: Fields, name: str) -> str:
    """A text that may be empty."""
    return "" if fields[name] == "" else text_field(fields, name)


def texts(fields: Fields, name: str) -> list[str]:
    """A list of texts."""
    values = fields[name]
    if not isinstance(values, list):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {values!r:.80}, expected a list of strings")
    return [text_field({f"{name}[{i}]": value}, f"{name}[{i}]") for i, value in enumerate(values)]

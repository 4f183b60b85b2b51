"""Settings entries with shell patterns in, the column of what they say of each row out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F


def first_override(entries: Sequence[Mapping[str, Any]], name: str, patterns: Sequence[str]) -> Column:
    """What settings say of a row: ``name`` of the first entry whose shell patterns match and that holds a value."""
    found: Column = F.lit(None)
    for entry in reversed(entries):
        value = entry.get(name)
        if value is not None:
            matches = reduce(Column.__and__, (_like(column, entry[column]) for column in patterns))
            literal = F.array(*map(F.lit, value)).cast("array<bigint>") if isinstance(value, tuple) else F.lit(value)
            found = F.when(matches, literal).otherwise(found)
    return found


def _like(column: str, pattern: str) -> Column:
    regex = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    return F.col(column).rlike(rf"(?s)\A{regex}\z")  # Java's $ stands before a last line end, too

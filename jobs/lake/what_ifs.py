"""The what-ifs of a lake: each is a lake of its own, ``<lake>/what_if/<name>/<table>``, with a note once it is whole.

In SQL a table of one is ``what_if_<name>_<table>``, beside the published ``<table>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.lake.lake_place import remove_folder
from hindsight.jobs.lake.small_files import Store, store_at
from hindsight.schemas import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT_IFS = "what_if"  # their folder in a lake
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST = 40
_WORD = re.compile(rf"\b{WHAT_IFS}_\w+", re.IGNORECASE)


class WhatIfNameError(ExpectedError):
    """Raised where a what-if cannot have, or has not, this name; nothing was done."""

    exit_code = WRONG_USAGE


def checked_name(name: str) -> str:
    """The name of a what-if, which becomes a part of its tables' names in SQL.

    Raises: WhatIfNameError: it has other characters than these need.
    """
    if len(name) <= _LONGEST and _NAME.fullmatch(name):
        return name
    raise WhatIfNameError(
        f"{name!r} cannot name a what-if: its tables' names in SQL are made of it. Use small letters, digits and "
        f"single underscores between them, beginning with a letter, at most {_LONGEST} characters."
    )


def what_if_root(lake_root: str, name: str) -> str:
    """The root of a what-if's own lake."""
    return f"{lake_root.rstrip('/')}/{WHAT_IFS}/{checked_name(name)}"


def table_prefix(name: str) -> str:
    """What stands before the names of a what-if's tables in SQL."""
    return f"{WHAT_IFS}_{name}_"


def notes_of(spark: SparkSession | None, lake_root: str) -> Store:
    """The notes of the what-ifs that are whole, by name."""
    return store_at(spark, f"{lake_root.rstrip('/')}/{WHAT_IFS}/_notes")


def remember(spark: SparkSession | None, lake_root: str, name: str, told: dict[str, Any]) -> None:
    """Note that a what-if is whole, and what it is."""
    notes_of(spark, lake_root).write(name, json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False))


def what_ifs(spark: SparkSession | None, lake_root: str) -> dict[str, dict[str, Any]]:
    """What is noted of each what-if of a lake that is whole, by name."""
    notes = notes_of(spark, lake_root)
    texts = {name: notes.read(name) for name in sorted(notes.names()) if _NAME.fullmatch(name)}
    return {name: json.loads(text) for name, text in texts.items() if text is not None}


def drop(spark: SparkSession | None, lake_root: str, name: str) -> None:
    """Remove a what-if with its tables.

    Raises: WhatIfNameError: there is none of that name.
    """
    require(what_ifs(spark, lake_root), lake_root, name)
    notes_of(spark, lake_root).delete(name)
    remove_folder(spark, what_if_root(lake_root, name))


def require(there: Collection[str], lake_root: str, name: str) -> None:
    """Raises: WhatIfNameError: there is none of that name."""
    if name not in there:
        known = f"there is {', '.join(there)}" if there else "there is none"
        raise WhatIfNameError(f"there is no what-if {name!r} in {lake_root}; {known}.")


def supposed_in(query: str, spark: SparkSession | None, lake_root: str) -> Iterator[tuple[str, str, Table]]:
    """The tables of what-ifs that a query names: the word in the query, the what-if, and whose table it is like.

    A lake is asked for its what-ifs only where a query names some.
    """
    words = {word.lower() for word in _WORD.findall(query)}
    if words:
        there = what_ifs(spark, lake_root)
        for name in there:
            for table in TABLES.values():
                if (word := f"{table_prefix(name)}{table.name}") in words:
                    yield word, name, table

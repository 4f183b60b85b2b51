"""The numbered files of a lake's lease."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hindsight.jobs.lake.small_files import Store, store_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = "_lease"
_NAME = re.compile(r"(\d{9})\.json")


class LeaseFolder:
    """Files by number. ``lake`` and ``place`` say where, for people."""

    def __init__(self, lake: str, store: Store) -> None:
        self.lake, self.place, self._store = lake, f"{lake}/{_FOLDER}", store

    @classmethod
    def of(cls, spark: SparkSession | None, lake: str) -> LeaseFolder:
        """The folder of a lake's lease."""
        return cls(lake, store_at(spark, f"{lake}/{_FOLDER}"))

    def numbers(self) -> list[int]:
        """The numbers that are there, and 0."""
        found = map(_NAME.fullmatch, self._store.names())
        return [0, *(int(name.group(1)) for name in found if name)]

    def latest(self) -> tuple[int, str | None]:
        """The highest number and its text; None: there is none, or it was just removed."""
        number = max(self.numbers())
        return number, self.read(number) if number else None

    def read(self, number: int) -> str | None:
        """A file's text; None: there is no such file."""
        return self._store.read(_name(number))

    def create(self, number: int, text: str) -> bool:
        """Create a file; whether it is this one that stands there. A store may answer a retry with a refusal."""
        self._store.create(_name(number), text)
        return self.read(number) == text

    def write(self, number: int, text: str) -> None:
        """Rewrite a file of one's own."""
        self._store.write(_name(number), text)

    def delete(self, number: int) -> None:
        """Remove a file, if it is there."""
        self._store.delete(_name(number))


def _name(number: int) -> str:
    return f"{number:09}.json"

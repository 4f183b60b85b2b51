"""Short texts that jobs note beside the tables of a lake, whichever engine keeps it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from hindsight.jobs.lake.small_files import Store, store_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTES = "_notes"  # their folder


class KeptNotes:
    """What a lake does with notes; ``confirm`` raises where it is no longer the run's, ``spark`` None: without it."""

    root: str
    spark: SparkSession | None
    confirm: Callable[[], None]

    def note(self, name: str, text: str | None) -> None:
        """Keep a short text beside the tables until it is taken back (None)."""
        self.confirm()
        if text is None:
            self._notes.delete(name)
        else:
            self._notes.write(name, text)

    def noted(self, name: str) -> str | None:
        """The text that was kept and not taken back."""
        return self._notes.read(name)

    @cached_property
    def _notes(self) -> Store:
        return store_at(self.spark, f"{self.root}/{NOTES}")

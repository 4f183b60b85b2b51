"""Upkeep of the tables of a lake that is open, whichever engine keeps it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from hindsight.jobs.engines.arrow_lake import Footprint
from hindsight.schemas import Table


class Upkeep(Protocol):
    """Every change is confirmed by the lease first."""

    def silenced(self) -> AbstractContextManager[None]:
        """Keep quiet what an engine prints itself while it vacuums."""

    def footprint(self, table: Table) -> Footprint:
        """Size of the table now, and how far its history goes back."""

    def compact(self, table: Table) -> None:
        """Write the small files of each partition as one."""

    def vacuum(self, table: Table) -> None:
        """Remove the files that no version within the retention needs."""

    def drop_old_candidates(self, table: Table) -> None:
        """Remove candidates that a run left behind; those with a file younger than the retention stay."""


def upkeep_of(lake: Any) -> Upkeep:
    """What keeps up the tables of a lake: Spark's does so itself."""
    if lake.spark is None:
        from hindsight.jobs.engines.local_upkeep import LocalUpkeep

        return LocalUpkeep(lake)
    found: Upkeep = lake
    return found

"""What ``hindsight compare`` is asked: options in, the rows that differ with the names of both sides, out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_context import DateRange
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.jobs.scenarios.difference_causes import Causes, published_side
from hindsight.jobs.scenarios.lake_comparison import (
    DERIVED,
    DateDifferences,
    NothingComparedError,
    compared,
    days_of,
)
from hindsight.jobs.scenarios.lake_version import LakeAsOf, lake_version
from hindsight.jobs.scenarios.other_release import command_of, derived_by
from hindsight.jobs.scenarios.settings_comparison import derivations, under_settings
from hindsight.jobs.scenarios.told_differences import Answer

JOBS = {"rebuild_availability": rebuild_availability, "flag_allocation_drift": flag_allocation_drift}
_DERIVING = tuple(job.derivation for job in JOBS.values())


@dataclass(frozen=True, kw_only=True)
class Question:
    """A lake, and what it is compared with.

    That is ``other``, or what ``release`` makes of the same input. Or ``settings`` are: with what is published, or with
    what ``against`` says.

    Attributes:
        settings: what ``settings_file`` says; the defaults where there is none.
        landing: what ``release`` takes in itself.
    """

    lake: str
    other: str | None
    settings: Settings
    settings_file: Path | None
    against: Path | None
    release: str | None
    landing: str | None
    dates: DateRange

    def refuse_what_does_not_fit(self) -> None:
        """Options that belong to different questions, before anything is read."""
        if sum(given is not None for given in (self.other, self.against, self.release)) > 1:
            raise typer.BadParameter("OTHER, --against and --with are different questions; take one of them.")
        if self.other is not None and self.settings_file is not None:
            raise typer.BadParameter("two lakes are compared as they are published: leave out OTHER or --settings.")
        if self.against is not None and self.settings_file is None:
            raise typer.BadParameter("--against needs --settings: the file that it is compared with.")
        if self.landing is not None and self.release is None:
            raise typer.BadParameter("--landing belongs to --with.")

    def refuse_to_publish_other_than_is_listed(self) -> None:
        """What a run with these settings does not publish, and dates that are not listed."""
        if self.settings_file is None or (self.other, self.against, self.release) != (None, None, None):
            raise typer.BadParameter("--publish publishes what --settings say of one lake.")
        if self.dates.is_given:
            raise typer.BadParameter(
                "--publish publishes every date that changes, so all are listed: no --from, no --to."
            )

    def answer(self) -> Answer:
        """The rows that differ, and what is on either side."""
        if self.other is not None:
            return Answer(self.lake, self.other, self._beside(self._opened(self.lake), self._opened(self.other)))
        if self.release is not None:
            return Answer(self._published, f"{self.lake}, as {self.release} makes it", self._of_release(self.release))
        against = None if self.against is None else load_settings(self.against)
        found = under_settings(_DERIVING, self.derivable(), self.settings, against, self.dates)
        own = f"{self.lake}, under {self.settings_file or 'the default settings'}"
        if self.against is None:
            return Answer(self._published, own, found)
        return Answer(own, f"{self.lake}, under {self.against}", found)

    def derivable(self) -> LocalLake:
        """The lake, whose dates can be derived again; refused: one as it was."""
        lake = self._opened(self.lake)
        if isinstance(lake, LakeAsOf):
            raise typer.BadParameter(
                "a lake as it was can be compared with OTHER alone; dates are derived from its latest."
            )
        return lake

    @property
    def _published(self) -> str:
        return f"{self.lake}, as it is published"

    def _opened(self, asked: str) -> LocalLake:
        """A lake that holds something; refused: a place without a derived table."""
        lake = lake_version(asked, absolute, self.settings.delta.retention_days)
        if not any(lake.exists(table) for table in DERIVED):
            word = " Behind an @ stands an instant such as 2026-11-20T10:00Z, or run:RUN_ID." if "@" in asked else ""
            raise typer.BadParameter(
                f"there is no lake at {asked!r} that holds a derived table; run the pipeline first.{word}"
            )
        return lake

    def _of_release(self, release: str) -> list[DateDifferences]:
        """What another release makes of the same input, in a folder that is gone afterwards."""
        with ScratchFolder() as folder:
            place = None if self.landing is None else absolute(self.landing)
            file = None if self.settings_file is None else self.settings_file.absolute()
            lake = self.derivable()
            return self._beside(lake, derived_by(command_of(release), lake, folder, place, file))

    def _beside(self, before: LocalLake, after: LocalLake) -> list[DateDifferences]:
        if self.dates.is_given and not any(day in self.dates for day in days_of(before) | days_of(after)):
            raise NothingComparedError(f"neither lake holds a derived row of {self.dates}; nothing was compared.")
        causes = Causes(published_side(before), published_side(after), derivations(_DERIVING, self.settings))
        return list(compared(before, after, causes, self.dates))

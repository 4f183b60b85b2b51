"""``hindsight compare``: what another lake, an earlier one, other settings or another release say otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.commands.command_options import From, Json, SettingsFile, To, dates_of, show
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.lake.lake_place import remove_folder
from hindsight.jobs.lake.what_ifs import what_if_root
from hindsight.jobs.publishing.publication import Derivation
from hindsight.jobs.running.places import absolute, without_password
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.jobs.scenarios.derived_again import derive_again, opened_scenario
from hindsight.jobs.scenarios.difference_causes import Causes, Side, derived_side, published_side
from hindsight.jobs.scenarios.other_lakes import LakeAsOf, command_of, derived_by, lake_version
from hindsight.jobs.scenarios.table_differences import (
    DERIVED,
    Answer,
    DateDifferences,
    LakesDifferError,
    NothingComparedError,
    as_values,
    compared,
    days_of,
    told,
)

# What derives a job's tables, of which it is told with the settings and what runs kernels.
Derives = Callable[[Settings, Runner], Derivation[Any]]
_PLACE, _BEFORE, _AFTER = "compared", "compared_before", "compared_after"


def derivations(deriving: Iterable[Derives], settings: Settings) -> list[Derivation[Any]]:
    """What jobs derive, to look at; it runs nothing."""
    with LocalRunner(1) as runner:
        return [derives(settings, runner) for derives in deriving]


def under_settings(
    deriving: Sequence[Derives], lake: LocalLake, settings: Settings, against: Settings | None, dates: DateRange
) -> list[DateDifferences]:
    """What ``settings`` say otherwise than what is published; with ``against`` what these say otherwise than they do.

    Raises: NothingComparedError: no file that was taken in touches one of these dates.
    """
    with _place(lake.root) as context:
        sides, days = _derived(deriving, lake, settings, _AFTER if against is None else _BEFORE, dates)
        if not any(days.values()):
            raise NothingComparedError(f"{lake.root} holds no input of {dates}; nothing was compared.")
        context.confirm()
        published = published_side(lake)
        others = None if against is None else _derived(deriving, lake, against, _AFTER, dates)[0]
        found: list[DateDifferences] = []
        for derivation in derivations(deriving, settings):
            own = sides[derivation.job]
            before, after = (published, own) if others is None else (own, others[derivation.job])
            causes = Causes(before, after, [derivation])
            found += compared(before.lake, after.lake, causes, days[derivation.job], derivation.tables)
        return found


@contextmanager
def _place(root: str) -> Iterator[RunContext]:
    """Hold the place in which settings are compared, and leave nothing there."""
    with held(None, what_if_root(root, _PLACE), RunContext(root)) as context:
        try:
            yield context
        finally:
            for name in (_BEFORE, _AFTER):
                remove_folder(None, what_if_root(root, name))
    remove_folder(None, what_if_root(root, _PLACE))


def _derived(
    deriving: Iterable[Derives], lake: LocalLake, settings: Settings, name: str, dates: DateRange
) -> tuple[dict[str, Side], dict[str, set[date]]]:
    """By job: what its dates were derived to, and which dates these are."""
    context = RunContext(lake.root, dates)
    sides, days = {}, {}
    with opened_scenario("local", lake.root, name, settings, context, command="compare", master=None) as scenario:
        for derives in deriving:
            derivation = derives(settings, scenario.runner)
            again = derive_again(scenario.published, scenario.into, derivation, scenario.context)
            sides[derivation.job] = derived_side(scenario.published, scenario.into, derivation)
            days[derivation.job] = {at.event_date for at in again.dates}
    return sides, days


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


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("compare")
def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="LAKE", help="Folder of the Delta tables. LAKE@INSTANT and LAKE@run:RUN_ID name it as it was then."
        ),
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another lake, or another point of its history.")
    ] = None,
    settings: SettingsFile = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="A second settings file, compared with --settings.")
    ] = None,
    release: Annotated[
        str | None,
        typer.Option("--with", help="The command of another release, or its Python: what it makes of the same input."),
    ] = None,
    landing: Annotated[
        str | None,
        typer.Option(callback=without_password, help="Let the release of --with take in this landing folder itself."),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish what --settings say, after it is listed.")
    ] = False,
    is_agreed: Annotated[bool, typer.Option("--yes", help="Publish without asking.")] = False,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
) -> None:
    """Say which derived rows appear, vanish or flip: between two lakes, under other settings, by another release.

    LAKE OTHER: two lakes, or two points of one lake's history.

    LAKE --settings FILE: what is published, and what FILE says of the same input.

    LAKE --settings FILE --against SECOND: what both files say, whatever is published.

    LAKE --with COMMAND: what is published, and what another release makes of the same input.

    Exit code 0: nothing differs. 1: rows differ. Published tables are only read, but with --publish.
    """
    question = Question(
        lake=before,
        other=after,
        settings=load_settings(settings),
        settings_file=settings,
        against=against,
        release=release,
        landing=landing,
        dates=dates_of(first, last),
    )
    question.refuse_what_does_not_fit()
    if publish:
        _list_and_publish(question, as_lines=as_lines, is_agreed=is_agreed)
        return
    if is_agreed:
        raise typer.BadParameter("--yes belongs to --publish.")
    answer = question.answer()
    show(as_lines, as_values(answer), told(answer))
    if answer.found:
        raise LakesDifferError(f"{answer.rows} rows differ.")


def _list_and_publish(question: Question, *, as_lines: bool, is_agreed: bool) -> None:
    """List what the settings change; the lake is held until that is published, so it is what was listed."""
    question.refuse_to_publish_other_than_is_listed()
    if not is_agreed and not sys.stdin.isatty():
        raise typer.BadParameter("--publish asks on a terminal; elsewhere say --yes.")
    root, settings = question.derivable().root, question.settings
    with held(None, root, RunContext(root)) as context:
        answer = question.answer()
        show(as_lines, as_values(answer), told(answer))
        if not answer.found:
            typer.echo("Nothing differs, so nothing was published.", err=True)
            return
        if not is_agreed:
            typer.confirm(f"Publish these {answer.rows} differences?", abort=True, err=True)
        own = LocalLake(root, retention_days=settings.delta.retention_days, confirm=context.confirm)
        with LocalRunner(len(os.sched_getaffinity(0))) as runner:
            for name, job in JOBS.items():
                done = job.run_on(own, runner, settings, context)
                typer.echo(f"Published: {done.dates} dates, {done.rows} rows of {name}.", err=True)

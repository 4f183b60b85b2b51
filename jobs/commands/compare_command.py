"""``hindsight compare``: what another lake, an earlier one, other settings or another release say otherwise."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.commands.command_options import From, SettingsFile, To, dates_of
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.places import absolute, without_password
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.scenarios.difference_causes import Causes, published_side
from hindsight.jobs.scenarios.lake_comparison import DERIVED, DateDifferences, LakesDifferError, as_json, compared, told
from hindsight.jobs.scenarios.lake_version import LakeAsOf, lake_version
from hindsight.jobs.scenarios.other_release import command_of, derived_by
from hindsight.jobs.scenarios.settings_comparison import derivations, under_settings

Form = Literal["text", "json"]
_JOBS = (rebuild_availability, flag_allocation_drift)
_DERIVING = tuple(job.derivation for job in _JOBS)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("compare")
def compare(
    before: Annotated[
        str,
        typer.Argument(metavar="LAKE", help="Folder of the Delta tables; LAKE@INSTANT or LAKE@run:ID: as it was then."),
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another lake, or another point of its history.")
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
    form: Annotated[Form, typer.Option("--format", help="For people, or a line of JSON for each row.")] = "text",
) -> None:
    """Say which derived rows appear, vanish or flip: between two lakes, under other settings, by another release."""
    loaded, dates = load_settings(settings), dates_of(first, last)
    lake = _lake(before, loaded)
    _refuse_what_does_not_fit(lake, after, settings, against, release, landing, publish, is_agreed, dates)
    if publish:
        _list_and_publish(lake, loaded, form, is_agreed=is_agreed)
        return
    if release is not None:
        found = _by_release(lake, release, landing, settings, loaded, dates)
    elif after is not None:
        found = _two(lake, _lake(after, loaded), loaded, dates)
    else:
        found = under_settings(_DERIVING, lake, loaded, None if against is None else load_settings(against), dates)
    _list(found, form)
    if found:
        raise LakesDifferError(f"{_count(found)} rows differ.")


def _refuse_what_does_not_fit(
    lake: LocalLake,
    after: str | None,
    settings: Path | None,
    against: Path | None,
    release: str | None,
    landing: str | None,
    publish: bool,
    is_agreed: bool,
    dates: DateRange,
) -> None:
    """Options that belong to different questions, before anything is read."""
    if sum(given is not None for given in (after, against, release)) > 1:
        raise typer.BadParameter("OTHER, --against and --with are different questions; take one of them.")
    if against is not None and settings is None:
        raise typer.BadParameter("--against needs --settings: the file that it is compared with.")
    if landing is not None and release is None:
        raise typer.BadParameter("--landing belongs to --with.")
    if after is None and isinstance(lake, LakeAsOf):
        raise typer.BadParameter(
            "a lake as it was can be compared with OTHER alone; dates are derived from its latest."
        )
    if not publish:
        if is_agreed:
            raise typer.BadParameter("--yes belongs to --publish.")
        return
    if settings is None or (after, against, release) != (None, None, None):
        raise typer.BadParameter("--publish publishes what --settings say of one lake.")
    if dates.is_given:
        raise typer.BadParameter("--publish publishes every date that changes, so all are listed: no --from, no --to.")
    if not is_agreed and not sys.stdin.isatty():
        raise typer.BadParameter("--publish asks on a terminal; elsewhere say --yes.")


def _two(before: LocalLake, after: LocalLake, settings: Settings, dates: DateRange) -> list[DateDifferences]:
    causes = Causes(published_side(before), published_side(after), derivations(_DERIVING, settings))
    return list(compared(before, after, causes, dates.__contains__))


def _by_release(
    lake: LocalLake, release: str, landing: str | None, path: Path | None, settings: Settings, dates: DateRange
) -> list[DateDifferences]:
    """What another release makes of the same input, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hindsight-compare-") as folder:
        place = None if landing is None else absolute(landing)
        own = derived_by(command_of(release), lake, Path(folder), place, path and path.absolute())
        return _two(lake, own, settings, dates)


def _list_and_publish(lake: LocalLake, settings: Settings, form: Form, *, is_agreed: bool) -> None:
    """List what the settings change; the lake is held until that is published, so it is what was listed."""
    with held(None, lake.root, RunContext(lake.root)) as context:
        found = under_settings(_DERIVING, lake, settings, None, context.dates)
        _list(found, form)
        if not found:
            typer.echo("Nothing differs, so nothing was published.", err=True)
            return
        if not is_agreed:
            typer.confirm(f"Publish these {_count(found)} differences?", abort=True, err=True)
        own = LocalLake(lake.root, retention_days=settings.delta.retention_days, confirm=context.confirm)
        with LocalRunner(len(os.sched_getaffinity(0))) as runner:
            done = [job.run_on(own, runner, settings, context) for job in _JOBS]
    typer.echo(f"Published: {sum(one.dates for one in done)} dates, {sum(one.rows for one in done)} rows.", err=True)


def _list(found: list[DateDifferences], form: Form) -> None:
    write(as_json(found) if form == "json" else told(found))


def _count(found: list[DateDifferences]) -> int:
    return sum(len(one.found) for one in found)


def _lake(asked: str, settings: Settings) -> LocalLake:
    """A lake that holds something; refused: a place without a derived table."""
    lake = lake_version(asked, absolute, settings.delta.retention_days)
    if not any(lake.exists(table) for table in DERIVED):
        raise typer.BadParameter(f"there is no lake at {asked!r} that holds a derived table; run the pipeline first.")
    return lake

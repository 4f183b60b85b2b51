"""``hindsight compare``: what two lakes, or one lake under other settings, say otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.commands.command_options import From, SettingsFile, To, dates_of
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.removed_folders import remove_folder
from hindsight.jobs.lake.what_ifs import what_if_root
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.scenarios.derived_again import derive_again
from hindsight.jobs.scenarios.lake_comparison import DERIVED, DateDifferences, LakesDifferError, as_json, compared, told
from hindsight.jobs.scenarios.scenario_place import opened_scenario

_NAME = "compared"  # of the what-if that is there while settings are compared

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("compare")
def compare(
    before: Annotated[str, typer.Argument(metavar="LAKE", help="Folder of the Delta tables.")],
    after: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another lake; without it: LAKE itself under --settings.")
    ] = None,
    settings: SettingsFile = None,
    first: From = None,
    last: To = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="For people, or a line of JSON for each row.")
    ] = "text",
) -> None:
    """Say which derived rows appear, vanish or flip between two lakes, or if LAKE were judged by other settings."""
    loaded, dates = load_settings(settings), dates_of(first, last)
    if after is None:
        found = _under(loaded, absolute(before), dates)
    else:
        found = list(compared(_lake(before, loaded), _lake(after, loaded), dates.__contains__))
    write(as_json(found) if form == "json" else told(found))
    if found:
        raise LakesDifferError(f"{sum(len(one.found) for one in found)} rows differ.")


def _under(settings: Settings, root: str, dates: DateRange) -> list[DateDifferences]:
    """What other settings would say of recorded dates; nothing that is published is touched."""
    context = RunContext(root, dates)
    _lake(root, settings)
    with opened_scenario("local", root, _NAME, settings, context, command="compare", master=None) as held:
        found: list[DateDifferences] = []
        for job in (rebuild_availability, flag_allocation_drift):
            derivation = job.derivation(settings, held.runner)
            done = derive_again(held.published, held.into, derivation, held.context)
            derived = {at.event_date for at in done.dates}
            found += compared(held.published, held.into, derived.__contains__, derivation.tables)
    remove_folder(None, what_if_root(root, _NAME))
    return found


def _lake(place: str, settings: Settings) -> LocalLake:
    """A lake that holds something; refused: a place without a derived table."""
    lake = LocalLake(absolute(place), retention_days=settings.delta.retention_days)
    if not any(lake.exists(table) for table in DERIVED):
        raise typer.BadParameter(f"there is no lake at {place!r} that holds a derived table; run the pipeline first.")
    return lake

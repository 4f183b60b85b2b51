"""Show what a run would do with a landing folder: in seconds, without a lake and without Spark."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.command_options import Json, SettingsFile
from hindsight.jobs.intake.read_options import read_options
from hindsight.jobs.landing.landing_place import look_at
from hindsight.jobs.landing.landing_report import as_json, told
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.jobs.landing.landing_tally import tally_of
from hindsight.jobs.running.places import absolute, without_password
from hindsight.jobs.running.terminal import write

_MOST_CLUSTERS = 10

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Folder = Annotated[
    str, typer.Argument(callback=without_password, help="Folder with <format>/cluster=<name>/ files; path or URI.")
]


@app.command(help=__doc__)
def check_landing(
    landing: Folder,
    settings: SettingsFile = None,
    cluster: Annotated[str, typer.Option(help="Clusters to read, shell pattern.")] = "*",
    refused: Annotated[int, typer.Option(min=0, help="Refused lines to show for each format and reason.")] = 3,
    most_lines: Annotated[int | None, typer.Option(min=1, help="Lines to read of each file; default: all.")] = None,
    as_lines: Json = False,
) -> None:
    """Print it; refused as by a run into a new lake: a folder that is absent, or that holds no file for any job."""
    options = read_options(absolute(landing), load_settings(settings))
    place = look_at(options.landing)
    place.require(lake_has_input=False)
    files = _of_clusters(place.survey.files if place.survey else [], cluster)
    tally = tally_of(files, options, most_refused=refused, most_lines=most_lines)
    write((as_json if as_lines else told)(place, tally))


def _of_clusters(files: list[LandingFile], pattern: str) -> list[LandingFile]:
    asked = [file for file in files if fnmatchcase(file.cluster, pattern)]
    if files and not asked:
        known = ", ".join(sorted({file.cluster for file in files})[:_MOST_CLUSTERS])
        raise typer.BadParameter(f"no landing file is of cluster {pattern!r}; there are {known}.")
    return asked

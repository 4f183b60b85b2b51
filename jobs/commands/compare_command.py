"""``hindsight compare``: what another lake, an earlier one, other settings or another release say otherwise."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.command_options import From, SettingsFile, To, dates_of
from hindsight.jobs.commands.compare_question import JOBS, Question
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.places import without_password
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.scenarios.lake_comparison import LakesDifferError
from hindsight.jobs.scenarios.told_differences import Answer, as_json, told

Form = Literal["text", "json"]

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
    form: Annotated[Form, typer.Option("--format", help="For people, or a line of JSON for each row.")] = "text",
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
        _list_and_publish(question, form, is_agreed=is_agreed)
        return
    if is_agreed:
        raise typer.BadParameter("--yes belongs to --publish.")
    answer = question.answer()
    _list(answer, form)
    if answer.found:
        raise LakesDifferError(f"{answer.rows} rows differ.")


def _list_and_publish(question: Question, form: Form, *, is_agreed: bool) -> None:
    """List what the settings change; the lake is held until that is published, so it is what was listed."""
    question.refuse_to_publish_other_than_is_listed()
    if not is_agreed and not sys.stdin.isatty():
        raise typer.BadParameter("--publish asks on a terminal; elsewhere say --yes.")
    root, settings = question.derivable().root, question.settings
    with held(None, root, RunContext(root)) as context:
        answer = question.answer()
        _list(answer, form)
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


def _list(answer: Answer, form: Form) -> None:
    write(as_json(answer) if form == "json" else told(answer))

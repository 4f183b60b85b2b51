"""The ``hindsight`` command: every job by its name in kebab case, ad-hoc SQL, and what CI asks of the tables."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession

from conf.settings import Settings
from conf.settings_file import load_settings
from jobs import check_quality, maintain, render_report, run_pipeline
from jobs.collect.command import collect_command
from jobs.collect.command import main as collect_alone
from jobs.command_options import (
    From,
    Json,
    LakeRoot,
    Landing,
    Master,
    Metrics,
    SettingsFile,
    Severity,
    To,
    Wait,
    dates_of,
)
from jobs.delta_tables import Lake
from jobs.exit_codes import exit_code
from jobs.explain_row import EXPLAINED, NotOneRowError, explain
from jobs.lake_lease import held
from jobs.last_run import last_run
from jobs.open_drift import as_json, judged_until, open_incidents, refuse, require_published, told
from jobs.quality_gate import GateFailedError, failures
from jobs.quality_gate import told as told_results
from jobs.run_context import RunContext
from jobs.run_log import progress, start_log
from jobs.run_metrics import write_metrics
from jobs.spark_session import spark_session
from jobs.sql_views import create_views
from jobs.terminal import legible
from schemas import TABLES

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
    epilog=(
        "Begin with: hindsight run-pipeline --landing DIR --lake DIR. It takes in what is new under "
        "DIR/<format>/cluster=<name>/, computes what that changes, and writes <lake>/report.html; run it as often as "
        "you like. Then ask: hindsight drift, hindsight sql, hindsight explain. "
        "Exit codes: 0 done, 1 drift found (drift --fail-on), 2 a data gate failed, 3 the run failed, 64 wrong usage, "
        "75 another run writes to the lake, 130 interrupted."
    ),
)


def _job(job: str) -> None:
    """A command for one job, or for ``run_pipeline``, which is all of them."""
    every, name = job not in run_pipeline.JOBS, job.replace("_", "-")

    def command(
        landing: Landing,
        lake: LakeRoot,
        first: From = None,
        last: To = None,
        settings: SettingsFile = None,
        as_lines: Json = False,
        metrics: Metrics = None,
        wait: Wait = 0,
        master: Master = None,
    ) -> None:
        context = RunContext(_absolute(landing), dates_of(first, last))
        if metrics and not metrics.absolute().parent.is_dir():
            raise typer.BadParameter(f"--metrics {str(metrics)!r}: there is no folder {str(metrics.parent)!r}.")
        root, loaded = _absolute(lake), load_settings(settings)
        lake_held = partial(_lake_held, name, root, loaded, context, master=master, wait_s=wait)
        if every:
            before = None if context.dates.is_given else last_run(root, context.landing, loaded, master)
            done, shown = run_pipeline.run_or_recall(lake_held, loaded, context, root, before, is_told=not as_lines)
        else:
            with lake_held() as (spark, holding):
                done, shown = [run_pipeline.run_job(job, spark, loaded, holding, root)], []
        if metrics:
            write_metrics(metrics, done)
        if as_lines:
            _write(json.dumps({"run_id": context.run_id, "job": step.job, **step.facts}) for step in done)
        elif every:
            _write(["", *shown, "", f"Report: {done[-1].facts['page']}"])

    app.command(name, help=(run_pipeline if every else run_pipeline.JOBS[job]).__doc__)(command)


@contextmanager
def _lake_held(
    name: str, root: str, loaded: Settings, context: RunContext, *, master: str | None, wait_s: float
) -> Iterator[tuple[SparkSession, RunContext]]:
    with (
        spark_session(loaded, app_name=f"hindsight {name}", master=master) as spark,
        progress(spark.sparkContext),
        held(spark, root, context, wait_s=wait_s) as holding,
    ):
        yield spark, holding


for _name in ("run_pipeline", *run_pipeline.JOBS):
    _job(_name)


@app.command("render-report", help=render_report.__doc__)
def render(
    lake: LakeRoot,
    landing: Annotated[str | None, typer.Option(help="Not needed: taken because every job takes it.")] = None,
    first: From = None,
    last: To = None,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Write the page anew, without any other job."""
    context = RunContext(_absolute(landing or lake), dates_of(first, last))

    def work(spark: SparkSession, loaded: Settings) -> None:
        with context.step("render_report"), progress(spark.sparkContext):
            page = render_report.run(spark, loaded, context, _absolute(lake))
        _write([f"Report: {page}"])

    _with_lake("render-report", lake, settings, master, work)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SQL statement, e.g. 'SELECT * FROM current_drift'.")],
    lake: LakeRoot,
    settings: SettingsFile = None,
    master: Master = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 100,
) -> None:
    """Run a query with the tables and views in place."""

    def work(spark: SparkSession, loaded: Settings) -> None:
        create_views(spark, Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days))
        show(spark.sql(query), limit)

    _with_lake("sql", lake, settings, master, work)


@app.command("explain")
def explain_command(
    table: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPLAINED)}.")],
    where: Annotated[
        str, typer.Argument(help="SQL that picks one row, e.g. \"client_id = '...' AND broker_name = '...'\".")
    ],
    lake: LakeRoot,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Show the inputs from which one window, verdict or drift row follows, so that it can be redone by hand."""
    if table not in EXPLAINED:
        raise typer.BadParameter(f"{table!r} cannot be explained; one of {', '.join(EXPLAINED)} can.")

    def work(spark: SparkSession, loaded: Settings) -> None:
        create_views(spark, Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days))
        try:
            sections = explain(spark, table, where)
        except NotOneRowError as error:
            raise typer.BadParameter(str(error)) from error
        _write("\n\n".join(section.text() for section in sections).split("\n"))

    _with_lake("explain", lake, settings, master, work)


@app.command()
def drift(
    lake: LakeRoot,
    fail_on: Annotated[
        Severity | None, typer.Option(case_sensitive=False, help="Exit code 1 if one is so severe or worse.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Shell pattern.")] = "*",
    group: Annotated[str, typer.Option(help="Consumer groups, shell pattern.")] = "*",
    as_lines: Json = False,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Show the incidents that are open now, the worst first."""

    def work(spark: SparkSession, loaded: Settings) -> None:
        tables = Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days)
        create_views(spark, tables)
        until = judged_until(spark, cluster=cluster, group=group)
        found = open_incidents(spark, cluster=cluster, group=group)
        lines = as_json(found) if as_lines else told(found, until)
        _write(lines)
        require_published(tables)
        if fail_on:
            refuse(found, fail_on)

    _with_lake("drift", lake, settings, master, work)


@app.command()
def check(
    lake: LakeRoot,
    table: Annotated[list[str] | None, typer.Option(help="Table to check; may be given often; else all.")] = None,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Check published tables against their contracts and invariants; exit code 2 if a critical expectation fails."""
    context = RunContext(_absolute(lake), dates_of(first, last))
    unknown = sorted({*(table or ())} - TABLES.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], TABLES, n=1)
        raise typer.BadParameter(
            f"there is no table {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
        )

    def work(spark: SparkSession, loaded: Settings) -> None:
        results = check_quality.run(spark, loaded, context, _absolute(lake), table or ())
        for result in results:
            shown = "ok" if result["success"] else f"FAILED ({result['severity']}): {result['observed']}"
            line = f"{result['table']}: {result['expectation']}: {shown}"
            _write([json.dumps(result, ensure_ascii=False) if as_lines else line])
        failed = failures(results)
        if failed:
            raise GateFailedError(f"{len(failed)} critical expectation(s) failed: {told_results(failed)}")

    _with_lake("check", lake, settings, master, work)


@app.command("maintain", help=maintain.__doc__)
def maintain_command(
    lake: LakeRoot,
    as_lines: Json = False,
    settings: SettingsFile = None,
    wait: Wait = 0,
    master: Master = None,
) -> None:
    """Keep the lake small; no other job may write to it meanwhile."""

    def work(spark: SparkSession, loaded: Settings) -> None:
        context, root = RunContext(_absolute(lake)), _absolute(lake)
        with (
            context.step("maintain") as step,
            progress(spark.sparkContext),
            held(spark, root, context, wait_s=wait) as holding,
        ):
            found = maintain.run(spark, loaded, holding, root)
            step.facts["tables"] = len(found)
        _write(maintain.as_json(found) if as_lines else maintain.told(found))

    _with_lake("maintain", lake, settings, master, work)


app.command("collect")(collect_command)


def show(frame: DataFrame, limit: int) -> None:
    """Print rows as Spark does, but for what a terminal would obey."""
    shown = StringIO()
    with redirect_stdout(shown):
        frame.show(limit, truncate=False)
    _write(shown.getvalue().rstrip("\n").split("\n"))


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{legible(line)}\n" for line in lines)


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).resolve())


def _with_session(
    name: str, settings: Path | None, master: str | None, work: Callable[[SparkSession, Settings], None]
) -> None:
    loaded = load_settings(settings)
    with spark_session(loaded, app_name=f"hindsight {name}", master=master) as spark:
        work(spark, loaded)


def _with_lake(
    name: str, lake: str, settings: Path | None, master: str | None, work: Callable[[SparkSession, Settings], None]
) -> None:
    """Work on a lake that must be there; one that is not is refused before Spark starts."""
    if "://" not in lake and not Path(lake).exists():
        raise typer.BadParameter(f"there is no lake at {lake!r}; run `hindsight run-pipeline` first.")
    _with_session(name, settings, master, work)


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process with an exit code of the README's table."""
    if command is None and sys.argv[1:2] == ["collect"]:
        collect_alone()
    start_log()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: app(args=arguments, prog_name="hindsight", standalone_mode=False)))


if __name__ == "__main__":
    main()

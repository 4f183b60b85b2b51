"""Every command: the jobs, ad-hoc SQL, and what CI asks of the tables."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession

from conf.settings import Settings
from conf.settings_file import load_settings
from jobs import check_landing, check_quality, diagnose, maintain, render_report
from jobs.collect.command import collect_command
from jobs.command_options import From, Json, LakeRoot, Master, SettingsFile, Severity, To, Wait
from jobs.delta_tables import Lake
from jobs.explain_row import EXPLAINED, NotOneRowError, explain
from jobs.job_commands import add_jobs, dates_of
from jobs.lake_lease import held
from jobs.open_drift import as_json, judged_until, open_incidents, refuse, require_published, told
from jobs.places import absolute
from jobs.quality_gate import GateFailedError, failures
from jobs.quality_gate import told as told_results
from jobs.run_context import RunContext
from jobs.run_log import progress
from jobs.spark_session import spark_session
from jobs.sql_views import create_views
from jobs.terminal import write
from jobs.watch_command import watch_command
from schemas import TABLES

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
    epilog=(
        "Begin with: hindsight check-landing DIR, which tells what of DIR/<format>/cluster=<name>/ would be read, then "
        "hindsight run-pipeline --landing DIR --lake DIR. It takes in what is new there, computes what that changes, "
        "and writes <lake>/report.html; run it as often as you like. Then ask: hindsight drift, hindsight sql, "
        "hindsight explain. Of logs alone hindsight diagnose LOG... tells what they can. "
        "Exit codes: 0 done, 1 drift found (drift --fail-on), 2 a data gate failed, 3 the run failed, 64 wrong usage, "
        "75 another run writes to the lake, 130 interrupted."
    ),
)
add_jobs(app)
app.command("check-landing", help=check_landing.__doc__)(check_landing.check_landing)
app.command("collect")(collect_command)
app.command("diagnose", help=diagnose.__doc__)(diagnose.diagnose)
app.command("watch")(watch_command)


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
    context = RunContext(absolute(landing or lake), dates_of(first, last))

    def work(spark: SparkSession, loaded: Settings) -> None:
        with context.step("render_report"), progress(spark.sparkContext):
            page = render_report.run(spark, loaded, context, absolute(lake))
        write([f"Report: {page}"])

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
        create_views(spark, Lake(spark, absolute(lake), retention_days=loaded.delta.retention_days))
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
        create_views(spark, Lake(spark, absolute(lake), retention_days=loaded.delta.retention_days))
        try:
            sections = explain(spark, table, where)
        except NotOneRowError as error:
            raise typer.BadParameter(str(error)) from error
        write("\n\n".join(section.text() for section in sections).split("\n"))

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
        tables = Lake(spark, absolute(lake), retention_days=loaded.delta.retention_days)
        create_views(spark, tables)
        until = judged_until(spark, cluster=cluster, group=group)
        found = open_incidents(spark, cluster=cluster, group=group)
        lines = as_json(found) if as_lines else told(found, until)
        write(lines)
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
    context = RunContext(absolute(lake), dates_of(first, last))
    unknown = sorted({*(table or ())} - TABLES.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], TABLES, n=1)
        raise typer.BadParameter(
            f"there is no table {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
        )

    def work(spark: SparkSession, loaded: Settings) -> None:
        results = check_quality.run(spark, loaded, context, absolute(lake), table or ())
        for result in results:
            shown = "ok" if result["success"] else f"FAILED ({result['severity']}): {result['observed']}"
            line = f"{result['table']}: {result['expectation']}: {shown}"
            write([json.dumps(result, ensure_ascii=False) if as_lines else line])
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
        context, root = RunContext(absolute(lake)), absolute(lake)
        with (
            context.step("maintain") as step,
            progress(spark.sparkContext),
            held(spark, root, context, wait_s=wait) as holding,
        ):
            found = maintain.run(spark, loaded, holding, root)
            step.facts["tables"] = len(found)
        write(maintain.as_json(found) if as_lines else maintain.told(found))

    _with_lake("maintain", lake, settings, master, work)


def show(frame: DataFrame, limit: int) -> None:
    """Print rows as Spark does, but for what a terminal would obey."""
    shown = StringIO()
    with redirect_stdout(shown):
        frame.show(limit, truncate=False)
    write(shown.getvalue().rstrip("\n").split("\n"))


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

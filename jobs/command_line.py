"""The ``hindsight`` command: every job by its name in kebab case, ad-hoc SQL, and what CI asks of the tables."""

from __future__ import annotations

import difflib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pyspark.sql import SparkSession

from conf.settings import Settings, load_settings
from jobs import (
    check_quality,
    flag_allocation_drift,
    ingest_consumer_snapshots,
    ingest_send_records,
    maintain,
    rebuild_availability,
    render_report,
    run_pipeline,
)
from jobs.delta_tables import Lake
from jobs.exit_codes import exit_code
from jobs.explain_row import EXPLAINED, NotOneRowError, explain
from jobs.open_drift import as_json, judged_until, open_incidents, refuse, told
from jobs.quality_gate import GateFailedError, failures
from jobs.quality_gate import told as told_results
from jobs.run_context import RunContext
from jobs.spark_session import spark_session
from jobs.sql_views import create_views
from schemas import TABLES

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
)

Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"]
Landing = Annotated[str, typer.Option(help="Folder with <format>/cluster=<name>/ files; local path or URI.")]
LakeRoot = Annotated[str, typer.Option("--lake", help="Folder of the Delta tables; made if absent.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file with what differs from the defaults.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines for machines.")]
Master = Annotated[str | None, typer.Option(help="Spark master, e.g. local[4]; leave out under spark-submit.")]


def _job(name: str, module: Any) -> None:
    def command(
        landing: Landing,
        lake: LakeRoot,
        settings: SettingsFile = None,
        master: Master = None,
    ) -> None:
        def work(spark: SparkSession, loaded: Settings) -> None:
            context = RunContext(_absolute(landing))
            if module is run_pipeline:
                module.run(spark, loaded, context, _absolute(lake))
                return
            with context.step(name) as step:
                run_pipeline.report(step, module.run(spark, loaded, context, _absolute(lake)))

        _with_session(name, settings, master, work)

    app.command(name, help=module.__doc__.splitlines()[0])(command)


_JOBS = {
    "run-pipeline": run_pipeline,
    "ingest-send-records": ingest_send_records,
    "ingest-consumer-snapshots": ingest_consumer_snapshots,
    "rebuild-availability": rebuild_availability,
    "flag-allocation-drift": flag_allocation_drift,
}
for _name, _module in _JOBS.items():
    _job(_name, _module)


@app.command("render-report", help=render_report.__doc__)
def render(
    lake: LakeRoot,
    landing: Annotated[str | None, typer.Option(help="Not needed: taken because every job takes it.")] = None,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Write the page anew, without any other job."""

    def work(spark: SparkSession, loaded: Settings) -> None:
        _refuse_absent(lake)
        context = RunContext(_absolute(landing or lake))
        with context.step("render-report"):
            page = render_report.run(spark, loaded, context, _absolute(lake))
        sys.stdout.write(f"Report: {page}\n")

    _with_session("render-report", settings, master, work)


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
        _refuse_absent(lake)
        create_views(spark, Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days))
        spark.sql(query).show(limit, truncate=False)

    _with_session("sql", settings, master, work)


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
        _refuse_absent(lake)
        create_views(spark, Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days))
        try:
            sections = explain(spark, table, where)
        except NotOneRowError as error:
            raise typer.BadParameter(str(error)) from error
        sys.stdout.write("\n\n".join(section.text() for section in sections) + "\n")

    _with_session("explain", settings, master, work)


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
        _refuse_absent(lake)
        create_views(spark, Lake(spark, _absolute(lake), retention_days=loaded.delta.retention_days))
        until = judged_until(spark, cluster=cluster, group=group)
        found = open_incidents(spark, cluster=cluster, group=group)
        lines = as_json(found) if as_lines else told(found, until)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        if fail_on:
            refuse(found, fail_on)

    _with_session("drift", settings, master, work)


@app.command()
def check(
    lake: LakeRoot,
    table: Annotated[list[str] | None, typer.Option(help="Table to check; may be given often; else all.")] = None,
    as_lines: Json = False,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Check published tables against their contracts and invariants; exit code 2 if a critical expectation fails."""
    unknown = sorted({*(table or ())} - TABLES.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], TABLES, n=1)
        raise typer.BadParameter(
            f"there is no table {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
        )

    def work(spark: SparkSession, loaded: Settings) -> None:
        _refuse_absent(lake)
        results = check_quality.run(spark, loaded, RunContext(_absolute(lake)), _absolute(lake), table or ())
        for result in results:
            shown = "ok" if result["success"] else f"FAILED ({result['severity']}): {result['observed']}"
            line = f"{result['table']}: {result['expectation']}: {shown}"
            sys.stdout.write((json.dumps(result, ensure_ascii=False) if as_lines else line) + "\n")
        failed = failures(results)
        if failed:
            raise GateFailedError(f"{len(failed)} critical expectation(s) failed: {told_results(failed)}")

    _with_session("check", settings, master, work)


@app.command("maintain", help=maintain.__doc__)
def maintain_command(
    lake: LakeRoot,
    as_lines: Json = False,
    settings: SettingsFile = None,
    master: Master = None,
) -> None:
    """Keep the lake small; no other job may write to it meanwhile."""

    def work(spark: SparkSession, loaded: Settings) -> None:
        _refuse_absent(lake)
        context = RunContext(_absolute(lake))
        with context.step("maintain"):
            found = maintain.run(spark, loaded, context, _absolute(lake))
        lines = maintain.as_json(found) if as_lines else maintain.told(found)
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    _with_session("maintain", settings, master, work)


def _refuse_absent(lake: str) -> None:
    if not Path(_absolute(lake)).exists() and "://" not in lake:
        raise typer.BadParameter(f"there is no lake at {lake!r}; run `hindsight run-pipeline` first.")


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).resolve())


def _with_session(
    name: str, settings: Path | None, master: str | None, work: Callable[[SparkSession, Settings], None]
) -> None:
    loaded = load_settings(settings)
    with spark_session(loaded, app_name=f"hindsight {name}", master=master) as spark:
        work(spark, loaded)


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process with an exit code of the README's table."""
    _talk()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: app(args=arguments, prog_name="hindsight", standalone_mode=False)))


def _talk() -> None:
    """Progress on stderr; of libraries only what they warn of, and PySpark's JSON copies of errors not at all."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name == "hindsight" or record.levelno >= logging.WARNING)
    for chatty in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)


if __name__ == "__main__":
    main()

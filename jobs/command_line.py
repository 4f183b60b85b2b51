"""The ``hindsight`` command: every job by its name in kebab case, and ad-hoc SQL.

Exit codes: 0 done, 2 a data gate failed, 3 the run failed, 64 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conf.settings import Settings, SettingsError, load_settings
from jobs import (
    flag_allocation_drift,
    ingest_consumer_snapshots,
    ingest_send_records,
    rebuild_availability,
    render_report,
    run_pipeline,
)
from jobs.delta_jars import SparkEnvironmentError
from jobs.delta_tables import Lake
from jobs.explain_row import EXPLAINED, NotOneRowError, explain
from jobs.quality_gate import GateFailedError
from jobs.run_context import RunContext
from jobs.spark_session import known_failure, spark_session
from jobs.sql_views import create_views

GATE_FAILED, RUN_FAILED, WRONG_USAGE, INTERRUPTED = 2, 3, 64, 130

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
)

Landing = Annotated[str, typer.Option(help="Folder with <format>/cluster=<name>/ files; local path or URI.")]
LakeRoot = Annotated[str, typer.Option("--lake", help="Folder of the Delta tables; made if absent.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file with what differs from the defaults.")]
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
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str]) -> int:
    try:
        app(args=arguments, prog_name="hindsight", standalone_mode=False)
    except typer.TyperException as error:
        told = getattr(error, "format_message", error.__str__)()
        return _said(f"{told} (hindsight --help tells more)", WRONG_USAGE)
    except SettingsError as error:
        return _said(str(error), WRONG_USAGE)
    except GateFailedError as error:
        return _said(str(error), GATE_FAILED)
    except SparkEnvironmentError as error:
        return _said(str(error), RUN_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return _said("interrupted; a rerun takes up where this run stopped", INTERRUPTED)
    except PySparkException as error:
        return _said(known_failure(error), RUN_FAILED)
    except Exception as error:
        # The process's outermost edge: Python's own exit code would be 1, which means drift to CI.
        traceback.print_exc()
        return _said(f"the run failed: {type(error).__name__}: {error}", RUN_FAILED)
    return 0


def _said(message: str, code: int) -> int:
    sys.stderr.write(f"hindsight: {message}\n")
    return code


def _talk() -> None:
    """Progress on stderr; of libraries only what they warn of, and PySpark's JSON copies of errors not at all."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name == "hindsight" or record.levelno >= logging.WARNING)
    for chatty in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)


if __name__ == "__main__":
    main()

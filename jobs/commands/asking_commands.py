"""The commands that ask a lake: SQL, open incidents, explanations, checks, and the page."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hindsight.jobs.asking.asking import asked
from hindsight.jobs.asking.sql_output import Format, NotForTerminalsError, write_answer
from hindsight.jobs.commands.command_options import (
    EngineName,
    From,
    Json,
    LakeThere,
    Master,
    SettingsFile,
    Severity,
    To,
    dates_of,
    show,
)
from hindsight.jobs.engines.asker import Asker, BadQueryError, Record
from hindsight.jobs.running.places import Engine, absolute, chosen_engine, file_to_write, require_lake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import columns, say, write, write_json
from hindsight.schemas import TABLES

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

    from hindsight.conf.settings import Settings

_ROWS = 100
Named = Annotated[str, typer.Argument(help="An incident's id; or a table, with SQL that picks one row of it.")]
Picked = Annotated[
    str | None, typer.Argument(help="SQL that picks one row, e.g. \"client_id = '...' AND broker_name = '...'\".")
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("render-report")
def render(
    lake: LakeThere,
    landing: Annotated[str | None, typer.Option(help="Not used: accepted because every job accepts it.")] = None,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Render the report: what the tables say, as one self-contained HTML page at <lake>/report.html."""
    from hindsight.jobs import render_report

    context = RunContext(absolute(landing or lake), dates_of(first, last))
    with _asking("render-report", lake, settings, engine, master) as (asker, loaded):
        with context.step("render_report") as step:
            step.facts["page"] = render_report.written(asker, loaded, context)
        if as_lines:
            write_json([context.told(step)])
        else:
            write([f"Report: {step.facts['page']}"])


@app.command()
def sql(
    lake: LakeThere,
    query: Annotated[
        str | None, typer.Argument(help="One SQL statement, e.g. 'SELECT * FROM current_drift'; without it: a prompt.")
    ] = None,
    form: Annotated[
        Literal["table", "csv", "parquet"], typer.Option("--format", help="What to write: a table, CSV or Parquet.")
    ] = "table",
    as_lines: Json = False,
    output: Annotated[
        Path | None, typer.Option(dir_okay=False, callback=file_to_write, help="File to write to; else stdout.")
    ] = None,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
    limit: Annotated[int | None, typer.Option(min=1, help=f"Rows to write; else {_ROWS} of a table, or all.")] = None,
) -> None:
    """Run a query over tables and views, in DuckDB's SQL, or in Spark's with --engine spark."""
    if as_lines and form != "table":
        raise typer.BadParameter(f"--json and --format {form} contradict each other.")
    shown: Format = "json" if as_lines else form
    most = limit or (_ROWS if shown == "table" else None)
    text = query if query is not None or sys.stdin.isatty() else sys.stdin.read()
    with _reading("sql", lake, settings, engine, master) as asker:

        def answer(text: str) -> None:
            one_more = most + 1 if most and shown == "table" else most
            write_answer(asker.answer(text, one_more), shown, output, most=most)

        if text is None:
            from hindsight.jobs.asking.sql_prompt import ask

            ask(answer)
        else:
            answer(text)


@app.command("explain")
def explain_command(
    what: Named,
    lake: LakeThere,
    where: Picked = None,
    as_story: Annotated[
        bool, typer.Option("--story", help="Of an incident: what happened in order, as Markdown for a ticket.")
    ] = False,
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Show the inputs of one incident, window, verdict or drift row, so that you can redo it by hand."""
    from hindsight.jobs.asking.incident_story import story
    from hindsight.jobs.explaining.explain_row import (
        EXPLAINED,
        NotOneRowError,
        as_values,
        explain,
        incident_named,
        the_row,
    )

    if as_story and as_lines:
        raise typer.BadParameter("--story is Markdown; leave out --json, or --story for the rows of which it tells.")
    if where is not None and what not in EXPLAINED:
        raise typer.BadParameter(f"{what!r} cannot be explained; one of {', '.join(EXPLAINED)} can.")
    if where is None and what in EXPLAINED:
        raise typer.BadParameter(f'say which row of {what}, with SQL: hindsight explain {what} "..."')
    with _reading("explain", lake, settings, engine, master) as asker:
        named = (what, where) if where is not None else incident_named(asker, what)
        if named is None:
            raise typer.BadParameter(f"there is no incident {what!r}; `hindsight drift` lists those that are open.")
        if as_story and named[0] != "drift_incident":
            raise typer.BadParameter("--story tells of an incident: give its id.")
        try:
            if as_story:
                write(list(story(asker, the_row(asker, *named))))
                return
            sections = explain(asker, *named)
        except NotOneRowError as error:
            raise typer.BadParameter(str(error)) from error
        if as_lines:
            write_json([as_values(*named, sections)])
        else:
            say("\n\n".join(section.text(columns()) for section in sections).split("\n"))


@app.command("message")
def message_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="Message id: the client's, or the broker's offset id.")],
    lake: LakeThere,
    by_key: Annotated[bool, typer.Option("--key", help="ID is a business key.")] = False,
    late: Annotated[int, typer.Option(min=1, help="Seconds after which a message is late.")] = 60,
    days: Annotated[int, typer.Option(min=0, help="Dates after its send in which it is looked for.")] = 3,
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Show the life of a message: its attempts, where it was stored, who consumed it, and what became of it."""
    from hindsight.jobs.asking.message_life import messages
    from hindsight.jobs.asking.message_told import as_values, told

    with _reading("message", lake, settings, engine, master) as asker:
        found = messages(asker, name, by_key=by_key, late_s=late, days=days)
        if not found:
            what = "key" if by_key else "id"
            raise typer.BadParameter(f"no send and no consumption is recorded of a message of the {what} {name!r}.")
        for place, message in enumerate(found):
            if as_lines:
                write_json([as_values(message)])
            else:
                say([*([""] if place else []), *told(message, asker)])


@app.command("bundle")
def bundle_command(
    what: Named,
    lake: LakeThere,
    where: Picked = None,
    output: Annotated[Path, typer.Option(dir_okay=False, callback=file_to_write, help="The file to write.")] = Path(
        "bundle.zip"
    ),
    first: From = None,
    as_lines: Json = False,
    settings: SettingsFile = None,
) -> None:
    """Write the inputs of one incident, window or verdict into a file to hand on: with other names, and proved."""
    from hindsight.jobs.bundling.bundle_file import written_bundle
    from hindsight.jobs.explaining.explain_row import NotOneRowError

    with _asking("bundle", lake, settings, "local", None) as (asker, loaded):
        try:
            done = written_bundle(asker, loaded, what, where, first and first.date(), output)
        except NotOneRowError as error:
            raise typer.BadParameter(str(error)) from error
        show(as_lines, [done._asdict()], done.told())


@app.command("metrics")
def metrics_command(
    lake: LakeThere,
    output: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            callback=file_to_write,
            help="File to write, e.g. in node_exporter's folder; else stdout.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Answer whoever asks this port instead; HOST: else 127.0.0.1."),
    ] = None,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Say as OpenMetrics gauges how things stood at the last record: windows, incidents, delays, rebalances."""
    from hindsight.jobs.metrics.gauges import as_text, gauges, serve, write_file
    from hindsight.schemas import INGESTED_FILE

    if listen and (output or chosen_engine(engine, master) == "spark"):
        raise typer.BadParameter("--listen answers without Spark and writes no file; leave the other option out.")
    address = listen and _address(listen)
    with _asking("metrics", lake, settings, engine, master) as (asker, loaded):
        if not asker.lake.exists(INGESTED_FILE):
            raise typer.BadParameter(f"{lake!r} has taken in no file yet; run `hindsight run-pipeline` first.")
        if output:
            write_file(output, lambda: gauges(asker, loaded.metrics))
        elif not address:
            write(as_text(lambda: gauges(asker, loaded.metrics)).rstrip("\n").split("\n"))

    def ask() -> Iterator[GaugeMetricFamily]:
        with asked(absolute(lake), loaded, "local", name="metrics", master=None) as asker:
            yield from gauges(asker, loaded.metrics)

    if address:
        serve(*address, ask)


def _address(listen: str) -> tuple[str, int]:
    """A host and a port; IPv6 addresses stand in brackets."""
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise typer.BadParameter(f"--listen {listen!r} names no port; write PORT or HOST:PORT, for example 9747.")
    return host.strip("[]") or "127.0.0.1", int(port)


@app.command()
def drift(
    lake: LakeThere,
    fail_on: Annotated[
        Severity | None,
        typer.Option(case_sensitive=False, help="Exit code 1 if an incident has this severity or a worse one."),
    ] = None,
    cluster: Annotated[str, typer.Option(help="Shell pattern.")] = "*",
    group: Annotated[str, typer.Option(help="Consumer groups, shell pattern.")] = "*",
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Show the incidents that are open now, the worst first."""
    from hindsight.jobs.asking.open_drift import (
        judged_until,
        not_judged,
        open_incidents,
        refuse,
        require_published,
        told,
    )

    with _reading("drift", lake, settings, engine, master) as asker:
        until = judged_until(asker, cluster=cluster, group=group)
        found = open_incidents(asker, cluster=cluster, group=group)
        if as_lines:
            write_json(found)
        else:
            write(told(found, until, not_judged(asker, cluster=cluster, group=group)))
        require_published(asker.lake)
        if fail_on:
            refuse(found, fail_on)


@app.command("lint")
def lint_command(
    lake: LakeThere,
    fail_on: Annotated[
        Severity | None,
        typer.Option(case_sensitive=False, help="Exit code 1 if something has this severity or a worse one."),
    ] = None,
    cluster: Annotated[str, typer.Option(help="Shell pattern.")] = "*",
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Show wrong configuration in what has landed: what it breaks, and the line to change."""
    from hindsight.jobs.asking.config_lint import lint, refuse, told

    with _asking("lint", lake, settings, engine, master) as (asker, loaded):
        found = lint(asker, loaded.lint.accept, cluster=cluster)
        show(as_lines, found, told(found))
        if fail_on:
            refuse(found, fail_on)


@app.command()
def check(
    lake: LakeThere,
    table: Annotated[list[str] | None, typer.Option(help="Table to check, may be repeated; default: all.")] = None,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
    settings: SettingsFile = None,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Check published tables against their contracts and invariants; exit code 2 if a critical expectation fails."""
    from hindsight.jobs import check_quality
    from hindsight.jobs.publishing.quality_gate import GateFailedError, failures, told

    context = RunContext(absolute(lake), dates_of(first, last))
    unknown = sorted({*(table or ())} - TABLES.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], TABLES, n=1)
        raise typer.BadParameter(
            f"there is no table {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
        )
    with _asking("check", lake, settings, engine, master) as (asker, _):
        results = check_quality.run(asker, context, table or ())
        show(as_lines, results, map(_checked, results))
        failed = failures(results)
        if failed:
            raise GateFailedError(f"{len(failed)} critical expectation(s) failed: {told(failed)}")


def _checked(result: Record) -> str:
    shown = "ok" if result["success"] else f"FAILED ({result['severity']}): {result['observed']}"
    return f"{result['table']}: {result['expectation']}: {shown}"


@contextmanager
def _asking(
    name: str, lake: str, settings: Path | None, engine: Engine | None, master: str | None
) -> Iterator[tuple[Asker, Settings]]:
    """A lake for as long as a command asks, and the settings; one that is not there is refused before Spark starts."""
    chosen = chosen_engine(engine, master)
    require_lake(lake)
    loaded = _loaded(settings)
    with _answering(lake, loaded, chosen, name, master) as asker:
        yield asker, loaded


@contextmanager
def _reading(name: str, lake: str, settings: Path | None, engine: Engine | None, master: str | None) -> Iterator[Asker]:
    """The same for a command that goes by no setting: those that were given are looked at all the same."""
    chosen = chosen_engine(engine, master)
    require_lake(lake)
    loaded = _loaded(settings) if settings is not None or chosen == "spark" else None
    with _answering(lake, loaded, chosen, name, master) as asker:
        yield asker


@contextmanager
def _answering(lake: str, loaded: Settings | None, chosen: Engine, name: str, master: str | None) -> Iterator[Asker]:
    with asked(absolute(lake), loaded, chosen, name=name, master=master) as asker:
        try:
            yield asker
        except (BadQueryError, NotForTerminalsError) as error:
            raise typer.BadParameter(str(error)) from error


def _loaded(settings: Path | None) -> Settings:
    from hindsight.conf.settings_file import load_settings  # its models take long to load

    return load_settings(settings)

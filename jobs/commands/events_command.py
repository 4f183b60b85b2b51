"""The commands that tell others: the stream of what happened to incidents."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.asking.asking import asked
from hindsight.jobs.commands.command_options import (
    EngineName,
    Json,
    LakeThere,
    Master,
    SettingsFile,
    Severity,
    SinkNames,
    show,
)
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.running.places import absolute, chosen_engine, require_lake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.telling.delivery import CURSORS, Cursors, deliver, first_number
from hindsight.jobs.telling.incident_noting import (
    LAST,
    Start,
    note_events,
    noted_rows,
    number_before,
    require_judged,
    require_reached,
    since_of,
    told,
    wanted,
)
from hindsight.jobs.telling.sinks import Sink, SinkError, cursor_name, sink_of
from hindsight.udfs.telling.event_forms import as_values, events_of

_RENAMED = "hindsight: --to is called --sink now, as --to is a date elsewhere; the next release does not know it.\n"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("events")
def events_command(
    lake: LakeThere,
    since: Annotated[
        str | None,
        typer.Option(
            help="An instant (UTC), a number of the stream (events behind it), or last: behind the cursor. Default: "
            "the whole stream; with --sink: last."
        ),
    ] = None,
    cursor: Annotated[
        str | None, typer.Option(help="Name of the cursor of --since last.", show_default="default")
    ] = None,
    sink: SinkNames = None,
    to: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    severity: Annotated[
        Severity | None, typer.Option(case_sensitive=False, help="Only incidents of this severity or a worse one.")
    ] = None,
    with_backfill: Annotated[bool, typer.Option("--with-backfill", help="Events of long ago, too.")] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Note nothing new: what was noted before is shown or sent.")
    ] = False,
    as_lines: Json = False,
    settings: SettingsFile = None,
    wait: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for a run that writes to the lake, or for events that are sent."),
    ] = 60,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Note what has happened to incidents since the last time, and show it or send it to whoever must know."""
    chosen = chosen_engine(engine, master)
    require_lake(lake)
    if to:
        sys.stderr.write(_RENAMED)
    named = [*(sink or ()), *(to or ())]
    _require_sense(since, cursor, named, as_lines=as_lines)
    start = None if since == LAST or (named and since is None) else since_of(since or "0")
    loaded, root = load_settings(settings), absolute(lake)
    sinks = [sink_of(one, loaded.events.sink, severity) for one in named]
    context = RunContext(root)
    if not read_only:
        with (
            context.step("events") as step,
            opened(chosen, root, loaded, context, name="events", master=master, wait_s=wait) as own,
        ):
            step.facts["noted"] = len(note_events(own.lake, own.context, loaded.events))
    with asked(root, loaded, chosen, name="events", master=master) as asker:
        require_judged(asker.lake)
        if sinks:
            with held(asker.lake.spark, f"{root}/{CURSORS}", context, wait_s=wait):
                _send(asker.lake, sinks, start, loaded, with_backfill=with_backfill)
        else:
            name = cursor or "default"
            # Who names an instant or a number means what happened since, however long ago.
            all_since = with_backfill or since not in (None, LAST)
            _show(asker.lake, start, name, severity or "INFO", with_backfill=all_since, as_lines=as_lines)


def _require_sense(since: str | None, cursor: str | None, sinks: list[str], *, as_lines: bool) -> None:
    """Refuse options that would be without effect, before anything is done."""
    if sinks and (as_lines or cursor):
        raise typer.BadParameter("--json and --cursor are for reading; each --sink has a form and a cursor.")
    if cursor and since != LAST:
        raise typer.BadParameter("--cursor names the cursor of --since last; add that.")
    if cursor:
        cursor_name(cursor)


def _show(
    lake: ArrowLake, start: Start | None, cursor: str, severity: str, *, with_backfill: bool, as_lines: bool
) -> None:
    events, cursors = events_of(noted_rows(lake)), Cursors(lake)
    behind = (cursors.within(cursor, len(events)) or 0) if start is None else start
    require_reached(behind, events)
    everything = wanted(events, behind, severity, with_backfill=True)
    shown = everything if with_backfill else wanted(events, behind, severity, with_backfill=False)
    show(as_lines, (as_values(*one) for one in shown), told(shown, len(everything) - len(shown)))
    if start is None:
        cursors.move(cursor, len(events))


def _send(lake: ArrowLake, sinks: list[Sink], start: Start | None, settings: Settings, *, with_backfill: bool) -> None:
    """Send to each sink; one that fails does not keep the others from being told.

    Raises: SinkError: of those that failed, when all were tried.
    """
    rows, cursors, failed = noted_rows(lake), Cursors(lake), []
    events = events_of(rows)
    for sink in sinks:
        begin = cursors.within(sink.name, len(events)) if start is None else start
        if begin is None:
            begin = first_number([row["noted_at"] for row in rows], settings.events, datetime.now(UTC))
        after = number_before(begin, events)
        try:
            sent = deliver(sink, events, after, cursors, settings.events, with_backfill=with_backfill)
        except SinkError as error:
            failed.append(str(error))
            write([f"{sink.name}: not all was taken, only up to no. {cursors.at(sink.name) or 0}"])
            continue
        past = 0 if with_backfill else sum(event.told.backfill for event in events[after:])
        history = f"; {past} of history (backfill) not sent, which --since {after} --with-backfill does" if past else ""
        write([f"{sink.name}: {sent} request(s) taken, up to no. {len(events)}{history}"])
    if failed:
        raise SinkError(" ".join(failed))

"""The command that tells others: the stream of what happened to incidents, read or sent.

A cursor beside the tables says how far a reader or a sink has got. It moves after an event is taken. So a run that ends
between the two sends that event once more, with the same id: at the wire each event comes at least once, by its id
once. One run at a time sends: it holds the cursors by a lease of their own, so that a sink which answers slowly keeps
no job from the lake.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from hindsight.conf.settings import Events, Settings
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
from hindsight.jobs.lake.small_files import Store, store_at
from hindsight.jobs.running.places import absolute, chosen_engine, require_lake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.telling.incident_noting import (
    LAST,
    SinceError,
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
from hindsight.jobs.telling.sinks import Answer, Sink, SinkError, cursor_name, post, sink_of
from hindsight.udfs.telling.event_forms import (
    alerts,
    as_values,
    dingtalk_message,
    dingtalk_sign,
    events_of,
    is_as_bad,
    slack_message,
)
from hindsight.udfs.telling.incident_news import Event, firing

_RENAMED = "hindsight: --to is called --sink now, as --to is a date elsewhere; the next release does not know it.\n"
CURSORS = "_cursors"  # their folder
_ALERTS_AT_ONCE = 200
_TOO_FAST = (-1, 130101, 410100)  # busy; more than 20 messages a minute
_MESSAGES = {"webhook": as_values, "slack": slack_message, "dingtalk": dingtalk_message}

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


class Cursors:
    """How far whoever reads the stream has got: the number of the last event, by name."""

    def __init__(self, lake: ArrowLake) -> None:
        self._store: Store = store_at(lake.spark, f"{lake.root}/{CURSORS}")

    def at(self, name: str) -> int | None:
        """The number; None: nothing was read by that name yet."""
        with suppress(ValueError, KeyError, TypeError):
            return int(json.loads(self._store.read(f"{name}.json") or "")["number"])
        return None

    def within(self, name: str, reached: int) -> int | None:
        """The same, of a stream that has so many events. Raises: SinceError: it cannot be of this stream."""
        number = self.at(name)
        if number is not None and number > reached:
            raise SinceError(
                f"the cursor {name!r} stands at no. {number}, and the stream has {reached} events: incident_event was "
                "made anew. Send with --since 0, or read with another --cursor."
            )
        return number

    def move(self, name: str, number: int) -> None:
        """Note that all up to this event was read."""
        self._store.write(f"{name}.json", json.dumps({"number": number}))


def first_number(noted_at: Sequence[datetime], settings: Events, now: datetime) -> int:
    """Where a sink begins that was never sent anything: behind what was noted too long ago to be news."""
    limit = now - timedelta(hours=settings.backfill_after_h)
    return sum(at < limit for at in noted_at)


def deliver(
    sink: Sink, events: Sequence[Event], after: int, cursors: Cursors, settings: Events, *, with_backfill: bool = False
) -> int:
    """Send the events behind number ``after``, in order, and move the sink's cursor; how many requests it took.

    ``events``: all of the stream, from 1. Raises: SinkError: the cursor stands before what was not taken.
    """
    fresh = [
        (number, event)
        for number, event in enumerate(events, 1)
        if number > after and event.what not in settings.unsent and (with_backfill or not event.told.backfill)
    ]
    if cursors.at(sink.name) != after:
        cursors.move(sink.name, after)  # what is not taken now is what the next run begins with
    if sink.form == "alertmanager":
        live = [event for event in events[after:] if not event.told.backfill]
        sent = _send_alerts(sink, events, live, settings)
    else:
        sent = _send_each(sink, fresh, cursors, settings)
    if len(events) > after:
        cursors.move(sink.name, len(events))
    return sent


def _send_each(sink: Sink, fresh: Sequence[tuple[int, Event]], cursors: Cursors, settings: Events) -> int:
    wanted = [(number, event) for number, event in fresh if is_as_bad(event, sink.severity)]
    for number, event in wanted:
        headers = {**_headers(sink), "Idempotency-Key": event.event_id}
        meant = _by_errcode if sink.form == "dingtalk" else None
        post(sink, _address(sink), _MESSAGES[sink.form](number, event), headers, settings, meant)
        cursors.move(sink.name, number)
    return len(wanted)


def _send_alerts(sink: Sink, events: Sequence[Event], fresh: Sequence[Event], settings: Events) -> int:
    ends = datetime.now(UTC) + timedelta(minutes=settings.alert_hold_m)
    found = alerts(fresh, firing(events), sink.severity, ends)
    pieces = [found[at : at + _ALERTS_AT_ONCE] for at in range(0, len(found), _ALERTS_AT_ONCE)]
    for piece in pieces:
        post(sink, sink.url, piece, _headers(sink), settings)
    return len(pieces)


def _address(sink: Sink) -> str:
    """The address, with the signature of this instant where a robot asks for one."""
    if sink.form != "dingtalk" or sink.token is None:
        return sink.url
    return f"{sink.url}{'&' if '?' in sink.url else '?'}{dingtalk_sign(sink.token, int(time.time() * 1000))}"


def _headers(sink: Sink) -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {sink.token}"} if sink.token and sink.form != "dingtalk" else {}
    return {"Content-Type": "application/json; charset=utf-8", "User-Agent": "rocketmq-hindsight", **bearer}


def _by_errcode(answer: Answer) -> Answer:
    """DingTalk answers 200 to everything; its text says whether the robot took it, or was sent too much."""
    if answer.status != 200:
        return answer
    told: dict[str, Any] = {}
    with suppress(ValueError, TypeError):
        told = dict(json.loads(answer.text))
    if told.get("errcode") == 0:
        return answer
    status = 429 if told.get("errcode") in _TOO_FAST else 400
    return Answer(status, f"errcode {told.get('errcode')}, {told.get('errmsg')}")

"""``hindsight upgrade``: what a rollout would do to a group, member by member, from the newest round of its record."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

from hindsight.conf.settings_file import load_premises, load_settings
from hindsight.jobs import rebuild_availability
from hindsight.jobs.asking.sql_output import table
from hindsight.jobs.commands.command_options import From, Json, LakeThere, SettingsFile, To, dates_of, show
from hindsight.jobs.commands.what_if_command import effects, made
from hindsight.jobs.engines.asker import BadQueryError, Record, as_records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.what_ifs import drop
from hindsight.jobs.running.places import absolute, require_lake
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.jobs.running.terminal import columns, legible
from hindsight.jobs.scenarios.planned_rollout import Asked, planned
from hindsight.udfs.client_families import JAVA

_WHAT_IF = "of_an_upgrade"  # is dropped again
_STEPS = ("step", "client_id", "becomes", "topic", "queues_moved", "times_taken", "nobody", "two", "unread_s", "all_s")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("upgrade")
def upgrade(
    group: Annotated[str, typer.Argument(help="Consumer group.")],
    lake: LakeThere,
    cluster: Annotated[str | None, typer.Option(help="Its cluster, where several have a group of the name.")] = None,
    release: Annotated[str | None, typer.Option(help="Release that members come back with, e.g. 5.3.3.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Strategy that they come back with, e.g. AVG_BY_CIRCLE.")] = None,
    language: Annotated[str, typer.Option(help="Language of that release: JAVA, GO or CPP.")] = JAVA,
    order: Annotated[
        list[str] | None, typer.Option(help="Client id; repeat it in the order of their turns. Else: sorted.")
    ] = None,
    renamed: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="A client id and the one it comes back under.")
    ] = None,
    stop: Annotated[
        Literal["shutdown", "killed"], typer.Option(help="How members end; killed: their locks live on.")
    ] = "shutdown",
    away: Annotated[int, typer.Option(min=0, help="Seconds from a member's stop until it has started again.")] = 30,
    calm: Annotated[int, typer.Option(min=0, help="Seconds from when all have heard until the next one stops.")] = 60,
    notified: Annotated[
        bool | None, typer.Option("--notified/--by-timer", help="Brokers tell members of changes, or timers alone do.")
    ] = None,
    ordered: Annotated[bool | None, typer.Option("--ordered/--concurrent", help="How the group consumes.")] = None,
    at: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S"], help="As things stood then, UTC; else in the newest round."),
    ] = None,
    producer_group: Annotated[
        str | None, typer.Option(help="Producers (a shell pattern) that get the release too: brokers they'd avoid.")
    ] = None,
    first: From = None,
    last: To = None,
    settings: SettingsFile = None,
    as_lines: Json = False,
) -> None:
    """Tell what a rollout does to a group, member by member: who reads what, and how long nobody does."""
    require_lake(lake)
    asked = Asked(group, cluster, release, strategy, language.upper(), order or (), renamed or ())
    asked = asked._replace(stop=stop, away_s=away, calm_s=calm, notified=notified, ordered=ordered, at=at)
    with closing(LocalAsker(LocalLake(absolute(lake), retention_days=0))) as asker:
        try:
            rows = planned(asker, asked)
        except BadQueryError as error:
            raise typer.BadParameter(str(error)) from error
    if producer_group is not None:
        rows += _avoided(absolute(lake), asked, producer_group, dates_of(first, last), settings, rows)
    show(as_lines, rows, _told(rows))


def _avoided(
    root: str, asked: Asked, producer_group: str, dates: DateRange, settings: Any, rows: Sequence[Record]
) -> list[Record]:
    """What producers with the new release would have avoided in the dates: by the step of the member of their id."""
    if asked.release is None or asked.language != JAVA:
        raise typer.BadParameter("--producer-group needs --release, of a Java client.")
    premise = (
        f"producer = {{producer_group = {json.dumps(producer_group)}, client_version = {json.dumps(asked.release)}}}"
    )
    loaded, context = load_settings(settings), RunContext(root, dates)
    made(root, _WHAT_IF, load_premises([premise]), loaded, context, [rebuild_availability.derivation])
    try:
        found = next(rows for effect, rows in effects(root, _WHAT_IF, loaded) if effect == "sends")
        step_of = {row["client_id"]: row["step"] for row in rows if row["part"] == "step"}
        return [{"part": "avoided", "step": step_of.get(row["client_id"]), **row} for row in as_records(found)]
    finally:
        drop(None, root, _WHAT_IF)


def _told(rows: Sequence[Record]) -> Iterator[str]:
    parts: defaultdict[str, list[Record]] = defaultdict(list)
    for row in rows:
        parts[row["part"]].append(row)
    (head,) = parts["group"]
    hear = "brokers tell of changes" if head["notified"] else "timers alone tell of changes"
    yield (
        f"{legible(head['consumer_group'])} of {legible(head['cluster'])}: {head['members']} members, as in the round "
        f"of {head['round_at']}; stop: {head['stop']}, away {head['away_ms'] // 1000} s, then "
        f"{head['calm_ms'] // 1000} s of calm; {hear}; {'in order' if head['ordered'] else 'not in order'}."
    )
    yield from (f"  Assumed: {legible(row['what'])}." for row in parts["assumed"])
    yield from (f"  Not known: {legible(row['topic'])}: {legible(row['unknown_because'])}." for row in parts["unknown"])
    if parts["step"]:
        yield ""
        yield "Steps; unread_s: of the queue that nobody reads the longest; all_s: of all queues; until the next step:"
        yield from table(
            pa.Table.from_pylist([_short(row) for row in parts["step"]]).select(list(_STEPS)), width=columns()
        )
    for row in parts["step"]:
        yield ""
        yield f"After step {row['step']}, {legible(row['topic'])}:"
        yield from (f"  {legible(line)}" for line in _held(row["owners"]))
    for row in parts["order"]:
        yield ""
        yield (
            f"{row['which'].capitalize()} order ({row['found_by']}): unread {row['all_unread_at_most_s']:g} s at most, "
            f"of all queues together; {row['times_taken']} times taken"
        )
        yield from (f"  {legible(client_id)}" for client_id in row["members"])
    if parts["avoided"]:
        yield ""
        yield "Producers with the new release (open loop):"
        shown = ("step", "client_id", "broker_name", "avoided_s", "would_avoid_s", "would_move", "could_come")
        yield from table(pa.Table.from_pylist(parts["avoided"]).select(list(shown)), width=columns())


def _short(row: Record) -> Record:
    return row | {
        "unread_s": f"{row['longest_unread_at_least_s']:g} to {row['longest_unread_at_most_s']:g}",
        "all_s": f"{row['all_unread_at_least_s']:g} to {row['all_unread_at_most_s']:g}",
    }


def _held(owners: Sequence[Record]) -> Iterator[str]:
    held: defaultdict[str, list[str]] = defaultdict(list)
    for queue in owners:
        for reader in queue["after"] or ["nobody"]:
            held[reader].append(f"{queue['broker_name']} {queue['queue_id']}")
    yield from (f"{reader}: {', '.join(queues)}" for reader, queues in sorted(held.items()))

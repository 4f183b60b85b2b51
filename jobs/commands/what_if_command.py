"""``hindsight what-if``: recorded history under premises, in tables of a name of its own, beside what is published."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import PremiseError, PremisesFile, load_premises, load_settings, microseconds
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.asking.sql_output import table
from hindsight.jobs.commands.command_options import From, Json, LakeRoot, SettingsFile, To, dates_of, show
from hindsight.jobs.engines.asker import Record, as_records, query
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.what_ifs import WHAT_IFS, checked_name, drop, remember, table_prefix, what_ifs
from hindsight.jobs.publishing.publication import Derivation
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_context import NoSuchDatesError, RunContext
from hindsight.jobs.running.terminal import write, write_json
from hindsight.jobs.scenarios.derived_again import derive_again, opened_scenario
from hindsight.udfs.allocation import UnknownStrategyError, resolve_strategy
from hindsight.udfs.release_profiles import UnknownReleaseError, profile_for
from hindsight.udfs.scenarios.premises import ALWAYS, GroupPremise, Premises, TopicPremise

EFFECTS = ("windows", "sends", "shares", "findings")
_DATES = "what_if_date"  # the dates of clusters that were derived again, for the queries
# What derives a job's tables under premises, of which it is told with the settings and what runs kernels.
Derives = Callable[[Settings, Runner, Premises], Derivation[Any]]


class Made(NamedTuple):
    """What a what-if is: dates of clusters that were derived again, and how many the published tables lack."""

    dates: list[ClusterDate]
    not_computed: int


def premises_of(read: PremisesFile) -> Premises:
    """Premises as the derivations take them.

    Raises: PremiseError: there is no such release or strategy.
    """
    releases = [entry.client_version for entry in read.producer] + [entry.client_version for entry in read.group]
    try:
        for release in releases:
            if release is not None:
                profile_for(release)
        for group in read.group:
            if group.strategy is not None:
                resolve_strategy(group.strategy)
    except (UnknownReleaseError, UnknownStrategyError) as error:
        raise PremiseError(f"premises: {error}") from error
    groups = [GroupPremise(**{**entry.model_dump(), "since": _since(entry.since)}) for entry in read.group]
    topics = [TopicPremise(**{**entry.model_dump(), "since": _since(entry.since)}) for entry in read.topic]
    return Premises([entry.model_dump() for entry in read.producer], groups, topics)


def _since(since: datetime | None) -> int:
    found = microseconds(since)
    return ALWAYS if found is None else found


def made(
    lake_root: str,
    name: str,
    premises: PremisesFile,
    settings: Settings,
    context: RunContext,
    derivations: Iterable[Derives],
) -> Made:
    """Derive the dates of the context again under premises, into a lake of the what-if's own.

    Nothing that is published is touched. A what-if of that name that is there is made anew; it shows when it is whole.
    Raises: PremiseError, WhatIfNameError, NoSuchDatesError, LakeHeldError.
    """
    supposed = premises_of(premises)
    context = replace(context, run_id=f"what-if {name} (open loop) {context.run_id}")
    with opened_scenario("local", lake_root, name, settings, context, command="what-if", master=None) as held:
        dates: set[ClusterDate] = set()
        not_computed = 0
        for derives in derivations:
            derivation = derives(settings, held.runner, supposed)
            done = derive_again(held.published, held.into, derivation, held.context)
            dates.update(done.dates)
            not_computed = max(not_computed, done.not_computed)
        if not dates:
            raise NoSuchDatesError(f"nothing is recorded in {lake_root} of {context.dates}; no what-if was made.")
        _note(lake_root, name, premises, sorted(dates))
    return Made(sorted(dates), not_computed)


def _note(lake_root: str, name: str, premises: PremisesFile, dates: list[ClusterDate]) -> None:
    told: dict[str, Any] = {
        "premises": premises.model_dump(mode="json", exclude_defaults=True),
        "dates": [[at.cluster, str(at.event_date)] for at in dates],
        "made_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    remember(None, lake_root, name, told)


def effects(lake_root: str, name: str, settings: Settings) -> Iterator[tuple[str, pa.Table]]:
    """What a what-if that is whole says otherwise than what is published of its dates, by ``EFFECTS``.

    ``windows``: those that would come, go or be others. ``sends``: for each producer and broker, seconds that it was
    and would be avoided, and sends that move or could. ``shares``: for each group, topic and stretch of rounds, who
    would hold which queue. ``findings``: how often each code was and would be found.
    """
    lake = LocalLake(lake_root, retention_days=settings.delta.retention_days)
    dates = what_ifs(None, lake_root)[name]["dates"]
    with closing(LocalAsker(lake)) as asker:
        asker.name(_DATES, _dated(dates))
        for effect in EFFECTS:
            asked = query("queries", effect, of="scenarios").format(of=table_prefix(name))
            yield effect, asker.answer(asked).read_all()


def _dated(dates: list[list[str]]) -> pa.Table:
    clusters, days = zip(*dates, strict=True)
    return pa.table({"cluster": pa.array(clusters), "event_date": pa.array(map(date.fromisoformat, days), pa.date32())})


_JOBS = (rebuild_availability, flag_allocation_drift)
_ROWS = 40  # of an effect that people see
_HEADS = {
    "windows": ("Producers: when they avoided a broker, and would (open loop).",),
    "sends": (
        "Producers: seconds for which they avoided each broker, and would; sends that would move away from it, that",
        "may (what is not recorded decides), and that could have come to it. Open loop: what follows is as recorded.",
    ),
    "shares": ("Consumer groups: queues that would move; how many queues each member has, and would have.",),
    "findings": ("Findings: how often each was found, and would be (of groups: rounds that show it).",),
}
_NOT_SHOWN = ["collector", "unknown_because", "certainty", "moves"]  # to people

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("what-if")
def what_if(
    lake: LakeRoot,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the what-if; without it: those that there are.")
    ] = None,
    suppose: Annotated[
        list[str] | None,
        typer.Option(
            help='A premise as TOML, e.g. \'group = {consumer_group = "g", strategy = "AVG_BY_CIRCLE"}\'; may repeat.'
        ),
    ] = None,
    premises: Annotated[Path | None, typer.Option(dir_okay=False, help="TOML file of premises.")] = None,
    remove: Annotated[bool, typer.Option("--drop", help="Remove the what-if NAME.")] = False,
    settings: SettingsFile = None,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
) -> None:
    """Derive recorded dates again under premises, and say what would differ; published tables are only read.

    Without a premise the dates are derived again as they were recorded, and nothing differs.
    """
    root = absolute(lake)
    given = [*(suppose or ()), *([_text(premises)] if premises else ())]
    if name is None:
        if given or remove:
            raise typer.BadParameter("a what-if needs a name: hindsight what-if NAME --lake LAKE --suppose ...")
        there = what_ifs(None, root)
        if as_lines:
            write_json({"name": one, **note} for one, note in there.items())
        else:
            write(_listed(root, there))
    elif remove:
        if given:
            raise typer.BadParameter("--drop takes no premises.")
        drop(None, root, checked_name(name))
    else:
        read, loaded = load_premises(given), load_settings(settings)
        context, derivations = RunContext(root, dates_of(first, last)), [job.derivation for job in _JOBS]
        done = made(root, checked_name(name), read, loaded, context, derivations)
        show(as_lines, _as_values(root, name, loaded, done.not_computed), _told(root, name, loaded, done.not_computed))


def _text(premises: Path) -> str:
    try:
        return premises.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{str(premises)!r} cannot be read: {error.strerror}.") from error


def _listed(root: str, there: Mapping[str, Record]) -> Iterator[str]:
    if not there:
        yield f"There is no what-if in {root}."
    for name, note in there.items():
        yield f"{name}  made {note['made_at']}, {len(note['dates'])} dates of clusters: {json.dumps(note['premises'])}"


def _told(root: str, name: str, settings: Settings, not_computed: int) -> Iterator[str]:
    for effect, rows in effects(root, name, settings):
        yield from _HEADS[effect]
        yield from _shares(rows) if effect == "shares" else _rows(rows)
        yield ""
    if not_computed:
        yield f"{not_computed} dates are published under other files or settings: differences may come of that."
    yield f"Tables: {table_prefix(name)}<table> beside <table>, in hindsight sql --lake {root}"
    yield f"With all views: hindsight sql --lake {root}/{WHAT_IFS}/{name}"


def _rows(rows: pa.Table) -> list[str]:
    return table(rows, _ROWS) if len(rows) else ["  Nothing differs."]


def _shares(rows: pa.Table) -> Iterator[str]:
    """What is known as a table; then what is not, and why."""
    is_known = pc.is_null(rows["unknown_because"])
    yield from _rows(rows.filter(is_known).drop_columns(_NOT_SHOWN))
    unknown = Counter[tuple[str, str, str]]()
    for row in as_records(rows.filter(pc.invert(is_known))):
        unknown[row["consumer_group"], row["topic"], row["unknown_because"]] += row["rounds"]
    for (group, topic, reason), rounds in sorted(unknown.items()):
        yield f"  Not known: {group}, {topic}, {rounds} rounds: {reason}"


def _as_values(root: str, name: str, settings: Settings, not_computed: int) -> Iterator[Record]:
    for effect, rows in effects(root, name, settings):
        yield from ({"effect": effect, **row} for row in as_records(rows))
    if not_computed:
        yield {"effect": "not_computed", "dates": not_computed}

"""``hindsight what-if``: recorded history under premises, in tables of a name of its own, beside what is published."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hindsight.conf.premises_file import load_premises
from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.asking.sql_output import json_record, table
from hindsight.jobs.commands.command_options import From, LakeRoot, SettingsFile, To, dates_of
from hindsight.jobs.engines.asker import as_records
from hindsight.jobs.lake.what_ifs import WHAT_IFS, checked_name, drop, table_prefix, what_ifs
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import write
from hindsight.jobs.scenarios.what_if import effects, made

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
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="For people, or a line of JSON for each row.")
    ] = "text",
) -> None:
    """Derive recorded dates again under premises, and say what would differ; published tables are only read.

    Without a premise the dates are derived again as they were recorded, and nothing differs.
    """
    root = absolute(lake)
    given = [*(suppose or ()), *([_text(premises)] if premises else ())]
    if name is None:
        if given or remove:
            raise typer.BadParameter("a what-if needs a name: hindsight what-if NAME --lake LAKE --suppose ...")
        write(_listed(root, form))
    elif remove:
        if given:
            raise typer.BadParameter("--drop takes no premises.")
        drop(None, root, checked_name(name))
    else:
        read, loaded = load_premises(given), load_settings(settings)
        context, derivations = RunContext(root, dates_of(first, last)), [job.derivation for job in _JOBS]
        done = made(root, checked_name(name), read, loaded, context, derivations)
        write(_as_json(root, name, loaded) if form == "json" else _told(root, name, loaded, done.not_computed))


def _text(premises: Path) -> str:
    try:
        return premises.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{str(premises)!r} cannot be read: {error.strerror}.") from error


def _listed(root: str, form: str) -> Iterator[str]:
    there = what_ifs(None, root)
    if form == "json":
        yield from (json.dumps({"name": name, **note}, ensure_ascii=False) for name, note in there.items())
        return
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


def _as_json(root: str, name: str, settings: Settings) -> Iterator[str]:
    for effect, rows in effects(root, name, settings):
        for row in as_records(rows):
            yield json_record({"effect": effect, **row})

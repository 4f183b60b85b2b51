"""``hindsight maintain``: keep a lake small."""

from __future__ import annotations

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import maintain
from hindsight.jobs.commands.command_options import EngineName, Json, LakeThere, Master, SettingsFile, Wait, show
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.running.places import absolute, chosen_engine, require_lake
from hindsight.jobs.running.run_context import RunContext

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("maintain", help=maintain.__doc__)
def maintain_command(
    lake: LakeThere,
    as_lines: Json = False,
    settings: SettingsFile = None,
    wait: Wait = 0,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Keep the lake small; no other job may write to it meanwhile."""
    chosen = chosen_engine(engine, master)
    require_lake(lake)
    loaded, context, root = load_settings(settings), RunContext(absolute(lake)), absolute(lake)
    with (
        context.step("maintain") as step,
        opened(chosen, root, loaded, context, name="maintain", master=master, wait_s=wait) as held,
    ):
        found = maintain.run_on(held.lake, loaded, held.context)
        step.facts["tables"] = len(found)
    show(as_lines, maintain.as_values(found), maintain.told(found))

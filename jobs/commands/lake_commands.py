"""Every command: the jobs, and what is asked of a lake."""

from __future__ import annotations

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import maintain
from hindsight.jobs.collect.command import collect_command
from hindsight.jobs.commands import (
    asking_commands,
    check_landing,
    compare_command,
    diagnose,
    events_command,
    job_commands,
    replay_command,
)
from hindsight.jobs.commands.command_options import EngineName, Json, LakeRoot, Master, SettingsFile, Wait
from hindsight.jobs.commands.watch_command import watch_command
from hindsight.jobs.engines.engine_choice import chosen_engine
from hindsight.jobs.engines.opened import opened
from hindsight.jobs.running.places import absolute
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.terminal import write

app = typer.Typer(
    name="hindsight",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which brokers did each RocketMQ producer refuse, and which queues should each consumer have owned?",
    epilog=(
        "Begin with hindsight check-landing DIR: it shows what a run would read in DIR/<format>/cluster=<name>/. Then "
        "hindsight run-pipeline --landing DIR --lake DIR: it takes in new files, computes what they change, "
        "and writes <lake>/report.html; run it as often as you like. Then ask: hindsight drift, hindsight sql, "
        "hindsight explain. If you have only logs: hindsight diagnose LOG... "
        "Exit codes: 0 done, 1 drift found (drift --fail-on) or rows differ (compare), 2 a data gate failed, "
        "3 the run failed, 4 a replayed bundle differs, 64 wrong usage, 75 another run writes to the lake, "
        "130 interrupted."
    ),
)
app.registered_commands += job_commands.app.registered_commands
app.command("check-landing", help=check_landing.__doc__)(check_landing.check_landing)
app.command("collect")(collect_command)
app.command("diagnose", help=diagnose.__doc__)(diagnose.diagnose)
app.command("watch")(watch_command)
app.registered_commands += asking_commands.app.registered_commands
app.command("compare", help=compare_command.compare.__doc__)(compare_command.compare)
app.command("replay", help=replay_command.__doc__)(replay_command.replay)
app.registered_commands += events_command.app.registered_commands


@app.command("maintain", help=maintain.__doc__)
def maintain_command(
    lake: LakeRoot,
    as_lines: Json = False,
    settings: SettingsFile = None,
    wait: Wait = 0,
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Keep the lake small; no other job may write to it meanwhile."""
    chosen = chosen_engine(engine, master)
    asking_commands.require_lake(lake)
    loaded, context, root = load_settings(settings), RunContext(absolute(lake)), absolute(lake)
    with (
        context.step("maintain") as step,
        opened(chosen, root, loaded, context, name="maintain", master=master, wait_s=wait) as held,
    ):
        found = maintain.run_on(held.lake, loaded, held.context)
        step.facts["tables"] = len(found)
    write(maintain.as_json(found) if as_lines else maintain.told(found))

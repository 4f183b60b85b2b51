"""The ``hindsight`` command: arguments in, an exit code of the table in docs/operations.md out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.interrupts import listen
from hindsight.jobs.running.run_log import start_log

# Commands with a module of their own, each with the one whose ``app`` it is: they do not wait for Spark's modules.
_ALONE = {
    "check-landing": "hindsight.jobs.commands.check_landing",
    "collect": "hindsight.jobs.collect.command",
    "compare": "hindsight.jobs.commands.compare_command",
    "diagnose": "hindsight.jobs.commands.diagnose",
    "events": "hindsight.jobs.commands.events_command",
    "replay": "hindsight.jobs.commands.replay_command",
    "watch": "hindsight.jobs.commands.watch_command",
    "what-if": "hindsight.jobs.commands.what_if_command",
}


# Commands of one app, which need Spark only where it is asked for.
_ASKING = frozenset({"bundle", "check", "drift", "explain", "metrics", "render-report", "sql"})


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process."""
    listen()
    start_log()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: _asked(arguments)(standalone_mode=False)))


def _asked(arguments: list[str]) -> Callable[..., object]:
    name, *others = arguments or [""]
    if name in _ALONE:
        return partial(import_module(_ALONE[name]).app, args=others, prog_name=f"hindsight {name}")
    module = "hindsight.jobs.commands.asking_commands" if name in _ASKING else "hindsight.jobs.commands.lake_commands"
    return partial(import_module(module).app, args=arguments, prog_name="hindsight")


if __name__ == "__main__":
    main()

"""The ``hindsight`` command: arguments in, an exit code of the table in docs/operations.md out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from hindsight.jobs.engines.engine_choice import is_submitted
from hindsight.jobs.running.command_list import COMMANDS, app, app_of
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.interrupts import listen
from hindsight.jobs.running.run_log import start_log
from hindsight.jobs.running.unseen import pandas_when_asked

_FOR_SPARK = ("--engine", "--master")


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process."""
    listen()
    start_log()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: _asked(arguments)(standalone_mode=False)))


def _asked(arguments: list[str]) -> Callable[..., object]:
    name, *others = arguments or [""]
    if name not in COMMANDS:
        return partial(app, args=arguments, prog_name="hindsight")
    is_for_spark = is_submitted() or any(word.startswith(_FOR_SPARK) for word in others)
    with nullcontext() if is_for_spark else pandas_when_asked():
        found = app_of(name)
    if len(found.registered_commands) > 1:
        return partial(found, args=arguments, prog_name="hindsight")
    return partial(found, args=others, prog_name=f"hindsight {name}")


if __name__ == "__main__":
    main()

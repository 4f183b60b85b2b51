"""The ``hindsight`` command: arguments in, an exit code of the README's table out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from jobs.exit_codes import exit_code
from jobs.run_log import start_log

_CHECK_LANDING = "check-landing"


def main(command: str | None = None) -> None:
    """Run the command line, or one command of it; ends the process."""
    start_log()
    arguments = [*([command] if command else []), *sys.argv[1:]]
    sys.exit(exit_code(lambda: _asked(arguments)(standalone_mode=False)))


def _asked(arguments: list[str]) -> Callable[..., object]:
    """What the arguments ask for; a command that needs no lake does not wait for Spark's modules."""
    if arguments[:1] == [_CHECK_LANDING]:
        from jobs.check_landing import app as alone

        return partial(alone, args=arguments[1:], prog_name=f"hindsight {_CHECK_LANDING}")
    from jobs.lake_commands import app

    return partial(app, args=arguments, prog_name="hindsight")


if __name__ == "__main__":
    main()

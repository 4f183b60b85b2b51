"""The ``hindsight`` program: ``collect`` begins at once and stays small, since it loads no Spark; all else as ever."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the first word names; ends the process with an exit code of the README's table."""
    if sys.argv[1:2] == ["collect"]:
        from jobs.collect.command import main as run
    else:
        from jobs.command_line import main as run
    run()


if __name__ == "__main__":
    main()

"""The one place where failures become exit codes; docs/operations.md has them in a table."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import typer

from conf.settings_file import SettingsError
from jobs.collect.failures import CollectError
from jobs.terminal import legible, legible_lines

DONE, DRIFT_FOUND, GATE_FAILED, RUN_FAILED, WRONG_USAGE, LAKE_HELD, INTERRUPTED = 0, 1, 2, 3, 64, 75, 130


def exit_code(work: Callable[[], object]) -> int:
    """Do the work; what goes wrong is said on stderr in a sentence."""
    try:
        # Typer takes an interrupt for a result: the exit code that it would have chosen itself.
        if work() == INTERRUPTED:
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:
        # The process's outermost edge: Python's own exit code would be 1, which means drift to CI.
        message, code = _told(error)
        sys.stderr.write(f"hindsight: {legible(message)}\n")
        return code
    return DONE


def _told(error: BaseException) -> tuple[str, int]:
    if _was_interrupted(error):
        return "interrupted; a rerun takes up where this run stopped", INTERRUPTED
    if isinstance(error, typer.TyperException):
        said = getattr(error, "format_message", error.__str__)()
        return f"{said} (see hindsight --help)", WRONG_USAGE
    if isinstance(error, SettingsError):
        return str(error), WRONG_USAGE
    if isinstance(error, CollectError):
        return str(error), RUN_FAILED
    from jobs.landing_place import NotALandingError  # as below: it brings Arrow

    if isinstance(error, NotALandingError):
        return str(error), WRONG_USAGE
    from jobs.known_errors import told  # the jobs' own, and Spark's: what needs neither must not wait for their modules

    if said := told(error):
        return said
    sys.stderr.write(legible_lines("".join(traceback.format_exception(error))))
    return f"the run failed: {type(error).__name__}: {error}", RUN_FAILED


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind a failure: a call to the JVM that is broken off fails in ways of its own."""
    if error is None:
        return False
    return isinstance(error, (KeyboardInterrupt, typer.Abort)) or _was_interrupted(error.__context__)

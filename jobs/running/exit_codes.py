"""The one place where failures become exit codes; docs/operations.md has them in a table."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import typer

from hindsight.conf.failure import DONE, INTERRUPTED, RUN_FAILED, WRONG_USAGE, ExpectedError
from hindsight.jobs.running.file_failures import of_files
from hindsight.jobs.running.interrupts import was_interrupted
from hindsight.jobs.running.terminal import legible, legible_lines


def exit_code(work: Callable[[], object]) -> int:
    """Do the work; what goes wrong is said on stderr in a sentence."""
    try:
        uninterrupted(work)
    except (Exception, KeyboardInterrupt) as error:
        # The process's outermost edge: Python's own exit code would be 1, which means drift to CI.
        message, code = _sentence_and_code(error)
        sys.stderr.write(f"hindsight: {legible(message)}\n")
        return code
    return DONE


def uninterrupted(work: Callable[[], object]) -> None:
    """Do the work. Raises: KeyboardInterrupt: Typer makes a result of it, the exit code that it would have chosen."""
    if work() == INTERRUPTED:
        raise KeyboardInterrupt


def _sentence_and_code(error: BaseException) -> tuple[str, int]:
    if _was_interrupted(error):
        return "interrupted; a rerun takes up where this run stopped", INTERRUPTED
    if isinstance(error, typer.TyperException):
        said = getattr(error, "format_message", error.__str__)()
        return f"{said} (see hindsight --help)", WRONG_USAGE
    if isinstance(error, ExpectedError):
        return str(error), error.exit_code
    if said := ("pyspark" in sys.modules and _of_spark(error)) or _of_the_machine(error):
        return said, RUN_FAILED
    sys.stderr.write(legible_lines("".join(traceback.format_exception(error))))
    return f"the run failed: {type(error).__name__}: {error}", RUN_FAILED


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind a failure: a call of a library that is broken off fails in ways of its own."""
    if error is None:
        return was_interrupted()
    return isinstance(error, (KeyboardInterrupt, typer.Abort)) or _was_interrupted(error.__context__)


def _of_the_machine(error: BaseException) -> str | None:
    # A worker's error comes as a text, in a RuntimeError.
    if isinstance(error, (OSError, RuntimeError)) and (said := of_files(str(error))):
        return said
    return str(error) if isinstance(error, OSError) else None


def _of_spark(error: BaseException) -> str | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from hindsight.jobs.running.spark_session import known_failure

    return known_failure(error) if isinstance(error, (PySparkException, Py4JJavaError, OSError)) else None

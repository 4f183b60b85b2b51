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

# What is installed on request: its modules, its name, the extra, what a clone calls it, what is given instead.
_EXTRAS = (
    (
        ("pyspark", "py4j", "delta"),
        "Spark",
        "spark",
        "make demo ENGINE=spark",
        "or leave out --engine spark and --master",
    ),
    (("great_expectations",), "Great Expectations", "gates", "make test", "or ask hindsight check"),
)
_ON_REQUEST = "{} is not installed here: install rocketmq-hindsight[{}] (in a clone: {}), {}."


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
        asked = getattr(error, "ctx", None)
        return f"{said or 'Which command?'} (see {asked.command_path if asked else 'hindsight'} --help)", WRONG_USAGE
    if isinstance(error, ExpectedError):
        return str(error), error.exit_code
    if isinstance(error, ModuleNotFoundError) and (said := _not_installed(error.name or "")):
        return said, WRONG_USAGE
    if said := (sys.modules.get("pyspark") and _of_spark(error)) or _of_the_machine(error):
        return said, RUN_FAILED
    sys.stderr.write(legible_lines("".join(traceback.format_exception(error))))
    return f"the run failed: {type(error).__name__}: {error}", RUN_FAILED


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind a failure: a call of a library that is broken off fails in ways of its own."""
    if error is None:
        return was_interrupted()
    return isinstance(error, (KeyboardInterrupt, typer.Abort)) or _was_interrupted(error.__context__)


def _not_installed(module: str) -> str | None:
    """What to do where a part of hindsight that is installed only on request was asked for."""
    top = module.partition(".")[0]
    return next((_ON_REQUEST.format(*said) for modules, *said in _EXTRAS if top in modules), None)


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

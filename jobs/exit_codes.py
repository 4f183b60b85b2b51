"""The one place where failures become exit codes; README has them in a table."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from conf.settings_file import SettingsError
from jobs.check_quality import AbsentTableError
from jobs.delta_jars import SparkEnvironmentError
from jobs.lake_lease import LakeHeldError, LeaseLostError
from jobs.open_drift import DriftFoundError, HalfPublishedError, NothingJudgedError
from jobs.quality_gate import GateFailedError
from jobs.run_context import NoSuchDatesError
from jobs.spark_session import known_failure
from jobs.table_schema import WrongSchemaError
from jobs.terminal import legible, legible_lines

DONE, DRIFT_FOUND, GATE_FAILED, RUN_FAILED, WRONG_USAGE, LAKE_HELD, INTERRUPTED = 0, 1, 2, 3, 64, 75, 130

_CODES: Mapping[type[Exception], int] = {
    SettingsError: WRONG_USAGE,
    NothingJudgedError: WRONG_USAGE,
    AbsentTableError: WRONG_USAGE,
    NoSuchDatesError: WRONG_USAGE,
    DriftFoundError: DRIFT_FOUND,
    HalfPublishedError: RUN_FAILED,
    GateFailedError: GATE_FAILED,
    SparkEnvironmentError: RUN_FAILED,
    LakeHeldError: LAKE_HELD,
    LeaseLostError: RUN_FAILED,
    WrongSchemaError: RUN_FAILED,
}


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
        return f"{said} (hindsight --help tells more)", WRONG_USAGE
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, (PySparkException, Py4JJavaError, OSError)):
        return known_failure(error), RUN_FAILED
    sys.stderr.write(legible_lines("".join(traceback.format_exception(error))))
    return f"the run failed: {type(error).__name__}: {error}", RUN_FAILED


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind a failure: a call to the JVM that is broken off fails in ways of its own."""
    if error is None:
        return False
    return isinstance(error, (KeyboardInterrupt, typer.Abort)) or _was_interrupted(error.__context__)

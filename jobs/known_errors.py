"""What jobs and Spark fail with, each with its exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from jobs.check_quality import AbsentTableError
from jobs.engines.arrow_lake import ConcurrentWriteError
from jobs.engines.lake_place import NoLocalEngineError
from jobs.engines.runner import KernelFailedError
from jobs.exit_codes import DRIFT_FOUND, GATE_FAILED, LAKE_HELD, RUN_FAILED, WRONG_USAGE
from jobs.file_failures import of_files
from jobs.lake_lease import LakeHeldError, LeaseLostError
from jobs.open_drift import DriftFoundError, HalfPublishedError, NothingJudgedError
from jobs.quality_gate import GateFailedError
from jobs.run_context import NoSuchDatesError
from jobs.table_schema import WrongSchemaError

_CODES: Mapping[type[Exception], int] = {
    NothingJudgedError: WRONG_USAGE,
    AbsentTableError: WRONG_USAGE,
    NoSuchDatesError: WRONG_USAGE,
    DriftFoundError: DRIFT_FOUND,
    HalfPublishedError: RUN_FAILED,
    GateFailedError: GATE_FAILED,
    LakeHeldError: LAKE_HELD,
    LeaseLostError: RUN_FAILED,
    WrongSchemaError: RUN_FAILED,
    NoLocalEngineError: RUN_FAILED,
    ConcurrentWriteError: RUN_FAILED,
}


def told(error: BaseException) -> tuple[str, int] | None:
    """A sentence and the exit code; None: nobody expected this."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, (KernelFailedError, OSError)) and (sentence := of_files(str(error))):
        return sentence, RUN_FAILED
    if "pyspark" in sys.modules:
        return _of_spark(error)
    return (str(error), RUN_FAILED) if isinstance(error, OSError) else None


def _of_spark(error: BaseException) -> tuple[str, int] | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from jobs.delta_jars import SparkEnvironmentError
    from jobs.spark_session import known_failure

    if isinstance(error, SparkEnvironmentError):
        return str(error), RUN_FAILED
    if isinstance(error, (PySparkException, Py4JJavaError, OSError)):
        return known_failure(error), RUN_FAILED
    return None

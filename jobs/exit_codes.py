"""The one place where failures become exit codes; README has them in a table."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import typer
from pyspark.errors import PySparkException

from conf.settings import SettingsError
from jobs.check_quality import AbsentTableError
from jobs.delta_jars import SparkEnvironmentError
from jobs.open_drift import DriftFoundError, NothingJudgedError
from jobs.quality_gate import GateFailedError
from jobs.spark_session import known_failure

DONE, DRIFT_FOUND, GATE_FAILED, RUN_FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 3, 64, 130


def exit_code(work: Callable[[], None]) -> int:
    """Do the work; what goes wrong is said on stderr in a sentence."""
    try:
        work()
    except typer.TyperException as error:
        told = getattr(error, "format_message", error.__str__)()
        return _said(f"{told} (hindsight --help tells more)", WRONG_USAGE)
    except (SettingsError, NothingJudgedError, AbsentTableError) as error:
        return _said(str(error), WRONG_USAGE)
    except DriftFoundError as error:
        return _said(str(error), DRIFT_FOUND)
    except GateFailedError as error:
        return _said(str(error), GATE_FAILED)
    except SparkEnvironmentError as error:
        return _said(str(error), RUN_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return _said("interrupted; a rerun takes up where this run stopped", INTERRUPTED)
    except PySparkException as error:
        return _said(known_failure(error), RUN_FAILED)
    except Exception as error:
        # The process's outermost edge: Python's own exit code would be 1, which means drift to CI.
        traceback.print_exc()
        return _said(f"the run failed: {type(error).__name__}: {error}", RUN_FAILED)
    return DONE


def _said(message: str, code: int) -> int:
    sys.stderr.write(f"hindsight: {message}\n")
    return code

"""The one place where failures become exit codes; docs/operations.md has them in a table."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable

import typer

from hindsight.conf.failure import DONE, INTERRUPTED, RUN_FAILED, WRONG_USAGE, ExpectedError
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
    (("hdfs_native",), "A client of HDFS", "spark", "make demo ENGINE=spark", "or use another store"),
    (("great_expectations",), "Great Expectations", "gates", "make test", "or ask hindsight check"),
)
_ON_REQUEST = "{} is not installed here: install rocketmq-hindsight[{}] (in a clone: {}), {}."
# What was raised stands behind the last line of code of a traceback; what its own text says may go on for lines.
_RAISED = re.compile(r"^ *File \".+\", line \d+, in .+\n(?: +.*\n)*(?:\w+\.)*(\w+: .+)$", re.MULTILINE)
_VANISHED = re.compile(r"FileNotFoundError: (?:\[Errno 2\] )?(.*)")


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
    if isinstance(error, (OSError, RuntimeError)) and (said := _of_files(str(error))):
        return said
    return str(error) if isinstance(error, OSError) else None


def _of_files(text: str) -> str | None:
    """What a text says of landing files and of room for the lake; None: it is about something else."""
    if vanished := _VANISHED.search(text):
        return (
            f"a landing file was listed and is gone ({vanished[1]}); what was read with it is not in the ledger, "
            "and a rerun takes in what is there."
        )
    if "No space left on device" in text:
        return (
            "there is no space left where the lake is, or where a run keeps its steps (the temporary folder; Spark's "
            "is spark.local.dir); make room and rerun: what was committed stays, and the rest is done then."
        )
    return None


def _of_spark(error: BaseException) -> str | None:
    """A Spark failure in a sentence: what is known of it, else its own first line; None: it is none."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, (PySparkException, Py4JJavaError, OSError)):
        return None
    text = str(error)
    missing = re.search(r'Cannot run program "([^"]+)"', text)
    if missing:
        return (
            f"a worker found no interpreter {missing.group(1)!r}; set PYSPARK_PYTHON to a Python with pandas and "
            "pyarrow that exists on every worker."
        )
    absent = re.search(r"No module named '([\w.]+)'", text)
    if absent:
        return (
            f"a worker has no module {absent.group(1)!r}; ship dist/hindsight.zip with --py-files, and install what "
            "requirements.lock pins on every worker."
        )
    if sentence := _of_files(text):
        return sentence
    if "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in text:
        return (
            "an executor was lost with the steps that it kept; rerun. With a folder that every node reaches as "
            "spark.checkpoint.dir the steps outlive their executors."
        )
    if "Traceback (most recent call last)" in text and (raised := _RAISED.findall(text.partition("SQLSTATE")[0])):
        return f"a worker failed: {raised[-1]}"
    # What the JVM says begins on the second line, where Python could not make an error of its own of it.
    said = [line.strip(": ") for line in text.splitlines() if line.strip(": ")]
    return said[isinstance(error, Py4JJavaError) and len(said) > 1] if said else type(error).__name__

"""What the JVM and its workers fail of, in a sentence."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from hindsight.conf.failure import RUN_FAILED
from hindsight.jobs.running.exit_codes import exit_code


class OfTheJvm(Py4JJavaError):
    """As py4j words it: what was called, then the exception with its stack."""

    def __init__(self, said: str) -> None:
        Exception.__init__(self, said)

    def __str__(self) -> str:
        return f"An error occurred while calling o42.execute.\n: {self.args[0]}\n\tat org.apache.spark.Nobody\n"


# A worker's error as Spark brings it: the last one raised has a text of several lines, some like errors themselves.
IN_A_WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/lib/lake.py", line 7, in read
    rows = stored[name]
           ~~~~~~^^^^^^
KeyError: 'perm'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/lib/worker.py", line 12, in main
  File "/lib/lake.py", line 9, in read
    raise hindsight.lake.AbsentColumnError(name) from None
hindsight.lake.AbsentColumnError: there is no column perm
known: topic, broker
hint: run `hindsight check`
. SQLSTATE: 38000
\tat org.apache.spark.Nobody: 1
"""
GONE = "PythonException: trace\nFileNotFoundError: [Errno 2] Failed to open local file '/l/a.jsonl'\n\tat x"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OfTheJvm("java.io.IOException: No space left on device"), "there is no space left where the lake is"),
        (OSError(28, "No space left on device"), "there is no space left where the lake is"),
        (
            OfTheJvm("SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_17_1 not found!"),
            "an executor was lost with the steps that it kept; rerun. With a folder",
        ),
        (PythonException(IN_A_WORKER), "a worker failed: AbsentColumnError: there is no column perm"),
        (OfTheJvm(GONE), "a landing file was listed and is gone (Failed to open local file '/l/a.jsonl')"),
        (OfTheJvm("java.lang.IllegalStateException: odd"), "java.lang.IllegalStateException: odd"),
        (OSError(13, "Permission denied", "/lake"), "[Errno 13] Permission denied: '/lake'"),
    ],
)
def test_a_failure_is_one_sentence(error, said, capsys):
    def fails():
        raise error

    assert exit_code(fails) == RUN_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hindsight: {said}")

"""A command run in a process of its own that fails where anything of Spark is loaded."""

from __future__ import annotations

from tests.commands import command


def check_without_spark(name: str, *arguments: object, ends: int) -> str:
    """What the command says on stderr; it ends so, and has loaded neither Spark nor what speaks to Java."""
    done = command(name, *arguments, without=("pyspark", "py4j", "delta"))
    assert (done.returncode, "Traceback" in done.stderr) == (ends, False), done.stderr
    return done.stderr

"""How a command was started in, which engine runs it out; the refusals are sentences with the way out."""

from __future__ import annotations

import os
from typing import Literal

import typer

Engine = Literal["local", "spark"]


def is_submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def chosen_engine(asked: Engine | None, master: str | None) -> Engine:
    """The engine that was ``asked`` for; else Spark under spark-submit or with a ``master``, this machine otherwise.

    Raises: typer.BadParameter: this machine's engine was asked for where Spark is already named.
    """
    named = "under spark-submit" if is_submitted() else "with --master" if master is not None else None
    if named is None:
        return asked or "local"
    if asked == "local":
        raise typer.BadParameter(f"--engine local runs without Spark, and cannot be given {named}; leave one out.")
    return "spark"

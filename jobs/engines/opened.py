"""What a job works with, whichever engine it is: the lake, what runs kernels, and the run that holds both."""

from __future__ import annotations

from typing import NamedTuple

from jobs.engines.arrow_lake import ArrowLake
from jobs.engines.runner import Runner
from jobs.run_context import RunContext


class Opened(NamedTuple):
    """A lake that a run holds; ``context`` confirms the lease before each write, as the lake itself does."""

    lake: ArrowLake
    runner: Runner
    context: RunContext

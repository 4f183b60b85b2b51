"""The exit codes of ``hindsight``, and the base of the errors that end a run with one of them: README has a table."""

from __future__ import annotations

from typing import ClassVar

DONE, DRIFT_FOUND, GATE_FAILED, RUN_FAILED, REPLAY_DIFFERS, WRONG_USAGE = 0, 1, 2, 3, 4, 64
DIFFERENCES_FOUND = DRIFT_FOUND  # what a gate of CI asks for, as `diff` says it
LAKE_HELD, INTERRUPTED = 75, 130


class ExpectedError(Exception):
    """Raised where a run ends for a reason that a person can act upon: its text is a whole sentence for them."""

    exit_code: ClassVar[int] = RUN_FAILED

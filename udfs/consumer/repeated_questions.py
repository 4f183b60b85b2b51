"""Captures without round markers in, in their order; with each the instant at which its round begins, out.

Who sweeps over groups, topics and clients again and again asks the same questions in every sweep: the first that was
asked before in the round begins the next. Only a retry stays in the round: the question that the capture right before
put, soon after it and because nobody answered it. RocketMQ's own refusals (they have a code) are answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import groupby
from typing import Any

RETRY = timedelta(seconds=15)  # mqadmin waits 5 s for an answer, and takes up to 10 s to start

_RUN = ("cluster", "collector", "run_at")


def rounds_of_runs(captures: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each capture with ``round_at``, an instant of its run at or before it.

    ``captures``: run by run (``cluster``, ``collector``, ``run_at``) and by ``at`` in each, one row an instant:
    ``asked`` holds the questions put then, ``unanswered`` those of them that got no answer at all.
    """
    for _, run in groupby(captures, key=lambda capture: [capture[name] for name in _RUN]):
        round_at = None
        so_far: set[int] = set()
        before: dict[str, Any] | None = None
        for capture in run:
            again = so_far.intersection(capture["asked"])
            if round_at is None or (again and not _is_retry(capture, before, again)):
                round_at, so_far = capture["at"], set()
            so_far.update(capture["asked"])
            before = capture
            yield {**capture, "round_at": round_at}


def _is_retry(capture: dict[str, Any], before: dict[str, Any] | None, again: set[int]) -> bool:
    return before is not None and again <= set(before["unanswered"]) and capture["at"] - before["at"] <= RETRY

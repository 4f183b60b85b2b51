"""What is not known of a producer process, by stretch of its time, and why: the one model that all who tell of it ask.

A fault table is exact where each of its updates is recorded. A ``Gap`` is a stretch in which some may have been made
that no line shows, or in another order than the record's. Three kinds of doubt are no stretch, and stand with what they
are about: the rung that the client's own measure may have reached (``attempt_updates``), what the fallback may have
forgotten (``choice_readings``), and what a detector did.

What a gap leaves behind goes on after it: a broker isolated unseen is avoided as long as the longest rung of the ladder
says. Through 5.1.3 the next recorded update of the broker ends the doubt of it, because it replaces the item. An
example: lines of the process were lost until 10:00:00, and its longest rung is 600 s.

>>> lost = Gap(None, 36_000_000, LOST_LINES)
>>> [lost.bears_on(since, until, 600_000) for since, until in ((0, 1), (36_600_000, 36_700_000), (36_600_001, FAR_MS))]
[True, True, False]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hindsight.udfs.release_profiles import FaultProfile

FAR_MS = 1 << 60  # after every instant
UNSEEN_RETRIES = "unseen_retries"
UNSEEN_FAILURES = "unseen_failures"
LOST_LINES = "lost_lines"
TWO_PROCESSES = "two_processes"
CLOCK_STEP = "clock_step"
SETTINGS_CHANGED = "settings_changed"
DETECTOR = "detector"
CLOCK_TOLERANCE = "clock_tolerance"
LADDER_EDGE = "ladder_edge"
FORGOTTEN = "possibly_absent"
INFERRED = "inferred"
# Each reason as a person says it.
SENTENCES = {
    UNSEEN_RETRIES: "the hook does not see the client's own ASYNC retries",
    UNSEEN_FAILURES: "its trace has no attempts that failed",
    LOST_LINES: "its recorder lost lines",
    TWO_PROCESSES: "two processes are recorded under one id",
    CLOCK_STEP: "its host's clock stepped back",
    SETTINGS_CHANGED: "its switch or ladder was changed while it ran",
    DETECTOR: "its detector acts unseen",
    CLOCK_TOLERANCE: "updates of several threads lie so close together that either may be the last",
    LADDER_EDGE: "the client's own measure of a send may have reached the next rung of its ladder",
    FORGOTTEN: "its fallback may have forgotten the broker",
    INFERRED: "its release and switch are inferred from what it chose",
}
# Why windows of a certainty are not certain, where nothing else is known.
REASON_OF = {"possible": DETECTOR, "inferred": INFERRED, "partial": UNSEEN_RETRIES}


class Gap(NamedTuple):
    """A stretch, epoch ms, in which updates may have been made unseen; ``since_ms`` None: from before all records."""

    since_ms: int | None
    until_ms: int
    reason: str

    def bears_on(self, since_ms: int, until_ms: int, longest_ms: int) -> bool:
        """Whether what it hides may be felt between two instants; ``longest_ms``: see ``longest_ms``."""
        return (self.since_ms is None or self.since_ms <= until_ms) and since_ms <= self.until_ms + longest_ms


def longest_ms(profile: FaultProfile | None) -> int:
    """For how long one update at most makes a client avoid its broker."""
    return max(profile.not_available_ms, default=0) if profile else 0


def merged_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """One gap for each reason, from the first instant to the last."""
    found: dict[str, Gap] = {}
    for gap in gaps:
        known = found.get(gap.reason, gap)
        sinces = (known.since_ms, gap.since_ms)
        since = None if None in sinces else min(ms for ms in sinces if ms is not None)
        found[gap.reason] = Gap(since, max(known.until_ms, gap.until_ms), gap.reason)
    return tuple(found[reason] for reason in sorted(found))


def sentence_of(reasons: Sequence[str]) -> str | None:
    """Reasons in words; None: there are none."""
    return "; ".join(SENTENCES.get(reason, reason) for reason in dict.fromkeys(reasons)) or None

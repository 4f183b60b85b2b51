"""Instants, paths, queues and numbers in, how a person reads them out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby, takewhile

from hindsight.udfs.diagnosis.logged_ownership import Queues
from hindsight.udfs.diagnosis.logged_troubles import Tally


class Clock:
    """Writes instants in UTC, the date only where there are several; rounded down to tenths of a second."""

    def __init__(self, instants: Iterable[int]) -> None:
        self._all = sorted(instants)
        dates = {datetime.fromtimestamp(at / 1000, UTC).date() for at in self._all}
        self._form = "%H:%M:%S" if len(dates) == 1 else "%m-%d %H:%M:%S"

    def at(self, ms: int) -> str:
        """An instant."""
        return f"{datetime.fromtimestamp(ms / 1000, UTC):{self._form}}.{ms % 1000 // 100}"

    def told(self) -> str:
        """From when to when, for a headline."""
        if not self._all:
            return ""
        first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (self._all[0], self._all[-1]))
        until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
        return f", {first:%Y-%m-%d %H:%M:%S} to {until} (UTC)"


class Names:
    """Paths without what all of them begin with."""

    def __init__(self, paths: list[str]) -> None:
        folders = {path.rpartition("/")[0] for path in paths}
        parts = [folder.split("/") for folder in sorted(folders)]
        alike = takewhile(lambda some_of: len(set(some_of)) == 1, zip(*parts, strict=False))
        common = "/".join(one[0] for one in alike)
        self._common = f"{common}/" if common else ""

    def of(self, path: str) -> str:
        """A path's short form."""
        return path.removeprefix(self._common)

    def process(self, log: str, pid: int | None) -> str:
        """A process by its log, and its id where the log has it."""
        return self.of(log) + (f" (process {pid})" if pid is not None else "")


def when(tally: Tally, clock: Clock) -> str:
    """At one instant, or from the first to the last."""
    if tally.count == 1:
        return f"at {clock.at(tally.first)}"
    return f"{clock.at(tally.first)} to {clock.at(tally.last)}"


WIDTH = 118
MOST = 40  # lines of one section


def wrapped(text: str, *, indent: int, hanging: int) -> list[str]:
    """A sentence as lines, those after the first indented by ``hanging``."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )


def cut(lines: Iterable[str], indent: str = "") -> Iterator[str]:
    """The first lines of a section, and how many there are more."""
    lines = list(lines)
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"{indent}and {len(lines) - MOST:,} more: --json has all"


def some(count: int, what: str) -> str:
    """``1 log``, ``2 logs``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def few(names: Iterable[str]) -> str:
    """The first three, and how many more."""
    told = sorted(names)
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")


def queues_told(queues: Queues) -> str:
    """``broker-a:0-3,5 broker-b:1``; nothing: ``no queue``."""
    by_broker: dict[str, list[int]] = {}
    for broker_name, number in sorted(queues):
        by_broker.setdefault(broker_name, []).append(number)
    return " ".join(f"{broker_name}:{_ranges(ids)}" for broker_name, ids in by_broker.items()) or "no queue"


def _ranges(numbers: list[int]) -> str:
    if numbers == [-1]:
        return "all"
    of_run = groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    runs = [[number for _, number in run] for _, run in of_run]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

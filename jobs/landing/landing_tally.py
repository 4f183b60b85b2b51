"""Landing files in; what would come of their lines out: rows by table, lines ignored, and lines refused by reason.

The same parsers and rules at the door as in a run, one line in memory at a time. Of refused lines the first are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from hindsight.jobs.landing.landing_lines import ReadOptions, parse_file
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.lines.text_guess import Guess

_TEXT_CHARS = 160


class RefusedLine(NamedTuple):
    """A line that would go to quarantine, and how its text begins."""

    file: str
    line: int
    code: str
    detail: str
    text: str


@dataclass
class Tally:
    """Lines by what would come of them. ``stored``: rows come of it, though some may be known already."""

    files: int = 0
    lines: int = 0
    stored: int = 0
    ignored: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, line: ParsedLine) -> None:
        """Count one line."""
        self.lines += 1
        if line.refusal is not None:
            self.refused[line.refusal.code] += 1
        elif line.records:
            self.stored += 1
            for record in line.records:
                self.rows[record.table] += 1
        else:
            self.ignored += 1

    def add_all(self, other: Tally) -> None:
        """Count all that another one has counted."""
        self.files += other.files
        self.lines += other.lines
        self.stored += other.stored
        self.ignored += other.ignored
        self.rows.update(other.rows)
        self.refused.update(other.refused)


@dataclass
class LandingTally:
    """The tally of each format and cluster, and what a person will ask about next.

    ``nothing_stored``: the files of which nothing would be stored. ``encodings``: of the files that are not plain
    UTF-8, in which they were read. ``refused``: the first refused lines.
    ``most_lines``: read of each file, None: all.
    """

    inputs: dict[tuple[str, str], Tally] = field(default_factory=dict)
    nothing_stored: list[tuple[str, Tally]] = field(default_factory=list)
    encodings: dict[str, str] = field(default_factory=dict)
    refused: list[RefusedLine] = field(default_factory=list)
    most_lines: int | None = None

    def in_order(self) -> list[tuple[tuple[str, str], Tally]]:
        """The inputs by format, then cluster."""
        return sorted(self.inputs.items(), key=lambda one: one[0])

    def total(self) -> Tally:
        """Of all inputs."""
        found = Tally()
        for tally in self.inputs.values():
            found.add_all(tally)
        return found


def tally_of(
    files: Iterable[LandingFile], options: ReadOptions, *, most_refused: int, most_lines: int | None = None
) -> LandingTally:
    """Read the files; ``most_refused``: lines kept of each format and reason. ``most_lines``: of each file, None: all.

    Raises: OSError: a file cannot be read.
    """
    found = LandingTally(most_lines=most_lines)
    kept: Counter[tuple[str, str]] = Counter()
    most_chars = min(_TEXT_CHARS, options.max_raw_text_chars)
    for file in files:
        tally, guess = Tally(files=1), Guess()
        for parsed in islice(parse_file(file, options, guess=guess), most_lines):
            tally.add(parsed)
            line, _, refusal = parsed
            if refusal is not None and kept[file.format, refusal.code] < most_refused:
                kept[file.format, refusal.code] += 1
                text = line.text[:most_chars]
                found.refused.append(RefusedLine(file.file, line.number, refusal.code, refusal.detail, text))
        if guess.heard:
            found.encodings[file.file] = ", ".join(sorted(guess.heard))
        if not tally.stored:
            found.nothing_stored.append((file.file, tally))
        found.inputs.setdefault((file.format, file.cluster), Tally()).add_all(tally)
    return found


def nothing_stored(lines: int, ignored: int, refused: int) -> str:
    """What became of the lines of a file that left no row."""
    fates = ", ".join(f"{count:,} {fate}" for count, fate in ((ignored, "ignored"), (refused, "refused")) if count)
    return f"{lines:,} line{'' if lines == 1 else 's'}, none stored: {fates}" if lines else "empty"

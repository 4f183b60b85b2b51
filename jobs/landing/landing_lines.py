"""Landing files in, their parsed and judged lines out: in a run, or as a count of what would come of them.

Nothing of Spark is needed: its own text and JSON sources have no line numbers, die on a truncated gzip and read a whole
line at once. One line is in memory at a time. Where files are only looked at, the first of refused lines are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import parquet

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import SettingsError
from hindsight.jobs.landing.landing_root import LandingRoot, folder_of
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.udfs.formats.plain_rows import LineReader, LinesRead
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.parsers import PARSERS, PLAIN
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.limits.door_rules import Severity
from hindsight.udfs.lines.bounded_lines import Block, Form, Line, Refusal, read_blocks, read_lines
from hindsight.udfs.lines.parsed_line import ERROR_CHARS, ClientLogLayout, LandedFile, ParsedLine, TextEncoding
from hindsight.udfs.lines.short_lines import one_a_line, whole_lines
from hindsight.udfs.lines.text_guess import GUESSED, Guess
from hindsight.udfs.lines.zipped_lines import read_zip_lines
from hindsight.udfs.logs.log_layouts import check_encoding, check_layout, encoding_of, layout_of
from hindsight.udfs.logs.log_wrappers import masked

_CHUNK_BYTES = 4 << 20
_BATCH_LINES = 2_000
# Of a Parquet file: one that announces more rows was made to cost. Rows of rounds that repeat take few bytes.
_MOST_ROWS_A_BYTE = 1_000
_ROWS_FREELY = 10_000_000
# Refusals that end a file: what followed is not there.
ENDS_FILE = frozenset(
    {"TRUNCATED_GZIP", "CORRUPT_GZIP", "NOT_GZIP", "NOT_PARQUET", "ARCHIVE_BOMB"}
    | {"TRUNCATED_ZIP", "CORRUPT_ZIP", "NOT_ZIP", "ZIP_CONTENTS"}
)
_TEXT_CHARS = 160
_COLLECTED = "admin_snapshots"  # the format that may have short lines


class ReadOptions(NamedTuple):
    """Plain values that travel to the workers."""

    landing: str
    max_line_bytes: int
    max_raw_text_chars: int
    zones: dict[str, str]
    default_zone: str
    severities: dict[str, Severity]
    layouts: tuple[ClientLogLayout, ...] = ()
    encodings: tuple[TextEncoding, ...] = ()


def read_options(landing: str, settings: Settings) -> ReadOptions:
    """What the settings say of reading.

    Raises: SettingsError: no such rule, or no such severity; a layout by which no log could be read.
    """
    ingest = settings.ingest
    layouts = tuple(ClientLogLayout(**given.model_dump()) for given in ingest.client_log_layout)
    encodings = tuple(TextEncoding(**given.model_dump()) for given in ingest.text_encoding)
    place = "rules"
    try:
        of_rules = severities(ingest.rules)
        for number, layout in enumerate(layouts):
            place = f"client_log_layout.{number}"
            check_layout(layout)
        for number, one in enumerate(encodings):
            place = f"text_encoding.{number}"
            check_encoding(one.encoding)
    except ValueError as error:
        raise SettingsError(f"ingest.{place}: {error}") from error
    longest, zones = (ingest.max_line_bytes, ingest.max_raw_text_chars), dict(ingest.client_log_zones)
    return ReadOptions(landing, *longest, zones, ingest.client_log_zone, of_rules, layouts, encodings)


def parse_file(
    file: LandingFile, options: ReadOptions, flagged_tables: Iterable[str] = (), guess: Guess | None = None
) -> Iterator[ParsedLine]:
    """The lines of a file and what comes of each.

    Args:
        file: the file.
        options: by which it is read.
        flagged_tables: those that have a column ``doubts``.
        guess: takes the encodings that were guessed.

    Raises: OSError: it cannot be read.
    """
    about = _about(file, options)
    if file.file.endswith(".parquet"):
        lines = _parquet_lines(file.file, options)
    else:
        lines = _lines(file.file, options, _encoding(file, options, about), guess)
    parsed = _careful(file, options, about)(lines)
    found = judged(parsed, options.severities, flagged_tables)
    yield from one_a_line(found) if file.format == _COLLECTED else found


def read_file(file: LandingFile, options: ReadOptions, flagged_tables: frozenset[str]) -> Iterator[LinesRead]:
    """As ``parse_file``, plain lines read together where the file's format has such."""
    plain = PLAIN.get(file.format)
    if plain is None or file.file.endswith(".parquet"):
        yield LinesRead(pa.table({}), parse_file(file, options, flagged_tables), 0)
    else:
        careful = _careful(file, options, _about(file, options))
        yield from LineReader(plain(), careful, options.severities, flagged_tables).read(_blocks(file.file, options))


Careful = Callable[[Iterable[Line]], Iterator[ParsedLine]]


def _careful(file: LandingFile, options: ReadOptions, about: LandedFile) -> Careful:
    zone = ZoneInfo(options.zones.get(file.cluster, options.default_zone))
    if not file.file.endswith(".parquet"):
        about = about._replace(look=partial(_lines, file.file, options, _encoding(file, options, about)))
    return partial(PARSERS[file.format], zone=zone, file=about)


def _about(file: LandingFile, options: ReadOptions) -> LandedFile:
    about = LandedFile(file.file.split("/", 2)[2])
    names = FORMATS[file.format].commands
    if names is not None:
        from hindsight.udfs.formats.mqadmin_lines import with_command

        commands = f"{folder_of(file.file)}/{names}"
        listed = LandingRoot(options.landing).exists(commands)
        about = with_command(about, _lines(commands, options, GUESSED) if listed else ())
    if file.format == "client_log":
        about = about._replace(layout=layout_of(options.layouts, file.cluster, about.path))
    return about


def _blocks(file: str, options: ReadOptions) -> Iterator[Block | Line]:
    with LandingRoot(options.landing).opened(file) as stream:
        chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        yield from read_blocks(chunks, gzipped=file.endswith(".gz"), max_line_bytes=options.max_line_bytes)


def _encoding(file: LandingFile, options: ReadOptions, about: LandedFile) -> str:
    if not FORMATS[file.format].text:
        return "utf-8"
    return encoding_of(options.encodings, about.layout, file.cluster, file.format, about.path)


def _lines(file: str, options: ReadOptions, encoding: str = "utf-8", guess: Guess | None = None) -> Iterator[Line]:
    form = Form(options.max_line_bytes, encoding, guess)
    with LandingRoot(options.landing).opened(file) as stream:
        chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        if file.endswith(".zip"):
            lines = read_zip_lines(chunks, takes=FORMATS[file.partition("/")[0]].takes, **form._asdict())
        else:
            lines = read_lines(chunks, gzipped=file.endswith(".gz"), **form._asdict())
        yield from masked(whole_lines(lines) if file.startswith(f"{_COLLECTED}/") else lines)


def _parquet_lines(file: str, options: ReadOptions) -> Iterator[Line]:
    """The rows of a Parquet file as lines; one that is damaged ends with a refused line."""
    from hindsight.udfs.formats.canonical_lines import lines_of_rows

    number = 0
    try:
        with LandingRoot(options.landing).opened(file, seekable=True) as source:
            size, rows = source.seek(0, os.SEEK_END), parquet.ParquetFile(source)
            if rows.metadata.num_rows > _ROWS_FREELY + _MOST_ROWS_A_BYTE * size:
                detail = f"{rows.metadata.num_rows} rows in {size} bytes, more than {_MOST_ROWS_A_BYTE} a byte"
                yield Line(1, 0, 0, "", Refusal("ARCHIVE_BOMB", detail))
                return
            batches = rows.iter_batches(batch_size=_BATCH_LINES)
            read = (row for batch in batches for row in batch.to_pylist())
            for line in masked(lines_of_rows(read, max_line_bytes=options.max_line_bytes)):
                number = line.number
                yield line
    except (pa.ArrowException, ValueError, OverflowError, OSError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file could not be read, which says nothing of what it holds
        yield Line(number + 1, 0, 0, "", Refusal("NOT_PARQUET", f"{type(error).__name__}: {error}"[:ERROR_CHARS]))


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

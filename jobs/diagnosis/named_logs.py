"""Logs named on the command line in, what is found in each out: the one place of ``diagnose`` that reads bytes.

A file is packed if it begins as such, whatever its name. A folder stands for the logs below it, by their names. ``-``
is the standard input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple
from zoneinfo import ZoneInfo

from hindsight.jobs.landing.landing_lines import ReadOptions
from hindsight.udfs.diagnosis.log_findings import LogFindings, LogKind, find_in_log
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.limits.door import judged
from hindsight.udfs.lines.bounded_lines import Form, Line, Refusal, read_lines
from hindsight.udfs.lines.zipped_lines import read_zip_lines
from hindsight.udfs.logs.client_log_layouts import encoding_of, layout_of

STANDARD_INPUT = "-"
_CHUNK_BYTES = 1 << 20
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


class NamedLogs(NamedTuple):
    """Logs to read, in order, and what a folder holds that by its name is none."""

    paths: list[str]
    left_alone: list[str]


def logs_named(places: Iterable[str]) -> NamedLogs:
    """The logs that are meant, each once.

    Raises: OSError: there is no such file, or a folder cannot be listed.
    """
    found: list[str] = []
    others: list[str] = []
    for place in places:
        if place == STANDARD_INPUT or not Path(place).is_dir():
            if place != STANDARD_INPUT:
                Path(place).stat()
            found.append(place)
            continue
        for path in _below(place):
            (found if FORMATS["client_log"].takes(Path(path).name) else others).append(path)
    return NamedLogs(list(dict.fromkeys(found)), others)


def read_log(
    path: str, options: ReadOptions, *, cluster: str, zone: str | None, kind: LogKind | None, silence_ms: int
) -> LogFindings:
    """What one log holds; one that cannot be read to its end is taken as far as it goes, and says so."""
    layout = layout_of(options.layouts, cluster, path)
    form = Form(options.max_line_bytes, encoding_of(options.encodings, layout, cluster, "client_log", path))
    own_zone = zone or options.zones.get(cluster, options.default_zone)
    return find_in_log(
        _lines(path, form),
        path="stdin" if path == STANDARD_INPUT else path,
        zone=ZoneInfo(own_zone),
        silence_ms=silence_ms,
        layout=layout,
        kind=kind,
        judge=partial(judged, severity_of=options.severities, flagged_tables=()),
        look=None if path == STANDARD_INPUT else partial(_lines, path, form),
    )


def _lines(path: str, form: Form) -> Iterator[Line]:
    number = 0
    try:
        with _opened(path) as stream:
            first = stream.read(_CHUNK_BYTES)
            chunks = chain((first,), iter(partial(stream.read, _CHUNK_BYTES), b""))
            for line in _unpacked(first, chunks, form):
                number = line.number
                yield line
    except OSError as error:
        yield Line(number + 1, 0, 0, "", Refusal("NOT_READABLE", error.strerror or type(error).__name__))


def _unpacked(first: bytes, chunks: Iterator[bytes], form: Form) -> Iterator[Line]:
    if first.startswith(_ZIP):
        return read_zip_lines(chunks, takes=lambda name: True, **form._asdict())
    return read_lines(chunks, gzipped=first.startswith(_GZIP), **form._asdict())


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
    else:
        with Path(path).open("rb") as stream:
            yield stream


def _below(folder: str) -> list[str]:
    """The files below a folder in order; links are not followed, hidden files are left out."""
    found = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        found += [str(path) for path in paths if path.is_file() and not path.is_symlink()]
    return found

"""Show what a run would do with a landing folder: in seconds, without a lake and without Spark."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.commands.command_options import Json, SettingsFile
from hindsight.jobs.landing.landing_lines import LandingTally, Tally, nothing_stored, read_options, tally_of
from hindsight.jobs.landing.landing_survey import LandingFile, LandingPlace, left_alone_told, look_at
from hindsight.jobs.running.places import absolute, without_password
from hindsight.jobs.running.terminal import say, write

_WIDTH = 110
_MOST_FILES = 50  # shown of those of which nothing would be stored
_MOST_PATHS = 50  # shown of those that are left alone for one reason
_LEGEND = (
    "stored: the line gives rows; if another line has said the same, a run counts it as a duplicate. ignored: it says "
    "nothing that a table holds. refused: it would stand in the table quarantine, with the reason; the lines around it "
    "are taken in."
)
_NUMBERS = ("files", "lines", "stored", "ignored", "refused")


def told(place: LandingPlace, tally: LandingTally) -> Iterator[str]:
    """What a run would do with the landing folder, for a person."""
    total = tally.total()
    read = "" if tally.most_lines is None else f", by the first {_some(tally.most_lines, 'line')} of each file"
    yield f"What a run would do with {place.landing}{read}"
    if total.files:
        yield ""
        yield from _table(tally, total)
        yield ""
        yield from _wrapped(_LEGEND, indent=2)
    yield from _section("Refused lines, the first of each format and reason", _refused(tally))
    yield from _section("Encodings, of files that are not all UTF-8", _encodings(tally))
    yield from _section("Files from which nothing would be stored", _without_rows(tally))
    yield from _section("Not read", left_alone_told(place.others(), _MOST_PATHS))
    yield ""
    yield from place.nothing_to_take_in() or _verdict(total, tally)


def as_json(place: LandingPlace, tally: LandingTally) -> Iterator[str]:
    """The same as JSON lines, nothing left out but refused lines; ``kind`` says what a line is about."""
    for (landing_format, cluster), of_input in tally.in_order():
        yield _line("input", format=landing_format, cluster=cluster, **_counts(of_input))
    for line in tally.refused:
        yield _line("refused_line", **line._asdict())
    for file, encoding in sorted(tally.encodings.items()):
        yield _line("encoding", file=file, encoding=encoding)
    for file, of_file in tally.nothing_stored:
        yield _line("nothing_stored", file=file, **_counts(of_file))
    if place.survey:
        for one in place.survey.left_alone:
            yield _line("left_alone", **one._asdict())
        for one in place.survey.unknown:
            yield _line("unknown", **one._asdict())
    yield _line("total", landing=place.landing, most_lines=tally.most_lines, **_counts(tally.total()))


def _line(kind: str, **facts: object) -> str:
    return json.dumps({"kind": kind, **facts})


def _counts(tally: Tally) -> dict[str, object]:
    numbers = {name: getattr(tally, name) for name in _NUMBERS[:-1]}
    refused = dict(sorted(tally.refused.items()))
    return {**numbers, "refused": tally.refused.total(), "rows": dict(sorted(tally.rows.items())), "reasons": refused}


def _table(tally: LandingTally, total: Tally) -> Iterator[str]:
    names = {of: f"{of[0]}, {of[1]}" for of, _ in tally.in_order()}
    width = max(map(len, ("format, cluster", *names.values())))
    yield _row("format, cluster", width, _NUMBERS)
    for of, name in names.items():
        yield _row(name, width, _shown(tally.inputs[of]))
        yield from _counted("rows", tally.inputs[of].rows)
        yield from _counted("refused", tally.inputs[of].refused)
    yield _row("all", width, _shown(total))


def _row(name: str, width: int, cells: tuple[str, ...]) -> str:
    return f"  {name:<{width}}" + "".join(f"{cell:>11}" for cell in cells)


def _shown(tally: Tally) -> tuple[str, ...]:
    return tuple(f"{n:,}" for n in (tally.files, tally.lines, tally.stored, tally.ignored, tally.refused.total()))


def _counted(what: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield from _wrapped(f"{what}: {', '.join(f'{name} {n:,}' for name, n in sorted(counts.items()))}", indent=6)


def _wrapped(text: str, *, indent: int) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from (f"  {line}" for line in lines)


def _refused(tally: LandingTally) -> list[str]:
    told = []
    for one in tally.refused:
        told.append(f"{one.file}, line {one.line}: {one.code}: {one.detail}")
        told += [f"    > {one.text}"] if one.text else []
    return told


def _encodings(tally: LandingTally) -> list[str]:
    return _first([f"{file}: {encoding}" for file, encoding in sorted(tally.encodings.items())])


def _without_rows(tally: LandingTally) -> list[str]:
    silent = tally.nothing_stored
    return _first([f"{file}: {nothing_stored(one.lines, one.ignored, one.refused.total())}" for file, one in silent])


def _first(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_FILES
    return lines[:_MOST_FILES] + ([f"and {more:,} more"] if more > 0 else [])


def _verdict(total: Tally, tally: LandingTally) -> list[str]:
    refused = f"{total.refused.total():,} of {_some(total.lines, 'line')} would be refused"
    silent = f"{_some(len(tally.nothing_stored), 'file')} would leave no row"
    return [f"A run would take in {_some(total.files, 'file')}; {refused}; {silent}."]


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


_MOST_CLUSTERS = 10

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Folder = Annotated[
    str, typer.Argument(callback=without_password, help="Folder with <format>/cluster=<name>/ files; path or URI.")
]


@app.command(help=__doc__)
def check_landing(
    landing: Folder,
    settings: SettingsFile = None,
    cluster: Annotated[str, typer.Option(help="Clusters to read, shell pattern.")] = "*",
    refused: Annotated[int, typer.Option(min=0, help="Refused lines to show for each format and reason.")] = 3,
    most_lines: Annotated[int | None, typer.Option(min=1, help="Lines to read of each file; default: all.")] = None,
    as_lines: Json = False,
) -> None:
    """Print it; refused as by a run into a new lake: a folder that is absent, or that holds no file for any job."""
    options = read_options(absolute(landing), load_settings(settings))
    place = look_at(options.landing)
    place.require(lake_has_input=False)
    files = _of_clusters(place.survey.files if place.survey else [], cluster)
    tally = tally_of(files, options, most_refused=refused, most_lines=most_lines)
    (write if as_lines else say)((as_json if as_lines else told)(place, tally))


def _of_clusters(files: list[LandingFile], pattern: str) -> list[LandingFile]:
    asked = [file for file in files if fnmatchcase(file.cluster, pattern)]
    if files and not asked:
        known = ", ".join(sorted({file.cluster for file in files})[:_MOST_CLUSTERS])
        raise typer.BadParameter(f"no landing file is of cluster {pattern!r}; there are {known}.")
    return asked

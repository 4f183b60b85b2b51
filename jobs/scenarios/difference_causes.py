"""Two lakes in, with what each recorded of its dates; why rows of a date differ, as far as that tells, out.

A derived row rests on its date: on the landing files that touch it, the settings, the columns of the tables, the
release of hindsight, and the state that the date before handed over. Publications remember these. Where several differ,
all are named: which of them made a row another one is not recorded. What none of them explains is ``unknown``, with a
reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication import Derivation, files_by_date
from hindsight.jobs.publishing.publication_record import dates_of, in_order
from hindsight.jobs.running.own_release import own_release
from hindsight.schemas import INGESTED_FILE, PUBLICATION
from hindsight.udfs.logs.secret_ids import without_secrets

_SHOWN = 3  # files or settings of a cause
_LONGEST = 60  # of a setting's value that is shown


class Cause(NamedTuple):
    """Why rows of a date differ.

    ``kind``: ``settings``, ``input_files``, ``columns``, ``release`` (of hindsight), ``correction`` (files of other
    dates name its brokers otherwise), ``handed_over`` (by the date before), ``later_record`` (for which a row waited),
    ``unknown``.
    """

    kind: str
    detail: str


class Basis(NamedTuple):
    """What a date was computed from; None: not recorded, or not asked."""

    files: str  # a digest of files, settings and contracts
    corrected: str
    opening: str | None
    is_open: bool | None
    settings: str | None
    release: str | None


class Side(NamedTuple):
    """A lake with derived tables, the one whose ledger tells its input files, and the basis of each date by job."""

    lake: ArrowLake
    ledger: ArrowLake
    bases: Mapping[tuple[str, ClusterDate], Basis]


def published_side(lake: ArrowLake) -> Side:
    """A lake with what its publications remember."""
    bases = {}
    for row in in_order(lake.rows(PUBLICATION).to_pylist()):
        for at, of in dates_of(row):
            files, _, corrected = of.files.partition(":")
            recorded = row["settings"], row["hindsight_version"]
            bases[row["job"], at] = Basis(files, corrected, of.opening, of.is_open, *recorded)
    return Side(lake, lake, bases)


def derived_side(published: ArrowLake, into: ArrowLake, derivation: Derivation[Any]) -> Side:
    """Dates that this release derived from the inputs of a lake, which no publication tells of."""
    settings = None if derivation.settings is None else without_secrets(derivation.settings)
    bases = {}
    for at, digest in files_by_date(published, derivation).digests.items():
        files, _, corrected = digest.partition(":")
        bases[derivation.job, at] = Basis(files, corrected, None, None, settings, own_release())
    return Side(into, published, bases)


class Causes:
    """The causes of differences between two lakes; each date's are looked for once."""

    def __init__(self, before: Side, after: Side, derivations: Iterable[Derivation[Any]]) -> None:
        self._sides = before, after
        self._of_table = {table.name: derivation for derivation in derivations for table in derivation.tables}
        self._of_job = {derivation.job: derivation for derivation in self._of_table.values()}
        self._of_date = cache(self._found)
        self._ledgers = cache(lambda: tuple(_ledger(side.ledger) for side in self._sides))

    def of(self, table: str, at: ClusterDate) -> list[Cause]:
        """Those of a table's date, one at least."""
        return self._of_date(self._of_table[table].job, at)

    def _found(self, job: str, at: ClusterDate) -> list[Cause]:
        was, now = (side.bases.get((job, at)) for side in self._sides)
        found = [*self._recorded(job, at, was, now)]
        if found:
            return found
        if was is None or now is None:
            side = self._sides[0 if was is None else 1]
            return [Cause("unknown", f"{side.lake.root} has no record that the date was published")]
        if was.files != now.files:
            return [Cause("unknown", "settings or columns differ, and one lake does not record its settings")]
        return [
            Cause(
                "unknown",
                "files, settings and release are recorded as the same: another build of the release made the rows, "
                "or something else changed them",
            )
        ]

    def _recorded(self, job: str, at: ClusterDate, was: Basis | None, now: Basis | None) -> Iterator[Cause]:
        if was is None or now is None or was.files != now.files:
            yield from self._files(job, at)
            yield from self._columns(job)
        if was is None or now is None:
            return
        if was.files != now.files and was.settings and now.settings and was.settings != now.settings:
            yield Cause("settings", _shown(_changed(json.loads(was.settings), json.loads(now.settings)), "; "))
        if was.release != now.release:
            yield Cause("release", f"hindsight {was.release or 'not recorded'} -> {now.release or 'not recorded'}")
        if was.corrected != now.corrected:
            yield Cause("correction", "files of other dates name the brokers of its rows otherwise")
        if was.is_open != now.is_open and None not in (was.is_open, now.is_open):
            yield Cause("later_record", "a row of it waits for a record of a later date, which one lake has")
        if was.opening != now.opening and None not in (was.opening, now.opening):
            yield from self._handed_over(job, at)

    def _files(self, job: str, at: ClusterDate) -> Iterator[Cause]:
        formats = {*self._of_job[job].formats, *self._of_job[job].beside}
        own, other = ({f for f in ledger.get(at, ()) if f[0] in formats} for ledger in self._ledgers())
        sides = zip(("before", "after"), (own - other, other - own), strict=True)
        told = [f"only {word}: {_shown(sorted(name for _, name, _ in files))}" for word, files in sides if files]
        if told:
            yield Cause("input_files", "; ".join(told))

    def _columns(self, job: str) -> Iterator[Cause]:
        changed = []
        for table in self._of_job[job].tables:
            stored = [_columns_of(side.lake, table) for side in self._sides if side.lake.exists(table)]
            if len(stored) == 2 and stored[0] != stored[1]:
                names = sorted(name for name, _ in stored[0] ^ stored[1])
                changed.append(f"{table.name} ({', '.join(dict.fromkeys(names))})")
        if changed:
            yield Cause("columns", f"other columns of {_shown(changed)}")

    def _handed_over(self, job: str, at: ClusterDate) -> Iterator[Cause]:
        known = {day for side in self._sides for of, day in side.bases if of == job and day.cluster == at.cluster}
        earlier = max((day for day in known if day.event_date < at.event_date), default=None)
        if earlier is None:
            return
        for cause in self._of_date(job, earlier):
            detail = (
                cause.detail if cause.kind == "handed_over" else f"{earlier.event_date}: {cause.kind}: {cause.detail}"
            )
            yield Cause("handed_over", detail)


def _ledger(lake: ArrowLake) -> dict[ClusterDate, set[tuple[str, str, int]]]:
    """Format, name and size of the landing files that touch each date."""
    if not lake.exists(INGESTED_FILE):
        return {}
    found: dict[ClusterDate, set[tuple[str, str, int]]] = {}
    columns = ["cluster", "format", "file", "size_bytes", "event_dates"]
    for row in lake.rows(INGESTED_FILE, columns, Where()).to_pylist():
        for day in row["event_dates"]:
            key = row["format"], row["file"], row["size_bytes"]
            found.setdefault(ClusterDate(row["cluster"], day), set()).add(key)
    return found


def _columns_of(lake: Any, table: Any) -> set[tuple[str, str]]:
    return {(field.name, str(field.type)) for field in lake.opened(table).schema().fields}


def _changed(was: Any, now: Any, name: str = "") -> list[str]:
    """The settings that differ, by dotted names, with both values."""
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        keys = sorted({*was, *now})
        return [line for key in keys for line in _changed(was.get(key), now.get(key), f"{name}.{key}".lstrip("."))]
    return [f"{name} {_value(was)} -> {_value(now)}"]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _shown(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return between.join(names[:_SHOWN]) + more

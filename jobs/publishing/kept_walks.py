"""Where the walk of a date goes on: what earlier runs kept beside the tables in, a cut to begin at out, and back.

A date's folder, ``<lake>/<walks>/<cluster>/<date>``, holds states at cuts, what the date has told by the last of these,
and a list of them, which counts for one publication. Only the engine of this machine looks there. Groups and producers
each have walks of their own (``jobs/drift/kept_groups.py``, ``jobs/producers/kept_producers.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.lake.cluster_dates import ClusterDate, midnight_of
from hindsight.jobs.lake.lake_place import file_system
from hindsight.jobs.running.own_release import own_build
from hindsight.schemas import SEND_ATTEMPT, SNAPSHOT_CAPTURE, Table
from hindsight.udfs.values.columns import DAY_US, FAR, NEVER, instant, microseconds, near

if TYPE_CHECKING:
    from hindsight.jobs.engines.stored_table import Change

HOUR_US = 3_600_000_000
_LAST_CUTS = 3  # of those at the ends of runs
_TOGETHER_US = 900_000_000  # collectors whose last rounds lie no further apart are waited for
_LIST = "kept.json"


class Cut(NamedTuple):
    """An instant at which states were kept, epoch us.

    Attributes:
        read_until_us: the last read of the rounds before it.
        longest_us: from the begin to the last read of the longest of them.
        file: of the states.
    """

    until_us: int
    read_until_us: int
    longest_us: int
    file: str


@dataclass(frozen=True)
class Start:
    """Where the walk of a cluster's date goes on."""

    at: ClusterDate
    cut: Cut
    since_us: int  # rows from here on are read
    seen: Any  # what the list says of the date beside its cuts
    earlier: Sequence[Cut]  # this one included
    states: pa.Table
    told: pa.Table


@dataclass
class Kept:
    """What a run keeps of a date, beside what was kept before."""

    seen: Any
    earlier: Sequence[Cut]
    told: pa.Table
    states: pa.Table


@dataclass
class KeptWalks:
    """The walks of one run, of either side: what is told apart is in the methods that a side gives.

    Attributes:
        folder: beside the tables, for what is kept.
        inputs: no walk begins after the first row of theirs that is new.
    """

    folder: str
    inputs: Sequence[Table]
    starts: dict[ClusterDate, Start] = field(default_factory=dict)
    kept: dict[ClusterDate, Kept] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _rests_on: str = ""

    def seen_of(self, listed: Mapping[str, Any]) -> Any:
        """What a list says of its date beside its cuts."""
        raise NotImplementedError

    def may_go_on(self, lake: Any, day: date) -> bool:
        """Whether the tables hold nothing for which a date is walked whole."""
        raise NotImplementedError

    def window_us(self, cut: Cut) -> int:
        """How far before a cut rows are read again."""
        raise NotImplementedError

    def told_until(self, told: pa.Table, cut: Cut) -> pa.Table:
        """What the date told by a cut."""
        return told

    def since(self) -> dict[ClusterDate, datetime]:
        """Of dates whose walk went on, from when on their rows are new."""
        return {at: instant(start.cut.until_us) for at, start in self.starts.items()}

    def begin(self, stretch: Any, firsts: Mapping[str, date]) -> dict[str, Start]:
        """The starts of clusters, of whose dates these are the first of the stretch."""
        self._rests_on = f"{own_build()} {stretch.rests_on}"
        versions = {table.name: stretch.lake.version(table) for table in self.inputs}
        self._versions = {name: version for name, version in versions.items() if version is not None}
        found: dict[str, Start] = {}
        for cluster, day in firsts.items() if not stretch.context.dates.is_given else ():
            start = self._start(stretch, ClusterDate(cluster, day))
            if start is not None:
                found[cluster] = start
        return found

    def _start(self, stretch: Any, at: ClusterDate) -> Start | None:
        folder = _Folder(stretch.lake.root, at, self.folder)
        listed = folder.listed()
        number = stretch.computed_by.get(at)
        if not listed or number is None or (listed["number"], listed["rests_on"]) != (number, self._rests_on):
            return None
        if not self.may_go_on(stretch.lake, at.event_date):
            return None
        fresh = self._fresh(stretch.lake, at, listed["versions"])
        cuts = [Cut(*cut) for cut in listed["cuts"]]
        cut = max((c for c in cuts if self._holds(c, at, fresh)), default=None)
        if fresh is None or cut is None:
            return None
        try:
            told, states = folder.read(listed["told"]), folder.read(cut.file)
        except (FileNotFoundError, pa.ArrowInvalid):  # cut short by the machine, or removed: the date is walked whole
            return None
        return Start(
            at,
            cut,
            cut.until_us - self.window_us(cut),
            self.seen_of(listed),
            [c for c in cuts if c <= cut],
            states,
            self.told_until(told, cut),
        )

    def _holds(self, cut: Cut, at: ClusterDate, fresh: tuple[int, int] | None) -> bool:
        """Whether nothing that is new can change what was said before a cut."""
        if fresh is None:
            return False
        round_us, read_us = fresh
        begins = midnight_us(at.event_date) + self.window_us(cut)
        return begins <= cut.until_us <= round_us and max(cut.until_us, cut.read_until_us) < read_us

    def _fresh(self, lake: Any, at: ClusterDate, versions: Mapping[str, int]) -> tuple[int, int] | None:
        """The first round and the first read of what has changed since these versions; None: not known."""
        first = FAR, FAR
        for table in self.inputs:
            if table.name not in self._versions:
                continue
            changes = lake.changes_since(table, versions.get(table.name, -1), self._versions[table.name])
            if changes is None:
                return None
            own = [change for change in changes if change.file.event_date in near([at.event_date])]
            if table is SNAPSHOT_CAPTURE and not all(change.is_added for change in own):
                return None  # what captures of the date show is not told one by one
            found = _first_of(lake.folder(table), own, at.cluster)
            if found is None:
                return None
            first = min(first[0], found[0]), min(first[1], found[1])
        return first

    def keep(self, lake: Any, number: int, dates: Iterable[ClusterDate]) -> None:
        """Keep what the walks of this run gave, for whoever goes on from its publication; of ``dates`` else nothing."""
        if lake.spark is not None:
            return
        for at in dates:
            folder = _Folder(lake.root, at, self.folder)
            if at in self.kept:
                folder.keep(self.kept[at], number, self._rests_on, self._versions)
            else:
                folder.drop()
        for cluster in {at.cluster for at in self.kept}:
            last = max(at.event_date for at in self.kept if at.cluster == cluster)
            _Folder(lake.root, ClusterDate(cluster, last), self.folder).drop_earlier()


def cuts_of(day: date, first_round: int, last_rounds: Iterable[int], from_us: int) -> list[int]:
    """Where a date is cut whose first round, and collectors' last rounds, began at these instants: full hours after the
    first, before which there is nothing to keep, and the end."""
    last = sorted(last_rounds)
    if not last:
        return []
    end = next(at for at in last if at >= last[-1] - _TOGETHER_US)
    midnight = midnight_us(day)
    hours = range(midnight + HOUR_US, min(end, midnight + DAY_US - 1) + 1, HOUR_US)
    after = [at for at in hours if at > first_round]
    return sorted({at for at in (*after, end) if at > max(from_us, midnight)})


def midnight_us(day: date) -> int:
    """A date's begin, epoch us."""
    return midnight_of(day) * 1000


def _first_of(folder: TableFolder, changes: Sequence[Change], cluster: str) -> tuple[int, int] | None:
    """The first round and read of a cluster's rows in these files; None: a file is gone."""
    first = FAR, FAR
    rounds, reads = _instants(folder.table)
    for change in changes:
        try:
            of_file = folder.read(change.file, ("cluster", *dict.fromkeys((rounds, *reads))))
        except FileNotFoundError:
            return None
        own = of_file.filter(pc.equal(of_file["cluster"], cluster))
        if own.num_rows:
            of_reads = [microseconds(own, name) for name in reads]
            read_us = np.minimum.reduce([np.where(each == NEVER, FAR, each) for each in of_reads])
            round_us = microseconds(own, rounds)
            round_us = np.where(round_us == NEVER, read_us, round_us)
            first = min(first[0], int(round_us.min())), min(first[1], int(read_us.min()))
    return first


def _instants(table: Table) -> tuple[str, Sequence[str]]:
    """The columns that tell of a row's round, and when it was made."""
    names = table.schema.names
    if "round_at" in names:
        return "round_at", ["captured_at"]
    if table is SEND_ATTEMPT:
        return "begin_at", ["begin_at", "end_at", "submit_end_at", "callback_end_at"]
    at = next(name for name in ("logged_at", "received_at") if name in names)
    return at, [at]


class _Folder:
    """What is kept of a date."""

    def __init__(self, root: str, at: ClusterDate, folder: str) -> None:
        self._system, place = file_system(root)
        self._above = f"{place}/{folder}/{quote(at.cluster, safe='')}"
        self._day = at.event_date
        self._place = f"{self._above}/{at.event_date.isoformat()}"

    def listed(self) -> dict[str, Any]:
        """The list of what is kept; empty: nothing is, or it is damaged."""
        with (
            suppress(FileNotFoundError, ValueError),
            self._system.open_input_stream(f"{self._place}/{_LIST}") as stream,
        ):
            return dict(json.loads(stream.read()))
        return {}

    def read(self, name: str) -> pa.Table:
        """Rows of a file that the list names."""
        with self._system.open_input_file(f"{self._place}/{name}") as source:
            return pa.ipc.open_file(source).read_all()

    def keep(self, kept: Kept, number: int, rests_on: str, versions: Mapping[str, int]) -> None:
        """Write files and list, and remove those that the list names no more."""
        self._system.create_dir(self._place, recursive=True)
        cuts = _thinned([*kept.earlier, *self._written(kept)])
        told = self._write(kept.told)
        begun = {"number": number, "rests_on": rests_on, "versions": dict(versions), "told": told}
        listed = {**begun, **kept.seen.listed(), "cuts": cuts}
        with self._system.open_output_stream(f"{self._place}/{_LIST}") as stream:
            stream.write(json.dumps(listed).encode())
        self._remove_all_but({_LIST, told, *(cut.file for cut in cuts)})

    def _written(self, kept: Kept) -> Iterator[Cut]:
        rows = kept.states
        before = kept.earlier[-1] if kept.earlier else Cut(0, 0, 0, "")
        for until_us in sorted(pc.unique(rows["until_us"]).to_pylist()):
            own = rows.filter(pc.equal(rows["until_us"], until_us))
            read_until, longest = (pc.max(own[name]).as_py() for name in ("read_until_us", "longest_us"))
            reach = max(before.read_until_us, read_until), max(before.longest_us, longest)
            yield Cut(until_us, *reach, self._write(own))

    def _write(self, rows: pa.Table) -> str:
        name, rows = f"{uuid4().hex}.arrow", rows.combine_chunks()  # else each run adds a batch, of many bytes
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with (
            self._system.open_output_stream(f"{self._place}/{name}") as sink,
            pa.ipc.new_file(sink, rows.schema, options=options) as writer,
        ):
            writer.write_table(rows)
        return name

    def _remove_all_but(self, names: set[str]) -> None:
        for file in self._system.get_file_info(fs.FileSelector(self._place, allow_not_found=True)):
            if file.base_name not in names:
                self._system.delete_file(file.path)

    def drop(self) -> None:
        """Keep nothing of the date."""
        if self.listed():
            self._system.delete_file(f"{self._place}/{_LIST}")
            self._remove_all_but(set())

    def drop_earlier(self) -> None:
        """Keep nothing of the dates before the one before this."""
        for folder in self._system.get_file_info(fs.FileSelector(self._above, allow_not_found=True)):
            with suppress(ValueError):
                if date.fromisoformat(folder.base_name) < self._day - timedelta(days=1):
                    self._system.delete_dir(folder.path)


def _thinned(cuts: Sequence[Cut]) -> list[Cut]:
    """Those at full hours, and the last ones of the others."""
    others = [cut for cut in cuts if cut.until_us % HOUR_US][-_LAST_CUTS:]
    return [cut for cut in cuts if not cut.until_us % HOUR_US or cut in others]

"""The ledger of files taken in (``ingested_file``), asked by columns: which files it has, which bear on which dates.

A run reads it once; what its jobs enter is written in one commit. What is asked looks at columns as a whole: rows
become objects only of files that stand in the landing folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import chosen
from hindsight.jobs.engines.arrow_lake import ArrowLake, Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import INGESTED_FILE

_COLUMNS = ["cluster", "format", "file", "size_bytes", "read", "event_dates"]
_read: WeakKeyDictionary[ArrowLake, tuple[int | None, pa.Table]] = WeakKeyDictionary()


class FilesOfDate(NamedTuple):
    """The files that bear on a date: their formats, ``name:size`` of each in order, and their lines."""

    at: ClusterDate
    formats: frozenset[str]
    names: list[str]
    lines: int


def ledger(lake: ArrowLake, formats: Collection[str]) -> pa.Table:
    """The rows of files of these formats, in the columns that are asked for."""
    entered = lake.gathered(INGESTED_FILE)
    if not len(entered):
        version = lake.version(INGESTED_FILE)
        if lake not in _read or _read[lake][0] != version:
            _read[lake] = version, lake.rows(INGESTED_FILE, _COLUMNS).combine_chunks()
    stored = _read[lake][1]
    rows = pa.concat_tables([stored, entered.select(_COLUMNS).cast(stored.schema)])
    return chosen(rows, Where(values={"format": formats}))


def named(rows: pa.Table, files: Collection[str]) -> pa.Table:
    """The rows of these files."""
    return chosen(rows, Where(values={"file": files}))


def files_of_dates(rows: pa.Table) -> Iterator[FilesOfDate]:
    """Of each date on which files bear, these."""
    dates = rows["event_dates"].combine_chunks()
    touching = rows.drop_columns("event_dates").take(pc.list_parent_indices(dates))
    sizes = touching["size_bytes"].cast(pa.string())
    touching = touching.append_column("day", pc.list_flatten(dates))
    touching = touching.append_column("name", pc.binary_join_element_wise(touching["file"], sizes, ":"))
    touching = touching.sort_by([("cluster", "ascending"), ("day", "ascending"), ("name", "ascending")])
    counts = touching.group_by(["cluster", "day"], use_threads=False).aggregate([([], "count_all")])
    edges = [0, *pc.cumulative_sum(counts["count_all"]).to_pylist()]
    found = zip(counts["cluster"].to_pylist(), counts["day"].to_pylist(), pairwise(edges), strict=True)
    for cluster, day, (first, last) in found:
        of_date = touching.slice(first, last - first)
        formats = frozenset(pc.unique(of_date["format"]).to_pylist())
        lines = pc.sum(of_date["read"]).as_py()
        yield FilesOfDate(ClusterDate(cluster, day), formats, of_date["name"].to_pylist(), lines)

"""The ledger of files taken in (``ingested_file``), asked by columns: which files it has, which bear on which dates.

A run reads it once; what its jobs enter is written in one commit. What is asked looks at columns as a whole: rows
become objects only of files that stand in the landing folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import chosen
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.schemas import INGESTED_FILE
from hindsight.udfs.values.row_hashes import row_hashes

_COLUMNS = ["cluster", "format", "file", "size_bytes", "read", "event_dates", "ingested_at"]
_read: WeakKeyDictionary[ArrowLake, tuple[int | None, pa.Table]] = WeakKeyDictionary()


class FilesOfDate(NamedTuple):
    """The files that bear on a date: their formats and lines, and ``name:size`` of each, in order.

    ``mark``: another one as soon as one of them is taken in, also once more. To tell by it that nothing is new costs a
    fifth to a ninth of reading names, which those of last year's dates need not be.
    """

    at: ClusterDate
    formats: frozenset[str]
    lines: int
    mark: str
    names: Callable[[], list[str]]


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
    """Of each date on which files bear, these; dates in order."""
    rows = rows.combine_chunks()
    dates = rows["event_dates"].combine_chunks()
    file_of = pc.list_parent_indices(dates).to_numpy()
    touching = pa.table({"cluster": rows["cluster"].take(pa.array(file_of)), "day": pc.list_flatten(dates)})
    touching = touching.append_column("place", pa.array(np.arange(len(file_of))))
    of_dates = touching.group_by(["cluster", "day"], use_threads=False).aggregate([("place", "list")])
    read, marks = rows["read"].to_numpy(), row_hashes(rows, ["ingested_at", "size_bytes"])
    for of_date in of_dates.sort_by([("cluster", "ascending"), ("day", "ascending")]).to_batches(1):
        cluster, day, places = (of_date.column(name)[0] for name in ("cluster", "day", "place_list"))
        own = file_of[places.values.to_numpy()]
        formats = frozenset(pc.unique(rows["format"].take(pa.array(own))).to_pylist())
        mark = f"{len(own)}:{marks[own].sum():x}"
        at = ClusterDate(cluster.as_py(), day.as_py())
        yield FilesOfDate(at, formats, int(read[own].sum()), mark, partial(_names, rows, own))


def _names(rows: pa.Table, places: Any) -> list[str]:
    own = rows.select(["file", "size_bytes"]).take(pa.array(places))
    names = pc.binary_join_element_wise(own["file"], own["size_bytes"].cast(pa.string()), ":")
    found: list[str] = names.take(pc.sort_indices(names)).to_pylist()
    return found

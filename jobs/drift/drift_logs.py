"""Kernel that brings lines of clients' logs which name no group to the workers that fold the groups of the log.

Such a line is copied to each bucket of whose groups a line of the same log tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.drift.drift_cut import CLIENT_EVENT_COLUMNS, LOGGED_SCHEMA, columns_of, logged_lines, of_clusters
from hindsight.jobs.drift.group_split import Cutting
from hindsight.jobs.engines.arrow_lake import DataFile
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.runner import Blob
from hindsight.schemas import CLIENT_EVENT
from hindsight.udfs.consumer.rows_of_rounds import near, on_dates
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.rebalances.rebalance_fold import OF_LOG

NAMELESS = "lines of no group"
LOGGED_NAMELESS = "logged lines of no group"
NAMELESS_SCHEMA = columns_of(CLIENT_EVENT, CLIENT_EVENT_COLUMNS)


class EventFile(NamedTuple):
    """A file of ``client_event``; ``wants``: by cluster and log, the keys that get copies of its nameless lines."""

    folder: TableFolder
    file: DataFile
    by: Cutting
    wants: Mapping[str, Mapping[str, Collection[int]]]


def cut_logs(task: EventFile) -> Iterator[Blob]:
    """Lines that name no group, by bucket (``NAMELESS``)."""
    for cluster, rows in of_clusters(task, ("event_date", *CLIENT_EVENT_COLUMNS, *LOGGED_SCHEMA.names[:-2])):
        wants = task.wants.get(cluster, {})
        lines = rows.filter(pc.field("consumer_group").is_null())
        lines = logged_lines(lines, near(task.by.dates[cluster], (-1, 0)))
        of_logs = [wants.get(log_of(file), ()) for file in lines["source_file"].to_pylist()]
        for key in sorted({next(iter(of)) for of in of_logs if len(of) == 1}):  # whose it is, no other bucket doubts
            yield Blob(LOGGED_NAMELESS, key, 0, lines.filter(pa.array([[*of] == [key] for of in of_logs], pa.bool_())))
        own = rows.filter(pc.field("kind").isin(list(OF_LOG)) & pc.field("consumer_group").is_null())
        own = own.filter(pa.array(on_dates(own, task.by.dates[cluster]))).select(list(CLIENT_EVENT_COLUMNS))
        keys = [wants.get(log_of(file), ()) for file in own["source_file"].to_pylist()]
        for key in sorted({key for of in keys for key in of}):
            yield Blob(NAMELESS, key, 0, own.filter(pa.array([key in of for of in keys], pa.bool_())))

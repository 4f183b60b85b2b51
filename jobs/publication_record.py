"""What publications remember of each date, and which dates a run that was broken off had begun to commit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F

from jobs.delta_tables import Lake
from jobs.transforms.frames import ClusterDate, rows_of
from schemas import SCHEMA_VERSION, TABLES
from schemas.bookkeeping import PUBLICATION


class Computed(NamedTuple):
    """What is remembered of a date's last computation."""

    files: str
    opening: str
    closing: str
    is_open: bool


_COMPACTION = "OPTIMIZE"
_ROWS_STAY = {_COMPACTION, "SET TBLPROPERTIES", "VACUUM START", "VACUUM END"}
_BROKEN_OFF = Computed("broken off", "broken off", "broken off", False)


def computed_before(lake: Lake, job: str) -> tuple[dict[ClusterDate, Computed], int]:
    """Each date's last computation, and the number of the newest publication: no clock decides which that is.

    A date whose commits were broken off is like none that was ever computed: some of its tables may hold what settings
    gave that are no longer the same, or rows that nothing else would remove.
    """
    published = lake.read(PUBLICATION).where(F.col("job") == job)
    counted = published.withColumn("number", F.coalesce("number", F.lit(0)))
    each = counted.select("number", "published_at", F.explode("dates").alias("d"))
    last = F.max_by(F.struct("number", "d.*"), F.struct("number", "published_at")).alias("last")
    rows = rows_of(each.groupBy("d.cluster", "d.event_date").agg(last))
    stored = {ClusterDate(row.cluster, row.event_date): _computed(row.last) for row in rows}
    stored |= dict.fromkeys(half_published(lake, job), _BROKEN_OFF)
    return stored, max((row.last.number for row in rows), default=0)


def half_published(lake: Lake, job: str) -> list[ClusterDate]:
    """Dates whose commits were begun and not recorded: a run was broken off there, or is there now."""
    begun = json.loads(lake.noted(job) or "[]")
    return [ClusterDate(cluster, date.fromisoformat(day)) for cluster, day in begun]


def begin_commits(lake: Lake, job: str, dates: list[ClusterDate]) -> None:
    """Note, until ``record``, that the tables of these dates are being committed."""
    lake.note(job, json.dumps([(at.cluster, at.event_date.isoformat()) for at in dates]))


def record(
    lake: Lake,
    run_id: str,
    job: str,
    number: int,
    versions: dict[str, int],
    computed: dict[ClusterDate, Computed],
    rows_written: int,
) -> None:
    """Record what was published: the job's publication of that number, and the table versions that belong together."""
    dates = [(*at, *of_date) for at, of_date in computed.items()]
    row = (run_id, job, number, datetime.now(UTC), versions, dates, rows_written, SCHEMA_VERSION)
    lake.append(PUBLICATION, lake.spark.createDataFrame([row], PUBLICATION.columns))
    lake.note(job, None)


def renew(lake: Lake, run_id: str) -> None:
    """Publish anew what each job published last, if maintenance alone has made its tables' versions since.

    The rows are the same, but the files of the versions that were named go once they are out of the retention.
    """
    published = lake.read(PUBLICATION).withColumn("number", F.coalesce("number", F.lit(0)))
    newest = F.max_by(F.struct(*PUBLICATION.columns.names), F.struct("number", "published_at")).alias("p")
    again = []
    for row in rows_of(published.groupBy("job").agg(newest)):
        tables = {TABLES[name]: version for name, version in row.p.table_versions.items() if name in TABLES}
        if len(tables) < len(row.p.table_versions) or not all(map(lake.exists, tables)):
            continue
        done = set().union(*(lake.operations_since(table, version) for table, version in tables.items()))
        if _COMPACTION not in done or not done <= _ROWS_STAY:
            continue
        versions = {table.name: lake.version(table) for table in tables}
        fresh = {"run_id": run_id, "number": row.p.number + 1, "published_at": datetime.now(UTC), "rows_written": 0}
        again.append(row.p.asDict() | fresh | {"table_versions": versions})
    if again:
        lake.append(PUBLICATION, lake.spark.createDataFrame(again, PUBLICATION.columns))


def _computed(row: Row) -> Computed:
    return Computed(row.files_fingerprint, row.opening_fingerprint, row.closing_fingerprint, row.is_open)

"""The tables of a lake on Spark: the one reader and writer of Delta there, in frames and in Arrow's terms."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
)
from delta.tables import DeltaTable
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typing_extensions import override

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.arrow_lake import (
    CANDIDATES,
    KEPT_UNSAID,
    RETENTIONS,
    ArrowLake,
    FileTask,
    Footprint,
    written_meanwhile,
)
from hindsight.jobs.engines.changed_files import partition_of, rest_in_files, told_by_statistics
from hindsight.jobs.engines.gate import counted_on_spark
from hindsight.jobs.engines.lake_rows import EVERY_ROW, DataFile, StagedFile, Where
from hindsight.jobs.engines.spark_sql import dates_sql, in_dates, interpreted_plans, rows_of, sql_of, sql_text
from hindsight.jobs.engines.spark_workers import PackedRows, answers, opened, staged_files, store_of
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.lake_place import file_system, hadoop_place, qualified
from hindsight.jobs.lake.small_files import NOTES, store_at
from hindsight.jobs.lake.table_schema import (
    later_columns,
    stored_schema,
    tell_later,
    with_absent_columns,
)
from hindsight.jobs.running.unseen import seen_spark
from hindsight.schemas import Table

_WRITTEN_MEANWHILE = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
)
_DELTA = "org.apache.spark.sql.delta"
_LITTLE_BYTES = 8 << 20
_READER = 1  # Delta's protocol of tables whose rows are what their files hold, under the names that stand there


class ForeignProtocolError(ExpectedError):
    """Raised where a table has a feature by which its files alone do not tell its rows; nothing was read."""


class Lake(ArrowLake):
    """The tables under one root, as ``ArrowLake`` says; workers write their files, the JVM commits them.

    Raises: UnknownStoreError: Spark may reach the place, but no client of its workers does.
    """

    spark: SparkSession

    def __init__(
        self, spark: SparkSession, root: str, *, retention_days: int, confirm: Callable[[], None] = lambda: None
    ) -> None:
        self.spark = spark
        self.root = qualified(spark, root).rstrip("/")
        os.environ.update(store_of(spark))  # this process reads and writes files, too
        file_system(self.root)  # raises where neither it nor workers can
        self._notes = store_at(spark, f"{self.root}/{NOTES}")
        self.retention_days = retention_days
        self.confirm = confirm
        self._of_contract: set[str] = set()
        self._candidates: dict[str, list[StagedFile]] = {}
        self._known_files: dict[str, tuple[tuple[str, int], list[_KnownFile]]] = {}  # by table those of a version

    @override
    def exists(self, table: Table) -> bool:
        tables = _of_jvm(self.spark, "io.delta.tables.DeltaTable")
        return bool(tables.isDeltaTable(self.spark._jsparkSession, self.path(table)))

    def _create(self, table: Table) -> None:
        self.confirm()
        kept = f"interval {self.retention_days} days"
        builder = (
            DeltaTable.createIfNotExists(self.spark)
            .location(self.path(table))
            .addColumns(stored_schema(table))
            .comment(table.comment)
            .property("delta.enableDeletionVectors", "false")
        )
        for name in RETENTIONS:
            builder = builder.property(name, kept)
        if table.dated:
            builder = builder.partitionedBy("event_date")
        builder.execute()

    def _migrate(self, table: Table) -> None:
        if later := later_columns(self._stored(table).schema, table, self.path(table)):
            self.confirm()
            tell_later(table, later)
            columns = self.spark.createDataFrame([], stored_schema(table))
            columns.write.format("delta").mode("append").option("mergeSchema", "true").save(self.path(table))

    def read(self, table: Table) -> DataFrame:
        """The table's rows; an empty frame where it does not exist.

        A column that it has not got yet is null. Raises: WrongSchemaError: it is of no earlier contract either.
        """
        if not self.exists(table):
            return self.spark.createDataFrame([], stored_schema(table))
        stored = self._stored(table)
        if later_columns(stored.schema, table, self.path(table)):
            return with_absent_columns(stored, table)
        return stored

    def _stored(self, table: Table) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(table))

    @override
    def rows(self, table: Table, columns: Sequence[str] = (), where: Where = EVERY_ROW) -> pa.Table:
        wanted = list(columns) or table.schema.names
        files = self.files(table, where.days())
        if self._reads_here(files):
            return self._rows_of(table, files, wanted, where)
        found = self.read(table).where(sql_of(where)).select(*(f"`{name}`" for name in wanted))
        return conformed_rows(found.toArrow(), table, wanted)

    @override
    def counted(self, table: Table, columns: Sequence[str], where: Where = EVERY_ROW) -> pa.Table:
        files = self.files(table, where.days())
        if self._reads_here(files):
            rows = self._rows_of(table, files, columns, where)
            return rows.group_by(list(columns)).aggregate([([], "count_all")]).rename_columns([*columns, "rows"])
        names = [f"`{name}`" for name in columns]
        counts: pa.Table = (
            self.read(table).where(sql_of(where)).groupBy(*names).agg(F.count("*").alias("rows")).toArrow()
        )
        return conformed_rows(counts, table, columns).append_column("rows", counts.column("rows"))

    def _reads_here(self, files: Sequence[DataFile]) -> bool:
        """Whether this process reads files itself: Spark plans a second and runs three jobs for a single row."""
        return sum(file.size for file in files) <= _LITTLE_BYTES

    @override
    def files(
        self, table: Table, dates: Collection[date] | None = None, since: tuple[str, datetime] | None = None
    ) -> list[DataFile]:
        found = self._files(table, dates)
        if since is None:
            return [known.file for known in found]
        earliest = since[1] - timedelta(milliseconds=1)  # a bound may be short by less than that, and may be missing
        most = ((known.file, known.most.get(since[0])) for known in found)
        return [file for file, last in most if last is None or datetime.fromisoformat(last) >= earliest]

    def _files(self, table: Table, dates: Collection[date] | None) -> list[_KnownFile]:
        if not self.exists(table):
            return []
        now = _latest(self.spark, self.path(table))
        version, found = self._known_files.get(table.name, (None, []))
        if version != (at := (now.metadata().id(), now.version())):
            if table.name not in self._of_contract:
                self.read(table)  # refuses what is of no contract
            self._check_protocol(table, now.protocol())
            told = _told_by_commit(now)
            found = _files_of(DataFrame(now.allFiles().toDF(), self.spark)) if told is None else told
            self._known_files[table.name] = at, found
        return [known for known in found if dates is None or not table.dated or known.file.event_date in dates]

    def _check_protocol(self, table: Table, protocol: Any) -> None:
        """Refuse a table some of whose rows a deletion vector takes away, or whose columns are mapped to other names.

        Workers and this process read files by Arrow, which knows neither, and would take deleted rows for rows.
        """
        if (reader := protocol.minReaderVersion()) > _READER:
            raise ForeignProtocolError(
                f"{self.path(table)} has Delta's reader protocol {reader} (deletion vectors, or columns mapped to "
                "other names), by which its files alone do not tell its rows. Somebody has given it this feature: "
                "drop it (ALTER TABLE ... DROP FEATURE ...), or build the lake again from its landing files, in "
                "another folder."
            )

    @override
    def _staged(self, table: Table, pieces: Iterable[Any]) -> list[StagedFile]:
        found, here = [], []
        for piece in pieces:
            if isinstance(piece, (pa.Table, StagedFile)):
                here.append(piece)
            else:
                found += staged_files(self.folder(table), piece)
        return found + super()._staged(table, here)

    @override
    def _rest(self, table: Table, conditions: Sequence[Where]) -> tuple[list[DataFile], Iterable[StagedFile]]:
        touched, folder = self._touched(table, conditions), self.folder(table)
        told = {file: told_by_statistics(file, of_file) for file, of_file in touched.items()}
        tasks = [(folder, file, touched[file]) for file in touched if told[file] is None]
        looked_at = self._by_workers(rest_in_files, tasks)
        removed = [file for file in touched if told[file]] + [file for file, _ in looked_at if file]
        return removed, [file for _, staged in looked_at for file in staged]

    @override
    def _by_workers(self, call: Callable[[FileTask], Any], tasks: Sequence[FileTask]) -> list[Any]:
        return answers(self.spark, call, tasks, lambda task: task[1].size)

    @override
    def _commit(
        self, table: Table, added: Sequence[StagedFile], removed: Sequence[DataFile], rests_on: int | None
    ) -> None:
        if not added and not removed:
            return
        written = _log(self.spark, self.path(table)).startTransaction()
        if rests_on is not None:
            if written.snapshot().version() != rests_on:
                raise written_meanwhile(self.path(table))
            written.readWholeTable()  # so whatever others add meanwhile is in the way
        actions = _of_jvm(self.spark, "java.util.ArrayList")()
        of_json = _scala_object(self.spark, f"{_DELTA}.actions.Action").fromJson
        for action in _actions(added, removed):
            actions.add(of_json(json.dumps(action)))
        write = _scala_object(self.spark, f"{_DELTA}.DeltaOperations$Write")
        modes = _of_jvm(self.spark, "org.apache.spark.sql.SaveMode")
        mode = modes.Overwrite if removed else modes.Append
        operation = write.apply(mode, *(getattr(write, f"apply$default${place}")() for place in range(2, 10)))
        as_scala = _of_jvm(self.spark, "scala.jdk.javaapi.CollectionConverters").asScala
        try:
            written.commit(as_scala(actions).toSeq(), operation)
        except _WRITTEN_MEANWHILE as error:
            raise written_meanwhile(self.path(table)) from error

    def write_gathered(self) -> None:
        """None wait."""

    @override
    def store(
        self, table: Table, fresh: Any | None, changed: Any | None, dates: Collection[date], version: int | None
    ) -> None:
        """In two commits: a run that is broken off between them is followed by one that does both, whose fresh rows are
        stored by then.
        """
        if self.version(table) != version:
            raise written_meanwhile(self.path(table))
        if fresh is not None:
            self.append(table, fresh)
        if changed is not None:
            others = [name for name in table.schema.names if name not in table.key]
            self.update(table, changed, others, dates)

    @override
    def of_dates(self, table: Table, stored: Collection[ClusterDate], computed: Collection[ClusterDate]) -> DataFrame:
        rows = self.read(table).where(in_dates(stored))
        if not computed:
            return rows
        days = {at.event_date for at in computed}
        files = [file for file in self.candidates(table) if file.event_date in days]
        return rows.unionByName(self.frame(table, files).where(in_dates(computed)))

    def frame(self, table: Table, rows: Any) -> DataFrame:
        """Rows as a frame: one of Spark's as it is, Arrow's sent to the JVM, staged files read."""
        if isinstance(rows, pa.Table):
            return self.spark.createDataFrame(conformed_rows(rows, table), stored_schema(table))
        if isinstance(rows, PackedRows):
            return opened(rows)
        if isinstance(rows, DataFrame):
            return rows
        if not rows:
            return self.spark.createDataFrame([], stored_schema(table))
        place = self.path(table)
        reader = self.spark.read.schema(stored_schema(table)).option("basePath", place)
        return reader.parquet(*(f"{place}/{file.path}" for file in rows))

    @override
    def update(self, table: Table, changed: Any, columns: list[str], dates: Iterable[date]) -> None:
        self.confirm()
        same_key = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
        (
            self._delta(table)
            .alias("t")
            .merge(self.frame(table, changed).alias("s"), f"t.event_date IN ({dates_sql(dates)}) AND {same_key}")
            .whenMatchedUpdate(set={name: F.col(f"s.`{name}`") for name in columns})
            .execute()
        )

    @override
    def version(self, table: Table) -> int | None:
        if not self.exists(table):
            return None
        return int(_latest(self.spark, self.path(table)).version())

    @override
    def compact(self, table: Table) -> None:
        self.confirm()
        self._delta(table).optimize().executeCompaction()

    @override
    def vacuum(self, table: Table) -> None:
        """As every lake does it; Delta's own check of the retention stays on."""
        self.confirm()
        properties = rows_of(self._delta(table).detail().select("properties"))[0].properties
        if _kept(self.spark, properties) < timedelta(days=self.retention_days):
            longer = ", ".join(f"'{name}' = 'interval {self.retention_days} days'" for name in RETENTIONS)
            self.spark.sql(f"ALTER TABLE delta.`{self.path(table)}` SET TBLPROPERTIES ({longer})")
        self._delta(table).vacuum()

    @override
    def operations_since(self, table: Table, version: int) -> set[str]:
        later = self._delta(table).history().where(F.col("version") > version).select("operation").distinct()
        return {row.operation for row in rows_of(later)}

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Keep quiet what Delta prints itself while it vacuums: the JVM's stdout is that of the command."""
        jvm: Any = self.spark._jvm
        console = _scala_object(self.spark, "scala.Console")
        before = console.out()
        console.setOutDirect(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
        try:
            yield
        finally:
            console.setOutDirect(before)

    @override
    def footprint(self, table: Table) -> Footprint:
        detail = rows_of(self._delta(table).detail().select("numFiles", "sizeInBytes", "properties"))[0]
        since = datetime.now(UTC) - _kept(self.spark, detail.properties)
        commit = F.struct("version", F.unix_millis("timestamp").alias("ms"))
        place, files = hadoop_place(self.spark, self.path(table))
        # Vacuum keeps the files of the version that was current then; the log may begin later.
        needed = F.max(F.when(F.col("timestamp") <= F.lit(since), commit))
        oldest = rows_of(self._delta(table).history().select(F.coalesce(needed, F.min(commit)).alias("c")))[0].c
        return Footprint(
            rows=self.read(table).count(),
            files=detail.numFiles,
            bytes=detail.sizeInBytes,
            bytes_with_history=int(files.getContentSummary(place).getLength()),
            oldest_version=oldest.version,
            oldest_at=datetime.fromtimestamp(oldest.ms / 1000, UTC),
        )

    @override
    def drop_old_candidates(self, table: Table) -> None:
        self.confirm()
        place, files = hadoop_place(self.spark, f"{self.root}/{CANDIDATES}/{table.name}")
        if not files.exists(place):
            return
        written = self.spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place.toString())
        youngest = rows_of(written.select(F.unix_seconds(F.max("modificationTime")).alias("at")))[0].at
        if youngest and datetime.now(UTC).timestamp() - youngest > self.retention_days * 86_400:
            files.delete(place, True)

    def _delta(self, table: Table) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path(table))

    @override
    def results(
        self, job: str, frames: Mapping[Table, Any], whole: Mapping[Table, Any], *, by_great_expectations: bool
    ) -> list[dict[str, Any]]:
        given = [{table: self.frame(table, rows) for table, rows in of.items()} for of in (frames, whole)]
        if not by_great_expectations:
            return counted_on_spark(self, *given)
        with seen_spark():  # Great Expectations takes seconds to import
            from hindsight.jobs.engines.expectation_suites import results_on_spark

        return results_on_spark(self, job, *given)

    @override
    def plans(self) -> AbstractContextManager[Callable[[int], None]]:
        """Interpreted plans for few lines, compiled ones for many."""
        return interpreted_plans(self.spark)

    @override
    def _in_thread(self, call: Callable[[], Any]) -> Callable[[], Any]:
        of_this_session: Callable[[], Any] = inheritable_thread_target(self.spark)(call)
        return of_this_session


def _kept(spark: SparkSession, properties: dict[str, str]) -> timedelta:
    """How long a table keeps the files of earlier versions."""
    text = properties.get(RETENTIONS[1], KEPT_UNSAID)
    length = f"unix_seconds(timestamp_seconds(0) + CAST({sql_text(text)} AS INTERVAL))"
    return timedelta(seconds=rows_of(spark.sql(f"SELECT {length} AS seconds"))[0].seconds)


def _latest(spark: SparkSession, path: str) -> Any:
    """The latest version of a Delta table, as Delta itself knows it."""
    log = _log(spark, path)
    return log.update(*(getattr(log, f"update$default${number}")() for number in (1, 2, 3)))


class _KnownFile(NamedTuple):
    """A file of a version; ``most``: the upper bounds of its columns, as Delta's statistics say them."""

    file: DataFile
    most: Mapping[str, Any]


def _told_by_commit(version: Any) -> list[_KnownFile] | None:
    """The files of a version as its commit's checksum lists them, which Delta does of few; None: it does not."""
    checksum = version.checksumOpt()
    listed = checksum.get().allFiles() if checksum.isDefined() else checksum
    if not listed.isDefined():
        return None
    files = listed.get()
    return _in_order(json.loads(files.apply(number).json())["add"] for number in range(files.size()))


def _files_of(added: DataFrame) -> list[_KnownFile]:
    """What Delta's log says of a version's files: a job of Spark's, however few they are."""
    told = added.select("path", "size", "partitionValues", "stats", "modificationTime")
    return _in_order(row.asDict() for row in rows_of(told))


def _in_order(added: Iterable[Mapping[str, Any]]) -> list[_KnownFile]:
    """Files that the log adds, older ones first."""
    return [_known_file(one) for one in sorted(added, key=lambda one: (one["modificationTime"], one["path"]))]


def _known_file(added: Mapping[str, Any]) -> _KnownFile:
    stats, day = json.loads(added.get("stats") or "{}"), added["partitionValues"].get("event_date")
    least, most = ((stats.get(f"{bound}Values") or {}) for bound in ("min", "max"))
    of_one = least.get("cluster") if least.get("cluster") == most.get("cluster") else None
    of_day = date.fromisoformat(day) if day else None
    return _KnownFile(DataFile(unquote(added["path"]), added["size"], stats.get("numRecords"), of_day, of_one), most)


def _log(spark: SparkSession, path: str) -> Any:
    return _of_jvm(spark, f"{_DELTA}.DeltaLog").forTable(spark._jsparkSession, path)


def _scala_object(spark: SparkSession, name: str) -> Any:
    return getattr(_of_jvm(spark, f"{name}$"), "MODULE$")


def _of_jvm(spark: SparkSession, name: str) -> Any:
    """A class of the JVM by its whole name: asked for part by part, each part is looked for in every jar."""
    return getattr(spark._jvm, name)


def _actions(added: Iterable[StagedFile], removed: Iterable[DataFile]) -> Iterator[dict[str, Any]]:
    """What a commit adds and removes, as Delta's log has it."""
    now = int(time.time() * 1000)
    for fresh in added:
        yield {"add": _told(fresh) | {"modificationTime": now, "dataChange": True, "stats": fresh.stats}}
    for file in removed:
        yield {"remove": _told(file) | {"deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}}


def _told(file: DataFile | StagedFile) -> dict[str, Any]:
    return {"path": quote(file.path, safe="/="), "partitionValues": partition_of(file), "size": file.size}

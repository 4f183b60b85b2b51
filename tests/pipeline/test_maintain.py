"""Maintenance: many small files become few, old refused lines go, and nobody who reads the tables sees a difference."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.jobs import maintain
from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.intake.ingestion import files_to_read
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.publication_record import Computed, computed_before, record
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE, INVARIANTS, PUBLICATION, QUARANTINE, TABLES, TOPIC_ROUTE
from hindsight.udfs.landing.landing_formats import FORMATS
from tests.pipeline.lake_contents import contents

DAY_S = 86_400
BUSY = ("send_attempt", "quarantine", "ingested_file")  # many files each, dated and not


def kept(spark, root: Path) -> Lake:
    return Lake(spark, str(root), retention_days=7)


def sources_of(spark, root: Path) -> list[str]:
    return [row.source_file for row in kept(spark, root).read(QUARANTINE).select("source_file").distinct().collect()]


@pytest.fixture(scope="module")
def worn(spark, formats, tmp_path_factory) -> Path:
    """Root of a copy of a lake whose tables are in many small files, with files and candidates that nobody needs.

    The first file's refused lines are 91 days old.
    """
    root = tmp_path_factory.mktemp("worn")
    for name in (*BUSY, "topic_route"):
        shutil.copytree(formats / "lake" / name, root / name)
    lake = kept(spark, root)
    old = sorted(sources_of(spark, root))[0]
    spark.sql(
        f"UPDATE delta.`{lake.path(QUARANTINE)}` SET ingested_at = CURRENT_TIMESTAMP() - INTERVAL 91 DAYS "
        f"WHERE source_file = '{old}'"
    )
    for table in map(TABLES.get, BUSY):
        scattered = lake.read(table).repartition(6).localCheckpoint()
        scattered.write.format("delta").mode("overwrite").save(lake.path(table))
    _leave_behind(root / "topic_route" / "orphan-8-days.parquet", days=8)
    _leave_behind(root / "topic_route" / "orphan-6-days.parquet", days=6)
    _leave_behind(root / "_candidate" / "topic_route" / "part-0.parquet", days=8)
    _leave_behind(root / "_candidate" / "send_attempt" / "part-0.parquet", days=6)
    return root


def _leave_behind(file: Path, *, days: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"PAR1")
    then = time.time() - days * DAY_S
    os.utime(file, (then, then))


@pytest.fixture(scope="module")
def before(spark, worn) -> dict:
    lake = kept(spark, worn)
    return {
        "contents": contents(worn),
        "versions": {name: lake.version(TABLES[name]) for name in BUSY},
        "old": sorted(sources_of(spark, worn))[0],
        "ledger": [row.asDict() for row in lake.read(INGESTED_FILE).orderBy("file").collect()],
    }


@pytest.fixture(scope="module")
def done(spark, settings, worn, before) -> dict[str, maintain.Maintained]:
    found = maintain.run(spark, settings, RunContext(str(worn)), str(worn))
    return {each.table: each for each in found}


@pytest.mark.soak
def test_many_small_files_become_few_and_no_row_changes_but_those_of_old_refusals(spark, worn, before, done):
    now = contents(worn)
    old = [row for row in before["contents"]["quarantine"] if json.loads(row)["source_file"] == before["old"]]
    assert 0 < len(old) < len(before["contents"]["quarantine"])
    assert now == before["contents"] | {
        "quarantine": [row for row in before["contents"]["quarantine"] if row not in old]
    }
    for name in BUSY:
        partitions = {path.parent for path in (worn / name).rglob("*.parquet") if "_delta_log" not in path.parts}
        assert done[name].before.files >= 6
        assert done[name].after.files <= len(partitions) < done[name].before.files
    assert done["quarantine"].before.rows - done["quarantine"].after.rows == len(old)


@pytest.mark.soak
def test_the_ledger_goes_on_counting_what_expired_and_a_rerun_finds_nothing_new(spark, worn, formats, before, done):
    lake = kept(spark, worn)
    ledger = lake.read(INGESTED_FILE)
    assert [row.asDict() for row in ledger.orderBy("file").collect()] == before["ledger"]
    ledger.createOrReplaceTempView("ledger")
    for rule in INVARIANTS[INGESTED_FILE.name]:
        assert spark.sql(rule.query.format(batch="ledger")).isEmpty(), rule.name
    assert files_to_read(lake, RunContext(str(formats / "landing")), list(FORMATS)) == []


@pytest.fixture
def published(spark, formats, tmp_path) -> Lake:
    """A lake with a table in many small files, which the second publication of a job names."""
    shutil.copytree(formats / "lake" / "topic_route", tmp_path / "topic_route")
    lake = kept(spark, tmp_path)
    for number in (1, 2):
        scattered = lake.read(TOPIC_ROUTE).repartition(6).localCheckpoint()
        scattered.write.format("delta").mode("overwrite").save(lake.path(TOPIC_ROUTE))
        versions = {TOPIC_ROUTE.name: lake.version(TOPIC_ROUTE)}
        record(lake, f"run-{number}", "job", number, versions, {DATE: Computed("f", f"o{number}", "c", False)}, 6)
    return lake


DATE = ClusterDate("c", date(2026, 11, 21))


def publications(lake) -> list:
    return lake.read(PUBLICATION).orderBy("number").collect()


@pytest.mark.soak
def test_a_publication_of_which_only_the_files_moved_is_published_anew(spark, settings, published):
    named = published.read(TOPIC_ROUTE).collect()
    for _ in range(2):
        maintain.run(spark, settings, RunContext(published.root), published.root)
    _, second, again = publications(published)  # nothing is compacted the second time
    assert (again.number, again.dates, again.rows_written) == (3, second.dates, 0)
    assert again.table_versions[TOPIC_ROUTE.name] > second.table_versions[TOPIC_ROUTE.name]
    version = again.table_versions[TOPIC_ROUTE.name]
    then = spark.read.format("delta").option("versionAsOf", version).load(published.path(TOPIC_ROUTE))
    assert sorted(map(str, then.collect())) == sorted(map(str, named))
    assert computed_before(published, "job") == ({DATE: Computed("f", "o2", "c", False, 3)}, 3)


@pytest.mark.soak
def test_a_publication_whose_tables_were_written_to_since_is_left_alone(spark, settings, published):
    published.read(TOPIC_ROUTE).limit(1).write.format("delta").mode("append").save(published.path(TOPIC_ROUTE))
    maintain.run(spark, settings, RunContext(published.root), published.root)
    assert [row.number for row in publications(published)] == [1, 2]


@pytest.mark.soak
def test_a_second_run_at_once_finds_nothing_to_do(spark, settings, worn, done):
    lake = kept(spark, worn)
    versions = {name: lake.version(TABLES[name]) for name in done}
    again = maintain.run(spark, settings, RunContext(str(worn)), str(worn))
    assert {each.table: each.after for each in again} == {name: each.after for name, each in done.items()}
    assert [each.table for each in again if each.before != each.after] == []
    assert {name: lake.version(TABLES[name]) for name in done} == versions


@pytest.mark.soak
def test_only_what_is_older_than_the_retention_goes(spark, worn, done):
    assert [f.name for f in (worn / "topic_route").glob("orphan-*")] == ["orphan-6-days.parquet"]
    assert [f.name for f in (worn / "_candidate").iterdir()] == ["send_attempt"]


@pytest.mark.soak
def test_time_travel_within_the_retention_still_answers(spark, worn, before, done):
    for name in BUSY:
        assert done[name].after.oldest_version == 0
        table = spark.read.format("delta").option("versionAsOf", before["versions"][name]).load(str(worn / name))
        assert table.count() == done[name].before.rows


@pytest.mark.soak
def test_delta_rs_reads_the_tables_afterwards(worn, done):
    from deltalake import DeltaTable

    for name, each in done.items():
        table = DeltaTable(str(worn / name))
        assert len(table.to_pyarrow_table()) == each.after.rows
        assert table.protocol().reader_features in (None, [])


@pytest.mark.soak
def test_history_is_promised_as_far_back_as_vacuum_keeps_its_files(spark, settings, tmp_path):
    """Commits of 30, 20 and 3 days ago: what was current 7 days ago is the oldest that can be asked for."""
    lake = kept(spark, tmp_path)
    table = TABLES["topic_route"]
    lake.create(table)
    for number in range(2):
        spark.sql(f"ALTER TABLE delta.`{lake.path(table)}` SET TBLPROPERTIES ('commit' = '{number}')")
    log = tmp_path / "topic_route" / "_delta_log"
    for version, days in enumerate((30, 20, 3)):
        file = log / f"{version:020}.json"
        (log / f".{file.name}.crc").unlink(missing_ok=True)
        then = time.time() - days * DAY_S
        os.utime(file, (then, then))
    found = lake.footprint(table)
    assert found.oldest_version == 1
    assert abs((datetime.now(UTC) - found.oldest_at).total_seconds() - 20 * DAY_S) < 3600


@pytest.mark.soak
@pytest.mark.parametrize(("carried", "wanted"), [(14, 7), (7, 14)])
def test_the_longer_retention_holds_that_of_the_table_or_of_the_settings(spark, tmp_path, carried, wanted):
    table = TABLES["topic_route"]
    Lake(spark, str(tmp_path), retention_days=carried).create(table)
    for days in (10, 20):
        _leave_behind(tmp_path / table.name / f"orphan-{days}.parquet", days=days)
    lake = Lake(spark, str(tmp_path), retention_days=wanted)
    lake.vacuum(table)
    assert [f.name for f in (tmp_path / table.name).glob("*.parquet")] == ["orphan-10.parquet"]
    version = lake.version(table)
    lake.vacuum(table)
    assert lake.version(table) == version
    told = spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.path(table)}`").collect()
    kept_for = {row.value for row in told if row.key.endswith("RetentionDuration")}
    assert kept_for == {"interval 14 days"}


@pytest.mark.soak
def test_what_delta_prints_while_it_vacuums_can_be_silenced(spark, tmp_path):
    lake = kept(spark, tmp_path)
    lake.create(TABLES["topic_route"])
    assert lake.footprint(TABLES["topic_route"]).sizes[:3] == (0, 0, 0)
    console = getattr(getattr(spark._jvm.scala, "Console$"), "MODULE$")
    said, before = spark._jvm.java.io.ByteArrayOutputStream(), console.out()
    console.setOutDirect(spark._jvm.java.io.PrintStream(said, True))
    try:
        lake.vacuum(TABLES["topic_route"])
        line = said.toString()
        with lake.silenced():
            lake.vacuum(TABLES["topic_route"])
        assert line and said.toString() == line
    finally:
        console.setOutDirect(before)


@pytest.mark.soak
def test_a_lake_without_tables_is_said_to_have_none(spark, settings, tmp_path):
    found = maintain.run(spark, settings, RunContext(str(tmp_path)), str(tmp_path))
    assert (found, list(maintain.told(found)), list(maintain.as_values(found))) == (
        [],
        ["the lake has no table yet"],
        [],
    )


@pytest.mark.soak
def test_a_person_reads_a_table_and_a_machine_json_lines(done):
    lines = list(maintain.told(list(done.values())))
    (line,) = [line for line in lines if line.startswith("send_attempt ")]
    assert len({len(line) for line in lines}) == 1
    assert f"{done['send_attempt'].before.files} -> {done['send_attempt'].after.files}" in line
    assert f"{done['send_attempt'].before.rows:,}" in line and "version 0, " in line
    rows = {row["table"]: row for row in maintain.as_values(list(done.values()))}
    assert rows["quarantine"]["before"]["rows"] > rows["quarantine"]["after"]["rows"]
    assert datetime.fromisoformat(rows["quarantine"]["after"]["oldest_at"]).tzinfo is not None


@pytest.mark.parametrize("text", ["keep_days = 0", "keep_days = -1", "keep_days = 'long'", "keep_day = 5"])
def test_settings_that_would_lose_lines_at_once_are_refused(tmp_path, text):
    own = tmp_path / "own.toml"
    own.write_text(f"[quarantine]\n{text}\n")
    with pytest.raises(SettingsError, match="keep_day"):
        load_settings(own)

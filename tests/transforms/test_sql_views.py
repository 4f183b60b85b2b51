"""Names for tables and views: whoever asks writes nothing, also where a table has had no row yet."""

from __future__ import annotations

from hindsight.jobs.engines.delta_tables import Lake
from hindsight.jobs.engines.sql_views import create_views, view_texts
from hindsight.schemas import TABLES


def delta_tables(root) -> set[str]:
    return {log.parent.name for log in root.rglob("_delta_log")}


def test_absent_tables_have_names_and_no_rows_and_are_not_made(spark, tmp_path):
    lake = Lake(spark, str(tmp_path), retention_days=7)
    lake.create(TABLES["topic_route"])
    before = spark.catalog.currentDatabase()
    try:
        for _ in range(2):
            assert set(create_views(spark, lake)) == set(view_texts())
        assert spark.sql(" UNION ALL ".join(f"SELECT 1 FROM {name}" for name in TABLES)).count() == 0
        assert spark.table("send_attempt").schema.names == TABLES["send_attempt"].columns.names
        # The views' plans are made, too; a row of any would need rows of a table.
        assert all(spark.table(name).columns for name in view_texts())
        assert delta_tables(tmp_path) == {"topic_route"}
    finally:
        spark.catalog.setCurrentDatabase(before)

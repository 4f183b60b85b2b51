"""The view of rows with a doubt: each doubt once a table, source and date, with its first line."""

from __future__ import annotations

from datetime import UTC, datetime

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.sql_views import view_texts
from hindsight.schemas import QUEUE_PROGRESS, SEND_ATTEMPT, TABLES
from tests.pipeline.random_tables import one_row

AT = datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_each_doubt_is_counted_with_its_first_line(tmp_path):
    lake = LocalLake(str(tmp_path), retention_days=7)
    own = {"cluster": "c", "event_date": AT.date(), "source": "f"}
    for file, line, doubts in (("b", 1, ["X", "Y"]), ("a", 7, ["X"]), ("a", 9, ["X"]), ("a", 1, None), ("a", 2, [])):
        row = one_row(SEND_ATTEMPT, **own, source_file=file, source_line=line, doubts=doubts, msg_id=f"{file}{line}")
        lake.append(SEND_ATTEMPT, row)
    lake.append(QUEUE_PROGRESS, one_row(QUEUE_PROGRESS, **own, source_file="z", source_line=3, doubts=["X"]))
    found = records(LocalAsker(lake), "SELECT * FROM doubted_rows ORDER BY table_name, doubt")
    names = ("table_name", "doubt", "doubted", "files", "example_file", "example_line")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("queue_progress", "X", 1, 1, "z", 3),
        ("send_attempt", "X", 3, 2, "a", 7),
        ("send_attempt", "Y", 1, 1, "b", 1),
    ]


def test_every_table_that_may_have_doubts_is_in_it():
    text = view_texts()["doubted_rows"]
    assert all(f"FROM {name} WHERE" in text for name, table in TABLES.items() if "doubts" in table.columns.names)

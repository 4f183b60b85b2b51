"""The ledger that is asked says what reading it row by row says, and a run reads it when it has changed alone."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import ingest_send_records
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.intake.ingestion import files_to_read
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.ledger import FilesOfDate, files_of_dates, ledger, named
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import INGESTED_FILE
from hindsight.schemas.arrow_types import arrow_schema

COLUMNS = ["cluster", "format", "file", "size_bytes", "read", "event_dates", "ingested_at"]
SCHEMA = pa.schema([arrow_schema(INGESTED_FILE).field(name) for name in COLUMNS])
FILES = st.fixed_dictionaries(
    {
        "cluster": st.sampled_from(["c", "d ü"]),
        "format": st.sampled_from(["hook", "trace"]),
        "file": st.text(st.characters(codec="utf-8"), max_size=5),
        "size_bytes": st.integers(0, 120),
        "read": st.integers(0, 9),
        "event_dates": st.lists(st.dates(date(2026, 1, 1), date(2026, 1, 3)), unique=True, max_size=3),
        "ingested_at": st.datetimes(datetime(2026, 1, 3), datetime(2026, 1, 4), timezones=st.just(UTC)),
    }
)


@given(st.lists(FILES, max_size=12))
def test_files_of_dates_are_those_of_a_row_by_row_reading(rows: list[dict[str, Any]]):
    touching: dict[ClusterDate, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        for day in row["event_dates"]:
            touching[ClusterDate(row["cluster"], day)].append(row)
    found = {of.at: (of.formats, of.lines, of.names()) for of in of_dates(rows)}
    assert found == {
        at: (
            frozenset(row["format"] for row in of),
            sum(row["read"] for row in of),
            sorted(f"{row['file']}:{row['size_bytes']}" for row in of),
        )
        for at, of in touching.items()
    }
    assert [*found] == sorted(found)


@given(st.lists(FILES, min_size=1, max_size=8), st.data())
def test_of_the_dates_that_one_file_bears_on_and_of_no_other_it_changes_the_mark(rows, data):
    before = {of.at: of.mark for of in of_dates(rows)}
    one = data.draw(st.sampled_from(rows))
    how = data.draw(st.sampled_from(["new", "again", "another size"]))
    later = {**one, "ingested_at": one["ingested_at"] + timedelta(days=2)}
    if how == "another size":
        later["size_bytes"] += 1
    others = [row for row in rows if row is not one]
    after = {of.at: of.mark for of in of_dates([*(rows if how == "new" else others), later])}
    touched = {ClusterDate(one["cluster"], day) for day in one["event_dates"]}
    assert {at for at in after if before.get(at) != after[at]} == touched
    assert {of.at: of.mark for of in of_dates(rows[::-1])} == before


def of_dates(rows: list[dict[str, Any]]) -> list[FilesOfDate]:
    return [*files_of_dates(pa.Table.from_pylist(rows, schema=SCHEMA))]


def land(landing, number: int, lines: int = 1) -> None:
    folder = landing / "producer_hook" / "cluster=c"
    folder.mkdir(parents=True, exist_ok=True)
    start = {"type": "start", "ts": 1_767_600_000_000 + number, "clientId": f"c@{number}", "group": "g"}
    (folder / f"{number}.jsonl").write_text(f"{json.dumps({**start, 'version': '4.9.8'})}\n" * lines, encoding="utf-8")


def test_a_run_reads_the_ledger_once_and_replaces_rows_only_of_files_that_it_has(tmp_path, monkeypatch):
    landing, lake = tmp_path / "landing", LocalLake(str(tmp_path / "lake"), retention_days=7)
    read, written = [], []
    rows, append, replace = lake.rows, lake.append, lake.replace_files
    monkeypatch.setattr(lake, "rows", lambda t, *of, **more: read.append(t.name) or rows(t, *of, **more))
    monkeypatch.setattr(lake, "append", lambda t, *of: written.append((t.name, "append")) or append(t, *of))
    monkeypatch.setattr(lake, "replace_files", lambda t, *of: written.append((t.name, "replace")) or replace(t, *of))

    def run() -> list[str]:
        read.clear()
        written.clear()
        with LocalRunner(1) as runner:
            ingest_send_records.run_on(lake, runner, load_settings(None), RunContext(str(landing)))
        lake.write_gathered()
        assert read.count(INGESTED_FILE.name) <= 1
        return [how for name, how in written if name == INGESTED_FILE.name]

    land(landing, 1)
    assert run() == ["append"]
    land(landing, 2)
    assert run() == ["append"]
    land(landing, 1, lines=2)  # it has grown
    assert run() == ["replace"]
    assert run() == [] and files_to_read(lake, RunContext(str(landing)), ["producer_hook"]) == []
    found = ledger(lake, ["producer_hook"])
    assert sorted(found["file"].to_pylist()) == [f"producer_hook/cluster=c/{n}.jsonl" for n in (1, 2)]
    assert len(named(found, ["producer_hook/cluster=c/2.jsonl"])) == 1
    assert {of.at.event_date for of in files_of_dates(found)} == {date(2026, 1, 5)}

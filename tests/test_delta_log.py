"""The newest commit of a table is found without a list of its log, whatever a log has gone through."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.lake import delta_log
from hindsight.jobs.lake.delta_log import commit_name, is_newest, newest_version


def log_of(table: Path, first: int, last: int, checkpoint: bytes | None) -> None:
    log = table / "_delta_log"
    log.mkdir()
    for version in range(first, last + 1):
        (log / commit_name(version)).write_text("{}")
    (log / "00000000000000000003.checkpoint.parquet").write_text("")
    (log / "00000000000000000900.json.tmp").write_text("")
    if checkpoint is not None:
        (log / "_last_checkpoint").write_bytes(checkpoint)


@given(st.integers(0, 30), st.integers(0, 12), st.one_of(st.none(), st.integers(-3, 45), st.binary(max_size=5)))
def test_it_is_what_a_list_says(first, more, checkpoint):
    with tempfile.TemporaryDirectory() as folder:
        table, last = Path(folder), first + more
        told = json.dumps({"version": checkpoint}).encode() if isinstance(checkpoint, int) else checkpoint
        log_of(table, first, last, told)
        assert newest_version(table) == last
        assert [version for version in range(first - 1, last + 2) if is_newest(table, version)] == [last]


@pytest.mark.parametrize("said", [b"", b"{}", b"[]", b'{"version": null}', b'{"version": "x"}', b"\xff"])
def test_a_damaged_checkpoint_tells_nothing(tmp_path, said):
    log_of(tmp_path, 4, 6, said)
    assert newest_version(tmp_path) == 6


def test_a_folder_without_a_log_is_no_table(tmp_path):
    assert newest_version(tmp_path) is None
    (tmp_path / "_delta_log").mkdir()
    assert newest_version(tmp_path) is None


def test_of_a_real_table_no_list_is_needed(tmp_path, monkeypatch):
    for number in range(7):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    monkeypatch.setattr(delta_log.os, "scandir", None)
    assert newest_version(tmp_path) == 6
    DeltaTable(tmp_path).create_checkpoint()
    for version in range(6):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    write_deltalake(tmp_path, pa.table({"n": [7]}), mode="append")
    assert newest_version(tmp_path) == 7 == DeltaTable(tmp_path).version()

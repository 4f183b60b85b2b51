"""Landing files that change while a run is at them: it finishes or says what is wrong, and a rerun sets it right."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from hindsight.conf.failure import RUN_FAILED
from hindsight.jobs.intake import ingestion
from hindsight.jobs.running.exit_codes import exit_code
from tests.conftest import CAPTURES
from tests.pipeline.interrupted_lake import seen, without_empty
from tests.pipeline.local_runs import run_here

LINES = 60  # of each file, in three thirds


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    with gzip.open(CAPTURES / "producers" / "producer_4.7.1_short.jsonl.gz") as found:
        return [next(found) for _ in range(4 * LINES)]


@pytest.fixture
def landing(tmp_path, lines) -> Path:
    """Four files of a producer, each with the first third of its lines."""
    folder = tmp_path / "landing" / "producer_hook" / "cluster=oracle"
    folder.mkdir(parents=True)
    for n, name in enumerate(("grows", "is_replaced", "stays", "vanishes")):
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines[n * LINES : n * LINES + LINES // 3]))
    return tmp_path / "landing"


@pytest.fixture
def take_in(settings) -> Callable[[Path, Path], object]:
    return lambda landing, lake: run_here(settings, landing, lake, ["ingest_send_records"])


@pytest.fixture
def after_listing(monkeypatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen once, between the listing of the files and their reading."""

    def once(happen: Callable[[], None]) -> None:
        listing, left = ingestion.survey, [happen]

        def listed(*arguments):
            found = listing(*arguments)
            while left:
                left.pop()()
            return found

        monkeypatch.setattr(ingestion, "survey", listed)

    return once


def ledger(lake: Path) -> dict[str, int]:
    from deltalake import DeltaTable

    rows = DeltaTable(lake / "ingested_file").to_pyarrow_table().to_pylist()
    return {Path(row["file"]).stem: row["size_bytes"] for row in rows}


def test_a_file_that_vanishes_is_named_and_one_that_grows_or_is_replaced_is_read_again(
    landing, take_in, after_listing, lines, tmp_path, capsys
):
    folder, lake = landing / "producer_hook" / "cluster=oracle", tmp_path / "lake"
    after_listing((folder / "vanishes.jsonl").unlink)
    assert exit_code(lambda: take_in(landing, lake)) == RUN_FAILED
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert "vanishes.jsonl" in sentence and "was listed and is gone" in sentence
    assert ledger(lake) == {}
    listed = {path.stem: path.stat().st_size for path in folder.iterdir()}

    def move() -> None:
        with (folder / "grows.jsonl").open("ab") as file:  # its last line is not whole yet
            file.write(b"".join(lines[LINES // 3 : LINES // 2]) + lines[LINES // 2][:50])
        (folder / ".new").write_bytes(b"".join(lines[LINES : LINES + LINES // 2]))
        (folder / ".new").replace(folder / "is_replaced.jsonl")

    after_listing(move)
    take_in(landing, lake)
    assert ledger(lake) == listed
    assert len(seen(lake)["quarantine"]) == 1
    with (folder / "grows.jsonl").open("ab") as file:
        file.write(lines[LINES // 2][50:])
    take_in(landing, lake)
    assert ledger(lake) == {path.stem: path.stat().st_size for path in folder.iterdir()} != listed
    take_in(landing, tmp_path / "undisturbed")
    assert without_empty(seen(lake)) == without_empty(seen(tmp_path / "undisturbed"))


def test_a_file_is_read_as_it_was_opened_though_another_takes_its_name(tmp_path, lines):
    """Replaced by renaming, as the contract asks: what was opened is read to its end."""
    from hindsight.jobs.landing.landing_lines import ReadOptions, _lines

    file = tmp_path / "a.jsonl"
    file.write_bytes(b"".join(lines))
    reading = _lines("a.jsonl", ReadOptions(str(tmp_path), 1 << 20, 100, {}, "UTC", {}))
    first = next(reading).text
    (tmp_path / "b").write_bytes(b"{}\n")
    (tmp_path / "b").replace(file)
    assert [first, *(line.text for line in reading)] == [line.decode().rstrip("\n") for line in lines]

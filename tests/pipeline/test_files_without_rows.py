"""A file of which nothing was stored is said: in the log, the counts and the summary. One known already is not."""

from __future__ import annotations

from hindsight.jobs.asking.run_summary import summary
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES


def test_files_that_leave_no_row_are_named_with_their_counts(settings, tmp_path, capsys):
    (sample,) = (SAMPLES / "heartbeat" / "cluster=example").iterdir()
    heartbeats, logs = tmp_path / "landing/heartbeat/cluster=c", tmp_path / "landing/client_log/cluster=c"
    heartbeats.mkdir(parents=True)
    logs.mkdir(parents=True)
    files = {"stored": sample.read_bytes(), "twice": sample.read_bytes(), "bad": b"no heartbeat\n" * 2, "empty": b""}
    for name, data in files.items():
        (heartbeats / f"{name}.jsonl").write_bytes(data)
    for n in range(12):
        (logs / f"{n:02}.log").write_text("nothing of interest\n" * 3)

    def take_in():
        (result,) = run_here(settings, tmp_path / "landing", tmp_path / "lake", ["ingest_consumer_snapshots"])
        return result, capsys.readouterr().out

    result, told = take_in()
    assert (result.files, result.nothing_stored) == (16, 14)
    assert "client_log/cluster=c/00.log: 3 lines, none stored: 3 ignored" in told
    assert "client_log/cluster=c/10.log" not in told  # the first ten

    said = [*summary(LakeRows(tmp_path / "lake").asker)]
    said = said[said.index("Files from which nothing was stored") + 1 :]
    assert said == [f"  client_log/cluster=c/{n:02}.log: 3 lines, none stored: 3 ignored" for n in range(10)] + [
        "  and 4 more"
    ]

    (heartbeats / "thrice.jsonl").write_bytes(sample.read_bytes())
    result, told = take_in()
    assert (result.files, result.stored, result.nothing_stored) == (1, 0, 0)
    assert "stored nothing of files" not in told
    (heartbeats / "worse.jsonl").write_bytes(b"no heartbeat\n")
    result, told = take_in()
    assert result.nothing_stored == 1
    assert "heartbeat/cluster=c/worse.jsonl: 1 line, none stored: 1 refused" in told
    said = [*summary(LakeRows(tmp_path / "lake").asker)]
    assert said[said.index("Files from which nothing was stored") + 1].startswith(
        "  heartbeat/cluster=c/worse.jsonl: 1"
    )


def test_a_lake_into_which_nothing_came_tells_of_nothing(settings, tmp_path):
    (tmp_path / "landing").mkdir()
    (result,) = run_here(settings, tmp_path / "landing", tmp_path / "lake", ["ingest_consumer_snapshots"])
    assert result.files == 0
    (said,) = summary(LakeRows(tmp_path / "lake").asker)
    assert said.startswith("Nothing has been taken in yet")

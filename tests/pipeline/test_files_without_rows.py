"""A file of which nothing was stored is said: in the log, the counts and the summary. One known already is not."""

from __future__ import annotations

from jobs import ingest_consumer_snapshots
from jobs.asking import spark_asker
from jobs.run_context import RunContext
from jobs.run_summary import summary
from tests.pipeline.sample_files import SAMPLES


def test_files_that_leave_no_row_are_named_with_their_counts(spark, settings, tmp_path, capsys):
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
        context = RunContext(str(tmp_path / "landing"))
        result = ingest_consumer_snapshots.run(spark, settings, context, str(tmp_path / "lake"))
        return result, capsys.readouterr().out

    result, told = take_in()
    assert (result.files, result.nothing_stored) == (16, 14)
    assert "client_log/cluster=c/00.log: 3 lines, none stored: 3 ignored" in told
    assert "client_log/cluster=c/10.log" not in told  # the first ten

    asker = spark_asker(spark, str(tmp_path / "lake"), settings)
    said = [*summary(asker)]
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
    said = [*summary(asker)]
    assert said[said.index("Files from which nothing was stored") + 1].startswith(
        "  heartbeat/cluster=c/worse.jsonl: 1"
    )
    spark.sql("USE default")


def test_a_lake_into_which_nothing_came_tells_of_nothing(spark, settings, tmp_path):
    (tmp_path / "landing").mkdir()
    result = ingest_consumer_snapshots.run(
        spark, settings, RunContext(str(tmp_path / "landing")), str(tmp_path / "lake")
    )
    assert result.files == 0
    (said,) = summary(spark_asker(spark, str(tmp_path / "lake"), settings))
    assert said.startswith("Nothing has been taken in yet")
    spark.sql("USE default")

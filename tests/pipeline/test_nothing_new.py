"""The command on a lake to which nothing new has come: it needs no Spark, changes nothing and tells the same."""

from __future__ import annotations

import json

# What a job tells of itself that says what it did.
FACTS = {"files", "read", "stored", "duplicate", "ignored", "quarantined", "dates", "rows", "dates_left", "page"}


def test_a_run_that_finds_nothing_new_needs_no_spark_and_tells_the_same(commanded, tmp_path):
    no_java = {"JAVA_HOME": str(tmp_path)}
    stood = {path: path.stat().st_mtime_ns for path in commanded.lake.rglob("*")}
    again = commanded.again(**no_java)
    assert (again.returncode, again.stdout) == (0, commanded.done.stdout), again.stderr
    assert f"Report: {commanded.lake}/report.html" in again.stdout
    as_lines = commanded.again("--json", **no_java)
    told = [json.loads(line) for line in as_lines.stdout.splitlines()]
    before = [json.loads(line) for line in commanded.done.stderr.splitlines() if '"ends"' in line]
    assert [line["job"] for line in told] == [line["job"] for line in before]
    assert [set(line) & FACTS for line in told] == [set(line) & FACTS for line in before]
    assert told[-1]["page"] == before[-1]["page"]
    assert all(line[name] == 0 for line in told for name in FACTS - {"page"} if name in line)
    assert {path: path.stat().st_mtime_ns for path in commanded.lake.rglob("*")} == stood


def test_what_is_left_alone_is_told_though_nothing_is_new(commanded, tmp_path):
    beside = commanded.landing / "heartbeat" / "cluster=c" / "b.jsonl.bak"
    beside.touch()
    try:
        again = commanded.again(JAVA_HOME=str(tmp_path))
        as_lines = commanded.again("--json", JAVA_HOME=str(tmp_path))
    finally:
        beside.unlink()
    assert (again.returncode, as_lines.returncode) == (0, 0)
    assert "    heartbeat/cluster=c/b.jsonl.bak\n" in again.stdout and "b.jsonl.bak" not in as_lines.stdout
    for done in (again, as_lines):
        (told,) = [json.loads(line) for line in done.stderr.splitlines() if "b.jsonl.bak" in line]
        assert (told["event"], told["files"]) == ("leaves files alone", 1) and "matches none of" in told["reason"]


def test_once_input_is_taken_in_files_may_be_gone(commanded, tmp_path):
    """Operators let landing files expire: what is not refused goes on to Spark, which is absent here."""
    landing = tmp_path / "landing"
    (landing / "heartbeats").mkdir(parents=True)
    for file in (None, landing / "heartbeats" / "a.jsonl"):
        if file:
            file.touch()
        done = commanded.again("--landing", str(landing), "--engine", "spark", JAVA_HOME=str(tmp_path))
        assert done.returncode == 3 and "no Java was found" in done.stderr
    done = commanded.again("--landing", str(tmp_path / "landng"), JAVA_HOME=str(tmp_path))
    assert done.returncode == 64 and f"did you mean '{landing}'?" in done.stderr


def test_what_is_new_or_asked_for_needs_an_engine(commanded, tmp_path):
    landing = tmp_path / "landing" / "heartbeat" / "cluster=c"
    landing.mkdir(parents=True)
    (landing / "more.jsonl").write_text("{}\n")
    for more in (("--from", "2026-01-01"), ("--landing", str(tmp_path / "landing"))):
        done = commanded.again(*more, "--engine", "spark", JAVA_HOME=str(tmp_path))
        assert done.returncode == 3
        assert "no Java was found" in done.stderr

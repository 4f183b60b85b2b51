"""``hindsight check-landing``: what a run would make of a landing folder, told without a lake and without Spark."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.landing.landing_lines import Tally, nothing_stored
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.bounded_lines import Line, Refusal
from hindsight.udfs.lines.parsed_line import ParsedLine, Record
from tests.commands import command
from tests.without_spark import check_without_spark

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data_samples"
HEARTBEATS = next((SAMPLES / "heartbeat" / "cluster=example").iterdir()).read_bytes()
GOOD = HEARTBEATS.count(b"\n")


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return command("check-landing", *arguments)


def as_json(*arguments: object) -> dict[str, list[dict]]:
    """What it tells a machine, by kind."""
    done = check(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, list[dict]] = {}
    for line in map(json.loads, done.stdout.splitlines()):
        told.setdefault(line.pop("kind"), []).append(line)
    return told


def write(root: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


@pytest.fixture
def landing(tmp_path) -> Path:
    """One file of each fate."""
    heartbeats = {"good": HEARTBEATS, "half": HEARTBEATS + b"no heartbeat\n" * 5, "empty": b"", "bad": b"x\x1b[31m\n"}
    files = {f"heartbeat/cluster=c/{name}.jsonl": data for name, data in heartbeats.items()}
    files["client_log/cluster=d/app.log"] = b"nothing of interest\n" * 12
    files["client_log/cluster=d/app.log.bak"] = b"x"
    files["client_logs/cluster=d/app.log"] = b"x"
    return write(tmp_path, files)


def test_neither_spark_nor_java_has_part_in_it(tmp_path):
    for arguments, ends in (([SAMPLES], 0), ([SAMPLES, "--json"], 0), ([tmp_path / "absent"], 64), ([], 64)):
        check_without_spark("check-landing", *arguments, ends=ends)


def lines_of(path: Path) -> int:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return len(data.splitlines()) if b"\r" not in data else len(data.removesuffix(b"\n").split(b"\n"))


def test_every_line_of_the_samples_is_counted_once():
    told = as_json(SAMPLES)
    for one in told["input"]:
        files = [
            path
            for path in (SAMPLES / one["format"] / f"cluster={one['cluster']}").rglob("*")
            if path.is_file() and path.name != FORMATS[one["format"]].commands
        ]
        assert (one["files"], one["lines"]) == (len(files), sum(map(lines_of, files)))
        assert one["lines"] == one["stored"] + one["ignored"] + one["refused"]
        assert one["rows"].keys() <= set(FORMATS[one["format"]].tables)
    (total,) = told["total"]
    assert total["refused"] == 0 and total["reasons"] == {}
    for number in ("files", "lines", "stored", "ignored"):
        assert total[number] == sum(one[number] for one in told["input"])
    assert {one["format"] for one in told["input"]} == {path.name for path in SAMPLES.iterdir() if path.is_dir()}
    assert told["unknown"] == [
        {"path": "README.md", "reason": "in the landing folder itself only folders of formats are read"}
    ]


def test_a_machine_is_told_of_every_file_and_line_that_leaves_nothing(landing):
    told = as_json(landing)
    assert {(one["format"], one["cluster"]): one["refused"] for one in told["input"]} == {
        ("client_log", "d"): 0,
        ("heartbeat", "c"): 6,
    }
    refused = [(one["file"], one["line"], one["code"]) for one in told["refused_line"]]
    assert refused == [
        ("heartbeat/cluster=c/bad.jsonl", 1, "NOT_JSON"),
        ("heartbeat/cluster=c/half.jsonl", GOOD + 1, "NOT_JSON"),
        ("heartbeat/cluster=c/half.jsonl", GOOD + 2, "NOT_JSON"),
    ]
    assert told["refused_line"][1]["text"] == "no heartbeat" and told["refused_line"][1]["detail"]
    silent = {Path(one["file"]).name: (one["lines"], one["ignored"], one["refused"]) for one in told["nothing_stored"]}
    assert silent == {"app.log": (12, 12, 0), "empty.jsonl": (0, 0, 0), "bad.jsonl": (1, 0, 1)}
    assert [one["path"] for one in told["left_alone"]] == ["client_log/cluster=d/app.log.bak"]
    assert [(one["path"], one["reason"].rpartition("; ")[2]) for one in told["unknown"]] == [
        ("client_logs/", "nearest: client_log/")
    ]
    assert len(as_json(landing, "--refused", 10)["refused_line"]) == 6


def test_a_person_is_told_the_same_in_words(landing):
    done = check(landing)
    assert done.returncode == 0 and done.stderr == ""
    said = done.stdout
    assert said.startswith(f"What a run would do with {landing}\n")
    assert f"heartbeat/cluster=c/half.jsonl, line {GOOD + 1}: NOT_JSON: " in said
    assert "    > no heartbeat\n" in said
    assert "  client_log/cluster=d/app.log: 12 lines, none stored: 12 ignored\n" in said
    assert "  heartbeat/cluster=c/bad.jsonl: 1 line, none stored: 1 refused\n" in said
    assert "  heartbeat/cluster=c/empty.jsonl: empty\n" in said
    assert "the name matches none of *.log" in said and "\n      client_log/cluster=d/app.log.bak\n" in said
    assert "nearest: client_log/\n      client_logs/\n" in said
    assert said.endswith("A run would take in 5 files; 6 of 36 lines would be refused; 3 files would leave no row.\n")
    assert "\x1b" not in said and "\\u001b[31m" in said


def test_settings_hold_as_in_a_run(landing, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[ingest]\nmax_line_bytes = 1024\nmax_raw_text_chars = 2\n")
    write(landing, {"heartbeat/cluster=c/long.jsonl": b"y" * 2000})
    told = as_json(landing, "--settings", own)
    assert told["total"][0]["reasons"].get("LINE_TOO_LONG", 0) >= 1
    assert {len(one["text"]) for one in told["refused_line"]} == {2}
    own.write_text('[ingest.rules]\nNO_SUCH_RULE = "flag"\n')
    done = check(landing, "--settings", own)
    assert done.returncode == 64 and "NO_SUCH_RULE" in done.stderr


def test_a_rule_at_the_door_refuses_here_too(tmp_path):
    with gzip.open(next((SAMPLES / "producer_hook" / "cluster=oracle").glob("*_laton.jsonl.gz"))) as lines:
        attempt = next(line for line in map(json.loads, lines) if line["type"] == "attempt")
    line = json.dumps({**attempt, "topic": "no topic!"}).encode() + b"\n"
    landing = write(tmp_path / "landing", {"producer_hook/cluster=c/a.jsonl": line})
    assert as_json(landing)["total"][0]["reasons"] == {"ILLEGAL_TOPIC": 1}
    own = tmp_path / "own.toml"
    own.write_text('[ingest.rules]\nILLEGAL_TOPIC = "flag"\n')
    assert as_json(landing, "--settings", own)["total"][0]["rows"] == {"send_attempt": 1}


def test_of_large_files_the_first_lines_are_enough(landing):
    told = as_json(landing, "--most-lines", 5)
    assert {one["cluster"]: one["lines"] for one in told["input"]} == {"c": 5 + 5 + 0 + 1, "d": 5}
    assert told["total"][0]["most_lines"] == 5
    assert f"{landing}, by the first 5 lines of each file\n" in check(landing, "--most-lines", 5).stdout


def test_one_cluster_can_be_asked_for(landing):
    assert [one["cluster"] for one in as_json(landing, "--cluster", "d*")["input"]] == ["d"]
    done = check(landing, "--cluster", "prod")
    assert done.returncode == 64 and "no landing file is of cluster 'prod'; there are c, d." in done.stderr


def test_what_a_run_into_a_new_lake_refuses_is_refused(tmp_path):
    write(tmp_path, {"landing/client_logs/cluster=c/a.log": b"x"})
    for place, told in (("landing", "nearest: client_log/"), ("landng", f"did you mean '{tmp_path}/landing'?")):
        done = check(tmp_path / place)
        assert (done.returncode, done.stdout) == (64, "")
        (said,) = done.stderr.splitlines()
        assert told in said


def test_an_empty_folder_is_no_error_and_said(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 0
    assert f"nothing to take in: '{tmp_path}' contains no file at all; expected: " in done.stdout


def test_it_is_listed_among_the_commands():
    said = command("--help").stdout
    assert re.search(r"^. check-landing +Show what a run would do with a landing folder", said, re.MULTILINE)


LINE = Line(1, 0, 1, "x", None)
FATES = {
    "stored": ParsedLine(LINE, (Record("a", {}), Record("b", {}))),
    "ignored": ParsedLine(LINE),
    "refused": ParsedLine(LINE, refusal=Refusal("CODE", "detail")),
}


@given(st.lists(st.lists(st.sampled_from(sorted(FATES)))))
def test_tallies_add_up_whatever_the_files(files):
    total = Tally()
    for fates in files:
        tally = Tally(files=1)
        for fate in fates:
            tally.add(FATES[fate])
        total.add_all(tally)
    every = [fate for fates in files for fate in fates]
    counts = {fate: every.count(fate) for fate in FATES}
    assert (total.files, total.lines) == (len(files), len(every))
    assert {"stored": total.stored, "ignored": total.ignored, "refused": total.refused.total()} == counts
    assert total.rows.total() == 2 * counts["stored"]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0, 0, 0), "empty"),
        ((1, 1, 0), "1 line, none stored: 1 ignored"),
        ((1234, 1230, 4), "1,234 lines, none stored: 1,230 ignored, 4 refused"),
    ],
)
def test_a_file_that_leaves_no_row_is_told_with_its_counts(counts, said):
    assert nothing_stored(*counts) == said

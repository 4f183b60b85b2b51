"""Bad input gets a reason and a position and costs nothing else: everything around it is taken in.

The damaged files stand in a cluster of their own, in the lake of all formats.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.landing.landing_lines import read_options, tally_of
from hindsight.jobs.landing.landing_survey import survey
from hindsight.udfs.landing.landing_formats import FORMATS
from tests.lake_rows import LakeRows
from tests.pipeline.damaged_files import CLUSTER, HOSTILE_NAME

SECRET = b"hush-2718281828"  # of the tests' own settings


@pytest.fixture(scope="module")
def taken_in(formats):
    """Rows of a table that come from the damaged files and meet a condition."""
    rows = LakeRows(formats / "lake")
    return lambda table, where="TRUE": rows(table, f"cluster = '{CLUSTER}' AND ({where})")


@pytest.fixture(scope="module")
def refused(taken_in):
    return {Path(r.source_file).name.partition(".")[0]: r for r in taken_in("quarantine")}


@pytest.mark.parametrize(
    ("file", "code", "line"),
    [
        ("bad_utf8", "INVALID_UTF8", 4),
        ("no_key_field", "MISSING_FIELD", 2),
        ("seconds", "TIMESTAMP_IN_SECONDS", 2),
        ("negative_queue", "NEGATIVE_QUEUE_ID", 2),
        ("huge_line", "LINE_TOO_LONG", 2),
        ("not_json", "NOT_JSON", 2),
        ("not_gzip", "NOT_GZIP", 1),
        ("s", "BAD_RAW", 7),
    ],
)
def test_a_bad_line_stands_in_quarantine_with_its_reason_and_line(refused, file, code, line):
    assert (refused[file].reason_code, refused[file].line_number) == (code, line)
    assert refused[file].detail and len(refused[file].raw_text) <= 4096


def test_the_position_of_a_huge_line_covers_all_of_it(refused):
    row = refused["huge_line"]
    assert row.byte_end - row.byte_start > 20_000_000


def test_the_lines_before_a_truncation_are_taken_in(taken_in, refused):
    (file,) = taken_in("ingested_file", "file LIKE '%truncated%'")
    assert refused["truncated"].reason_code == "TRUNCATED_GZIP"
    assert file.complete is False
    assert file.stored > 50
    assert refused["truncated"].line_number == file.stored + 1


def test_the_good_lines_of_every_file_are_stored_and_the_accounts_balance(taken_in):
    files = {Path(r.file).name.partition(".")[0]: r for r in taken_in("ingested_file")}
    for f in files.values():
        assert f.read == f.stored + f.duplicate + f.ignored + f.quarantined, f.file
    assert (files["bad_utf8"].stored, files["no_key_field"].stored, files["huge_line"].stored) == (4, 2, 2)
    assert (files["not_json"].stored, files["not_json"].ignored) == (2, 1)
    assert all(files[name].quarantined == 1 for name in files if name != "unknown_version")


def test_check_landing_tells_of_each_file_what_the_run_made_of_its_lines(formats):
    settings = load_settings(formats / "settings.toml")
    options = read_options(str(formats / "landing"), settings)
    told = {}
    for file in survey(options.landing, FORMATS).files:
        tally = tally_of([file], options, most_refused=0).total()
        told[file.file] = (tally.lines, tally.stored, tally.ignored, tally.refused.total())
    ledger = LakeRows(formats / "lake")("ingested_file")
    known = {row.file: (row.read, row.stored + row.duplicate, row.ignored, row.quarantined) for row in ledger}
    assert told == known and len(told) > 20


def test_captures_without_a_marker_are_one_round_in_every_table(taken_in):
    first = datetime(2026, 11, 21, 9, 30, 14, 272_000)
    for table in ("snapshot_capture", "topic_route", "queue_ownership", "consumer_heartbeat"):
        assert {row.round_at for row in taken_in(table)} == {first}, table


def test_a_producer_of_an_unknown_version_is_stored_and_judged_unknown(taken_in):
    (instance,) = taken_in("producer_instance", "client_id = '10.0.0.1@strange'")
    assert instance.client_version == "9.9.9"
    (replay,) = taken_in("producer_replay", "client_id = '10.0.0.1@strange'")
    assert (replay.verdict, replay.profile, replay.attempts) == ("unknown", None, 10)
    assert "9.9.9" in replay.reasons[0]
    assert taken_in("broker_availability_window", "client_id = '10.0.0.1@strange'") == []
    verdicts = taken_in("send_verdict", "client_id = '10.0.0.1@strange'")
    assert {v.verdict for v in verdicts} == {"unknown"}
    assert len(verdicts) == 10
    assert "9.9.9" in verdicts[0].reason


def test_a_file_of_a_hostile_name_is_taken_in_under_that_name(taken_in):
    name = f"producer_hook/cluster={CLUSTER}/{HOSTILE_NAME}.jsonl"
    (file,) = taken_in("ingested_file", "file LIKE '%it_s%'")
    assert (file.file, file.stored, file.quarantined) == (name, 1, 1)
    assert [r.source_file for r in taken_in("quarantine", "source_file LIKE '%it_s%'")] == [name]
    assert len(taken_in("send_attempt", "source_file LIKE '%it_s%'")) == 1


def test_what_a_link_in_the_landing_folder_points_at_is_in_no_table(taken_in):
    assert taken_in("ingested_file", "file LIKE '%link%' OR file LIKE '%outside%'") == []
    assert taken_in("quarantine", "raw_text LIKE '%password%'") == []


def holding(secret: bytes, there: Path, root: Path) -> list[Path]:
    """The files below ``root`` in which the text stands; ``there`` is one of them, or a folder."""
    assert there.exists()
    return [path for path in files_of(root) if secret in path.read_bytes()]


def files_of(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_secret_of_the_settings_is_in_no_file_of_the_lake(settings_file, formats):
    assert SECRET in settings_file.read_bytes()
    assert len(files_of(formats / "lake")) > 100
    assert holding(SECRET, formats / "lake" / "send_verdict", formats / "lake") == []


def test_a_secret_of_the_settings_is_in_no_file_of_a_capture_s_lake(settings_file, story):
    assert SECRET in settings_file.read_bytes()
    assert len(files_of(story)) > 100
    assert holding(SECRET, story / "drift_incident", story) == []


def test_a_secret_of_the_settings_is_neither_told_nor_on_the_page(settings_file, commanded):
    done, lake = commanded.done, commanded.lake
    assert SECRET in settings_file.read_bytes()
    assert '"event": "ends"' in done.stderr and "Report: " in done.stdout
    assert b"NOT_JSON" in (lake / "report.html").read_bytes()
    told = {"stderr": done.stderr, "stdout": done.stdout}
    secret = SECRET.decode()
    assert [*(where for where in told if secret in told[where]), *holding(SECRET, lake / "quarantine", lake)] == []

"""Bundles of the samples' incidents, windows, verdicts and findings: replayed alike, and without a name of the lake."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from hindsight.jobs.bundling.bundle_file import BadBundleError, packed, unpacked
from hindsight.jobs.bundling.made_bundle import DoesNotFollowError, made_bundle
from hindsight.jobs.bundling.subject import NothingToBundleError, subject_of
from hindsight.jobs.commands.replay_command import replayed
from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES
from tests.bundles.originals import left, originals
from tests.commands import command

SAMPLES = Path(__file__).parent.parent.parent / "data_samples"
# A row of each table of producers, and how it is picked; ``{...}`` is of the first such row.
PICKED = {
    "broker_availability_window": "client_id = '{client_id}' AND broker_name = '{broker_name}' AND window_start = "
    "TIMESTAMP '{window_start}'",
    "send_verdict": "client_id = '{client_id}' AND msg_id = '{msg_id}' AND attempt = {attempt}",
    "producer_finding": "code = '{code}' AND client_id = '{client_id}' AND \"from\" = TIMESTAMP '{from}'",
}


@pytest.fixture(scope="module")
def asker(sampled):
    opened = LocalAsker(LocalLake(str(sampled), retention_days=7))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def names(asker):
    return originals(asker.lake)


def bundled(asker, settings, what, where=None):
    return made_bundle(asker.lake, settings, subject_of(asker, what, where, None))


def told(*arguments, code=0):
    """What a command prints, with its exit code."""
    done = command(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def replayed_file(path, content):
    path.write_bytes(content)
    found, _ = unpacked(path)
    return replayed(found)


@pytest.mark.parametrize("of_a_group", [1, pytest.param(1_000, marks=pytest.mark.soak)])
def test_incidents_of_every_group_are_derived_again_under_other_names(asker, settings, names, tmp_path, of_a_group):
    asked = "SELECT incident_id, consumer_group FROM drift_incident QUALIFY "
    asked += f"row_number() OVER (PARTITION BY consumer_group ORDER BY incident_id) <= {of_a_group} ORDER BY ALL"
    incidents = records(asker, asked)
    assert len({row["consumer_group"] for row in incidents}) == 6
    versions = {name: asker.lake.version(table) for name, table in TABLES.items()}
    for row in incidents:
        bundle = bundled(asker, settings, row["incident_id"])
        content = packed(bundle)
        verdicts = replayed_file(tmp_path / "bundle.zip", content)
        assert verdicts and all(verdict.is_same for verdict in verdicts), row
        assert left(names, content) == [], row
        assert packed(bundle) == content and len(content) < 200_000
    assert {name: asker.lake.version(table) for name, table in TABLES.items()} == versions


@pytest.mark.parametrize("table", sorted(PICKED))
def test_what_follows_from_sends_is_derived_again_under_other_names(asker, settings, names, tmp_path, table):
    condition = "client_id IS NOT NULL" + (" AND verdict = 'possible'" if table == "send_verdict" else "")
    (row, *_) = records(asker, f"SELECT * FROM {table} WHERE {condition} ORDER BY ALL LIMIT 1")
    content = packed(bundled(asker, settings, table, PICKED[table].format(**row)))
    verdicts = replayed_file(tmp_path / "bundle.zip", content)
    assert verdicts and all(verdict.is_same for verdict in verdicts)
    assert left(names, content) == []


def test_a_strategy_that_hashes_names_takes_its_ring_along(asker, settings):
    """Groups of the samples share by CONSISTENT_HASH too: without the ring the new names would lie elsewhere on it."""
    (row,) = records(asker, "SELECT * FROM group_round WHERE consumer_group = 'g_hash' ORDER BY ALL LIMIT 1")
    where = f"consumer_group = 'g_hash' AND topic = '{row['topic']}' AND round_at = TIMESTAMP '{row['round_at']}'"
    bundle = bundled(asker, settings, "group_round", where)
    assert any(bundle.ring.values())


@pytest.fixture(scope="module")
def content(asker, settings):
    (row,) = records(asker, "SELECT incident_id FROM drift_incident ORDER BY incident_id LIMIT 1")
    return packed(bundled(asker, settings, row["incident_id"]))


def changed(content, **entries):
    """The bundle with other entries; None: without it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename not in entries:
                new.writestr(entry.filename, old.read(entry))
        for name, text in entries.items():
            if text is not None:
                new.writestr(name, text)
    return made.getvalue()


def test_the_commands_write_a_file_and_replay_it(asker, settings_file, tmp_path):
    (row,) = records(asker, "SELECT incident_id FROM drift_incident ORDER BY incident_id LIMIT 1")
    file = tmp_path / "bundle.zip"
    options = ["--lake", asker.lake.root, "--settings", str(settings_file), "--output", str(file)]
    assert "is what the lake holds" in told("bundle", row["incident_id"], *options)
    assert "drift_incident: 1 same, 0 differ" in told("replay", str(file))
    (first, *_) = told("replay", str(file), "--json").splitlines()
    assert json.loads(first)


def test_a_row_that_does_not_follow_is_told(content, tmp_path):
    settings = json.loads(zipfile.ZipFile(io.BytesIO(content)).read("settings.json"))
    timing = settings["timing"]
    timing["opens"] = {code: {"rounds": 50, "age_s": 90_000} for code in timing["opens"]}
    verdicts = replayed_file(tmp_path / "bundle.zip", changed(content, **{"settings.json": json.dumps(settings)}))
    assert any(not verdict.is_same for verdict in verdicts)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"../evil.txt": "x"}, "no part of a bundle"),
        ({"manifest.json": None}, "lacks manifest.json"),
        ({"manifest.json": "{"}, "not JSON"),
        ({"manifest.json": "{}"}, "form None"),
        ({"settings.json": "[]"}, "no JSON object"),
        ({"claims/drift_incident.parquet": "PAR1"}, "cannot be read"),
        ({"inputs/snapshot_capture.parquet": "\0" * (1 << 24)}, "snapshot_capture"),
    ],
)
def test_a_file_that_a_stranger_made_is_refused(content, tmp_path, entries, said):
    file = tmp_path / "bundle.zip"
    file.write_bytes(changed(content, **entries))
    with pytest.raises(BadBundleError, match=said):
        unpacked(file)


def test_a_cut_file_is_refused(content, tmp_path):
    file = tmp_path / "bundle.zip"
    file.write_bytes(content[:-100])
    with pytest.raises(BadBundleError, match="no whole ZIP file"):
        unpacked(file)


def test_nothing_that_is_not_there_is_bundled(asker, settings):
    with pytest.raises(NothingToBundleError, match="no incident 'nobody'"):
        bundled(asker, settings, "nobody")


def test_what_other_settings_would_say_is_not_bundled(asker, settings):
    timing = settings.timing.model_copy(update={"membership_grace_s": 5000.0})
    (row,) = records(asker, "SELECT incident_id FROM drift_incident ORDER BY incident_id LIMIT 1")
    with pytest.raises(DoesNotFollowError, match="do not follow"):
        bundled(asker, settings.model_copy(update={"timing": timing}), row["incident_id"])

"""Free text in a settings file is refused, or compared as it is written: nothing of it is executed or replaced."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.groups.group_walk import WalkSettings, _windows
from hindsight.udfs.limits.door import severities
from tests.default_timing import default_timing
from tests.transforms.test_names_in_sql import HOSTILE

# Every setting that takes any text; X stands for it.
FREE = """
[ingest.client_log_zones]
X = "UTC"
[rounds]
collector_gap_s = { X = 60 }
[[replay.override]]
cluster = X
producer_group = X
client_version = X
[[drift.strategy]]
cluster = X
consumer_group = X
name = X
machine_rooms = [X]
configured_queues = { X = ["broker-a:0"] }
[[drift.client_family]]
cluster = X
consumer_group = X
client_id = X
family = X
strategy = X
[[timing.maintenance]]
cluster = X
consumer_group = X
begin = 2026-01-05T00:00:00Z
end = 2026-01-06T00:00:00Z
[spark.options]
X = X
"""
REFUSED = (
    "[ingest]\nclient_log_zone = X",
    "[ingest]\nmax_line_bytes = X",
    "[ingest.client_log_zones]\nc = X",
    "[replay]\nX = 1",
    "[[replay.override]]\nlatency_fault_enabled = X",
    "[[replay.override]]\nlatency_max_ms = [X]",
    "[[drift.strategy]]\nname = 'CONFIG'\nconfigured_queues = { c = [X] }",
    "[[timing.maintenance]]\nbegin = X\nend = X",
    "[timing.opens]\nORPHAN_QUEUE = { rounds = X, age_s = 0 }",
    "[spark]\ndriver_memory = X",
)


def with_text(form: str, text: str, folder: Path) -> Path:
    own = folder / "own.toml"
    own.write_text(form.replace("X", json.dumps(text, ensure_ascii=False)), encoding="utf-8")
    return own


@pytest.mark.parametrize("text", HOSTILE)
def test_free_text_is_kept_as_it_is_written(text, tmp_path):
    settings = load_settings(with_text(FREE, text, tmp_path))
    (override,), (strategy,) = settings.replay.override, settings.drift.strategy
    (window,), (client,) = settings.timing.maintenance, settings.drift.client_family
    assert {override.cluster, override.producer_group, override.client_version} == {text}
    assert {strategy.cluster, strategy.consumer_group, strategy.name, *strategy.machine_rooms} == {text}
    assert json.loads(strategy.parameters)["machine_rooms"] == [text]
    assert {*client.model_dump().values()} == {text}
    assert {window.cluster, window.consumer_group} == {text}
    for keyed in (settings.ingest.client_log_zones, strategy.configured_queues, settings.spark.options):
        assert list(keyed) == [text]
    assert settings.rounds.collector_gap_s[text] == 60
    assert settings.spark.options[text] == text


@pytest.mark.parametrize("form", REFUSED, ids=lambda form: form.replace("\n", " "))
def test_other_text_is_refused(form, tmp_path):
    for text in HOSTILE:
        with pytest.raises(SettingsError, match="settings file"):
            load_settings(with_text(form, text, tmp_path))
    for text in filter(None, HOSTILE):
        for overrides in ({text: "flag"}, {"ILLEGAL_TOPIC": text}):
            with pytest.raises(ValueError, match="no rule"):
                severities(overrides)


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_what_settings_say_of_a_strategy_is_compared_as_text(text):
    queues, members = [("broker-a", 0), ("broker-a", 1)], [text, f"{text}x"]
    rules = [MemberRule(member, "CONFIG", "P533") for member in members]
    given = json.dumps({"configured_queues": {text: ["broker-a:1"]}})
    of_client = expected_allocation("CLUSTERING", "CONFIG", "P533", "T", queues, members, rules, parameters=given)
    assert of_client.owners == (
        (None, text) if "[" not in text[:1] else (None, None)
    )  # there it is a set of characters
    unknown = expected_allocation("CLUSTERING", text, "P533", "T", queues, members, rules)
    assert unknown.refusal == f"{text} has no kernel"


@pytest.mark.parametrize("text", [text for text in HOSTILE if text and "[" not in text])
def test_a_stretch_of_maintenance_is_that_of_the_group_of_that_name(text):
    entry = {"cluster": text, "consumer_group": text}
    day = {"begin": datetime(2026, 1, 5, tzinfo=UTC), "end": datetime(2026, 1, 6, tzinfo=UTC)}
    settings = WalkSettings(default_timing(), 7, [entry | day])
    assert len(_windows((text, "", text), settings)) == 1
    assert _windows((text, "", f"{text}x"), settings) == _windows(("49", "", text), settings) == []

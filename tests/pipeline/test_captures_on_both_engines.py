"""Each capture once on both engines: the tables are the same to the row."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from tests.conftest import CAPTURES
from tests.pipeline.lake_contents import contents
from tests.pipeline.sample_files import SETTINGS, write_samples
from tests.pipeline.undisturbed_runs import on_spark


def of_story(story: Path, landing: Path) -> None:
    shutil.copytree(story.parent / "landing", landing)


def of_scope(story: Path, landing: Path) -> None:
    shutil.copytree(CAPTURES / "scope", landing, ignore=shutil.ignore_patterns("verdicts.jsonl"))


def of_every_format(story: Path, landing: Path) -> None:
    landing.mkdir()
    write_samples(landing)


@pytest.mark.soak
@pytest.mark.parametrize("land", [of_story, of_scope, of_every_format])
def test_the_tables_are_the_same(spark, settings_file, pipeline, story, tmp_path, land):
    land(story, tmp_path / "landing")
    own = tmp_path / "settings.toml"
    own.write_text(settings_file.read_text() + SETTINGS)
    settings = load_settings(own)
    pipeline(tmp_path / "landing", tmp_path / "local", settings)
    on_spark(spark, settings)(tmp_path / "landing", tmp_path / "spark")
    local, other = contents(tmp_path / "local"), contents(tmp_path / "spark")
    assert [name for name in local if local[name] != other[name]] == []
    assert sum(map(len, local.values())) > 1_000

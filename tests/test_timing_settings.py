"""The timing section: every drift code has its line, and one that a file names leaves the others."""

from __future__ import annotations

from hindsight.conf.settings_file import load_settings
from hindsight.schemas.drift import DRIFT_CODES, ROOT_CAUSES
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.drift.drift_rules import RULES
from hindsight.udfs.drift.root_cause import CAUSES, UNEXPLAINED
from tests.default_timing import OPENS


def test_every_code_has_its_line():
    settings = load_settings()
    assert set(settings.timing.opens) == set(RULES)


def test_settings_that_name_one_code_leave_the_others_as_they_are(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[timing]\nclose_s = 10\n[timing.opens]\nORPHAN_QUEUE = { rounds = 5, age_s = 1 }\n")
    timing = Timing.of(load_settings(own).timing.model_dump() | {"progress_valid_s": 1})
    assert (timing.close_s, timing.opens["ORPHAN_QUEUE"]) == (10, (5, 1))
    assert timing.opens["WRONG_OWNER"] == OPENS["WRONG_OWNER"] == (3, 60)


def test_the_tables_know_every_code_and_cause():
    assert set(DRIFT_CODES) == set(RULES)
    assert list(ROOT_CAUSES) == [*CAUSES, UNEXPLAINED]

"""The timing section: every drift code has its line, and one that a file names leaves the others."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from hindsight.conf.settings import EventKind, ProducerCode
from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.schemas import ALLOCATION_DRIFT, INCIDENT_EVENT, PRODUCER_FINDING
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.drift.drift_rules import RULES
from hindsight.udfs.drift.root_cause import CAUSES, UNEXPLAINED
from hindsight.udfs.servers.server_fold import SERVER_CODES
from tests.default_timing import OPENS


def test_every_code_has_its_line():
    settings = load_settings()
    assert set(settings.timing.opens) == {*RULES, *SERVER_CODES}


def test_settings_that_name_one_code_leave_the_others_as_they_are(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[timing]\nclose_s = 10\n[timing.opens]\nORPHAN_QUEUE = { rounds = 5, age_s = 1 }\n")
    timing = Timing.of(load_settings(own).timing.model_dump() | {"progress_valid_s": 1})
    assert (timing.close_s, timing.opens["ORPHAN_QUEUE"]) == (10, (5, 1))
    assert timing.opens["WRONG_OWNER"] == OPENS["WRONG_OWNER"] == (3, 60)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[timing.opens]\nORPHAN_QUEUES = { rounds = 1, age_s = 0 }", "did you mean 'ORPHAN_QUEUE'?"),
        ('[timing.opens]\n"" = { rounds = 1, age_s = 0 }', "unknown key 'timing.opens.'"),
        ('[events]\nunsent = ["opend"]', "'opened'"),
        ('[events]\nproducer_codes = ["FLEET_SLOWER"]', "'FLEET_SLOW'"),
        ("[rounds.collector_gap_s]\nmqadmin = -1", "greater than 0"),
        ("[rounds.collector_gap_s]\nmine = 0", "greater than 0"),
        ("[ingest.rules]\nNEGATIVE_LATENCY = 3", "valid string"),
    ],
)
def test_what_is_mistyped_in_any_table_is_refused(tmp_path, text, told):
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(told)):
        load_settings(own)


def test_settings_know_every_kind_of_event_and_code_of_a_producer():
    assert get_args(EventKind) == INCIDENT_EVENT.known("what")
    assert set(get_args(ProducerCode)) == set(PRODUCER_FINDING.known("code"))


def test_the_tables_know_every_code_and_cause():
    assert set(ALLOCATION_DRIFT.known("code")) == {*RULES, *SERVER_CODES}
    assert list(ALLOCATION_DRIFT.known("root_cause")) == [*SERVER_CODES, *CAUSES, UNEXPLAINED]

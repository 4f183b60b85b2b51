"""Producers that keep their own family's rule, simulated: what they are is never ruled out, whatever is lost or cut."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hindsight.udfs.release_profiles import PROFILES
from tests.folded import OPTIONS, comparable, cut_at, folded, rows_of
from tests.random_examples import SOAKING
from tests.simulated_producer import DAY, recorded

pytestmark = pytest.mark.random  # in the soak all of them, longer

FAMILIES = ("P40", "P43", "P48", "P498", "P511", "P514", "P520", "P531")
_HOUR = 3_600_000
SOAK = pytest.mark.soak
# How long a producer sends: what minutes more would say, they say again.
SECONDS = 150 if SOAKING else 75
# Which producer: the others repeat it.
SEEDS = [0, pytest.param(1, marks=SOAK)]


def what_is(rows, family, *, enabled=True, detector=False):
    """The rows of producer_release that tell of the real setup."""
    return [
        row
        for row in rows
        if family in row["families"].split("|")
        and row["latency_fault_enabled"] == enabled
        and (not enabled or row["detector_enabled"] == detector)
    ]


@pytest.mark.parametrize(
    ("lost", "seed"), [(0.05, 1), *(pytest.param(*one, marks=SOAK) for one in ((0.05, 0), (0.0, 0), (0.0, 1)))]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_producer_is_remains(family, lost, seed):
    attempts = recorded(PROFILES[family], seed, lost=lost, seconds=SECONDS, threads=1 + seed * 2, brokers=2 + seed)
    (own,) = what_is(folded(rows_of(attempts, []))["producer_release"].to_pylist(), family)
    assert own["attempts"] > 100
    assert own["state"] == "remains", own


@pytest.mark.parametrize("family", ["P514", "P533"])
def test_a_detector_that_runs_unseen_rules_nothing_true_out(family):
    attempts = recorded(PROFILES[family], 3, detector=True, lost=0.05, seconds=SECONDS)
    rows = folded(rows_of(attempts, []))["producer_release"].to_pylist()
    assert [row["state"] for row in what_is(rows, family, detector=True)] == ["remains"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_producer_without_the_switch_is_inferred(seed):
    attempts = recorded(PROFILES["P43"], seed, enabled=False, lost=0.02, seconds=SECONDS)
    made = folded(rows_of(attempts, []))
    (replay,) = made["producer_replay"].to_pylist()
    assert (replay["verdict"], replay["certainty"], replay["latency_fault_enabled"]) == ("off", "inferred", False)
    assert {row["state"] for row in what_is(made["producer_release"].to_pylist(), "P43", enabled=False)} == {"remains"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("family", "factor"),
    [
        *(("P43", 0.1), ("P498", 5), ("P520", 0.1)),
        *(pytest.param(*one, marks=SOAK) for one in (("P43", 5), ("P498", 0.1), ("P520", 5))),
    ],
)
def test_nothing_is_inferred_of_a_producer_with_a_ladder_that_nobody_named(family, factor, seed):
    profile = PROFILES[family]
    own = replace(profile, not_available_ms=tuple(int(ms * factor) for ms in profile.not_available_ms))
    (replay,) = folded(rows_of(recorded(own, seed, seconds=2 * SECONDS), []))["producer_replay"].to_pylist()
    assert (replay["verdict"], replay["certainty"]) == ("unknown", "certain")


def test_a_ladder_that_the_settings_name_is_a_candidate():
    profile = PROFILES["P498"]
    own = replace(profile, not_available_ms=tuple(ms // 10 for ms in profile.not_available_ms))
    ladder = {"name": "short", "latency_max_ms": own.latency_max_ms, "not_available_ms": own.not_available_ms}
    made = folded(rows_of(recorded(own, 3, seconds=SECONDS), []), OPTIONS._replace(ladder=(ladder,)))
    rows = made["producer_release"].to_pylist()
    assert {row["ladder"] for row in rows} == {"default", "short", "none"}
    (own_row,) = [row for row in what_is(rows, "P498") if row["ladder"] == "short"]
    assert own_row["state"] == "remains"
    best = max(row["log_likelihood"] for row in rows)
    assert own_row["log_likelihood"] == best == 0


def test_rows_are_the_same_wherever_the_date_is_cut_and_in_whatever_order_they_come():
    attempts = recorded(PROFILES["P511"], 5, seconds=SECONDS)
    dice = random.Random(7)
    whole = folded(rows_of(attempts, []))
    shuffled = rows_of(dice.sample(attempts, len(attempts)), [])
    cut = folded(shuffled, cut=cut_at([_HOUR + dice.randrange(SECONDS * 1000) for _ in range(9)]))
    assert whole["producer_release"].num_rows > 5
    for table in ("producer_release", "producer_replay", "broker_availability_window", "send_verdict"):
        assert comparable(cut[table]) == comparable(whole[table]), table


def start_row(version, **columns):
    return {
        "cluster": "c",
        "event_date": DAY.date(),
        "producer_group": "g",
        "client_id": "p",
        "started_at": DAY,
        "client_version": version,
        "latency_fault_enabled": True,
        "detector_enabled": False,
        "source": "producer_hook",
        "source_file": "f",
        "source_line": 0,
        **columns,
    }


def differences(made):
    return [row for row in made["producer_finding"].to_pylist() if row["code"] == "RELEASE_DIFFERS"]


@pytest.mark.parametrize(("family", "version"), [("P43", "4.7.1"), ("P498", "4.9.8"), ("P533", "5.3.3")])
def test_a_true_record_is_not_contradicted(family, version):
    made = folded(rows_of(recorded(PROFILES[family], 1, lost=0.03, seconds=SECONDS), [start_row(version)]))
    assert differences(made) == []
    assert {row["state"] for row in made["producer_release"].to_pylist() if row["recorded"]} <= {"remains"}


@pytest.mark.parametrize(
    ("family", "seed", "version", "told"),
    [
        ("P43", 4, "5.3.3", "its retries went to brokers that it must not take"),
        ("P533", 1, "4.7.1", "it chose brokers that it must have avoided"),
    ],
)
def test_a_record_that_choices_rule_out_is_a_finding(family, seed, version, told):
    made = folded(rows_of(recorded(PROFILES[family], seed, seconds=600), [start_row(version)]))
    (finding,) = differences(made)
    assert f"p of g is recorded as {version} with the switch on, but {told}" in finding["sentence"]
    assert finding["severity"] == "MEDIUM"
    rows = made["producer_release"].to_pylist()
    assert {row["state"] for row in rows if row["recorded"]} == {"ruled_out"}
    assert [row["state"] for row in what_is(rows, family) if row["ladder"] == "default"] == ["remains"]


def test_a_switch_that_is_recorded_as_on_and_is_off_is_a_finding():
    attempts = recorded(PROFILES["P43"], 2, enabled=False, seconds=SECONDS)
    (finding,) = differences(folded(rows_of(attempts, [start_row("4.7.1")])))
    assert "with the switch off" in finding["sentence"].partition("what remains")[2]


def test_retries_after_system_busy_tell_late_releases_from_early_ones():
    refused = [*recorded(PROFILES["P533"], 1, seconds=SECONDS)]
    for row in refused:
        if row["response_code"] is not None:
            row["response_code"] = 2  # SYSTEM_BUSY: the simulated producer tries again
    rows = folded(rows_of(refused, []))["producer_release"].to_pylist()
    off = {row["families"]: row["ruled_out_by"] for row in rows if not row["latency_fault_enabled"]}
    on = {row["families"]: row["ruled_out_by"] for row in rows if row["latency_fault_enabled"]}
    assert on["P531|P533"] is None
    assert on["P48|P49a"] is not None
    assert off["P40|P43|P48|P49a"] is not None


def test_a_quiet_producer_tells_nothing():
    attempts = [
        row for row in recorded(PROFILES["P43"], 1, seconds=30) if row["latency_ms"] < 100 and not row["exception"]
    ]
    made = folded(rows_of(attempts, []))
    assert {row["reason"] for row in made["producer_release"].to_pylist()} == {
        "no attempt was slow or failed: until then every release takes every broker in turn"
    }
    assert {row["log_likelihood"] for row in made["producer_release"].to_pylist()} == {None}

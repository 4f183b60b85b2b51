"""The producer fold on captured producers: their own dumps of the fault table, and what they chose. No Spark."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from tests.captures.test_choices import EXPLAINED
from tests.captures.test_fault_tables import SYNC_AND_ONEWAY, records
from tests.folded import folded, rows_of
from tests.recorded_producer import Recorded
from tests.recorded_rows import captured

NAMES = (*SYNC_AND_ONEWAY, "4.7.1_latoff", "5.3.3_detect", "4.9.8_async", "5.3.3_async")


@pytest.fixture(scope="module")
def folds():
    return {name: folded(rows_of(*captured(name))) for name in NAMES}


def ms(instant):
    return instant and round(instant.timestamp() * 1000)


def agreement(name, fold):
    """Share of the dumped items, one dump every 200 ms, whose availability the windows tell."""
    windows = fold["broker_availability_window"].filter(pc.field("state") == "unavailable").to_pylist()
    held = [(row["broker_name"], ms(row["window_start"]), ms(row["window_end"])) for row in windows]
    agrees = [
        (item["startTimestamp"] > dump["ts"])
        == any(broker == item["name"] and start <= dump["ts"] < end for broker, start, end in held)
        for dump in records(f"fault_{name}")
        for item in dump["items"]
    ]
    return sum(agrees) / len(agrees)


@pytest.mark.parametrize("name", SYNC_AND_ONEWAY)
def test_windows_tell_what_the_client_held(folds, name):
    assert agreement(name, folds[name]) >= 0.999


def test_a_detector_removes_items_unseen(folds):
    assert agreement("5.3.3_detect", folds["5.3.3_detect"]) >= 0.99


@pytest.mark.parametrize("name", ["4.9.8_async", "5.3.3_async"])
def test_a_hook_does_not_see_the_clients_own_async_retries(folds, name):
    assert 0.80 <= agreement(name, folds[name]) < 1
    assert {*folds[name]["broker_availability_window"]["certainty"].to_pylist()} == {"partial"}


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_are_those_of_the_choices_judged_one_by_one(folds, name):
    expected = {
        (a["msgId"], a["beginMs"], a["broker"]): (j.verdict, j.rule, j.reason, sorted(j.admissible))
        for a, j in Recorded.captured(name).verdicts()
    }
    ours = {
        (row["msg_id"], ms(row["begin_at"]), row["broker_name"]): tuple(
            row[column] for column in ("verdict", "rule", "reason", "admissible")
        )
        for row in folds[name]["send_verdict"].to_pylist()
    }
    assert {key: expected[key] for key in ours} == ours
    assert {expected[key][0] for key in expected.keys() - ours.keys()} <= {"consistent"}
    impossible = [(begin, broker) for (_, begin, broker), told in ours.items() if told[0] == "impossible"]
    assert sorted(impossible) == EXPLAINED.get(name, [])


def test_a_switched_off_producer_holds_nothing(folds):
    assert not folds["4.7.1_latoff"]["broker_availability_window"].num_rows
    assert not folds["4.7.1_latoff"]["fault_item_state"].num_rows

"""Rows of real rounds in, rows of the drift tables out: what the walk makes of rows beside the rules themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hindsight.udfs.consumer.group_rows import group_round
from hindsight.udfs.groups.group_walk import DRIFT, INCIDENT, STATE, WalkSettings
from tests.capture_rounds import CaptureRounds, walk
from tests.conftest import CAPTURES
from tests.default_timing import default_timing

SETTINGS = WalkSettings(default_timing(), 7)


@pytest.fixture(scope="module")
def g_mix():
    return list(CaptureRounds(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz").of_group("g_mix"))


def close(row, day, *, is_last):
    return {**row, "event_date": day, "is_last": is_last}


def rows(made, kind):
    return [row for k, row in made if k == kind]


def test_a_strategy_of_the_applications_own_is_not_known(g_mix):
    row = g_mix[0]["round"]()
    own = [{**rule, "strategy": "class:com.shop.Mine"} for rule in row["member_rules"]]
    assert group_round({**row, "member_rules": own}).strategies == {}
    assert len(group_round(row).strategies) == 3


def test_a_group_that_the_broker_does_not_know_has_no_member(g_mix):
    row = g_mix[0]["round"]()
    listing = {**row["listings"][0], "error": "CODE: 206", "error_code": 206}
    nobody = [{"broker_name": None, "members": []}]
    gone = group_round(
        {**row, "listings": [listing], "broker_views": nobody, "members": [], "reads": [], "connections": None}
    )
    assert (gone.listed, gone.members, gone.was_read, gone.complete) == (True, (), True, True)
    unlisted = {**listing, "told": False, "error_code": 1}
    failed = group_round({**row, "listings": [unlisted], "broker_views": [], "members": [], "reads": []})
    assert (failed.listed, failed.was_read) == (False, False)


def test_an_incident_that_lasts_is_shown_in_the_last_date_only_and_handed_on_by_the_others(g_mix):
    *rounds, end = g_mix
    first, second = end["event_date"], end["event_date"] + timedelta(days=1)
    made = list(walk([*rounds, close(end, first, is_last=False), close(end, second, is_last=True)], SETTINGS))
    assert [(row["event_date"], row["root_cause"], row["settled"]) for row in rows(made, INCIDENT)] == [
        (second, "MIXED_STRATEGY", False),
        (second, "UNREACHABLE_CLIENT", False),
    ]
    before, after = rows(made, STATE)
    assert before["state"] == after["state"] and before["open_incidents"] == 2


def test_the_state_of_a_date_opens_the_next(g_mix):
    *rounds, end = g_mix
    whole = list(walk(g_mix, SETTINGS))
    half = list(walk([*rounds[:30], close(end, end["event_date"], is_last=False)], SETTINGS))
    (state,) = rows(half, STATE)
    rest = list(walk([{**end, "row_kind": "state", **state}, *rounds[30:], end], SETTINGS))
    assert rows(half, DRIFT) + rows(rest, DRIFT) == rows(whole, DRIFT)
    assert rows(rest, INCIDENT) == rows(whole, INCIDENT)
    assert rows(rest, STATE) == rows(whole, STATE)


def test_a_group_that_nobody_reads_any_more_is_forgotten_after_some_days(g_mix):
    *rounds, end = g_mix
    days = [end["event_date"] + timedelta(days=n) for n in range(9)]
    made = list(walk([*rounds, *(close(end, day, is_last=False) for day in days)], SETTINGS))
    assert [row["event_date"] for row in rows(made, STATE)] == days[:8]
    assert {(row["event_date"], row["settled"]) for row in rows(made, INCIDENT)} == {(days[8], True)}
    assert {row["state"] for row in rows(made, INCIDENT)} == {"OPEN", "CLEARING"}


def test_groups_one_after_another_do_not_mix(g_mix):
    other = [{**row, "consumer_group": "other"} for row in g_mix]
    both = list(walk([*g_mix, *other], SETTINGS))
    alone = list(walk(g_mix, SETTINGS))
    assert len(both) == 2 * len(alone)
    ids = {row["incident_id"] for row in rows(both, INCIDENT)}
    assert len(ids) == 4

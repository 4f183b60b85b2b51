"""What must hold of ``dated_cases``, whatever computes them: tests for modules with a fixture ``rebuilt``.

That gives, first, the rows of table and case as JSON; a null stands for nothing.
"""

from __future__ import annotations

import json

import pytest

from tests.dated_cases import CASES


@pytest.fixture
def rows(rebuilt):
    def of(name, case):
        return [json.loads(row) for row in rebuilt[0].get((name, case), [])]

    return of


@pytest.fixture
def last_verdict(rows):
    def of(case):
        """Verdict on the case's last choice in doubt, with its admissible brokers and the reason."""
        row = max(rows("send_verdict", case), key=lambda row: row["begin_at"])
        return row["verdict"], row.get("admissible"), row.get("reason")

    return of


def test_a_broker_that_only_a_later_date_shows_is_none_to_choose(last_verdict):
    assert last_verdict("new broker") == ("consistent", ["a"], None)


def test_a_broker_that_was_surely_forgotten_the_day_before_is_none_to_choose(last_verdict):
    assert last_verdict("surely forgotten") == ("consistent", ["a"], None)


@pytest.mark.parametrize("case", ["anew 4.9.8", "anew 5.1.4", "anew 5.3.3"])
def test_a_window_that_ends_at_midnight_does_not_go_on_in_the_one_that_begins_then(rows, case):
    made = [row for row in rows("broker_availability_window", case) if row["state"] == "unavailable"]
    shown = sorted((row["window_start"], row["end_reason"], row["continues_previous"]) for row in made)
    assert [(start[8:19], going_on) for start, _, going_on in shown[1:]] == [("06T00:00:00", False)]
    assert shown[0][1:] == ("expired", False)


def test_an_order_topic_conf_says_which_brokers_are_listed(last_verdict):
    assert last_verdict("not ordered") == last_verdict("ordered by nothing") == ("impossible", ["b"], None)
    assert last_verdict("ordered") == ("consistent", ["a"], None)
    assert last_verdict("elsewhere") == ("impossible", ["c"], None)
    assert last_verdict("unreadable order") == ("consistent", ["a"], None)


def test_a_choice_that_only_an_earlier_route_admits_names_it(last_verdict):
    assert last_verdict("an earlier route") == ("possible", ["a", "b"], "stale_route")


@pytest.mark.parametrize("case", ["told by the attempt before", "told the day before"])
def test_a_retry_without_last_broker_has_that_of_the_attempt_before_it(rows, case):
    (row,) = (row for row in rows("send_verdict", case) if row["attempt"] == 1)
    assert (row["verdict"], row["last_broker_name"]) == ("consistent", "b")


@pytest.mark.parametrize("case", ["not told", "told twice", "not told, off"])
def test_a_retry_whose_last_broker_nothing_tells_is_not_judged(last_verdict, case):
    reason = "last_broker_name of a retry is not recorded, and no one attempt before it tells it"
    assert last_verdict(case) == ("unknown", None, reason)


def test_a_release_that_does_not_look_at_the_last_broker_needs_none(last_verdict):
    assert last_verdict("not looked at") == ("impossible", ["b", "c"], None)


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        ("another release", [("P498", "replayed"), ("P533", "replayed")]),
        ("older release", [("P533", "replayed"), ("P43", "replayed")]),
        ("unknown release", [("P498", "replayed"), (None, "unknown")]),
        ("same family", [("P49c", "replayed"), ("P49c", "replayed")]),
        ("switched off", [("P498", "replayed"), ("P498", "off")]),
        ("nothing more said", [("P498", "replayed"), ("P498", "replayed")]),
        ("changed on a date", [("P498", "replayed"), ("P533", "replayed")]),
    ],
)
def test_each_date_is_replayed_under_what_lines_last_said(rows, case, rules):
    found = sorted((r["event_date"], r.get("profile"), r["verdict"]) for r in rows("producer_replay", case))
    assert [(profile, verdict) for day, profile, verdict in found if day <= "2026-01-06"] == rules


def test_what_another_release_held_is_gone(rows):
    def over_midnight(case):
        return [r for r in rows("broker_availability_window", case) if r["continues_previous"]]

    assert over_midnight("same family") and over_midnight("nothing more said")
    assert not over_midnight("another release") and not over_midnight("switched off")


def test_what_an_order_topic_conf_lists_is_all_that_there_is_to_isolate(rows):
    told = {case: [r for r in rows("producer_finding", case) if r["code"] == "ALL_ISOLATED"] for case in CASES}
    assert [row["certainty"] for row in told["ordered"]] == ["certain"]
    assert not told["not ordered"] and not told["elsewhere"]


def test_without_a_recorded_switch_no_choice_is_impossible(last_verdict, rows):
    assert last_verdict("switch False") == ("impossible", ["b"], None)
    assert [row["code"] for row in rows("producer_finding", "switch False")] == ["IMPOSSIBLE_CHOICE"]
    reason = "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"
    assert last_verdict("switch None") == ("unknown", None, reason)
    assert [row.get("rule") for row in rows("send_verdict", "switch None")] == [None]
    assert rows("producer_finding", "switch None") == []


def test_of_a_process_without_a_start_what_lines_say_last_counts(rows):
    told = sorted((r["event_date"], r["client_version"]) for r in rows("producer_replay", "same family"))
    assert [version for _, version in told] == ["4.9.4", "4.9.5"]

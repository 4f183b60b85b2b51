"""Whether each choice of the captured producers was admissible, judged from what a hook sees. No Spark."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.recorded_producer import Recorded


def shares(name, version=None):
    verdicts = list(Recorded(name, version).verdicts())
    counts = Counter(j.verdict for _, j in verdicts)
    return {verdict: count / len(verdicts) for verdict, count in counts.items()}, verdicts


SWITCHED_ON = (
    "4.7.1_laton",
    "4.7.1_short",
    "4.9.8_short",
    "5.3.3_laton",
    "5.3.3_detect",
    "4.7.1_oneway",
    "5.3.3_oneway",
)


# 241.9 s into the run both threads of 4.7.1_short chose broker-a, 8 s before its window ended. The client's own lines,
# which no hook sees, tell why: the send to broker-b that ended at 238.622 s took the client 549 ms (6 s on its ladder);
# its hook began to measure 110 ms later and saw 439 ms (3 s). So at 241.732 s the client still held all three brokers,
# its fallback picked broker-a, which its stale route lacked, and forgot it; the dumped table lacks it from then on.
EXPLAINED = {"4.7.1_short": [(1795252931261, "broker-a"), (1795252931276, "broker-a")]}


@pytest.mark.parametrize("name", SWITCHED_ON)
def test_no_choice_of_a_real_client_is_impossible_but_two_that_are_explained(name):
    share, verdicts = shares(name)
    impossible = [(a["beginMs"], a["broker"]) for a, j in verdicts if j.verdict == "impossible"]
    assert impossible == EXPLAINED.get(name, [])
    assert share["consistent"] >= 0.98
    assert share.get("impossible", 0) <= 0.001


def test_stale_routes_explain_what_the_detecting_producer_chose():
    _, verdicts = shares("5.3.3_detect")
    reasons = Counter(j.reason for _, j in verdicts if j.verdict == "possible")
    assert 40 <= reasons["stale_route"] <= 50
    assert sum(reasons.values()) <= 50


@pytest.mark.parametrize(("name", "version"), [("4.7.1_short", "5.3.3"), ("4.9.8_short", "5.3.3")])
def test_a_wrong_profile_is_exposed(name, version):
    share, _ = shares(name, version)
    assert share["impossible"] > 0.03


@pytest.mark.parametrize(("name", "version"), [("4.7.1_short", "4.9.8"), ("5.3.3_laton", "5.2.0")])
def test_what_this_capture_cannot_tell_apart_is_not_claimed(name, version):
    """These families differ only on retries, or in what no producer here met: neither profile is refuted."""
    share, _ = shares(name, version)
    assert share.get("impossible", 0) == shares(name)[0].get("impossible", 0)


def test_a_producer_with_the_switch_off_is_judged_by_round_robin():
    _, verdicts = shares("4.7.1_latoff")
    assert {(j.verdict, j.rule) for _, j in verdicts} == {("consistent", "round_robin")}

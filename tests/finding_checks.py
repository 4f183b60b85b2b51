"""What must be found of ``finding_cases``, whatever computes it: tests for modules with a fixture ``made``.

That gives rows of producer_finding and of fleet_minute, as objects, with instants without zone.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from tests.finding_cases import RANDOM_CASES, TODAY, random_windows


@pytest.fixture(scope="module")
def findings(made):
    def of(case, code):
        """(client, broker, from, to, certainty) of a case's findings of one code, clock times of the 5th."""
        rows = [row for row in made[0] if row.cluster == case and row.code == code]
        return [
            (r.client_id, r.broker_name, clock(r["from"]), clock(r["to"]), r.certainty)
            for r in sorted(rows, key=lambda r: (r.event_date, r["from"]))
        ]

    return of


@pytest.fixture(scope="module")
def sentence(made):
    def of(case, code):
        (row,) = (row for row in made[0] if row.cluster == case and row.code == code)
        return row.sentence

    return of


def clock(instant):
    return instant and instant.strftime("%H:%M:%S" if instant.date() == TODAY else "%dth %H:%M:%S")


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("long, before 5.1.4", [("p", "a", "10:00:00", "10:01:00", "certain")]),
        ("long, before 5.1.4, just under", []),
        ("long, since 5.1.4", [("p", "a", "10:00:00", "10:00:10", "certain")]),
        ("long, since 5.1.4, just under", []),
        ("long, detector", [("p", "a", "10:00:00", "10:00:10", "possible")]),
        ("long, only before midnight", [("p", "a", "23:58:00", None, "certain")]),
        ("long, only after midnight", [("p", "a", "23:59:30", "06th 00:00:30", "certain")]),
        ("long, record ends before", [("p", "a", "10:00:00", "10:10:00", "possible")]),
        ("long, record ends after", [("p", "a", "10:00:00", "10:10:00", "certain")]),
        ("long, unreachable in 5.1.4", [("p", "a", "10:00:00", None, "certain")]),
        ("long, unreachable later", []),
    ],
)
def test_long_isolation(findings, case, told):
    assert findings(case, "LONG_ISOLATION") == told


def test_what_lasts_over_midnight_is_told_by_the_date_on_which_it_became_long(made):
    dates = {r.cluster: r.event_date for r in made[0] if r.cluster.startswith("long, only")}
    assert dates == {
        "long, only before midnight": TODAY,
        "long, only after midnight": TODAY + timedelta(days=1),
    }


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("all", [("p", None, "10:00:20", "10:00:30", "possible")]),
        ("all, one after the other", []),
        ("all, by the route", [("p", None, "10:00:20", "10:00:30", "certain")]),
        ("all, but for one in the route", []),
        ("all, by the order", [("p", None, "10:00:20", "10:00:30", "certain")]),
        ("all, but for one in the order", []),
        ("all, but for one that others use", []),
    ],
)
def test_all_isolated(made, findings, case, told):
    assert findings(case, "ALL_ISOLATED") == told
    named = {row.code: row.broker_names for row in made[0] if row.cluster == case and row.broker_names is not None}
    assert {code: list(brokers) for code, brokers in named.items()} == ({"ALL_ISOLATED": ["a", "b"]} if told else {})


@pytest.mark.parametrize("seed", range(RANDOM_CASES))
def test_all_isolated_is_where_every_broker_is_held_whatever_the_windows(findings, seed):
    windows = list(random_windows(seed))
    held = [{b for b, start, end in windows if start <= second < end} == set("abc") for second in range(60)]
    edges = [second for second, (before, now) in enumerate(pairwise([False, *held])) if before != now]
    expected = [(f"10:00:{start:02}", f"10:00:{end:02}") for start, end in zip(edges[::2], edges[1::2], strict=True)]
    assert [(start, end) for _, _, start, end, _ in findings(f"random {seed}", "ALL_ISOLATED")] == expected


@pytest.mark.parametrize(
    ("case", "certainty"),
    [
        ("over", "certain"),
        ("over, 11 percent", None),
        ("over, the one sends too little", None),
        ("over, one more is unknown", "possible"),
        ("over, others are off", "certain"),
        ("over, of another too little is known", "possible"),
        ("slow", None),
        ("nothing isolated", None),
    ],
)
def test_over_isolation(findings, case, certainty):
    told = [("p0", "a", "10:00:00", "10:01:00", certainty)] if certainty else []
    assert findings(case, "OVER_ISOLATION") == told


@pytest.mark.parametrize(
    ("case", "certainty"),
    [
        ("slow", "certain"),
        ("slow, 40 percent", None),
        ("slow, one more is unknown", "possible"),
        ("slow, others are off", "certain"),
        ("over", None),
        ("nothing isolated", None),
        ("a fleet of one", None),
        ("a fleet of one that sends too little beside", None),
        ("a fleet of two", "certain"),
    ],
)
def test_fleet_slow(findings, case, certainty):
    told = [(None, "a", "10:00:00", "10:01:00", certainty)] if certainty else []
    assert findings(case, "FLEET_SLOW") == told


def test_minutes_on_end_are_one_finding(findings):
    """One isolates a in 10:00 and 10:01, the other in 10:01 and 10:02: it ends at 10:03:00, outside its window."""
    assert findings("three minutes", "FLEET_SLOW") == [(None, "a", "10:00:00", "10:03:00", "certain")]


def test_a_fleet_minute_tells_who_counts(made):
    (row,) = (r for r in made[1] if r.cluster == "slow, one more is unknown" and r.broker_name == "a")
    counts = (row.active, row.isolating, row.isolating_at_least, row.isolating_at_most, row.active_unknown)
    assert (counts, row.active_off, row.attempts) == ((10, 5, 5, 6, 1), 0, 0)
    (row,) = (r for r in made[1] if r.cluster == "slow, others are off" and r.broker_name == "b")
    assert (row.active, row.isolating, row.isolating_at_most, row.active_off, row.attempts) == (10, 0, 0, 5, 450)
    (row,) = (
        r for r in made[1] if r.cluster == "slow, of two too little is known" and r.broker_name == "a" and r.isolating
    )
    assert (row.active, row.isolating, row.isolating_at_least, row.isolating_at_most) == (10, 10, 8, 10)
    (row,) = (r for r in made[1] if r.cluster == "switch not recorded")
    assert (row.active, row.active_unknown, row.active_off) == (0, 1, 0)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("not returning", [("p", "a", "10:00:00", "10:01:00", "certain")]),
        ("not returning, 4 of 50", [("p", "a", "10:00:00", "10:01:00", "certain")]),
        ("not returning, 5 of 50", []),
        ("not returning, 149 sends", []),
        ("not returning, later", [("p", "a", "10:00:00", "10:02:29", "certain")]),
        ("not returning, too late", []),
        ("not returning, record too short", []),
        ("not returning, held again", []),
        ("not returning, nobody served", [("p", "a", "10:00:00", "10:01:00", "possible")]),
        ("not returning, keeps its list", [("p", "a", "10:00:00", "10:01:00", "certain")]),
        ("not returning, queues chosen by others", []),
        ("not returning, but for queues chosen by others", [("p", "a", "10:00:00", "10:01:00", "certain")]),
    ],
)
def test_not_returning(findings, case, told):
    assert findings(case, "NOT_RETURNING") == told


def test_not_returning_tells_releases_that_rewrite_their_queue_list_from_others(made):
    kinds = {r.cluster: r.kind for r in made[0] if r.code == "NOT_RETURNING"}
    assert kinds["not returning"] == "queue_list_rewritten"
    assert kinds["not returning, keeps its list"] == "not_chosen"


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("off", [("p", "a", "10:00:00", "10:05:00", "certain")]),
        ("off, one in a hundred", []),
        ("off, 549 ms", []),
        ("off, four minutes", []),
        ("off, a good minute between", []),
        ("off, not recorded", []),
        ("off, switched on", []),
        ("off, release unknown", [("p", "a", "10:00:00", "10:05:00", "certain")]),
        ("off, ONEWAY", []),
    ],
)
def test_fault_off_slow(findings, case, told):
    assert findings(case, "FAULT_OFF_SLOW") == told


def test_each_finding_is_one_plain_sentence(sentence):
    assert [
        sentence("long, since 5.1.4", "LONG_ISOLATION"),
        sentence("long, record ends before", "LONG_ISOLATION"),
        sentence("long, only before midnight", "LONG_ISOLATION"),
        sentence("long, only after midnight", "LONG_ISOLATION"),
        sentence("all", "ALL_ISOLATED"),
        sentence("over", "OVER_ISOLATION"),
        sentence("slow, one more is unknown", "FLEET_SLOW"),
        sentence("not returning, 4 of 50", "NOT_RETURNING"),
        sentence("off", "FAULT_OFF_SLOW"),
    ] == [
        "p of g treated a as not available for 10.0 s from 10:00:00.000 on, after a failed send of 600 ms; 10.0 s is "
        "long under its release.",
        "p of g treated a as not available for 600.0 s from 10:00:00.000 on, after a slow send of 600 ms; 60.0 s is "
        "long under its release (possible: the producer's record ends before it is so long).",
        "p of g treated a as not available for 120.0 s and longer from 23:58:00.000 on, after a slow send of 600 ms; "
        "60.0 s is long under its release.",
        "p of g treated a as not available for 60.0 s from 2026-01-05 23:59:30.000 on, after a slow send of 600 ms; "
        "60.0 s is long under its release.",
        "p of g treated every broker of T (a, b) as not available at once from 10:00:20.000 on, for 10.0 s "
        "(possible: no route is recorded, there may be other brokers).",
        "p0 of g held a not available between 10:00 and 10:01, when no more than 1 of 10 active producers did.",
        "up to 5 of 10 active producers treated a as not available between 10:00 and 10:01; 1 more could not be "
        "judged (possible: with the certain windows alone there are fewer).",
        "p of g could use a again from 10:00:00.000 on, but in the next 60.0 s it sent 4 messages to it where its "
        "share of the queues is 50.0: its release rewrites its queue list when every broker is isolated.",
        "p of g does not avoid slow brokers, and 10 of its 500 attempts to a between 10:00 and 10:05 took 550 ms or "
        "longer.",
    ]


def test_a_finding_says_why_it_is_not_certain(sentence):
    told = sentence("over, one more is unknown", "OVER_ISOLATION")
    assert told.endswith(" (possible: of other active producers too little is known).")


def test_every_row_holds_its_key_and_its_evidence(made):
    from hindsight.schemas import PRODUCER_FINDING
    from hindsight.udfs.producer.producer_finding import SEVERITY

    keys = [tuple(row[name] for name in PRODUCER_FINDING.key) for row in made[0]]
    assert len(keys) == len(set(keys))
    for row in made[0]:
        assert row.severity == SEVERITY[row.code] and row.evidence and row.subject, row


def test_impossible_choices_of_a_producer_topic_and_broker_are_one_finding(findings, made, sentence):
    assert findings("impossible", "IMPOSSIBLE_CHOICE") == [("p", "a", "10:00:01", "10:00:05", "certain")]
    assert [r.topic for r in made[0] if r.code == "IMPOSSIBLE_CHOICE"] == ["T"]
    assert sentence("impossible", "IMPOSSIBLE_CHOICE") == (
        "p of g chose a for 2 attempt(s) of T, which its release could not: first at 10:00:01.000, when admissible "
        "were b, c (rule available)."
    )

"""Random histories of incidents: what is told is what stands, each change once, whatever is run again or lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.telling.sinks import sink_of
from hindsight.udfs.telling.event_forms import events_of, rows_of
from hindsight.udfs.telling.incident_news import WITHDRAWN, Clock, Incident, Line, Standing, news, told_by

START = datetime(2026, 1, 5, tzinfo=UTC)
CLOCK = Clock(START + timedelta(hours=30), timedelta(hours=24))
LINES = [Line("drift", "prod", "", group, "UNEXPLAINED", "") for group in ("g_a", "g_b")]


@st.composite
def stands(draw):
    """Incidents of two lines; those of one line do not overlap, and only the last may be open."""
    found = []
    for line in LINES:
        instants = sorted(draw(st.sets(st.integers(0, 40), max_size=6)))
        pairs = list(zip(instants[::2], instants[1::2], strict=False))
        for place, (begin, end) in enumerate(pairs):
            is_open = place == len(pairs) - 1 and draw(st.booleans())
            at, until = (START + timedelta(hours=hour) for hour in (begin, end))
            severity = draw(st.sampled_from(["CRITICAL", "HIGH", "LOW"]))
            codes = tuple(draw(st.sampled_from([["ORPHAN_QUEUE"], ["DOUBLE_OWNED", "ORPHAN_QUEUE"]])))
            standing = Standing(at, None if is_open else until, until, severity, codes, draw(st.integers(0, 2)))
            found.append(Incident(line, standing, None, "a queue has no owner."))
    return found


def told_as(events):
    """What stands by what was told: lines and facts."""
    return sorted(
        (one.incident.line, repr(one.incident.standing.facts)) for one in told_by(events) if not one.is_withdrawn
    )


def stored(events):
    """The events as a table gives them back."""
    return events_of(rows_of(events, 1))


@given(st.lists(stands(), max_size=6))
def test_after_each_run_what_is_told_is_what_stands_and_a_rerun_has_no_news(history):
    noted = []
    for now in history:
        noted = stored([*noted, *news(told_by(noted), now, CLOCK)])
        assert told_as(noted) == sorted((one.line, repr(one.standing.facts)) for one in now)
        assert news(told_by(noted), now, CLOCK) == []


@given(st.lists(stands(), max_size=6))
def test_no_two_events_share_an_id_and_each_incident_is_told_in_an_order_that_can_be(history):
    noted = []
    for now in history:
        noted = stored([*noted, *news(told_by(noted), now, CLOCK)])
    assert len({event.event_id for event in noted}) == len(noted)
    whats = {}
    for event in noted:
        before = whats.setdefault(event.told.key, [])
        is_first = not before
        assert (event.what == "opened") == is_first
        assert event.what == "reopened" or not before or before[-1] != WITHDRAWN
        before.append(event.what)


@given(st.lists(stands(), min_size=1, max_size=5), st.data())
def test_a_run_that_ends_before_it_notes_is_made_up_for_with_the_same_ids(history, data):
    noted = []
    for now in history:
        lost = news(told_by(noted), now, CLOCK)
        again = news(told_by(noted), data.draw(st.permutations(now)), CLOCK)  # in whatever order rows are read
        assert again == lost
        noted = stored([*noted, *again])


@given(stands(), stands())
def test_runs_that_were_left_out_change_nothing_that_stands(between, last):
    direct = news([], last, CLOCK)
    first = news([], between, CLOCK)
    both = stored([*first, *news(told_by(first), last, CLOCK)])
    assert told_as(both) == told_as(direct)


def incident(begin, end=None, severity="HIGH", reopened=0):
    at = START + timedelta(hours=begin)
    until = None if end is None else START + timedelta(hours=end)
    return Incident(LINES[0], Standing(at, until, until or at, severity, ("ORPHAN_QUEUE",), reopened), None, "text.")


def whats(*history):
    """What each run after the first tells."""
    noted, found = [], []
    for now in history:
        fresh = news(told_by(noted), now, CLOCK)
        found.append([event.what for event in fresh])
        noted += fresh
    return found[1:]


def test_late_data_that_worsens_resolves_reopens_and_withdraws():
    story = [[incident(20)], [incident(20, severity="CRITICAL")], [incident(20, 25, severity="CRITICAL")]]
    story += [[incident(20, None, "CRITICAL", 1)], []]
    assert whats(*story) == [["worsened"], ["resolved"], ["reopened"], ["withdrawn"]]


def test_two_that_late_data_makes_one_keep_the_first_and_withdraw_the_other():
    assert whats([incident(20, 22), incident(24)], [incident(20)]) == [["reopened", "withdrawn"]]


def test_what_was_over_long_ago_is_backfill_and_the_end_of_what_was_told_as_news_is_not():
    (old, _) = news([], [incident(1, 2)], CLOCK)
    opened = news([], [incident(20)], CLOCK)
    later = Clock(CLOCK.now + timedelta(days=9), CLOCK.backfill_after)
    (end,) = news(told_by(opened), [incident(20, 25)], later)
    assert (old.told.backfill, opened[0].told.backfill, end.told.backfill) == (True, False, False)


def test_a_server_s_text_keeps_its_words_and_loses_the_keys_of_the_address(monkeypatch):
    monkeypatch.setenv("SHORT", "http://h/hook?access_token=abcdefgh1")
    monkeypatch.setenv("SLACK", "https://h/services/T00000000/B00000000/XXXXXXXXXXXX")
    short, slack = sink_of("webhook:env:SHORT", (), None), sink_of("slack:env:SLACK", (), None)
    assert short.without_secrets("the hook is out; abcdefgh1; /hook") == "the hook is out; ***; ***"
    assert slack.without_secrets("nothing at T00000000/XXXXXXXXXXXX") == "nothing at ***/***"
    assert "XXXX" not in slack.without_secrets(f"no {slack.url}")

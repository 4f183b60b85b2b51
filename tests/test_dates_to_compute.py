"""Which dates a run computes: what has changed, what was asked for, and what these hand over to."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.publishing.dates_to_compute import EMPTY, NOTHING, Progress, next_dates
from hindsight.jobs.publishing.publication_record import Computed
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange

FIRST = date(2026, 1, 1)
# Of each date: was it computed before, has its input changed since, and will it close otherwise than it did.
DATES = st.dictionaries(
    st.integers(0, 12).map(lambda n: FIRST + timedelta(days=n)), st.tuples(st.booleans(), st.booleans(), st.booleans())
)
DAY = st.none() | st.integers(-1, 13).map(lambda n: FIRST + timedelta(days=n))


def before(days: list[date], day: date) -> date | None:
    return max((d for d in days if d < day), default=None)


def state(dates: dict[date, tuple[bool, bool, bool]], asked: DateRange) -> Progress:
    stored = {}
    for day in sorted(dates):
        known, changed, _ = dates[day]
        if known:
            previous = before([d for d in dates if dates[d][0]], day)
            opening = f"closed {previous}" if previous else "nothing"
            stored[ClusterDate("c", day)] = Computed("old" if changed else "new", opening, f"closed {day}", False)
    return Progress({ClusterDate("c", day): "new" for day in dates}, stored, asked)


def run(progress: Progress, dates: dict[date, tuple[bool, bool, bool]]) -> list[date]:
    """The dates a run computes, in order."""
    done = []
    while found := next_dates(progress):
        for at in found.dates:
            previous = before(list(dates), at.event_date)
            opening = progress.closing("c", previous) if previous else "nothing"
            anew = " anew" * dates[at.event_date][2]
            progress.computed[at] = Computed("new", opening, f"closed {at.event_date}{anew}", False)
            done.append(at.event_date)
    return done


def computed(dates: dict[date, tuple[bool, bool, bool]], asked: DateRange) -> tuple[list[date], int]:
    """What ``run`` computes, and how many dates it leaves."""
    progress = state(dates, asked)
    return run(progress, dates), progress.left()


@given(DATES)
def test_without_dates_all_that_changed_is_computed_and_nothing_is_left(dates):
    done, left = computed(dates, EVERY_DATE)
    assert done == sorted(set(done))
    assert {day for day, (known, changed, _) in dates.items() if changed or not known} <= set(done)
    assert left == 0


@given(DATES, DAY, DAY)
def test_what_was_asked_for_is_computed_with_what_it_begins_with_and_nothing_later(dates, first, last):
    asked = DateRange(first, last)
    done, left = computed(dates, asked)
    assert done == sorted(set(done))
    if asked.is_given:
        assert {day for day in dates if day in asked} <= set(done)
    assert not any(asked.ends_before(day) for day in done)
    unasked, _ = computed(dates, EVERY_DATE)
    assert {day for day in done if day not in asked} <= set(unasked)
    assert left == 0 or any(asked.ends_before(day) for day in dates)


@given(DATES, DAY, DAY)
def test_the_run_that_follows_leaves_what_one_run_without_dates_would(dates, first, last):
    """Whatever was asked for before, in the end each date begins with what the one before it handed over."""
    progress = state(dates, DateRange(first, last))
    for asked in (DateRange(first, last), EVERY_DATE):
        progress.asked = asked
        progress.stored |= progress.computed
        progress.computed = {}
        run(progress, dates)
    last_known = progress.stored | progress.computed
    days = sorted(dates)
    for previous, day in zip([None, *days], days, strict=False):
        opening = last_known[ClusterDate("c", previous)].closing if previous else "nothing"
        assert last_known[ClusterDate("c", day)].opening == opening


class CountedProgress(Progress):
    asked_for_known = 0

    def known(self, cluster):
        self.asked_for_known += 1
        return super().known(cluster)


def remembered_one_by_one(progress: Progress, dates, closing) -> dict[ClusterDate, Computed]:
    for at in sorted(dates):
        known = {*progress.known(at.cluster), at.event_date}
        opening = progress.closing(at.cluster, before(list(known), at.event_date))
        computed = Computed(progress.files.get(at, NOTHING), opening, closing.get(at, EMPTY), False)
        progress.computed[at] = computed
    return progress.computed


CLOSED = st.dictionaries(
    st.integers(0, 12).map(lambda n: FIRST + timedelta(days=n)), st.sampled_from(["a", "b", EMPTY])
)


@given(DATES, CLOSED, CLOSED)
def test_dates_remembered_at_once_are_what_they_are_one_by_one(dates, earlier, closed):
    at_once, one_by_one = (state(dates, EVERY_DATE) for _ in range(2))
    for progress in (at_once, one_by_one):
        # Dates that have lost their files, and rows that spilled into a date without any.
        progress.stored |= {ClusterDate("c", day): Computed("old", "x", end, False) for day, end in earlier.items()}
    closing = {ClusterDate("c", day): end for day, end in closed.items()}
    at_once.remember(closing, closing, set())
    assert at_once.computed == remembered_one_by_one(one_by_one, closing, closing)


def test_of_many_dates_each_cluster_s_are_looked_up_once():
    files = {ClusterDate(c, FIRST + timedelta(days=n)): "new" for c in ("c", "d") for n in range(50)}
    progress = CountedProgress(files, {}, EVERY_DATE)
    progress.remember(files, dict.fromkeys(files, "closed"), set())
    assert progress.asked_for_known == 2
    assert progress.computed[ClusterDate("d", FIRST)].opening == NOTHING

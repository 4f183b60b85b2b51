"""How windows of a date end that outlast what is recorded."""

from __future__ import annotations

import pytest

from hindsight.udfs.producer.producer_date import Span
from hindsight.udfs.values.columns import DAY_MS

DAY = 20_000 * DAY_MS
NEXT = DAY + DAY_MS


@pytest.mark.parametrize(
    ("asked", "following"),
    [
        ([DAY], None),  # the first run: windows that last into the next date make it
        ([DAY, NEXT], None),  # a later run, which knows that date by its windows
        ([NEXT], None),
    ],
)
def test_which_dates_are_known_changes_nothing_of_how_windows_end(asked: list[int], following: int | None) -> None:
    span = Span(asked, following, recorded=frozenset({DAY}), last_recorded=DAY)
    assert (span.ends(DAY).endless_too, span.ends(NEXT).endless_too) == (True, False)


def test_windows_without_end_are_told_of_on_dates_without_records_between_others() -> None:
    later = NEXT + DAY_MS
    assert Span([DAY], later, recorded=frozenset({DAY}), last_recorded=later).ends(NEXT).endless_too

"""What is recorded of some producers in, date by date; the rows of dates that follow each other out.

Each date begins with what the one before it closed with. A date without records is folded too while windows last into
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from hindsight.udfs.producer.attempt_columns import DAY_MS
from hindsight.udfs.producer.producer_date import Date, Options, Rows, fold_date
from hindsight.udfs.producer.producer_rows import Ends

Before = tuple[pa.Table, pa.Table]  # rows of producer_replay and fault_item_state of the date before
DateOf = Callable[[int, Before, Ends], Date]


class Span(NamedTuple):
    """Dates of one cluster; each by epoch ms of its midnight.

    Attributes:
        dates: those that are asked for, in order; windows may last into dates after each of them.
        following: the known date after them; None: there is none.
        recorded: those of them with records.
        last_recorded: the last date of all with records.
    """

    dates: Sequence[int]
    following: int | None
    recorded: Collection[int]
    last_recorded: int

    def ends(self, midnight_ms: int) -> Ends:
        """How windows of a date end that outlast what is recorded."""
        # Whether a date is known already, or computed for the first time, changes nothing: only records do.
        return Ends(is_last=midnight_ms >= self.last_recorded, endless_too=midnight_ms <= self.last_recorded)


def folded(span: Span, before: Before, date_of: DateOf, options: Options) -> Iterator[tuple[Date, Rows]]:
    """The rows of each date, of one without records as long as some window lasts into it.

    Windows are followed for at most ``carry_days`` after a date that is asked for.

    Args:
        before: what the known date before the first one handed over.
        date_of: gives what is recorded of a date, from its midnight, what the date before it closed with, and its ends.
    """
    midnight_ms, lasts, followed_until = span.dates[0], True, 0
    while midnight_ms != span.following and (lasts or midnight_ms <= span.dates[-1]):
        if midnight_ms in span.dates:
            followed_until = midnight_ms + options.carry_days * DAY_MS
        lasts &= midnight_ms <= followed_until
        if lasts or midnight_ms in span.recorded:
            date = date_of(midnight_ms, before, span.ends(midnight_ms))
            rows = fold_date(date, options)
            lasts = rows.windows.num_rows > 0 or midnight_ms in span.recorded
            if lasts:
                yield date, rows
                before = rows.replay, rows.items
        midnight_ms += DAY_MS

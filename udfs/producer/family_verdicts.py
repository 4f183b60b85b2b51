"""A date's attempts and routes in, rows of send_verdict on the choices of Go and C++ producers out.

Each of their attempts has a row. A process's attempts of a date are looked at together: whether one was out of its
turn, or others are not recorded, shows by those behind it. Nothing is handed on to the next date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from hindsight.udfs.producer.family_attempts import counted_of, series_of
from hindsight.udfs.producer.family_choices import Producer as Sender
from hindsight.udfs.producer.family_choices import Verdict, producer_families, verdicts_of
from hindsight.udfs.producer.producer_lives import Producer
from hindsight.udfs.producer.producer_rows import told_rows
from hindsight.udfs.producer.producer_tables import VERDICT
from hindsight.udfs.producer.recorded_routes import RecordedRoutes
from hindsight.udfs.producer.replayed_day import Day

# By producer and start, epoch ms: retryTimesWhenSendFailed.
Retries = Mapping[tuple[Producer, int], int | None]


def family_verdict_rows(
    day: Day,
    tables: Callable[[], Iterable[pa.Table]],
    routes: RecordedRoutes,
    retries: Retries,
    *,
    tolerance_ms: int,
) -> pa.Table:
    """The rows; ``tables`` gives the attempts with an instant on the date, and is asked where there is such a producer.

    Memory: the attempts of such producers.
    """
    if not day.by_turns.any():
        return VERDICT.empty_table()
    counted = counted_of(tables(), day)
    rows: list[int] = []
    told: list[Verdict] = []
    for series in series_of(counted, day):
        rows += series.rows
        sender = _sender(day, series.process, retries)
        told += verdicts_of(series.attempts, series.topic, sender, routes, tolerance_ms=tolerance_ms)
    columns = {name: [getattr(verdict, name) for verdict in told] for name in Verdict._fields}
    place = np.array(rows, np.int64)
    return told_rows(day, counted.process[place], counted.attempts.table.take(pa.array(place)), columns)


def _sender(day: Day, process: int, retries: Retries) -> Sender:
    known = day.processes[process]
    started = known.life.started_ms
    return Sender(
        producer_families(known.rules.settings.client_version),
        None if started is None else retries.get((known.producer, started)),
        started is not None and started >= day.midnight_ms,
    )

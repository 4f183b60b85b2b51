"""A rebuild in Spark versus one choice and one update at a time: verdicts, windows and closing items of random streams.

Thirty-two producers of eight release families send to three topics that share brokers, so that one fault table serves
all three and the fallback forgets brokers. One rebuild serves all tests; the oracle is ``tests/recorded_producer.py``
for verdicts and ``FaultTable`` for the rest.
"""

from __future__ import annotations

import pytest

from tests.random_producers import DAY, PRODUCERS, lines_of, name_of
from tests.recorded_producer import TOLERANCE_MS
from tests.recorded_rows import attempt_rows, start_row
from tests.row_wise_checks import *  # noqa: F403  the tests themselves


class Tables:
    """What a rebuild reads, held in memory."""

    def __init__(self, spark, rows):
        self.spark, self.rows = spark, rows

    def read(self, table):
        rows = [tuple(row.get(name) for name in table.columns.names) for row in self.rows.get(table.name, [])]
        return self.spark.createDataFrame(rows, table.columns)

    def of_dates(self, table, stored, computed):
        from jobs.transforms.frames import in_dates

        assert not computed
        return self.read(table).where(in_dates(stored))


@pytest.fixture(scope="module")
def rebuilt(spark, settings):
    """Verdicts, windows and closing items of all producers, from one rebuild."""
    from jobs.publication import Stretch
    from jobs.rebuild_by_frames import compute
    from jobs.run_context import RunContext
    from jobs.transforms.frames import ClusterDate

    assert settings.replay.clock_tolerance_ms == TOLERANCE_MS
    rows = {
        "send_attempt": [row for producer in PRODUCERS for row in attempt_rows(lines_of(*producer))],
        "producer_instance": [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS],
    }
    dates = [ClusterDate("c", DAY)]
    stretch = Stretch(
        Tables(spark, rows),
        RunContext("nowhere"),
        dates,
        {},
        {},
        {"c": DAY},
        frozenset(dates),
        frozenset(),
        frozenset({"producer_hook"}),
    )
    made = compute(stretch, settings)
    wanted = ("send_verdict", "broker_availability_window", "fault_item_state")
    return {name: made[name].collect() for name in wanted}

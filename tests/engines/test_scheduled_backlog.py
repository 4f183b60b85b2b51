"""Delayed messages that wait: the view beside a plain count over random readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import SCHEDULE_PROGRESS
from tests.pipeline.random_tables import one_row

START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def read(at, level, delay_offset, max_offset):
    own = {"cluster": "c", "event_date": at.date(), "collector": "", "broker_name": "b", "captured_at": at}
    return one_row(SCHEDULE_PROGRESS, **own, delay_level=level, delay_offset=delay_offset, max_offset=max_offset)


@pytest.mark.parametrize("seed", range(4))
def test_what_waits_comes_and_goes_is_what_the_readings_say(tmp_path, seed):
    dice, rows, told = Random(seed), [], []
    for level in (1, 3):
        delivered = written = 0
        before, stands = None, None
        for n in range(12):
            at = START + timedelta(minutes=n)
            written += dice.choice((0, 0, 5))
            delivered = min(written, delivered + dice.choice((0, 0, 3)))
            rows.append(read(at, level, delivered, written))
            stands = stands if before and before[0] == delivered else at
            waits = written > delivered and before is not None and before[0] == delivered
            told.append(
                (level, n, written - delivered)
                + ((None, None) if before is None else (written - before[1], delivered - before[0]))
                + ((stands - START) // timedelta(minutes=1) if waits else None,)
            )
            before = delivered, written
    lake = LocalLake(str(tmp_path), retention_days=7)
    lake.append(SCHEDULE_PROGRESS, pa.concat_tables(rows))
    found = records(LocalAsker(lake), "SELECT * FROM scheduled_backlog ORDER BY delay_level, captured_at")
    minute = {None: None} | {(START + timedelta(minutes=n)).replace(tzinfo=None): n for n in range(12)}
    assert [
        (r["delay_level"], minute[r["captured_at"]], r["waiting"], r["came"], r["delivered"], minute[r["stands_since"]])
        for r in found
    ] == told
    assert any(row[-1] is not None for row in told)

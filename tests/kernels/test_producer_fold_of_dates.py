"""The producer fold on small producers of two dates, each a case. No Spark."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hindsight.udfs.producer.fault_fold import no_stretches
from hindsight.udfs.producer.kept_fold import Told
from hindsight.udfs.producer.minute_counts import MinuteCounts
from hindsight.udfs.producer.producer_rows import VERDICT
from tests.dated_cases import ATTEMPTS, ROUTES, STARTS
from tests.dated_checks import *  # noqa: F403  the tests themselves
from tests.folded import folded, rows_of


@pytest.fixture(scope="module")
def rebuilt():
    found = {}
    for name, table in folded(rows_of(ATTEMPTS, STARTS, ROUTES)).items():
        for row in table.to_pylist() if "client_id" in table.column_names else ():
            said = {column: _text(value) for column, value in row.items() if value is not None}
            found.setdefault((name, row["client_id"]), []).append(json.dumps(said, default=_text))
    return found, None


def _text(value):
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_how_long_stretches_lasted_at_most_stays_known_where_later_parts_add_nothing_to_it():
    first, later = (no_stretches(np.array([item])) for item in (1, 2))
    most = first._replace(until=np.array([9]))
    told = Told([first, later], [first, later], [most, later], [VERDICT.empty_table()] * 2, MinuteCounts())
    assert told.as_one().longest[0].until.tolist() == [9, *later.until]
    certain = told._replace(longest=told.held).as_one()
    assert certain.longest[0] is certain.held[0]

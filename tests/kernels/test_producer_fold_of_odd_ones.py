"""The producer fold on producers of whom much is missing or odd, against rows that two ways of computing them gave.

The other way was window functions and joins of Spark over all producers at once; its rows were these. No Spark.
"""

from __future__ import annotations

import gzip
import json

import pytest

from hindsight.udfs.producer.producer_finding import DEFAULT_LIMITS
from tests.conftest import GOLDEN
from tests.finding_cases import EAGER
from tests.folded import OPTIONS, folded, rows_of
from tests.odd_producers import OVERRIDES, odd

LIMITS = DEFAULT_LIMITS._replace(**EAGER)
CASES = {"odd": (7, ()), "odd_overridden": (8, OVERRIDES)}


def rows_made(case):
    seed, overrides = CASES[case]
    return folded(rows_of(*odd(seed=seed)), OPTIONS._replace(limits=LIMITS, override=overrides))


def as_texts(table, columns):
    return sorted(json.dumps(row, default=str) for row in table.select(columns).to_pylist())


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_that_both_ways_gave(case):
    with gzip.open(GOLDEN / "producer_fold" / f"{case}.json.gz", "rt", encoding="utf-8") as file:
        expected = json.load(file)
    made = rows_made(case)
    for name, (columns, rows) in expected.items():
        assert as_texts(made[name], columns) == rows, name
        assert len(rows) > 200

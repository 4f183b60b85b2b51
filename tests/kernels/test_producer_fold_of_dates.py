"""The producer fold on small producers of two dates, each a case. No Spark."""

from __future__ import annotations

import json

import pytest

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

"""Producer findings on small made-up fleets, as the rules in Spark tell them. One run serves all tests."""

from __future__ import annotations

import pytest

from tests.finding_cases import ROWS, SCHEMAS
from tests.finding_checks import *  # noqa: F403  the tests themselves


@pytest.fixture(scope="module")
def made(spark, settings):
    """Findings and fleet minutes of all cases."""
    from jobs.transforms.producer_findings import Thresholds, observed, producer_findings

    frames = {name: spark.createDataFrame(rows, SCHEMAS[name]) for name, rows in ROWS.items()}
    limits = Thresholds(**settings.producer_findings.model_dump())
    given = observed(**frames, limits=limits, staged=lambda frame: frame.localCheckpoint())
    found = producer_findings(given, limits, is_any=lambda frame: not frame.isEmpty())
    return found.collect(), given.fleet.collect()


def test_rules_return_the_contract(spark, settings, made):
    from jobs.transforms.producer_findings import Thresholds, observed, producer_findings
    from schemas import PRODUCER_FINDING

    contract = [name for name in PRODUCER_FINDING.columns.names if name not in PRODUCER_FINDING.lineage]
    assert list(made[0][0].asDict()) == contract
    frames = {name: spark.createDataFrame([], schema) for name, schema in SCHEMAS.items()}
    limits = Thresholds(**settings.producer_findings.model_dump())
    nothing = observed(**frames, limits=limits, staged=lambda frame: frame)
    found = producer_findings(nothing, limits, is_any=lambda frame: False)
    assert found.columns == contract
    assert found.count() == 0

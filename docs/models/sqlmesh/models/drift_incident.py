"""Incidents of a lake, read anew at each run: an incident of an earlier date may still end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pandas as pd
from deltalake import DeltaTable
from sqlglot.expressions import column
from sqlmesh import ExecutionContext, model
from sqlmesh.core.model.kind import ModelKindName

COLUMNS = {
    "cluster": "text",
    "consumer_group": "text",
    "incident_id": "text",
    "root_cause": "text",
    "state": "text",
    "severity": "text",
    "opened_at": "timestamptz",
    "resolved_at": "timestamptz",
    "lag_now": "bigint",
    "sentence": "text",
}


@model(
    "hindsight.drift_incident",
    kind={"name": ModelKindName.FULL},
    columns=COLUMNS,
    grain="incident_id",
    audits=[
        ("not_null", {"columns": [column("incident_id")]}),
        ("unique_values", {"columns": [column("incident_id")]}),
    ],
)
def execute(context: ExecutionContext, **given: Any) -> Iterator[pd.DataFrame]:
    """The rows; none of an empty lake: SQLMesh takes no frame without rows."""
    table = DeltaTable(f"{os.environ['HINDSIGHT_LAKE']}/drift_incident")
    rows = table.to_pandas(columns=[*COLUMNS])
    if len(rows):
        yield rows

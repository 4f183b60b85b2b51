"""The lake of a whole real capture, made once for all tests that only read it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CAPTURES


@pytest.fixture(scope="session")
def story(spark, settings, tmp_path_factory) -> Path:
    """Root of the lake."""
    from jobs import flag_allocation_drift, ingest_consumer_snapshots, ingest_send_records, rebuild_availability
    from jobs.run_context import RunContext

    root = tmp_path_factory.mktemp("story")
    landing = root / "landing"
    hooks = landing / "producer_hook" / "cluster=oracle"
    hooks.mkdir(parents=True)
    for recorded in (CAPTURES / "producers").glob("producer_*"):
        shutil.copy(recorded, hooks)
    shutil.copytree(CAPTURES / "consumers" / "client_logs", landing / "client_log" / "cluster=oracle")
    snapshots = landing / "admin_snapshots" / "cluster=oracle"
    snapshots.mkdir(parents=True)
    shutil.copy(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz", snapshots)
    context = RunContext(str(landing))
    for job in (ingest_send_records, ingest_consumer_snapshots, rebuild_availability, flag_allocation_drift):
        job.run(spark, settings, context, str(root / "lake"))
    return root / "lake"


@pytest.fixture(scope="module")
def views(spark, settings, story) -> Iterator[list[str]]:
    """Names of the views, which are in place for this module, tables too."""
    from jobs.delta_tables import Lake
    from jobs.sql_views import create_views

    yield create_views(spark, Lake(spark, str(story), retention_days=settings.delta.retention_days))
    spark.sql("USE default")

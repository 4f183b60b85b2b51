"""What a run did, as an OpenMetrics text file: for a collector that reads files, and alerts on what stays away."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from hindsight.jobs.running.run_context import Step

_PREFIX = "hindsight_job"


def write_metrics(path: Path, steps: Iterable[Step]) -> None:
    """Each number that a job told, by job, and when the run ended; the file is replaced whole.

    A run that fails writes nothing: the time of the last one that did not is what an alert looks at.
    """
    from prometheus_client import CollectorRegistry, Gauge  # which most runs need not

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for step in steps:
        for name, value in step.facts.items():
            if isinstance(value, (int, float)):
                told = f"{_PREFIX}_{name}"
                if told not in gauges:
                    gauges[told] = Gauge(told, f"{name.replace('_', ' ')}, of the last run", ["job"], registry=registry)
                gauges[told].labels(step.job).set(value)
    ended = Gauge("hindsight_run_end_timestamp_seconds", "when the last run ended that did not fail", registry=registry)
    ended.set(round(time.time(), 3))
    replace_metrics(path, registry)


def replace_metrics(path: Path, registry: CollectorRegistry) -> None:
    """Write a registry as OpenMetrics text; a reader sees the old file or the new one. Raises: OSError."""
    from prometheus_client.openmetrics.exposition import generate_latest

    # node_exporter reads every file whose name ends in .prom, hidden ones too.
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(generate_latest(registry))
    beside.replace(path)

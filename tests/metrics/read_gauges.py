"""Gauges as values by name and labels, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from prometheus_client.core import Metric

from hindsight.conf.settings import Metrics
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.metrics.gauges import METRICS, gauges

Told = dict[str, dict[tuple[str, ...], float]]


def values(families: Iterable[Metric]) -> Told:
    """Values by metric and label values, in the order of its labels."""
    return {
        family.name: {
            tuple(sample.labels[name] for name in METRICS[family.name].labels): sample.value
            for sample in family.samples
        }
        for family in families
    }


def told(lake: Path | str, most_series: int = 500) -> Told:
    """What a lake says, its names without ``hindsight_``."""
    with closing(LocalAsker(LocalLake(str(lake), retention_days=7))) as asker:
        found = values(gauges(asker, Metrics(most_series=most_series)))
    return {name.removeprefix("hindsight_"): of_name for name, of_name in found.items()}

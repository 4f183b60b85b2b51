"""A lake whose gauges are looked at: that of the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES


@pytest.fixture(scope="session")
def sampled(settings, tmp_path_factory) -> Path:
    """Root of a lake of ``data_samples``."""
    lake = tmp_path_factory.mktemp("sampled") / "lake"
    run_here(settings, SAMPLES, lake)
    return lake

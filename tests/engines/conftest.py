"""Lakes of this machine's engine, as many as a test likes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hindsight.jobs.engines.local_lake import LocalLake


@pytest.fixture
def lake_at(tmp_path) -> Callable[[str], LocalLake]:
    """The lake of this name."""
    return lambda name: LocalLake(str(tmp_path / name), retention_days=7)

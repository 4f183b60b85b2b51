"""Lakes that what-ifs are made of: the samples of every format, and dates on both sides of a midnight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES
from tests.pipeline.test_incidents_over_midnight import PARTS
from tests.pipeline.test_midnight import DAYS


@pytest.fixture(scope="session")
def sampled(settings, tmp_path_factory) -> Path:
    """Root of a lake of ``data_samples``."""
    lake = tmp_path_factory.mktemp("sampled") / "lake"
    run_here(settings, SAMPLES, lake)
    return lake


@pytest.fixture(scope="session")
def midnight(settings, tmp_path_factory) -> Path:
    """Root of a lake in which windows and an incident last over a midnight, each from its 5th to its 6th of January."""
    root = tmp_path_factory.mktemp("midnight")
    for folder, parts in (("producer_hook", DAYS), ("admin_snapshots", PARTS)):
        own = root / "landing" / folder / "cluster=oracle"
        own.mkdir(parents=True)
        for name, lines in parts.items():
            (own / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, root / "landing", root / "lake")
    return root / "lake"

"""Lakes that what-ifs are made of, beside that of the samples: dates on both sides of a midnight."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.made_once import made_once
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.sample_files import SAMPLES
from tests.pipeline.test_incidents_over_midnight import PARTS
from tests.pipeline.test_midnight import DAYS


@pytest.fixture(scope="session")
def of_groups(settings, tmp_path_factory) -> Path:
    """Root of a lake of the consumers of ``data_samples`` alone, for what asks nothing of producers."""
    made = made_once(
        tmp_path_factory, "of-groups", lambda root: run_here(settings, SAMPLES, root / "lake", OF_CONSUMERS)
    )
    return made / "lake"


@pytest.fixture(scope="session")
def midnight(settings, tmp_path_factory) -> Path:
    """Root of a lake in which windows and an incident last over a midnight, each from its 5th to its 6th of January."""

    def make(root: Path) -> None:
        for folder, parts in (("producer_hook", DAYS), ("admin_snapshots", PARTS)):
            own = root / "landing" / folder / "cluster=oracle"
            own.mkdir(parents=True)
            for name, lines in parts.items():
                (own / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        run_here(settings, root / "landing", root / "lake")

    return made_once(tmp_path_factory, "midnight", make) / "lake"


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> Callable[..., Path]:
    """Makes this release in a folder of its own, or one in which a piece of a file has another in its place."""

    def made(changed: tuple[str, str] | None = None, of: str = "udfs/release_profiles.py") -> Path:
        folder = tmp_path_factory.mktemp("release")
        for name in ("hindsight", "conf", "docs", "schemas", "udfs", "jobs"):
            ignored = shutil.ignore_patterns("*.pyc.*")  # being written; what is compiled need not be again
            shutil.copytree(SAMPLES.parent / name, folder / name, symlinks=True, ignore=ignored)
        if changed:
            text = (folder / of).read_text()
            assert changed[0] in text
            (folder / of).write_text(text.replace(*changed))
        command = folder / "hindsight.sh"
        start = f'PYTHONSAFEPATH=1 PYTHONPATH={folder} exec {sys.executable} -m hindsight.jobs.command_line "$@"'
        command.write_text(f"#!/bin/sh\n{start}\n")
        command.chmod(0o755)
        return command

    return made

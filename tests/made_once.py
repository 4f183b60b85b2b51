"""Folders that take long to make, made once for all processes of a run of the tests; each process has its own copy."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A copy of what ``make`` writes into an empty folder; only the first process to ask makes it."""
    everybody = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        everybody = everybody.parent  # a process has a folder in it
    shared, whole = everybody / f"made-{name}", everybody / f"made-{name}.whole"
    with (everybody / f"made-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            make(shared)
            whole.touch()
    own = factory.mktemp(name)
    shutil.copytree(shared, own, symlinks=True, dirs_exist_ok=True)
    return own

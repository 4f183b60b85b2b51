"""A contestant that works before each of its rounds and not in them; ``bench.stage`` opens it by its name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Prepared:
    """Half a second of work before a round, none in it."""

    def __init__(self, data: Path) -> None:
        self._done: dict[str, Any] = {"prepared": 0, "run": 0, "master": os.environ["BENCH_MASTER"]}

    def prepare(self) -> None:
        """Work."""
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
        self._done["prepared"] += 1

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """Count."""
        self._done["run"] += 1
        return lambda: self._done


CONTESTANTS = {"prepared": Prepared}

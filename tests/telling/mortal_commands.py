"""Runs of ``hindsight events`` that are killed at a point that they pass, for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from tests.pipeline.sample_files import SAMPLES

KILLED = -9


class Ended(NamedTuple):
    """How a run ended, the points that it passed, and all that it said."""

    code: int
    points: list[str]
    said: str


class Commands:
    """Each is a process of its own."""

    def __init__(self, asked: IO[str], answered: IO[str], folder: Path) -> None:
        self._asked, self._answered, self._folder, self._number = asked, answered, folder, 0

    def run(self, *arguments: object, last: int = 0) -> Ended:
        """Run it, and kill it at that point, 0: at none."""
        self._number += 1
        file = self._folder / f"points-{self._number}"
        self._asked.write(f"{json.dumps([str(file), last, list(map(str, arguments))])}\n")
        self._asked.flush()
        code = int(self._answered.readline())
        return Ended(code, file.read_text().splitlines(), Path(f"{file}.said").read_text())


@contextmanager
def commands_that_die(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Commands]:
    """What runs them; their notes go into the folder."""
    command = [sys.executable, "-m", "tests.telling.killed_commands"]
    with subprocess.Popen(
        command, cwd=SAMPLES.parent, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        yield Commands(process.stdin, process.stdout, folder)
        process.stdin.close()

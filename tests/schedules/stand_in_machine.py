"""A folder in the place of a machine on which a schedule runs, with stand-ins that note how they were called."""

from __future__ import annotations

import re
from pathlib import Path

from tests.schedules.scheduled_commands import SCHEDULES

_STAND_IN = """#!/bin/sh
echo "$(basename $0) $*" | tee -a {calls}
exit $(cat {code})
"""


class Machine:
    """The paths that the examples name lie below its root; spark-submit and hindsight are stand-ins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "opt" / "hindsight"
        self.log = root / "var" / "log" / "hindsight" / "pipeline.log"
        self.lock = root / "run" / "lock" / "hindsight.lock"
        self._calls = root / "calls"
        programs = self.project / ".venv" / "bin"
        for folder in (self.log.parent, self.lock.parent, programs):
            folder.mkdir(parents=True)
        for name in ("spark-submit", "hindsight"):
            self.let(name, end_with=0)
            stand_in = programs / name
            stand_in.write_text(_STAND_IN.format(calls=self._calls, code=self._code(name)))
            stand_in.chmod(0o755)

    def _code(self, name: str) -> Path:
        return self.root / f"{name}.code"

    def let(self, name: str, *, end_with: int) -> None:
        """Choose the exit code of a stand-in."""
        self._code(name).write_text(str(end_with))

    def moved(self, text: str) -> str:
        """A text with its paths below the root."""
        return re.sub(r"(?<![\w.])(?=/(?:opt|srv|var|run)/)", lambda _: str(self.root), text)

    def installed(self, name: str, *, folder: str) -> Path:
        """An example in a folder of the machine."""
        place = self.root / folder / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(self.moved((SCHEDULES / name).read_text(encoding="utf-8")), encoding="utf-8")
        return place

    def calls(self) -> list[str]:
        """What was called: a job's file, or a command of hindsight."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [next(word for word in line.split()[1:] if word == "drift" or ".py" in word) for line in lines]

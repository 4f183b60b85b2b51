"""A folder in the place of a machine on which a schedule runs, with stand-ins that note how they were called."""

from __future__ import annotations

import re
from pathlib import Path

from tests.schedules.scheduled_commands import SCHEDULES

_STAND_IN = """#!/bin/sh
echo "$*" | tee -a {calls}
exit $(cat {root}/$1.code 2>/dev/null || echo 0)
"""


class Machine:
    """The paths that the examples name lie below its root; hindsight is a stand-in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "opt" / "hindsight"
        self.log = root / "var" / "log" / "hindsight" / "pipeline.log"
        self.lock = root / "run" / "lock" / "hindsight.lock"
        self._calls = root / "calls"
        programs = self.project / ".venv" / "bin"
        for folder in (self.log.parent, self.lock.parent, programs):
            folder.mkdir(parents=True)
        stand_in = programs / "hindsight"
        stand_in.write_text(_STAND_IN.format(calls=self._calls, root=root))
        stand_in.chmod(0o755)

    def let(self, command: str, *, end_with: int) -> None:
        """Choose the exit code of a command, which is 0 otherwise."""
        (self.root / f"{command}.code").write_text(str(end_with))

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
        """The commands that were called."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [line.split()[0] for line in lines]

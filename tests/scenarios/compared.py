"""Runs ``hindsight compare`` as people do, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SAME = "The derived tables hold the same.\n"


def compare(*arguments: Any, code: int) -> subprocess.CompletedProcess[str]:
    """What it wrote, if it ended with this code; its input is no terminal."""
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "compare", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows_of(*arguments: Any) -> list[dict[str, Any]]:
    """The rows that differ, of which there are some."""
    return [json.loads(line) for line in compare(*arguments, "--format", "json", code=1).stdout.splitlines()]

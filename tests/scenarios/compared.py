"""Runs ``hindsight compare`` as people do, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.commands import command

SAME = "The derived tables hold the same.\n"


def compare(*arguments: Any, code: int) -> subprocess.CompletedProcess[str]:
    """What it wrote, if it ended with this code; its input is no terminal."""
    done = command("compare", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows_of(*arguments: Any) -> list[dict[str, Any]]:
    """The rows that differ, of which there are some."""
    return [json.loads(line) for line in compare(*arguments, "--json", code=1).stdout.splitlines()]

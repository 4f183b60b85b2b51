"""A command run in a process of its own that fails where anything of Spark is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_CODE = """
import sys
from hindsight.jobs.command_line import main
sys.argv = ["hindsight", *sys.argv[1:]]
try:
    main()
finally:
    assert not {"pyspark", "py4j", "delta"} & sys.modules.keys()
"""


def check_without_spark(command: str, *arguments: object, ends: int) -> str:
    """What the command says on stderr; it ends so, and has loaded neither Spark nor what speaks to Java."""
    words = [sys.executable, "-c", _CODE, command, *map(str, arguments)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (ends, False), done.stderr
    return done.stderr

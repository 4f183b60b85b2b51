"""The command line in a process of its own that kills itself, JVM and all, after its n-th write to the lake.

``python -m tests.pipeline.run_to_be_killed N ARGUMENTS...``; 0: it is left to others to kill it.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from jobs.command_line import main
from tests.pipeline.interrupted_lake import after_each_write

if __name__ == "__main__":
    last, writes = int(sys.argv.pop(1)), count(1)

    def kill_after_the_last() -> None:
        if next(writes) == last:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    with after_each_write(lambda *_: kill_after_the_last()):
        main()

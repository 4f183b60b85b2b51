"""The command line in a process of its own that kills itself, JVM and all, so many seconds after a write.

``python -m tests.pipeline.run_to_be_killed WRITE SECONDS READ ARGUMENTS...``, WRITE: the n-th one, or the first one so
named (``store send_attempt``); READ: a file that is there once somebody has read enough, which no seconds wait for.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path
from threading import Timer
from time import sleep

from hindsight.jobs.command_line import main
from tests.pipeline.interrupted_lake import after_each_write


def kill() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    last, seconds, read, writes = sys.argv.pop(1), float(sys.argv.pop(1)), Path(sys.argv.pop(1)), count(1)
    killer = Timer(seconds, kill)
    # It keeps no process for itself: a run that ends before is a run that was not killed.
    killer.daemon = True

    def kill_after_the_last(write: str) -> None:
        if last not in (str(next(writes)), write):
            return
        if seconds:
            killer.start()
            return
        while not read.exists():
            sleep(0.02)
        kill()

    with after_each_write(lambda lake, write, table: kill_after_the_last(f"{write} {table.name}")):
        main()

"""``hindsight events`` in processes that kill themselves at a named point, each forked from one that has all loaded.

``python -m tests.telling.killed_commands``: reads one JSON list a line, ``[FILE, LAST, ARGUMENTS]``, and answers with
the exit code of the process (-9: killed). The process writes the points that it passes into FILE, a line each, and
kills itself at the LAST one, which none is for 0.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hindsight.jobs.command_line import main
from hindsight.jobs.commands import events_command
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake import lake_lease
from hindsight.jobs.telling import incident_noting, sinks
from hindsight.jobs.telling.delivery import Cursors

Pass = Callable[[str], None]


@contextmanager
def points(passed: Pass) -> Iterator[None]:
    """Call at each point between the first look at the lake and the end."""
    replace = Path.replace

    def put(file: Path, target: Path) -> Path:
        # Of a cursor the new text stands beside it now, and the old one is still there.
        if target.parent.name == "_cursors":
            passed("cursor written beside")
        return replace(file, target)

    with ExitStack() as patches:
        for owner, name, before, after in (
            (LocalLake, "_create", "lake held", "table made"),
            (incident_noting, "news", None, "derived"),
            (LocalLake, "_commit", "rows staged", "rows committed"),
            (lake_lease, "_end", None, "lease given back"),
            (sinks, "_asked", "to be sent", "answered"),
            (http.client.HTTPConnection, "getresponse", "sent", None),
            (Cursors, "move", None, "cursor moved"),
            (events_command, "write", None, "shown"),
        ):
            patches.enter_context(patch.object(owner, name, _between(getattr(owner, name), before, after, passed)))
        patches.enter_context(patch.object(Path, "replace", put))
        yield


def _between(call: Callable[..., Any], before: str | None, after: str | None, passed: Pass) -> Callable[..., Any]:
    def between(*given: Any, **named: Any) -> Any:
        if before:
            passed(before)
        done = call(*given, **named)
        if after:
            passed(after)
        return done

    return between


def _run(file: str, last: int, arguments: list[str]) -> None:
    """In a process of its own: the command, up to that point."""
    count = 0
    with Path(file).open("a", encoding="utf-8", buffering=1) as noted:

        def passed(name: str) -> None:
            nonlocal count
            count += 1
            noted.write(f"{name}\n")
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.argv = ["hindsight", "events", "--engine", "local", *arguments]
        with points(passed):
            main()


def _answer(line: str) -> int:
    file, last, arguments = json.loads(line)
    child = os.fork()
    if not child:
        code = 1
        try:
            with Path(f"{file}.said").open("w", encoding="utf-8") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            _run(file, last, arguments)
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for asked in sys.stdin:
        code = _answer(asked)
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()

"""One contestant as a process: opens it, then runs it once for each line ``run`` that it reads.

A line ``prepare`` comes before each ``run``, and ``stages`` after it, for what is not to be measured.

``python -m bench.stage MODULE CONTESTANT DATA``; replies are lines of JSON on the descriptor that was its stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Prepared(Protocol):
    """A contestant that needs something to be made anew before each round."""

    def prepare(self) -> None:
        """Make it."""


def main() -> None:
    """Serve the contestant until stdin ends."""
    module, name, data = sys.argv[1:]
    with os.fdopen(os.dup(1), "w") as replies:
        # Whatever else writes to stdout must not be taken for a reply.
        os.dup2(2, 1)

        def reply(**values: Any) -> None:
            print(json.dumps(values), file=replies, flush=True)

        contestants = importlib.import_module(module).CONTESTANTS
        run = contestants[name](Path(data))
        reply(ready=True)
        answer = None
        for line in sys.stdin:
            if line.strip() == "prepare":
                if isinstance(run, Prepared):
                    run.prepare()
                reply(done=True)
            elif line.strip() == "run":
                answer = run()
                reply(done=True)
            elif line.strip() == "stages":
                reply(stages_s=_stages_s())
            elif answer is not None:
                reply(answer=answer())


def _stages_s() -> list[float]:
    """What each stage of Spark took by itself since the last call; none without Spark, as of a peer."""
    spark = sys.modules.get("bench.spark")
    return spark.stages_s() if spark else []


if __name__ == "__main__":
    main()

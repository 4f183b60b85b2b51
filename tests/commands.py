"""Commands as a shell starts them, each in a process of its own, forked from one that has loaded what they load.

A start takes a hundredth of what an interpreter's takes. What a process loads, and how one is begun, other tests see:
``test_command_line.py`` and those that ask for a command by ``python -m`` or its file.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
_STREAMS = ("in", "out", "err")
LIBRARIES = (
    "deltalake",
    "duckdb",
    "jinja2",
    "orjson",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pydantic",
    "rich",
    "typer",
)


def command(
    *words: object,
    given: str | bytes = "",
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    text: bool = True,
    without: Sequence[str] = (),
) -> subprocess.CompletedProcess[Any]:
    """What ``hindsight`` with these words did; ``given``: what it reads; ``env`` in place of this process's own.

    ``without``: it fails where one of these modules is loaded at its end. It begins without any of its own then.
    """
    with TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in _STREAMS]
        streams[0].write_bytes(given.encode() if isinstance(given, str) else given)
        asked = {"words": [*map(str, words)], "env": {**(os.environ if env is None else env)}, "cwd": str(cwd)}
        asked["without"] = [*without]
        starter = _starter("libraries" if without else "everything")
        assert starter.stdin and starter.stdout
        starter.stdin.write(json.dumps({**asked, "streams": [*map(str, streams)]}) + "\n")
        starter.stdin.flush()
        code = int(starter.stdout.readline())
        said = [path.read_bytes() for path in streams[1:]]
    told = [one.decode() for one in said] if text else said
    return subprocess.CompletedProcess(["hindsight", *map(str, words)], code, *told)


@cache
def _starter(loads: str) -> subprocess.Popen[str]:
    begun = [sys.executable, "-m", "tests.commands", loads]
    process = subprocess.Popen(begun, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def _load(what: str) -> None:
    """What commands load on this machine's engine, or the libraries alone."""
    if what == "libraries":
        for library in LIBRARIES:
            import_module(library)
        return
    import hindsight
    from hindsight.jobs.running.unseen import unseen

    for found in pkgutil.walk_packages(hindsight.__path__, "hindsight."):
        with unseen("pyspark", "py4j", "great_expectations"), suppress(ModuleNotFoundError):
            import_module(found.name)


def _asked() -> dict[str, Any] | None:
    """In the process of a command: what is asked of it; in the one that starts them: nothing, at the end."""
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if not child:
            return dict(json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()
    return None


def _become(asked: dict[str, Any]) -> None:
    for number, path in enumerate(asked["streams"]):
        stream = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  the one of before holds what others are asked
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = ["hindsight", *asked["words"]]


def _code(without: Sequence[str]) -> int:
    from hindsight.jobs.command_line import main

    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        assert not {*without} & sys.modules.keys()
    return 0


def _end(code: int) -> None:
    """As an interpreter ends, but that it does not clear away each module by itself, which takes a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _load(*sys.argv[1:])
    if asked := _asked():
        _become(asked)
        _end(_code(asked["without"]))

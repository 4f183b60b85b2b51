"""Folders in the temporary directory that go with their process: what a killed one left behind, the next one removes.

A lock on the folder itself tells one in use from one left behind: the system gives it back when the process ends,
however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "hindsight-scratch-"


class ScratchFolder:
    """An empty folder; it goes at the end of the context, or with the process."""

    def __init__(self) -> None:
        remove_dead()
        self.path, lock = _made()
        self._removal = weakref.finalize(self, _remove, self.path, lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it; a second call does nothing."""
        self._removal()


def own_scratch() -> Path:
    """The folder that this process keeps until its end: for what a database spills, say."""
    return _own().path


@cache
def _own() -> ScratchFolder:
    return ScratchFolder()


def remove_dead() -> None:
    """Remove what processes left behind that are no more; folders of other users stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = _opened(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _made() -> tuple[Path, int]:
    """A locked folder, and its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            lock = _opened(folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)  # another process took it for a dead one's before it was locked


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)

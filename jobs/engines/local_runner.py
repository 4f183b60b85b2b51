"""Runs kernels in processes of this machine; blobs lie in files of a folder that goes with the runner.

A single worker is this process itself, and so is what runs a single piece of work, or a few small blobs: a small input
starts none.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, count
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

import pyarrow as pa

from hindsight.jobs.engines.runner import (
    Blob,
    Entry,
    Given,
    Kernel,
    KernelFailedError,
    KeyKernel,
    RowKernel,
    Spool,
    by_key,
    packed,
)
from hindsight.jobs.running.interrupts import STOPPING, undisturbed
from hindsight.jobs.running.scratch_folder import ScratchFolder
from hindsight.jobs.running.unseen import pandas_when_asked

_FEW_BYTES = 4 << 20  # of blobs, for which no worker is started

Work = Callable[[], Iterator[Blob]]


class LocalBlobs:
    """Blobs in files of the runner's folder."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def of(self, *names: str) -> LocalBlobs:
        """See ``Blobs``."""
        return LocalBlobs([entry for entry in self.entries if entry.name in names])

    def tables(self, name: str) -> Iterator[pa.Table]:
        """See ``Blobs``."""
        return chain.from_iterable(Given(own).tables(name) for own in by_key(self.of(name).entries).values())

    def rows(self, name: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """See ``Blobs``."""
        return (table.select(schema.names).cast(schema) for table in self.tables(name))


class Workers:
    """Processes that run kernels, made when there is work for them; they end with this one, however it ends."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.worked = False
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[..., Any], *given: Iterable[Any]) -> Iterator[Any]:
        """As ``map`` does, by all of them at once."""
        self.worked = True
        resource_tracker.ensure_running()
        # A worker is known before a signal counts; and what a terminal or systemd says to all of them is not its own.
        with undisturbed():
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
            try:
                return self._started().map(function, *given)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, *, at_once: bool) -> None:
        """Let them end, ``at_once`` in the middle of their work."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for worker in list((pool._processes or {}).values()) if at_once else ():
            worker.kill()
        pool.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # A forked process would share the locks of this one's threads.
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(self.most, mp_context=context, initializer=_begin)
        return self._pool


class LocalRunner:
    """Use it as a context: at its end its folder is gone, and its workers, after an interrupt as well.

    ``workers``: how many, or those that there are; ``are_kept``: they end only where the block fails.
    """

    def __init__(self, workers: int | Workers, *, are_kept: bool = False) -> None:
        self._workers = Workers(workers) if isinstance(workers, int) else workers
        self._are_kept = are_kept
        self._folder = ScratchFolder()
        self._number = count()
        self._done_of = (0, 0)  # tasks of the step that runs

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            if not self._are_kept or kind is not None:
                self._workers.end(at_once=kind is not None)
            self._folder.remove()

    def at_work(self) -> str:
        """How many tasks of the step that runs are done, in words."""
        done, every = self._done_of
        return f"{done} of {every} tasks" if every else "at work"

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> LocalBlobs:
        """See ``Runner``."""
        return self._done([partial(kernel, task) for task in tasks])

    def over(self, kernel: RowKernel, rows: pa.Table | Iterable[pa.Table]) -> LocalBlobs:
        """See ``Runner``."""
        pieces = [rows] if isinstance(rows, pa.Table) else rows
        return self._done([lambda: chain.from_iterable(map(kernel, pieces))])

    def together(self, *given: LocalBlobs) -> LocalBlobs:
        """See ``Runner``."""
        return LocalBlobs([entry for blobs in given for entry in blobs.entries])

    def by_key(self, kernel: KeyKernel, *given: LocalBlobs) -> LocalBlobs:
        """See ``Runner``."""
        entries = self.together(*given).entries
        work: list[Work] = [partial(_of_key, kernel, key, own) for key, own in by_key(entries).items()]
        return self._done(work, are_few=sum(entry.size for entry in entries) < _FEW_BYTES)

    def _done(self, work: list[Work], *, are_few: bool = False) -> LocalBlobs:
        # In the order of their names the files are in that of the work.
        paths = [self._folder.path / f"{next(self._number):09}.arrow" for _ in work]
        is_alone = self._workers.most < 2 or len(work) < 2 or are_few
        run: Callable[..., Any] = map if is_alone else self._workers.map
        found: list[Entry] = []
        for done, (entries, failure) in enumerate(run(_spooled, work, paths)):
            self._done_of = done + 1, len(work)
            if failure is not None:
                raise KernelFailedError(failure)
            found += entries
        return LocalBlobs(found)


def _begin() -> None:
    """Ends this process with the one that started it, of which a pipe tells; no signal tells of a SIGKILL."""
    with pandas_when_asked():
        pass  # Arrow is loaded
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _of_key(kernel: KeyKernel, key: int, entries: list[Entry]) -> Iterator[Blob]:
    return kernel(key, Given(entries))


def _spooled(work: Work, path: Path) -> tuple[list[Entry], str | None]:
    """A worker's part: what its work gives, in a file; or why it failed, as text, since not every error can travel."""
    spool = Spool(path)
    try:
        for blob in work():
            for rows in packed(blob.rows):
                spool.add(blob[:3], rows)
    except Exception:
        return [], traceback.format_exc()
    finally:
        spool.close()
    return spool.entries, None

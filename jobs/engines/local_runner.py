"""Kernels in processes of this machine; blobs lie in files of a scratch folder."""

from __future__ import annotations

import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from jobs.engines.blobs import Blob, Entry, Given, Spool, packed
from jobs.engines.runner import Kernel, KeyKernel, RowKernel

Work = Callable[[], Iterator[Blob]]


class LocalBlobs:
    """Blobs in files of a scratch folder."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def of(self, *names: str) -> LocalBlobs:
        """See ``Blobs``."""
        return LocalBlobs([entry for entry in self.entries if entry.name in names])

    def tables(self, name: str) -> Iterator[pa.Table]:
        """See ``Blobs``."""
        by_key: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry.name == name:
                by_key[entry.key].append(entry)
        return chain.from_iterable(Given(own).tables(name) for _, own in sorted(by_key.items()))

    def rows(self, name: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """See ``Blobs``."""
        return (table.cast(schema) for table in self.tables(name))


class LocalRunner:
    """Runs kernels in worker processes: as many as cores, none where there is one piece of work."""

    def __init__(self, scratch: Path, pool: Callable[[], ProcessPoolExecutor]) -> None:
        self._scratch, self._pool = scratch, pool
        self._number = count()

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> LocalBlobs:
        """See ``Runner``."""
        return self._done([partial(kernel, task) for task in tasks])

    def over(self, kernel: RowKernel, rows: pa.Table | Iterable[pa.Table]) -> LocalBlobs:
        """See ``Runner``."""
        pieces = [rows] if isinstance(rows, pa.Table) else rows
        path = self._scratch / f"{next(self._number)}.arrow"
        return LocalBlobs(_spooled(lambda: chain.from_iterable(map(kernel, pieces)), path))

    def together(self, *given: LocalBlobs) -> LocalBlobs:
        """See ``Runner``."""
        return LocalBlobs([entry for blobs in given for entry in blobs.entries])

    def by_key(self, kernel: KeyKernel, *given: LocalBlobs) -> LocalBlobs:
        """See ``Runner``."""
        by_key: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.together(*given).entries:
            by_key[entry.key].append(entry)
        return self._done([partial(_of_key, kernel, key, own) for key, own in sorted(by_key.items())])

    def _done(self, work: list[Work]) -> LocalBlobs:
        spools = [self._scratch / f"{next(self._number)}.arrow" for _ in work]
        run = self._pool().map if len(work) > 1 else map
        return LocalBlobs(list(chain.from_iterable(run(_spooled, work, spools))))


@contextmanager
def local_runner() -> Iterator[LocalRunner]:
    """A runner whose processes and files go when it ends."""
    scratch, pools = Path(mkdtemp(prefix="hindsight-")), list[ProcessPoolExecutor]()

    def pool() -> ProcessPoolExecutor:
        if not pools:
            cores = len(os.sched_getaffinity(0))
            # A forked process would share the threads' locks of this one.
            pools.append(ProcessPoolExecutor(cores, get_context("spawn"), _begin_worker))
        return pools[0]

    try:
        yield LocalRunner(scratch, pool)
    finally:
        for each in pools:
            each.shutdown(cancel_futures=True)
        shutil.rmtree(scratch, ignore_errors=True)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others


def _of_key(kernel: KeyKernel, key: int, entries: list[Entry]) -> Iterator[Blob]:
    return kernel(key, Given(entries))


def _spooled(work: Work, path: Path) -> list[Entry]:
    spool = Spool(path)
    try:
        for blob in work():
            for each in packed(blob):
                spool.add(each)
    finally:
        spool.close()
    return spool.entries

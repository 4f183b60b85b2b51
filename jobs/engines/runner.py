"""How kernels run, whatever runs them: over tasks, then over keys; rows go from one to the next as blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from jobs.engines.blobs import Blob, Given

# Of one task, a plain value that can be pickled.
Kernel = Callable[[Any], Iterator[Blob]]
# Of one key, with all blobs that have it.
KeyKernel = Callable[[int, Given], Iterator[Blob]]


class Blobs(Protocol):
    """What kernels gave, kept until the run ends."""

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Those of a name, brought here: for small things only."""

    def rows(self, name: str, schema: pa.Schema) -> Any:
        """Those of a name as what the engine's lake writes; ``schema``: of each of them."""


class Runner(Protocol):
    """Runs kernels in workers. A kernel and its tasks are pickled, so it is a function of a module."""

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> Blobs:
        """Run a kernel for each task."""

    def by_key(self, kernel: KeyKernel, *given: Blobs) -> Blobs:
        """Run a kernel for each key of some blobs; all blobs of a key meet."""

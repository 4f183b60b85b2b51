"""For a process that lives for days: memory that nothing uses goes back, instead of staying with its allocators.

Arrow's own allocator keeps what the largest table of each run took, and glibc keeps a heap for each of many threads.
Both grow run by run, though nothing in them is in use (bench/records/2026-11-28-memory-of-watch.md).
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_M_ARENA_MAX = -8  # mallopt(3)
_HEAPS = 2


def keep_it_low() -> None:
    """Call it before pyarrow is loaded and threads begin; what the environment says of either is left as it is."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, TypeError, AttributeError):  # where the C library is another, it has no such heaps
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)

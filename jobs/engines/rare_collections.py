"""Python's search for objects that refer to each other in circles, held back while a kernel makes many that last.

The search looks at all objects that are alive, again and again: a fifth of the time of a fold that remembers something
of every queue.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 100_000  # until the youngest are looked at; Python's own: 700


@contextmanager
def rare_collections() -> Iterator[None]:
    """Few searches inside."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)

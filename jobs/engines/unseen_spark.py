"""Keeps Spark out of a process that runs without it: libraries load it wherever they find it.

Where it may be seen, it must not end the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SPARK = ("pyspark", "py4j")


@contextmanager
def unseen_spark() -> Iterator[None]:
    """What is imported within finds no Spark; where it is loaded already, it stays."""
    if "pyspark" in sys.modules:
        with seen_spark():
            yield
        return
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(_SPARK))
    try:
        yield
    finally:
        for name in _SPARK:
            del modules[name]


@contextmanager
def seen_spark() -> Iterator[None]:
    """What is imported within may load all of Spark, whatever the main module is.

    ``pyspark.sql.connect`` (4.2.0, check_dependencies) takes a main module without a file, as of ``python -c`` and of
    processes that were spawned, for doctests of its own: where grpc is absent, it ends the process with code 0.
    """
    main: Any = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = __file__
    try:
        yield
    finally:
        del main.__file__

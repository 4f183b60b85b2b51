"""Keeps Spark out of a process that runs without it: libraries load it wherever they find it."""

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
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(_SPARK))
    try:
        yield
    finally:
        for name in _SPARK:
            del modules[name]

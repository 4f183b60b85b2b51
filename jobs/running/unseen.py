"""Keeps modules out of a process that does without them: libraries load them wherever they find them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Unseen:
    """Finds none of some modules, before anybody else looks for them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Others may look for it. Raises: ModuleNotFoundError."""
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is not looked for here", name=name)


@contextmanager
def unseen(*names: str) -> Iterator[None]:
    """What is imported within finds none of these modules; what is loaded already stays."""
    finder = _Unseen(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def unseen_spark() -> Iterator[None]:
    """What is imported within finds no Spark: libraries load it wherever they can. One that is loaded already stays."""
    with seen_spark() if "pyspark" in sys.modules else unseen("pyspark", "py4j"):
        yield


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


@contextmanager
def pandas_when_asked() -> Iterator[None]:
    """Have Arrow, if it is loaded within, load pandas when it is asked for a data frame.

    Else it looks for it with the first value that it makes. For a process of hindsight's own without Spark.
    """
    if "pandas" in sys.modules:
        yield
        return
    with unseen("pandas"):
        yield
        if arrow := sys.modules.get("pyarrow"):
            arrow.scalar(True)

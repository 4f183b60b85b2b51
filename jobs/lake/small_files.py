"""Small text files beside the tables, on a local path or an object store; creating one succeeds once only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from hindsight.jobs.lake.lake_place import for_others, hadoop_place, is_local, refuse_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "report.html"
NOTES = "_notes"  # the folder of what a lake keeps by name


def page_of(lake_root: str) -> str:
    """Where the page of a lake stands."""
    return f"{lake_root.rstrip('/')}/{PAGE}"


def store_errors() -> tuple[type[Exception], ...]:
    """What the stores that are loaded fail with; of Hadoop's client also when the JVM is gone."""
    to_java, to_objects = sys.modules.get("py4j.protocol"), sys.modules.get("obstore.exceptions")
    more = [to_java.Py4JError] if to_java else []
    more += [to_objects.BaseError] if to_objects else []
    return (OSError, *more)


class Store(Protocol):
    """Small text files of one folder, by name."""

    def names(self) -> list[str]:
        """The files' names."""

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""

    def create(self, name: str, text: str) -> None:
        """Create a file unless it is there."""

    def write(self, name: str, text: str) -> None:
        """Write a file over what is there."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""


def store_at(spark: SparkSession | None, folder: str) -> Store:
    """The files of a folder, wherever Spark's Hadoop client finds that; without Spark, here or on an S3 store.

    Raises: NoLocalEngineError: without Spark, and elsewhere.
    """
    if spark is None:
        if not is_local(folder):
            refuse_without_spark(folder)
            from hindsight.jobs.lake.object_store import ObjectStore  # its client is not for those who need none

            return ObjectStore.at(for_others(folder))
        return LocalStore(Path(for_others(folder)))
    place, system = hadoop_place(spark, folder)
    if system.getScheme() == "file":
        return LocalStore(Path(place.toUri().getPath()))
    from hindsight.jobs.lake.hadoop_store import HadoopStore

    return HadoopStore(spark._jvm, system, place)


class LocalStore:
    """A folder of this machine. Hadoop's client would look first and create then, which two runs can do at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """The files' names."""
        return [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""
        with suppress(FileNotFoundError):
            return (self._folder / name).read_text(encoding="utf-8")
        return None

    def create(self, name: str, text: str) -> None:
        """Create a file unless it is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        with suppress(FileExistsError):
            file = path.open("x", encoding="utf-8")
            with _whole_or_gone(path), file:
                file.write(text)

    def write(self, name: str, text: str) -> None:
        """Write a file, whole at any time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / f".{name}.{uuid4().hex}"
        with _whole_or_gone(beside):
            beside.write_text(text, encoding="utf-8")
        beside.replace(self._folder / name)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)


@contextmanager
def _whole_or_gone(path: Path) -> Iterator[None]:
    """Where a full disk refuses a file of one's own it goes again: an empty lease is waited for as one just begun."""
    try:
        yield
    except OSError:
        path.unlink(missing_ok=True)
        raise

"""Small text files beside the tables, on a local path or an object store; creating one succeeds once only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from jobs.engines.lake_place import NoLocalEngineError, for_hadoop, for_others, is_local

# What a store fails with; of Hadoop's client also when the JVM is gone.
STORE_ERRORS = (OSError, Py4JError)


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
    """The files of a folder, wherever Spark's Hadoop client finds that; without Spark, on this machine.

    Raises: NoLocalEngineError: without Spark, and elsewhere.
    """
    if spark is None:
        if not is_local(folder):
            raise NoLocalEngineError("notes on an object store are kept through Spark only; run with --engine spark.")
        return LocalStore(Path(for_others(folder)))
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(for_hadoop(folder))
    system = place.getFileSystem(spark._jsc.hadoopConfiguration())
    if system.getScheme() == "file":
        return LocalStore(Path(place.toUri().getPath()))
    return HadoopStore(jvm, system, place)


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
        with suppress(FileExistsError), (self._folder / name).open("x", encoding="utf-8") as file:
            file.write(text)

    def write(self, name: str, text: str) -> None:
        """Write a file, whole at any time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / f".{name}.{uuid4().hex}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._folder / name)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)


class HadoopStore:
    """A folder that Hadoop's client reaches. HDFS creates a file once by itself, an object store under a condition."""

    def __init__(self, jvm: Any, system: Any, folder: Any) -> None:
        self._path, self._system, self._folder = jvm.org.apache.hadoop.fs.Path, system, folder

    def names(self) -> list[str]:
        """The files' names."""
        try:
            return [str(status.getPath().getName()) for status in self._system.listStatus(self._folder)]
        except Py4JJavaError as error:
            if _is_absence(error):
                return []
            raise

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""
        try:
            stream = self._system.open(self._path(self._folder, name))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()
        except Py4JJavaError as error:
            if _is_absence(error):
                return None
            raise

    def create(self, name: str, text: str) -> None:
        """Create a file unless it is there; for s3a that is decided when it is closed."""
        builder = self._system.createFile(self._path(self._folder, name)).overwrite(False).recursive()
        try:
            stream = builder.opt("fs.option.create.conditional.overwrite", True).build()
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError:
            if self.read(name) is None:
                raise

    def write(self, name: str, text: str) -> None:
        """Write a file over what is there; an object store shows it when it is whole, HDFS as it grows."""
        stream = self._system.create(self._path(self._folder, name), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._system.delete(self._path(self._folder, name), False)


def _is_absence(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getSimpleName() == "FileNotFoundException")

"""The numbered files of a lake's lease: created by one run only, whatever store the lake is in."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_FOLDER = "_lease"
_NAME = re.compile(r"(\d{9})\.json")


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


class LeaseFolder:
    """Files by number. ``lake`` and ``place`` say where, for people."""

    def __init__(self, lake: str, store: Store) -> None:
        self.lake, self.place, self._store = lake, f"{lake}/{_FOLDER}", store

    def numbers(self) -> list[int]:
        """The numbers that are there, and 0."""
        found = map(_NAME.fullmatch, self._store.names())
        return [0, *(int(name.group(1)) for name in found if name)]

    def latest(self) -> tuple[int, str | None]:
        """The highest number and its text; None: there is none, or it was just removed."""
        number = max(self.numbers())
        return number, self.read(number) if number else None

    def read(self, number: int) -> str | None:
        """A file's text; None: there is no such file."""
        return self._store.read(_name(number))

    def create(self, number: int, text: str) -> bool:
        """Create a file; whether it is this one that stands there. A store may answer a retry with a refusal."""
        self._store.create(_name(number), text)
        return self.read(number) == text

    def write(self, number: int, text: str) -> None:
        """Rewrite a file of one's own."""
        self._store.write(_name(number), text)

    def delete(self, number: int) -> None:
        """Remove a file, if it is there."""
        self._store.delete(_name(number))


def lease_folder(spark: SparkSession, lake: str) -> LeaseFolder:
    """The lease's folder of a lake, wherever Spark's Hadoop client finds that."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(f"{lake}/{_FOLDER}")
    system = place.getFileSystem(spark._jsc.hadoopConfiguration())
    if system.getScheme() == "file":
        return LeaseFolder(lake, LocalStore(Path(place.toUri().getPath())))
    return LeaseFolder(lake, HadoopStore(jvm, system, place))


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
        """Write a file over what is there."""
        stream = self._system.create(self._path(self._folder, name), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._system.delete(self._path(self._folder, name), False)


def _is_absence(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getSimpleName() == "FileNotFoundException")


def _name(number: int) -> str:
    return f"{number:09}.json"

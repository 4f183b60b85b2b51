"""Small text files of a folder on an S3 store, without Spark: a name in, a text out, or the other way round.

Small text files of a folder that Hadoop's client reaches: a name in, a text out, or the other way round.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import obstore
import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store
from py4j.protocol import Py4JJavaError

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.lake.lake_place import delta_options, server_of_s3

_GIVES_UP = timedelta(seconds=20)  # a lease must know sooner than others may take it over that its store is away


class StoreError(ExpectedError):
    """Raised where a store does not answer, or refuses; nothing was done."""


class ObjectStore:
    """A folder on a store that creates an object only where none is (``If-None-Match``), as delta-rs needs it too.

    It reads the environment as delta-rs does: both are the same client.
    """

    def __init__(self, store: obstore.store.ObjectStore) -> None:
        self._store = store

    @classmethod
    def at(cls, place: str) -> ObjectStore:
        """The folder of a place ``s3://bucket/path``."""
        plain = delta_options(place).get("allow_http") == "true"
        return cls(
            S3Store.from_url(place, client_options={"allow_http": plain}, retry_config={"retry_timeout": _GIVES_UP})
        )

    def names(self) -> list[str]:
        """The files' names."""
        return [str(found["path"]) for found in obstore.list_with_delimiter(self._store)["objects"]]

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""
        with suppress(FileNotFoundError):
            return bytes(obstore.get(self._store, name).bytes()).decode()
        return None

    def create(self, name: str, text: str) -> None:
        """Create a file unless it is there."""
        with suppress(AlreadyExistsError):
            obstore.put(self._store, name, text.encode(), mode="create")

    def write(self, name: str, text: str) -> None:
        """Write a file over what is there; it shows when it is whole."""
        obstore.put(self._store, name, text.encode())

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            obstore.delete(self._store, name)


def reached(place: str) -> None:
    """Look at a place on an S3 store before anything is done there.

    Raises: StoreError: it cannot be listed.
    """
    try:
        ObjectStore.at(place).names()
    except (BaseError, OSError) as error:
        first, _, _ = str(error).partition("\n\nDebug source")
        raise StoreError(
            f"{place} could not be listed: {' '.join(first.split())}. Nothing was done. The server was "
            f"{server_of_s3() or 'that of AWS'}; the environment says which it is (AWS_ENDPOINT_URL, AWS_REGION) and "
            "who asks (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or a role)."
        ) from error


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

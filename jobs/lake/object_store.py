"""Small text files of a folder on an S3 store, without Spark: a name in, a text out, or the other way round."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import obstore
import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

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

    def sizes(self, folder: str) -> dict[str, int]:
        """The files of a folder below, with their sizes in bytes."""
        found = obstore.list_with_delimiter(self._store, folder)["objects"]
        return {str(one["path"]).rpartition("/")[2]: one["size"] for one in found}

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""
        with suppress(FileNotFoundError):
            return bytes(obstore.get(self._store, name).bytes()).decode()
        return None

    def create(self, name: str, text: str) -> None:
        """Create a file unless it is there."""
        with suppress(AlreadyExistsError):
            obstore.put(self._store, name, text.encode(), mode="create")

    def create_from(self, name: str, file: Path) -> None:
        """Create a file with the bytes of one of this machine, unless it is there; it shows when it is whole."""
        with suppress(AlreadyExistsError):
            obstore.put(self._store, name, file, mode="create", use_multipart=False)

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

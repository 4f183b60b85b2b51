"""Small text files of a folder on an object store, without Spark: a name in, a text out, or the other way round."""

from __future__ import annotations

from contextlib import suppress

from pyarrow import fs

from hindsight.jobs.lake.lake_place import NoLocalEngineError


class ArrowStore:
    """A folder that Arrow reaches. It creates no file under a condition: leases are not for it."""

    def __init__(self, system: fs.FileSystem, folder: str) -> None:
        self._system, self._folder = system, folder

    def names(self) -> list[str]:
        """The files' names."""
        listed = self._system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        return [found.base_name for found in listed if found.type == fs.FileType.File]

    def read(self, name: str) -> str | None:
        """A file's text; None: there is no such file."""
        with suppress(FileNotFoundError), self._system.open_input_file(f"{self._folder}/{name}") as file:
            text: str = file.read().decode()
            return text
        return None

    def create(self, name: str, text: str) -> None:
        """Refused: of two that create a file at once both would succeed."""
        raise NoLocalEngineError(
            "a lake on an object store is leased through Hadoop's client only; run with --engine spark."
        )

    def write(self, name: str, text: str) -> None:
        """Write a file over what is there; it shows when it is whole."""
        self._system.create_dir(self._folder, recursive=True)
        with self._system.open_output_stream(f"{self._folder}/{name}") as file:
            file.write(text.encode())

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self._system.delete_file(f"{self._folder}/{name}")

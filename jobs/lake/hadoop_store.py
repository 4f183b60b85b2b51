"""Small text files of a folder that Hadoop's client reaches: a name in, a text out, or the other way round."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError


class HadoopStore:
    """A folder that Hadoop's client reaches. HDFS creates a file once by itself, an object store under a condition."""

    def __init__(self, jvm: Any, system: Any, folder: Any) -> None:
        self._path, self._system, self._folder = getattr(jvm, "org.apache.hadoop.fs.Path"), system, folder

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

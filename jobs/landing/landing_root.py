"""What stands under the landing root: a folder's files, and their bytes; a local path or an object store.

Whoever may write there decides what is read, so nothing outside the root can be: a link is never followed, only
regular files are opened, and no path leads up or begins elsewhere. The landing root itself may be reached through
links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from hindsight.jobs.lake.lake_place import for_others

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK  # without the second a pipe would be waited for
_LONGEST_PATH = 4096
_A_LINK = "a link, which is not followed"
_LEADS_ELSEWHERE = frozenset({"", ".", ".."})  # an empty part is that of an absolute path, or of none
_REPLACED = (errno.ELOOP, errno.ENOTDIR)  # what opening without following a link says of one


class Landed(NamedTuple):
    """A file under the root: its path relative to it, and its size."""

    path: str
    size: int

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return self.path.rpartition("/")[2]


class LeftAlone(NamedTuple):
    """What is not read: its path relative to the root, a folder's ending in a slash, and why."""

    path: str
    reason: str


class Listing(NamedTuple):
    """The files below a folder, and what else there is: links, pipes, devices, unusable names."""

    files: list[Landed]
    left_alone: list[LeftAlone]


class LandingRoot:
    """The landing folder, as ``pyarrow.fs`` knows it."""

    def __init__(self, landing: str) -> None:
        if "://" in landing:
            self._system, path = _system_of(landing)
        else:
            self._system, path = fs.LocalFileSystem(), landing
        self._path = path.rstrip("/") or path[:1]
        self._is_local = isinstance(self._system, fs.LocalFileSystem)

    def is_folder(self) -> bool:
        """Whether the root is there; a store has a folder where something lies in it.

        Raises: OSError: the store cannot be asked.
        """
        if self._is_local:
            return Path(self._path).is_dir()
        return bool(self._system.get_file_info(self._path).type == fs.FileType.Directory)

    def keeps_empty_folders(self) -> bool:
        """Whether a folder of which every file was deleted is still there, as it is not in a store."""
        return self._is_local

    def inside(self, folder: str = "") -> Iterator[tuple[str, bool]]:
        """The names of what stands directly in the root, or in a folder of it; each with whether it is a folder.

        Raises: OSError: it cannot be listed.
        """
        place = f"{self._path}/{folder}".rstrip("/") or "/"
        if self._is_local:
            with os.scandir(place) as entries:
                yield from ((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        else:
            for info in self._system.get_file_info(fs.FileSelector(place, allow_not_found=True)):
                yield info.base_name, info.type == fs.FileType.Directory

    def list(self, folder: str) -> Listing:
        """All below a folder of the root; an absent one holds nothing.

        Raises: OSError: the folder does not lie below the root.
        """
        _refuse_elsewhere(folder)
        return self._list_locally(folder) if self._is_local else self._list_store(folder)

    def exists(self, file: str) -> bool:
        """Whether there is such a file.

        Raises: OSError: its path does not lie below the root.
        """
        _refuse_elsewhere(file)
        if self._is_local:
            about = self._about(file)
            return about is not None and stat.S_ISREG(about.st_mode)
        return bool(self._system.get_file_info(f"{self._path}/{file}").type == fs.FileType.File)

    @contextmanager
    def opened(self, file: str, *, seekable: bool = False) -> Iterator[Any]:
        """A file's bytes, as an object with ``read``.

        Raises: OSError: it cannot be read; also if a link or something else has taken its place, or its path does not
            lie below the root.
        """
        _refuse_elsewhere(file)
        if self._is_local:
            opened: Any = os.fdopen(self._descriptor(file), "rb", buffering=0)
        elif seekable:
            opened = self._system.open_input_file(f"{self._path}/{file}")
        else:
            opened = self._system.open_input_stream(f"{self._path}/{file}", compression=None)
        with opened:
            yield opened

    def _about(self, path: str) -> os.stat_result | None:
        """What a local path is, where it is a link the link; None where there is nothing, or no longer."""
        try:
            return Path(self._path, path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _list_store(self, folder: str) -> Listing:
        below = fs.FileSelector(f"{self._path}/{folder}", recursive=True, allow_not_found=True)
        found = Listing([], [])
        for info in self._system.get_file_info(below):
            if info.type == fs.FileType.File:
                path = info.path.removeprefix(self._path).lstrip("/")
                if _leads_elsewhere(path):  # to a store ".." is a name like any other
                    found.left_alone.append(LeftAlone(path, "a part of the path is empty, '.' or '..'"))
                else:
                    found.files.append(Landed(path, info.size))
        return found

    def _list_locally(self, folder: str) -> Listing:
        found = Listing([], [])
        paths = [folder]
        while paths:
            path = paths.pop()
            if not self._has_usable_name(path):
                found.left_alone.append(LeftAlone(path, "the path is not UTF-8, or too long"))
            elif about := self._about(path):
                if stat.S_ISDIR(about.st_mode):
                    paths += [f"{path}/{inside.name}" for inside in Path(self._path, path).iterdir()]
                elif stat.S_ISREG(about.st_mode):
                    found.files.append(Landed(path, about.st_size))
                else:
                    is_link = stat.S_ISLNK(about.st_mode)
                    found.left_alone.append(LeftAlone(path, _A_LINK if is_link else "a pipe, a socket or a device"))
        return found

    def _has_usable_name(self, path: str) -> bool:
        """Whether a path is UTF-8, which tables and queries can hold, and short enough for the system to open."""
        try:
            return len(f"{self._path}/{path}".encode()) < _LONGEST_PATH
        except UnicodeEncodeError:  # Python shows other bytes as halves of surrogate pairs
            return False

    def _descriptor(self, file: str) -> int:
        """Open a local file, folder by folder: since it was listed any of them may have been replaced by a link."""
        *folders, name = file.split("/")
        place = os.open(self._path, _FOLDER)
        try:
            for folder in folders:
                outer, place = place, os.open(folder, _FOLDER | _NO_LINK, dir_fd=place)
                os.close(outer)
            descriptor = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=place)
        except OSError as error:
            raise _replaced(file) if error.errno in _REPLACED else error from None
        finally:
            os.close(place)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _replaced(file)
        return descriptor


def _system_of(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it.

    Raises: OSError: it cannot be read; Arrow's own message would repeat it, and with it a secret that it holds.
    """
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(for_others(uri))
    except (pa.ArrowInvalid, NotImplementedError):
        said = "the URI of the landing folder names no store that Arrow knows, or is written wrongly; correct --landing"
        raise OSError(errno.EINVAL, said) from None
    return found


def _leads_elsewhere(path: str) -> bool:
    return not _LEADS_ELSEWHERE.isdisjoint(path.split("/"))


def _refuse_elsewhere(path: str) -> None:
    if _leads_elsewhere(path):
        raise OSError(errno.EINVAL, "not a path below the landing folder: a part of it is empty, '.' or '..'", path)


def _replaced(file: str) -> OSError:
    return OSError(errno.ELOOP, "a link, a pipe or a device has taken the place of a landing file; remove it", file)

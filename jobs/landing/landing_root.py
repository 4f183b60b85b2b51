"""What stands under the landing root: a folder's files, and their bytes; a local path or an object store.

Whoever may write there decides what is read, so nothing outside the root can be: a link is never followed, only
regular files are opened, and no path leads up or begins elsewhere. The landing root itself may be reached through
links.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from hindsight.jobs.lake.lake_place import file_system, for_others
from hindsight.udfs.landing.hour_folders import MOST_SEAL_BYTES, SEAL, named_by

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK  # without the second a pipe would be waited for
_LONGEST_PATH = 4096
_A_LINK = "a link, which is not followed"
_LEADS_ELSEWHERE = frozenset({"", ".", ".."})  # an empty part is that of an absolute path, or of none
# A folder that a date names, with or without an hour: 2026-11-27, date=20261127, 2026/11/27/13, 20261127T13; or with an
# hour and a writer: 2026-11-27/13-collector.
_OF_DATE = re.compile(r"(?:.+/)?(?:[a-z_]+=)?(\d{4})[-/]?(\d\d)[-/]?(\d\d)(?:[-T/](?:[a-z_]+=)?\d\d(?:-[^/]+)?)?")
_DATE_IS_OVER = timedelta(days=2)  # wherever it began
_RESTED_S = 86_400
_OF_A_CLUSTER = 2  # slashes of a path that lies in the folder of a cluster itself, which never rests
_SETTLED_NS = 2_000_000_000  # a clock of a file system may show two changes as one
_LOOKED_AT_AGAIN_NS = 86_400_000_000_000  # of a store, which tells nothing of a folder
_REPLACED = (errno.ELOOP, errno.ENOTDIR)  # what opening without following a link says of one


NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})


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
    """The files below a folder, and what else there is: links, pipes, devices, unusable names.

    ``at_rest``: folders in which nothing is to be expected, with when they last changed, in a store when they were last
    looked through (ns): those that are sealed, and of this machine those of dates that are over, in which nothing has
    changed for a day. ``unnamed``: files in folders that are sealed, whose seal does not name them, or as others.
    """

    files: list[Landed]
    left_alone: list[LeftAlone]
    at_rest: dict[str, int]
    unnamed: list[str]


class LandingRoot:
    """The landing folder: one of this machine, or a store as ``pyarrow.fs`` knows it."""

    def __init__(self, landing: str) -> None:
        self._system: Any
        self._system, path = _system_of(landing) if "://" in landing else (None, landing)
        self._path = path.rstrip("/") or path[:1]
        self._is_local = self._system is None

    def is_folder(self) -> bool:
        """Whether the root is there; a store has a folder where something lies in it.

        Raises: OSError: the store cannot be asked.
        """
        if self._is_local:
            return Path(self._path).is_dir()
        return _is_folder(self._system.get_file_info(self._path))

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
            for info in self._below(place):
                yield info.base_name, _is_folder(info)

    def list(self, folder: str, known: Mapping[str, int] | None = None) -> Listing:
        """All below a folder of the root, but for what lies in folders ``known`` to be at rest; an absent one is empty.

        None: nobody will know later what is at rest, so no seal is read.
        Raises: OSError: the folder does not lie below the root.
        """
        _refuse_elsewhere(folder)
        listing = self._list_locally if self._is_local else self._list_store
        found, folders = listing(folder, known or NOTHING_KNOWN)
        return found if known is None else self._with_sealed(found, folders)

    def exists(self, file: str) -> bool:
        """Whether there is such a file.

        Raises: OSError: its path does not lie below the root.
        """
        _refuse_elsewhere(file)
        if self._is_local:
            about = _about(Path(self._path, file).lstat)
            return about is not None and stat.S_ISREG(about.st_mode)
        return bool(self._system.get_file_info(f"{self._path}/{file}").is_file)

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

    def _with_sealed(self, found: Listing, settled: Mapping[str, int]) -> Listing:
        """With the folders at rest whose seal names all that is in them, and what others hold beside that."""
        named = {
            folder_of(file.path): named_by(self._read(file.path))
            for file in found.files
            if file.name == SEAL and file.size <= MOST_SEAL_BYTES and file.path.count("/") > _OF_A_CLUSTER
        }
        others = [
            (within, file.path)
            for file in found.files
            if file.name != SEAL and (within := folder_of(file.path)) in named
            if named[within].get(file.name) != file.size
        ]
        open_ones = {within for within, _ in others} | {folder_of(one.path) for one in found.left_alone}
        open_ones |= _above([*settled, *found.at_rest])
        sealed = {within: settled[within] for within in named if within in settled and within not in open_ones}
        return found._replace(at_rest=found.at_rest | sealed, unnamed=[path for _, path in others])

    def _read(self, file: str) -> bytes:
        """A seal's bytes; of one that cannot be read none, so its folder stays open."""
        with suppress(OSError), self.opened(file) as stream:
            return bytes(stream.read(MOST_SEAL_BYTES))
        return b""

    def _list_store(self, folder: str, known: Mapping[str, int]) -> tuple[Listing, Mapping[str, int]]:
        """By prefixes, where some below are known: else one call tells a thousand files, wherever they lie."""
        now, found, looked = time.time_ns(), Listing([], [], {}, []), dict[str, int]()
        fresh = {
            path: at for path, at in known.items() if path.startswith(f"{folder}/") and now - at < _LOOKED_AT_AGAIN_NS
        }
        above = _above(fresh)
        waiting = [folder]
        while waiting:
            place = waiting.pop()
            for info in self._below(f"{self._path}/{place}", recursive=place not in above):
                path = info.path.removeprefix(self._path).lstrip("/")
                if not info.is_file:
                    if path in fresh:
                        found.at_rest[path] = fresh[path]
                    elif place in above:
                        waiting.append(path)
                elif _leads_elsewhere(path):  # to a store ".." is a name like any other
                    found.left_alone.append(LeftAlone(path, "a part of the path is empty, '.' or '..'"))
                else:
                    found.files.append(Landed(path, info.size))
                    looked[folder_of(path)] = now
        return found, looked

    def _below(self, place: str, *, recursive: bool = False) -> Any:
        from pyarrow import fs

        return self._system.get_file_info(fs.FileSelector(place, recursive=recursive, allow_not_found=True))

    def _list_locally(self, folder: str, known: Mapping[str, int]) -> tuple[Listing, Mapping[str, int]]:
        found, folders, newest = Listing([], [], {}, []), dict[str, int](), dict[str, int]()
        now = time.time_ns()
        waiting: list[tuple[str, Callable[[], os.stat_result]]] = [(folder, Path(self._path, folder).lstat)]
        while waiting:
            path, look = waiting.pop()
            if not self._has_usable_name(path):
                found.left_alone.append(LeftAlone(path, "the path is not UTF-8, or too long"))
            elif about := _about(look):
                if stat.S_ISREG(about.st_mode):
                    found.files.append(Landed(path, about.st_size))
                    within = folder_of(path)
                    newest[within] = max(newest.get(within, 0), about.st_mtime_ns)
                elif stat.S_ISDIR(about.st_mode):
                    folders[path] = about.st_mtime_ns
                    if known.get(path) != about.st_mtime_ns:
                        waiting += self._entries(path)
                else:
                    is_link = stat.S_ISLNK(about.st_mode)
                    found.left_alone.append(LeftAlone(path, _A_LINK if is_link else "a pipe, a socket or a device"))
        outer = {folder_of(path) for path in folders}
        at_rest = {
            path: at
            for path, at in folders.items()
            if known.get(path) == at or (path in newest and path not in outer and _rests(path, max(at, newest[path])))
        }
        settled = {path: at for path, at in folders.items() if path not in outer and now - at >= _SETTLED_NS}
        return found._replace(at_rest=at_rest), settled

    def _entries(self, folder: str) -> Iterator[tuple[str, Callable[[], os.stat_result]]]:
        with os.scandir(f"{self._path}/{folder}") as entries:
            yield from ((f"{folder}/{one.name}", partial(one.stat, follow_symlinks=False)) for one in entries)

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


def folder_of(path: str) -> str:
    """The folder that a path lies in."""
    return path.rpartition("/")[0]


def _above(paths: Iterable[str]) -> set[str]:
    """All folders that paths lie in, however deep."""
    return {str(outer) for path in paths for outer in PurePosixPath(path).parents}


def _about(look: Callable[[], os.stat_result]) -> os.stat_result | None:
    """What a local path is, where it is a link the link; None where there is nothing, or no longer."""
    try:
        return look()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _rests(folder: str, changed_ns: int) -> bool:
    """Whether a date that is over names a folder of a cluster, and nothing in it has changed for a day."""
    named = _OF_DATE.fullmatch(folder.split("/", 2)[2]) if folder.count("/") > 1 else None
    if named is None or time.time() - changed_ns / 1e9 < _RESTED_S:
        return False
    try:
        return datetime.now(UTC).date() - date(*map(int, named.groups())) >= _DATE_IS_OVER
    except ValueError:  # 20261399 is no date
        return False


def _is_folder(info: Any) -> bool:
    return bool(info.type.name == "Directory")


def _system_of(uri: str) -> tuple[Any, str]:
    """The store of a URI, as ``pyarrow.fs`` knows it (None: this machine), and the path in it.

    Raises: OSError: it cannot be read; Arrow's own message would repeat it, and with it a secret that it holds.
    """
    from pyarrow import fs  # which a folder of this machine does not need

    try:
        system, path = file_system(uri) if uri.startswith("hdfs:") else fs.FileSystem.from_uri(for_others(uri))
    except (ValueError, NotImplementedError):
        said = "the URI of the landing folder names no store that Arrow knows, or is written wrongly; correct --landing"
        raise OSError(errno.EINVAL, said) from None
    return (None if isinstance(system, fs.LocalFileSystem) else system), path


def _leads_elsewhere(path: str) -> bool:
    return not _LEADS_ELSEWHERE.isdisjoint(path.split("/"))


def _refuse_elsewhere(path: str) -> None:
    if _leads_elsewhere(path):
        raise OSError(errno.EINVAL, "not a path below the landing folder: a part of it is empty, '.' or '..'", path)


def _replaced(file: str) -> OSError:
    return OSError(errno.ELOOP, "a link, a pipe or a device has taken the place of a landing file; remove it", file)

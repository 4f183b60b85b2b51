"""Recorders' finished files in, fewer and larger ones out, compressed: nothing is lost, nothing has two names.

A batch is chosen once: a hidden list beside the files says which they are and how large. What is written is named by a
digest of its lines and of its files' names, and is put only where it is not yet. The list then says that it is stored,
and only now the files are removed. Whoever is killed between two steps goes on from the list. By hour, what is written
lies in a folder of this shipper for each hour, which is sealed once it is over.

The standard library is enough: where nothing else is installed, ``python -m hindsight.jobs.collect.ship`` does it.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import json
import os
import re
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, Protocol

from hindsight.conf.failure import DONE, LAKE_HELD, RUN_FAILED, WRONG_USAGE, ExpectedError
from hindsight.jobs.running.interrupts import handled_by
from hindsight.udfs.landing.hour_folders import SEAL, hour_folder, is_hour, is_over, seal_of

# Each of their lines stands by itself: it says the same in whichever file it is.
FORMATS = ("canonical_sends", "consumer_hook", "producer_hook", "trace_topic")
MOST_BYTES = 64 * 2**20  # of lines in a written file; so many may always inflate (udfs/lines/archive_blocks.py)
QUIET_S = 300.0
_LIST, _SPOOL = ".ship.json", ".ship.gz"
_HOUR, _SEAL_SPOOL = ".ship.hour", ".ship.seal"
_CHUNK_BYTES = 1 << 20
_GZIP_LEVEL = 6
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A recorder gives this name to a file when it has closed it.
_CLOSED = re.compile(r"(sends|consumes)-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl")


class ShipError(ExpectedError):
    """Raised where something could not be shipped; it stays where it is."""


class ShippingError(ShipError):
    """Raised where another process ships the same folder."""

    exit_code = LAKE_HELD


class WrongUsageError(ShipError):
    """Raised where what was asked cannot be meant."""

    exit_code = WRONG_USAGE


class UnreadableError(Exception):
    """Raised where a file of a batch cannot be read; it is named."""


class Store(Protocol):
    """Where files are put."""

    def put(self, path: str, content: Path) -> None:
        """Store a file unless there is one of this path; it shows when it is whole. Raises: OSError."""
        ...

    def sizes(self, folder: str) -> dict[str, int]:
        """The files of a folder, with their sizes. Raises: OSError."""
        ...


class LandingFolder:
    """A landing folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, path: str, content: Path) -> None:
        """As ``Store.put``: under a hidden name, which no run reads, until it is whole."""
        file = self._root / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with content.open("rb") as packed:
                _write(file, packed)
        _sync(file.parent)

    def sizes(self, folder: str) -> dict[str, int]:
        """As ``Store.sizes``; those that are not whole do not count."""
        return {file.name: file.stat().st_size for file in (self._root / folder).glob("[!._]*")}


class Source(NamedTuple):
    """A finished file: its name in its folder, its bytes, and when it was last written to."""

    name: str
    size: int
    changed_ns: int


class Shipper:
    """Ships what is finished in folders of recorders, ``<format>/cluster=<name>/*.jsonl`` as in a landing folder.

    ``hours_of``: the shipper's name, where what it writes lies in a folder for each hour; no two may have the same.

    Raises: ShipError: another process ships one of them, or it is no folder.
    """

    def __init__(
        self,
        roots: list[Path],
        store: Store,
        tell: Callable[..., None],
        most_bytes: int = MOST_BYTES,
        *,
        hours_of: str = "",
    ) -> None:
        self._roots, self._store, self._tell, self._most_bytes = roots, store, tell, most_bytes
        self._hours_of = hours_of
        self._locks = [_locked(root) for root in roots]
        self._told: set[Path] = set()  # what cannot be shipped is told once
        self._unreadable: set[Path] = set()

    def ship(self) -> bool:
        """Ship all that is finished, and tell how much that was; whether all could be stored."""
        begun, facts = time.monotonic(), {"files": 0, "bytes": 0, "written": 0, "left": 0, "failed": 0}
        for folder in (folder for root in self._roots for folder in sorted(root.glob("*/cluster=*"))):
            if folder.is_symlink() or not folder.is_dir():
                continue
            if folder.parent.name not in FORMATS:
                facts["left"] += 1
                self._left(folder, "the lines of this format do not stand by themselves")
                continue
            try:
                self._ship_folder(folder, facts)
            except OSError as error:
                facts["failed"] += 1
                self._tell("a folder could not be shipped", folder=str(folder), error=str(error))
        self._tell("shipped", **facts, seconds=round(time.monotonic() - begun, 3))
        return not facts["failed"]

    def _ship_folder(self, folder: Path, facts: dict[str, int]) -> None:
        try:
            with suppress(FileNotFoundError):
                batch, is_stored, hour = _read_list(folder)
                self._ship_batch(folder, batch, hour, facts, is_stored=is_stored)
        except ValueError as error:  # its files are shipped anew; what is read of them twice is the same rows
            self._tell("a list of what was being shipped is none", path=str(folder / _LIST), error=str(error))
            (folder / _LIST).unlink()
        self._seal(folder)
        files = [file for path in sorted(folder.iterdir()) if (file := self._finished(path, facts))]
        for batch in _batches(files, self._most_bytes):
            hour = hour_folder(self._hours_of)
            _write_list(folder, batch, hour, is_stored=False)
            self._ship_batch(folder, batch, hour, facts)

    def _seal(self, folder: Path) -> None:
        """Seal the folder of an hour that is over; what was begun in it is stored."""
        hour = _noted_hour(folder)
        if is_over(hour):
            into = f"{folder.parent.name}/{folder.name}/{hour}"
            _write(folder / _SEAL_SPOOL, BytesIO(seal_of(self._store.sizes(into))))
            self._store.put(f"{into}/{SEAL}", folder / _SEAL_SPOOL)
            (folder / _SEAL_SPOOL).unlink()
            (folder / _HOUR).unlink()

    def _ship_batch(
        self, folder: Path, batch: list[Source], hour: str, facts: dict[str, int], *, is_stored: bool = False
    ) -> None:
        if not is_stored:
            try:
                digest = _spool(folder, batch)
            except UnreadableError as error:
                (folder / _LIST).unlink()  # the next batches do without it
                facts["left"] += 1
                self._unreadable.add(folder / str(error))
                self._left(folder / str(error), f"it cannot be read: {error.__cause__}")
                return
            if digest:
                if hour and hour != _noted_hour(folder):  # noted, so that it is sealed whoever is killed when
                    self._seal(folder)
                    _write(folder / _HOUR, BytesIO(hour.encode()))
                into = "/".join(filter(None, (folder.parent.name, folder.name, hour)))
                self._store.put(f"{into}/shipped-{digest}.jsonl.gz", folder / _SPOOL)
                facts["written"] += 1
            _write_list(folder, batch, hour, is_stored=True)
        for file in batch:
            self._remove(folder / file.name, file, facts)
        _sync(folder)
        (folder / _SPOOL).unlink(missing_ok=True)
        (folder / _LIST).unlink()

    def _remove(self, path: Path, file: Source, facts: dict[str, int]) -> None:
        with suppress(FileNotFoundError):
            found = path.lstat()
            if (found.st_size, found.st_mtime_ns) == file[1:]:
                path.unlink()
                facts["files"] += 1
                facts["bytes"] += file.size
            else:  # what is read of it twice is the same rows
                self._tell("a file has changed since it was shipped; it is shipped again when it rests", file=str(path))

    def _finished(self, path: Path, facts: dict[str, int]) -> Source | None:
        if path.suffix != ".jsonl" or path.name.startswith((".", "_")):
            return None
        try:
            descriptor = _opened(path)
            found = os.fstat(descriptor)
            os.close(descriptor)
        except OSError as error:
            facts["left"] += 1
            self._left(path, f"it cannot be read: {error}")
            return None
        if not stat.S_ISREG(found.st_mode) or path in self._unreadable:
            facts["left"] += 1
            self._left(path, "it is no file")
            return None
        is_closed = _CLOSED.fullmatch(path.name) or time.time() - found.st_mtime >= QUIET_S
        return Source(path.name, found.st_size, found.st_mtime_ns) if is_closed else None

    def _left(self, path: Path, why: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self._tell("left alone", path=str(path), why=why)


def _batches(files: list[Source], most_bytes: int) -> Iterator[list[Source]]:
    """The files in order, so many together as stay within the bound; a larger one is alone."""
    batch: list[Source] = []
    for file in files:
        if batch and sum(one.size + 1 for one in batch) + file.size >= most_bytes:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


def _spool(folder: Path, batch: list[Source]) -> str:
    """Write the lines of a batch into one file; its digest, empty: there are none. Raises: UnreadableError."""
    # Of the names too: two batches with equal lines are two files.
    digest, size = blake2b(json.dumps([file.name for file in batch]).encode(), digest_size=16), 0
    level = _GZIP_LEVEL if sum(file.size + 1 for file in batch) <= MOST_BYTES else 0  # else it may pass for a bomb
    with _new(folder / _SPOOL) as raw:
        with gzip.GzipFile("", "wb", level, raw, mtime=0) as packed:
            for file in batch:
                for chunk in _lines(folder / file.name, file.size, keeps_mark=not size):
                    digest.update(chunk)
                    size += len(chunk)
                    packed.write(chunk)
        raw.flush()
        os.fsync(raw.fileno())
    return digest.hexdigest() if size else ""


def _lines(path: Path, left: int, *, keeps_mark: bool) -> Iterator[bytes]:
    """The first bytes of a file, with the end that its last line may lack; ``keeps_mark``: that before them."""
    last, is_first = b"\n", True
    try:
        with os.fdopen(_opened(path), "rb") as file:
            while chunk := file.read(min(left, _CHUNK_BYTES)):
                left -= len(chunk)
                unmarked = chunk.removeprefix(_BYTE_ORDER_MARK) if is_first else chunk
                is_first, last = False, unmarked[-1:] or last
                yield chunk if keeps_mark else unmarked
    except FileNotFoundError:
        return  # somebody has taken it away since it was listed
    except OSError as error:
        raise UnreadableError(path.name) from error
    if last != b"\n":
        yield b"\r\n"  # where it ends in \r, that is its own


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_list(folder: Path) -> tuple[list[Source], bool, str]:
    """What was being shipped, whether it is stored, its hour. Raises: FileNotFoundError; ValueError: it is none."""
    try:
        listed = json.loads((folder / _LIST).read_bytes())
        batch = [Source(str(name), int(size), int(changed_ns)) for name, size, changed_ns in listed["files"]]
        is_stored, hour = bool(listed["is_stored"]), str(listed.get("hour", ""))
    except (TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"it lacks something: {error!r}") from error
    if others := [file.name for file in batch if "/" in file.name or not file.name.endswith(".jsonl")]:
        raise ValueError(f"it names what is no recorder's file of this folder: {others[0]!r}")
    if hour and not is_hour(hour):
        raise ValueError(f"it names no folder of an hour: {hour!r}")
    return batch, is_stored, hour


def _noted_hour(folder: Path) -> str:
    """The folder of the hour that was written into last; empty: none is open."""
    with suppress(FileNotFoundError, ValueError):
        return (folder / _HOUR).read_text(encoding="utf-8")
    return ""


def _write_list(folder: Path, batch: list[Source], hour: str, *, is_stored: bool) -> None:
    listed = {"files": batch, "hour": hour, "is_stored": is_stored}
    _write(folder / _LIST, BytesIO(json.dumps(listed).encode()))
    _sync(folder)


def _write(path: Path, content: BinaryIO) -> None:
    part = path.with_name(f".{path.name}.part")
    with _new(part) as file:
        shutil.copyfileobj(content, file, _CHUNK_BYTES)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _new(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)  # left behind; and a link that somebody put there is not followed
    return path.open("xb")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(root: Path) -> int:
    try:
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WrongUsageError(f"{str(root)!r} is no folder of recorders: {error.strerror}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ShippingError(f"another process ships {str(root)!r}, or it is named twice.") from None
    return lock


def landing_folder(to: Path, roots: list[Path]) -> LandingFolder:
    """The landing folder, which must be none of the recorders' own. Raises: WrongUsageError."""
    if to.resolve() in {root.resolve() for root in roots}:
        raise WrongUsageError(f"{str(to)!r} is where the recorders write; ship to another folder.")
    return LandingFolder(to)


def shipper_name(roots: list[Path]) -> str:
    """A name that no other shipper has: that of this host, and a digest of the recorders' folders."""
    digest = blake2b("\n".join(sorted(str(root.resolve()) for root in roots)).encode(), digest_size=4)
    return f"{socket.gethostname()}-{digest.hexdigest()}"


def run(shipper: Shipper, *, every_s: float, once: bool) -> None:
    """Ship again and again until a signal; the batch at hand ends first. Raises: ShipError."""
    stopped: list[int] = []
    with handled_by(lambda number, _frame: stopped.append(number)):
        while True:
            due, is_whole = time.monotonic() + every_s, shipper.ship()
            if once and not is_whole:
                raise ShipError("not all could be stored; the lines say why. What was not stored is where it was.")
            while not once and not stopped and time.monotonic() < due:
                time.sleep(0.1)
            if once or stopped:
                return


def main(arguments: list[str] | None = None) -> int:
    """``hindsight ship`` where nothing but Python is installed: to a folder alone."""
    parser = _Parser("ship", description="Ship recorders' finished files to a landing folder.")
    parser.add_argument("roots", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--to", required=True, metavar="LANDING")
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--by-hour", action="store_true")
    try:
        told = parser.parse_args(arguments)
        if "://" in told.to:
            raise WrongUsageError("to a store ships `hindsight ship`, with all that hindsight needs installed.")
        store = landing_folder(Path(told.to), told.roots)
        hours_of = shipper_name(told.roots) if told.by_hour else ""
        run(Shipper(told.roots, store, _say, hours_of=hours_of), every_s=told.every, once=told.once)
    except (ShipError, OSError) as error:
        sys.stderr.write(f"ship: {error}\n")
        return error.exit_code if isinstance(error, ShipError) else RUN_FAILED
    return DONE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUsageError(f"{message} (see --help)")


def _say(event: str, **facts: object) -> None:
    sys.stderr.write(json.dumps({"event": event, **facts, "at": datetime.now(UTC).isoformat()}) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""Lines out into the landing folder: files that appear whole under their final name, bounded in size and age.

A file is written as ``*.part`` and renamed when it is closed. It is written in blocks of whole lines (with gzip: whole
members), and a block that could not be written is cut off again: so neither a full disk nor a kill leaves half a line.
Where answers that are as before become short lines, each file begins with whole ones. By hour, finished files go into a
folder for each hour, which is sealed once it is over.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from hindsight.jobs.running.run_log import tell
from hindsight.udfs.landing.hour_folders import SEAL, TO_THE_HOUR, hour_folder, is_over, seal_of
from hindsight.udfs.lines.short_lines import Shortener
from hindsight.udfs.logs.secret_ids import without_secrets

FORMAT = "admin_snapshots"
_BLOCK_BYTES = 256 * 1024
_GZIP_LEVEL = 4
_GZIP_PIECE_BYTES = 32 * 1024
_PART = ".part"


@dataclass(frozen=True)
class Limits:
    """When a file is closed: its bytes on disk, and its age in seconds."""

    most_bytes: int = 64 * 2**20
    longest_s: float = 300.0


class LandingWriter:
    """The one file that is open; a folder that cannot be written to loses lines, is told of, and is tried again.

    ``short``: answers that are as before become short lines. ``hours_of``: the writer's name, where its finished
    files go into a folder for each hour; empty: they lie in the cluster's own.
    """

    def __init__(
        self,
        landing: Path,
        cluster: str,
        limits: Limits | None = None,
        *,
        gzipped: bool = False,
        short: bool = False,
        hours_of: str = "",
    ) -> None:
        self.lost = 0  # lines, since the last call of ``take_lost``
        self._folder = landing / FORMAT / f"cluster={cluster}"
        self._limits = limits or Limits()
        self._gzipped = gzipped
        self._short = short
        self._hours_of = hours_of
        self._hour = hour_folder(hours_of)  # the folder of the last finished file
        self._shortened = Shortener(is_on=short)
        self._taken = 0  # lines that were not written yet
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._file: int | None = None
        self._part = Path()
        self._size = 0
        self._opened_at = 0.0
        self._is_failing = False

    def start(self) -> None:
        """Make the folder, and finish what a process that was killed left behind. Raises: OSError."""
        self._open()
        for part in sorted(self._folder.glob(f"*{_PART}")):
            _finish(part, self._finished)
        if self._hours_of:
            for hour in self._folder.glob(f"????-??-??/??{self._hour[TO_THE_HOUR:]}"):
                self._seal(f"{hour.parent.name}/{hour.name}")

    def write(self, line: bytes) -> None:
        """Take in a line, without its end; keys that a client id carries are masked."""
        if b"|" in line:
            line = without_secrets(line.decode()).encode()
        self._taken += 1
        self._add(self._shortened(line))
        if self._block_bytes >= _BLOCK_BYTES:
            self._write_block()

    def flush(self) -> None:
        """Write what was taken in; lines that cannot be written are lost and counted."""
        self._add(self._shortened.rest())
        self._write_block()

    def _add(self, lines: list[bytes]) -> None:
        for line in lines:
            self._block += (line, b"\n")
            self._block_bytes += len(line) + 1

    def _write_block(self) -> None:
        block, self._block, self._block_bytes = self._block, [], 0
        if not block:
            return
        lines, self._taken = self._taken - self._shortened.waiting, self._shortened.waiting
        try:
            self._write(b"".join(block))
            self._shortened.written()
            self._is_failing = False
        except OSError as error:
            self._shortened.lost()
            self.lost += lines
            if not self._is_failing:  # a disk stays full for many lines
                tell("lines cannot be written", folder=str(self._folder), error=str(error))
            self._is_failing = True
        if self._size >= self._limits.most_bytes or self._shortened.is_full:
            self.close()

    def close_if_old(self, next_in_s: float) -> None:
        """Close the file if it would be too old when it is written to next, in so many seconds."""
        if self._file is not None and time.monotonic() - self._opened_at + next_in_s > self._limits.longest_s:
            self.close()

    def close(self) -> None:
        """Write what was taken in, and give the file its final name."""
        self.flush()
        self._shortened = Shortener(is_on=self._short)
        file, self._file = self._file, None
        if file is None:
            return
        try:
            os.fsync(file)
            if self._size:
                self._finished(self._part)
            else:
                self._part.unlink()
        except OSError as error:
            tell("a file cannot be finished", file=str(self._part), error=str(error))
        finally:
            os.close(file)
            self._size = 0

    def _finished(self, part: Path) -> None:
        """Give a file its final name, in the folder of this hour; a folder whose hour is over gets no other."""
        hour = hour_folder(self._hours_of)
        folder = self._folder / hour
        folder.mkdir(parents=True, exist_ok=True)
        part.rename(folder / part.stem)
        if hour != self._hour:
            self._seal(self._hour)
            self._hour = hour

    def _seal(self, hour: str) -> None:
        folder = self._folder / hour
        if is_over(hour) and folder.is_dir() and not (folder / SEAL).exists():
            seal = folder / f"{SEAL}{_PART}"
            seal.write_bytes(seal_of({file.name: file.stat().st_size for file in folder.glob("*.jsonl*")}))
            seal.rename(folder / SEAL)

    def take_lost(self) -> int:
        """How many lines were lost since the last call."""
        lost, self.lost = self.lost, 0
        return lost

    def _open(self) -> int:
        if self._file is None:
            stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"
            name = f"collector-{stamp}.jsonl{'.gz' if self._gzipped else ''}{_PART}"
            self._folder.mkdir(parents=True, exist_ok=True)
            self._part = self._folder / name
            self._file = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX)  # tells a file in use from one left behind
            self._size, self._opened_at = 0, time.monotonic()
        return self._file

    def _write(self, text: bytes) -> None:
        data = gzip.compress(text, _GZIP_LEVEL) if self._gzipped else text
        file = self._open()
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            os.ftruncate(file, self._size)
            raise
        self._size += len(data)


def _finish(part: Path, finished: Callable[[Path], None]) -> None:
    """Finish a file that no process holds, without a last line or gzip member that was cut."""
    file = os.open(part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        whole = _whole_members(file) if part.suffixes[-2:-1] == [".gz"] else _whole_lines(file)
        os.ftruncate(file, whole)
        if whole:
            finished(part)
        else:
            part.unlink()
        tell("finished a file that was left behind", file=str(part), bytes=whole)
    except BlockingIOError:
        pass  # another collector writes it
    finally:
        os.close(file)


def _whole_lines(file: int) -> int:
    """Bytes up to the end of the last whole line."""
    end = os.fstat(file).st_size
    while end:
        begin = max(0, end - _BLOCK_BYTES)
        at = os.pread(file, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def _whole_members(file: int) -> int:
    """Bytes up to the end of the last whole gzip member."""
    whole = at = 0
    member = zlib.decompressobj(wbits=31)
    while chunk := os.pread(file, _GZIP_PIECE_BYTES, at):
        at += len(chunk)
        while chunk:
            try:
                member.decompress(chunk)
            except zlib.error:
                return whole
            chunk = member.unused_data
            if member.eof:
                whole = at - len(chunk)
                member = zlib.decompressobj(wbits=31)
    return whole

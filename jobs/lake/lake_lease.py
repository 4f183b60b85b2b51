"""One run at a time writes to a lake: a lease that is renewed while the run lives, and passes on when it does not.

The lease is a folder of numbered files; the highest number holds the lake. A number is taken by creating its file,
which only one run can do, and kept by rewriting it; so nobody ever overwrites another's word. Whether a holder lives is
judged by its process where that is on this machine, else by whether it rewrites its file while it is watched. Clocks
are not asked: neither one that steps nor two that differ let two runs in, or keep all out.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING

from hindsight.conf.failure import LAKE_HELD, ExpectedError
from hindsight.jobs.lake.small_files import Store, store_at, store_errors
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = "_lease"
_NAME = re.compile(r"(\d{9})\.json")


class LeaseFolder:
    """Files by number. ``lake`` and ``place`` say where, for people."""

    def __init__(self, lake: str, store: Store) -> None:
        self.lake, self.place, self._store = lake, f"{lake}/{_FOLDER}", store

    @classmethod
    def of(cls, spark: SparkSession | None, lake: str) -> LeaseFolder:
        """The folder of a lake's lease."""
        return cls(lake, store_at(spark, f"{lake}/{_FOLDER}"))

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


def _name(number: int) -> str:
    return f"{number:09}.json"


RENEW_EVERY_S = 10
# A holder on another machine that is silent for so long is taken for dead; a holder's own word is good for half of it.
STALE_S = 60
_LOOK_EVERY_S = 0.5
# Time in which the machine slept counts: others did not sleep.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LakeHeldError(ExpectedError):
    """Raised when another run holds the lake; nothing was done."""

    exit_code = LAKE_HELD


class LeaseLostError(ExpectedError):
    """Raised when another run has taken the lake over; nothing is written after that."""


@dataclass(frozen=True)
class Holder:
    """What a lease's file says: which run, since when by its clock, what process of which machine, and its renewals."""

    run_id: str
    since: str
    host: str
    pid: int
    machine: str = ""
    process: str = ""
    renewals: int = 0
    released: bool = False

    def __str__(self) -> str:
        return f"run {self.run_id}, process {self.pid} on {self.host}, since {self.since}"

    @property
    def is_here(self) -> bool:
        """Whether its process can be looked up on this machine."""
        return self.machine != "" and self.machine == _machine()

    @property
    def is_alive_here(self) -> bool:
        """Whether that process runs; a later one with its number is another."""
        return self.is_here and _process(self.pid) == self.process


class Lease:
    """A run's hold on a lake."""

    def __init__(self, folder: LeaseFolder, number: int, holder: Holder) -> None:
        self._folder, self._number, self._holder = folder, number, holder
        # Not every store replaces a file at once: it is not read while it is rewritten.
        self._word = RLock()
        self._renewed_at = _now()

    def begin(self) -> bool:
        """Take the number; False: another run has it, or a higher one."""
        if not (self._folder.create(self._number, _text(self._holder)) and self._is_held()):
            return False
        for number in self._folder.numbers():
            if number < self._number:
                self._folder.delete(number)
        return True

    def confirm(self) -> None:
        """Called before each write.

        Raises: LeaseLostError: the lake is no longer this run's.
        """
        with self._word:
            if _now() - self._renewed_at > STALE_S / 2:
                self.renew()
            is_held = self._is_held()
        if not is_held:
            raise LeaseLostError(
                f"another run has taken over {self._folder.lake} from {self._holder}, which gave no sign of life for "
                f"{STALE_S} s, or {self._folder.place} was deleted; this run stopped before its next write. A rerun "
                "does what is left."
            )

    def renew(self, *, released: bool = False) -> None:
        """Say that the run lives, or that it has ended; not where another run holds the lake by now."""
        with self._word:
            asked = _now()
            if self._is_held():
                self._holder = replace(self._holder, renewals=self._holder.renewals + 1, released=released)
                self._folder.write(self._number, _text(self._holder))
                self._renewed_at = asked

    def _is_held(self) -> bool:
        written = _holder(self._folder.read(self._number))
        is_own = written is not None and written.run_id == self._holder.run_id
        return is_own and max(self._folder.numbers()) == self._number


@contextmanager
def held(spark: SparkSession | None, lake: str, context: RunContext, *, wait_s: float = 0) -> Iterator[RunContext]:
    """Hold a lake, with Spark or without; the context that is given confirms the lease before each write.

    Raises: LakeHeldError: another run holds it, and has not ended within ``wait_s`` seconds.
    """
    lease = take(LeaseFolder.of(spark, lake), context.run_id, wait_s=wait_s)
    ended = Event()
    renewer = Thread(target=_renew_until, args=(ended, lease), daemon=True)
    renewer.start()
    try:
        yield replace(context, confirm=lease.confirm)
    except KeyboardInterrupt:
        # What the JVM was at may still be committed: the lease passes on when the process is gone.
        ended.set()
        raise
    finally:
        if not ended.is_set():
            _end(ended, renewer, lease)


def take(folder: LeaseFolder, run_id: str, *, wait_s: float = 0) -> Lease:
    """The lease of a lake that nobody holds, or whose holder is dead.

    Raises: LakeHeldError: a living run holds it, and has not ended within ``wait_s`` seconds.
    """
    since, pid = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), os.getpid()
    own = Holder(run_id, since, socket.gethostname(), pid, _machine(), _process(pid))
    begun = seen_at = _now()
    seen, renewed = folder.latest(), False
    while True:
        looked_at = _now()
        number, text = folder.latest()
        if seen != (number, text):
            seen, seen_at, renewed = (number, text), _now(), True
        holder = _holder(text)
        if text is None or _is_over(holder) or looked_at - seen_at > STALE_S:
            lease = Lease(folder, number + 1, own)
            if lease.begin():
                return lease
        elif (renewed or (holder is not None and holder.is_alive_here)) and _now() - begun >= wait_s:
            raise LakeHeldError(_told(folder, holder))
        else:
            time.sleep(_LOOK_EVERY_S)


def _is_over(holder: Holder | None) -> bool:
    return holder is not None and (holder.released or (holder.is_here and not holder.is_alive_here))


def _told(folder: LeaseFolder, holder: Holder | None) -> str:
    return (
        f"{folder.lake} is being written by another run: {holder or 'one that is just beginning'}. Nothing was done. "
        "Rerun when it has ended, or wait for it with --wait SECONDS. If it hangs, end that process: the next run "
        f"takes over, on another machine after {STALE_S} s. Where it cannot be reached, delete {folder.place}: it "
        "then stops before its next write."
    )


def _renew_until(ended: Event, lease: Lease) -> None:
    while not ended.wait(RENEW_EVERY_S):
        try:
            lease.renew()
        except store_errors() as error:  # the store may be back for the next one; confirm() tells when it lasts
            tell("could not renew the lease", error=type(error).__name__)


def _end(ended: Event, renewer: Thread, lease: Lease) -> None:
    ended.set()
    renewer.join()
    try:
        lease.renew(released=True)
    except store_errors() as error:  # the run's own result must not be lost for it; the process is about to end
        tell("could not give the lease back", error=type(error).__name__)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _machine() -> str:
    """What tells this machine, since it booted, and this container's processes from others; empty: unknown."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {booted} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _process(pid: int) -> str:
    """When a process of this machine started, in its own ticks; empty: it does not run, or nothing can be known."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in ("Z", "X") else fields[18]


def _text(holder: Holder) -> str:
    return json.dumps(asdict(holder))


def _holder(text: str | None) -> Holder | None:
    """None: there is no file, or it is just being written."""
    try:
        return Holder(**json.loads(text or "null"))
    except (ValueError, TypeError):
        return None

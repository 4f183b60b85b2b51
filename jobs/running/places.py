"""What options may say of places: one in, the same out, or a sentence, which repeats nothing of a URI.

The release of hindsight that runs, and the build: what two copies of one release are told apart by.

The text of a failure in; a sentence out, where it is one of files that either engine may meet.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import typer

from hindsight.conf.failure import ExpectedError

# Spark takes a path with these for a pattern of paths, and Delta writes paths between backticks.
_NOT_IN_A_LAKE = frozenset("*?[]{}\\`\n")
_HAS_PASSWORD = re.compile(r"[^/?#]*://[^/?#:]*:[^@]*@").match
# In the name of a URI's parameter. A signed URI of Azure has its secret in `sig`.
_SECRETS = ("secret", "password", "token", "key", "sig", "credential")
_VANISHED = re.compile(r"FileNotFoundError: (?:\[Errno 2\] )?(.*)")
_NO_PORT = {
    errno.EADDRINUSE: "another process has it. `ss -ltnp` says which; end that one, or give {option} another port",
    errno.EACCES: "the system gives it to root alone. Give {option} a port above 1023",
    errno.EADDRNOTAVAIL: "no network of this machine has that address. Give {option} one that `ip address` lists",
}


class NoPortError(ExpectedError):
    """Raised where a server cannot listen at its port."""


def without_password(place: str | None) -> str | None:
    """A path or URI.

    A colon before the URI's first slash and an ``@`` anywhere after it are taken for a password, which may hold slashes
    itself. So a place with a port cannot have an ``@`` in its path; one without may.

    Raises: typer.BadParameter: the URI holds a password or a secret key; the message does not.
    """
    try:
        has_secret = place is not None and holds_secret(place)
    except ValueError:
        raise typer.BadParameter("this URI cannot be read.") from None
    if has_secret:
        raise typer.BadParameter(
            "this URI holds a password or a secret key, which logs and the list of processes would show. Leave it out, "
            "and give it through the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a credential provider."
        )
    return place


def holds_secret(uri: str) -> bool:
    """Whether a URI holds a password or a secret key. Raises: ValueError: it cannot be read."""
    parts = urlsplit(uri)
    names = " ".join(name.lower() for name, _ in parse_qsl(parts.query))
    has_password = parts.password is not None or _HAS_PASSWORD(uri) is not None
    return has_password or any(word in names for word in _SECRETS)


def lake_folder(place: str) -> str:
    """The folder of the tables.

    Raises: typer.BadParameter: as ``without_password``; or Spark would read other folders than this one.
    """
    without_password(place)
    is_uri = "://" in place
    whole = place if is_uri else str(Path(place).resolve())
    found = sorted(_NOT_IN_A_LAKE & set(whole))
    if found:
        # Of a URI nothing is repeated: what stands in the wrong place may be a secret.
        shown = "as this URI does" if is_uri else repr(whole)
        raise typer.BadParameter(f"the path of a lake cannot hold {' or '.join(map(repr, found))}: {shown}.")
    return place


def file_to_write(file: Path | None) -> Path | None:
    """A file that may be there or not. Raises: typer.BadParameter: its folder is not, and a path is easily mistyped."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(file.parent)!r}. Make it first, or name a file elsewhere.")
    return file


@contextmanager
def port_had(host: str, port: int, option: str) -> Iterator[None]:
    """Where a server takes its port. Raises: NoPortError: it cannot be had; an option names it."""
    try:
        yield
    except OSError as error:
        other = f"{error.strerror}. Give {{option}} another address"
        said = _NO_PORT.get(error.errno or 0, other).format(option=option)
        raise NoPortError(f"cannot listen at port {port} of {host}: {said}.") from error


def absolute(place: str) -> str:
    """A path from the root on, wherever the process works later; a URI as it is."""
    return place if "://" in place else str(Path(place).resolve())


def own_release() -> str:
    """Its number; ``unknown`` where it runs from an archive, which says none."""
    try:
        return version("rocketmq-hindsight")
    except PackageNotFoundError:
        return "unknown"


@cache
def own_build() -> str:
    """A digest of the code and the texts that run, the same in a checkout, a wheel and an archive of one commit."""
    digest = hashlib.sha256()
    for folder in ("conf", "jobs", "schemas", "udfs"):
        _add(digest, files("hindsight").joinpath(folder), folder)
    return digest.hexdigest()[:10]


def _add(digest: hashlib._Hash, folder: Traversable, place: str) -> None:
    for found in sorted(folder.iterdir(), key=lambda one: one.name):
        name = f"{place}/{found.name}"
        if found.is_dir():
            if found.name != "__pycache__":
                _add(digest, found, name)
        elif not found.name.endswith(".pyc"):
            digest.update(f"{name}\0".encode() + hashlib.sha256(found.read_bytes()).digest())


def of_files(text: str) -> str | None:
    """What a text says of landing files and of room for the lake; None: it is about something else."""
    if vanished := _VANISHED.search(text):
        return (
            f"a landing file was listed and is gone ({vanished[1]}); what was read with it is not in the ledger, "
            "and a rerun takes in what is there."
        )
    if "No space left on device" in text:
        return (
            "there is no space left where the lake is, or where a run keeps its steps (the temporary folder; Spark's "
            "is spark.local.dir); make room and rerun: what was committed stays, and the rest is done then."
        )
    return None

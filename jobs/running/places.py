"""What options may say of places and engines: one in, the same out, or a sentence, which repeats nothing of a URI."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import typer

from hindsight.conf.failure import ExpectedError

Engine = Literal["local", "spark"]

# Spark takes a path with these for a pattern of paths, and Delta writes paths between backticks.
_NOT_IN_A_LAKE = frozenset("*?[]{}\\`\n")
_HAS_PASSWORD = re.compile(r"[^/?#]*://[^/?#:]*:[^@]*@").match
# In the name of a URI's parameter. A signed URI of Azure has its secret in `sig`.
_SECRETS = ("secret", "password", "token", "key", "sig", "credential")
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


def require_lake(lake: str) -> None:
    """A lake stands there. Raises: typer.BadParameter: it is a place of this machine with nothing at it."""
    if "://" not in lake and not Path(lake).exists():
        raise typer.BadParameter(f"there is no lake at {lake!r}; run `hindsight run-pipeline` first.")


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


def is_submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def chosen_engine(asked: Engine | None, master: str | None) -> Engine:
    """The engine that was ``asked`` for; else Spark under spark-submit or with a ``master``, this machine otherwise.

    Raises: typer.BadParameter: this machine's engine was asked for where Spark is already named.
    """
    named = "under spark-submit" if is_submitted() else "with --master" if master is not None else None
    if named is None:
        return asked or "local"
    if asked == "local":
        raise typer.BadParameter(f"--engine local runs without Spark, and cannot be given {named}; leave one out.")
    return "spark"

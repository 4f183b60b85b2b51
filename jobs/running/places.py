"""What ``--landing`` and ``--lake`` may say: a place in, the same out, or a sentence that does not repeat it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import typer

# Spark takes a path with these for a pattern of paths, and Delta writes paths between backticks.
_NOT_IN_A_LAKE = frozenset("*?[]{}\\`\n")
_HAS_PASSWORD = re.compile(r"[^/?#]*://[^/?#:]*:[^@]*@").match
# In the name of a URI's parameter. A signed URI of Azure has its secret in `sig`.
_SECRETS = ("secret", "password", "token", "key", "sig", "credential")


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


def absolute(place: str) -> str:
    """A path from the root on, wherever the process works later; a URI as it is."""
    return place if "://" in place else str(Path(place).resolve())

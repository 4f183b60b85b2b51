"""What ``--landing`` and ``--lake`` may say: a place in, the same out, or a sentence that does not repeat it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

import typer

# Spark takes a path with these for a pattern of paths, and Delta writes paths between backticks.
_NOT_IN_A_LAKE = frozenset("*?[]{}\\`\n")


def without_password(place: str | None) -> str | None:
    """A path or URI.

    Raises: typer.BadParameter: the URI holds a password or a secret key; the message does not.
    """
    try:
        has_secret = place is not None and _has_secret(urlsplit(place))
    except ValueError:
        raise typer.BadParameter("this URI cannot be read.") from None
    if has_secret:
        raise typer.BadParameter(
            "this URI holds a password or a secret key, which logs and the list of processes would show. Leave it out, "
            "and give it through the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a credential provider."
        )
    return place


def _has_secret(uri: SplitResult) -> bool:
    names = " ".join(name.lower() for name, _ in parse_qsl(uri.query))
    return uri.password is not None or any(word in names for word in ("secret", "password", "token", "key"))


def lake_folder(place: str) -> str:
    """The folder of the tables.

    Raises: typer.BadParameter: as ``without_password``; or Spark would read other folders than this one.
    """
    without_password(place)
    whole = place if "://" in place else str(Path(place).resolve())
    found = sorted(_NOT_IN_A_LAKE & set(whole))
    if found:
        raise typer.BadParameter(f"the path of a lake cannot hold {' or '.join(map(repr, found))}: {whole!r}.")
    return place

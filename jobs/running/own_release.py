"""The release of hindsight that runs, and the build: what two copies of one release are told apart by."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable


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

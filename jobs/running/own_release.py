"""The release of hindsight that runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_release() -> str:
    """Its number; ``unknown`` where it runs from an archive, which says none."""
    try:
        return version("rocketmq-hindsight")
    except PackageNotFoundError:
        return "unknown"

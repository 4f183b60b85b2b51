"""Queries that stand in files beside the code: a folder and a name in, the text out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(folder: str, name: str, of: str = "report") -> str:
    """A query of ``jobs/report``, or of another folder there; what stands in braces is for the caller to fill in."""
    return files("hindsight.jobs").joinpath(of, folder, f"{name}.sql").read_text(encoding="utf-8")

"""Ingestion: lines of producer hooks in landing files in, stored attempts out; all of one date."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.daily import hook_lines
from bench.spark import session
from conf.settings_file import load_settings
from jobs import ingest_send_records
from jobs.run_context import RunContext

FIRST, MORE = "first lines of a date", "as many lines more of that date"
_AT = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
_FILES = 8


def prepare(data: Path, lines: int) -> None:
    """Land ``lines`` lines, take them in, and let as many others of the same date wait in ``next``."""
    land(data, lines)
    _take_in(data / "landing", data / "lake")


def land(data: Path, lines: int) -> None:
    """Write ``lines`` lines into files of ``landing``, and as many others of the same date into files of ``next``."""
    for seed, name in enumerate(("landing", "next")):
        folder = data / name / "producer_hook" / "cluster=prod"
        folder.mkdir(parents=True)
        for number in range(_FILES):
            rng = np.random.default_rng((seed, number))
            with (folder / f"{name}-{number}.jsonl").open("w", encoding="utf-8") as file:
                told = hook_lines(_AT + seed * 500, rng, sends=lines // _FILES, who=f"{number}.")
                file.writelines(f"{json.dumps(line)}\n" for line in told)


def rows_of(data: Path) -> dict[str, int]:
    """Lines that are taken in."""
    return {"lines": sum(file.read_bytes().count(b"\n") for file in (data / "next").rglob("*.jsonl"))}


class TakenIn:
    """The job itself, on a lake of its own: an empty one, or one that holds as many attempts of the date."""

    def __init__(self, onto_earlier: bool, data: Path) -> None:
        self._onto_earlier = onto_earlier
        self._data = data
        self._lake = data.parent / f"{data.name}-{'more' if onto_earlier else 'first'}"
        session()

    def prepare(self) -> None:
        """Make the lake as it was before the round before."""
        shutil.rmtree(self._lake, ignore_errors=True)
        if self._onto_earlier:
            shutil.copytree(self._data / "lake", self._lake)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        _take_in(self._data / "next", self._lake)
        return dict


def _take_in(landing: Path, lake: Path) -> None:
    ingest_send_records.run(session(), load_settings(None), RunContext(str(landing)), str(lake))


CONTESTANTS = {FIRST: partial(TakenIn, False), MORE: partial(TakenIn, True)}

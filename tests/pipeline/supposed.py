"""The what-if that documents ask about, for tests that run their queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_premises
from hindsight.jobs import rebuild_availability
from hindsight.jobs.commands.what_if_command import made
from hindsight.jobs.lake.what_ifs import drop
from hindsight.jobs.running.run_context import RunContext

SHORT = "producer = {not_available_ms = [0, 0, 3000, 6000, 12000, 18000, 60000]}"


@contextmanager
def supposed_short(lake: Path, settings: Settings) -> Iterator[None]:
    """``short`` of docs/what-if.md, for as long as queries ask about it."""
    made(str(lake), "short", load_premises([SHORT]), settings, RunContext(str(lake)), [rebuild_availability.derivation])
    yield
    drop(None, str(lake), "short")

"""Derive what a bundle claims again from the inputs in it, and compare; exit code 4 if a row differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hindsight.jobs.bundling.bundle_file import unpacked
from hindsight.jobs.bundling.replay_report import as_json, told
from hindsight.jobs.bundling.replayed_bundle import ReplayDiffersError, replayed
from hindsight.jobs.bundling.versions import differences
from hindsight.jobs.running.terminal import write

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("replay", help=__doc__)
def replay(
    bundle: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file that `hindsight bundle` wrote.")],
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="For people, or a line of JSON for each row.")
    ] = "text",
    every: Annotated[bool, typer.Option("--all", help="Each row, not only those that differ.")] = False,
) -> None:
    """Needs no lake, and writes nothing but what it prints."""
    found, manifest = unpacked(bundle)
    verdicts, different = replayed(found), differences(manifest)
    write(as_json(found, verdicts, different) if form == "json" else told(found, verdicts, different, every=every))
    lacking = sum(not verdict.is_same for verdict in verdicts)
    if lacking:
        raise ReplayDiffersError(f"{lacking} of {len(verdicts)} rows are not what the bundle claims.")

"""What hindsight brings with it: recorded samples to try it on, and the manual with dashboard, alerts and schedules."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from hindsight.jobs.running.exit_codes import uninterrupted
from hindsight.jobs.running.terminal import write
from hindsight.jobs.running.unseen import pandas_when_asked

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("demo")
def demo(lake: Annotated[Path, typer.Option(help="Folder of the new lake.")] = Path("lake")) -> None:
    """Run all jobs on the recorded samples that hindsight brings, into a new lake.

    Refused where there is something already: samples must not get into a lake of real data.
    """
    if lake.exists():
        raise typer.BadParameter(f"there is something at {str(lake)!r}; name a new folder with --lake.")
    with pandas_when_asked():
        from hindsight.jobs.commands.job_commands import app as jobs

    words = ["run-pipeline", "--landing", str(_shipped("data_samples")), "--lake", str(lake)]
    uninterrupted(lambda: jobs(words, prog_name="hindsight", standalone_mode=False))
    write(["", f"Open {lake / 'report.html'} in a browser; ask with hindsight drift --lake {lake}"])


@app.command("manual")
def manual(
    page: Annotated[str | None, typer.Argument(help="Its name, e.g. runbook or monitoring/alerts.yml.")] = None,
) -> None:
    """Show a page of the manual, or a file of it; without a name: which there are.

    Text comes out as it stands, so that a file can be written from it.
    """
    folder = _shipped("docs")
    named = {
        str(path.relative_to(folder).with_suffix("") if path.suffix == ".md" else path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".png", ".pyc")
    }
    if page is None:
        write(_listed(named))
        return
    found = named.get(page.removesuffix(".md"))
    if found is None:
        near = difflib.get_close_matches(page, named, n=1)
        raise typer.BadParameter(f"there is no page {page!r}" + (f"; did you mean {near[0]!r}?" if near else "."))
    write(found.read_text(encoding="utf-8").rstrip("\n").split("\n"))


def _listed(named: dict[str, Path]) -> Iterator[str]:
    width = max(map(len, named))
    for name, path in named.items():
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        yield f"{name:{width}}  {first.lstrip('# ') if path.suffix == '.md' else ''}".rstrip()


def _shipped(name: str) -> Path:
    return Path(str(files("hindsight").joinpath(name))).resolve()

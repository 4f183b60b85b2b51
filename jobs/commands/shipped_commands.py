"""What hindsight brings with it: recorded samples to try it on, and the manual with dashboard, alerts and schedules."""

from __future__ import annotations

import difflib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from hindsight.jobs.commands.command_options import Json
from hindsight.jobs.running.exit_codes import uninterrupted
from hindsight.jobs.running.terminal import write, write_json
from hindsight.jobs.running.unseen import pandas_when_asked

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("demo")
def demo(
    lake: Annotated[Path, typer.Option(help="Folder of the new lake.")] = Path("lake"), as_lines: Json = False
) -> None:
    """Run all jobs on the recorded samples that hindsight brings, into a new lake.

    Refused where there is something already: samples must not get into a lake of real data.
    """
    if lake.exists():
        raise typer.BadParameter(f"there is something at {str(lake)!r}; name a new folder with --lake.")
    with pandas_when_asked():
        from hindsight.jobs.commands.job_commands import app as jobs

    words = ["run-pipeline", "--landing", str(_shipped("data_samples")), "--lake", str(lake)]
    words += ["--json"] if as_lines else []
    uninterrupted(lambda: jobs(words, prog_name="hindsight", standalone_mode=False))
    if not as_lines:
        write(["", f"Open {lake / 'report.html'} in a browser; ask with hindsight drift --lake {lake}"])


@app.command("manual")
def manual(
    page: Annotated[str | None, typer.Argument(help="Its name, e.g. runbook or monitoring/alerts.yml.")] = None,
    as_lines: Json = False,
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
        if as_lines:
            write_json({"page": name, "title": _title(path)} for name, path in named.items())
        else:
            width = max(map(len, named))
            write(f"{name:{width}}  {_title(path)}".rstrip() for name, path in named.items())
        return
    found = named.get(page.removesuffix(".md"))
    if found is None:
        near = difflib.get_close_matches(page, named, n=1)
        raise typer.BadParameter(f"there is no page {page!r}" + (f"; did you mean {near[0]!r}?" if near else "."))
    text = found.read_text(encoding="utf-8")
    if as_lines:
        write_json([{"page": page.removesuffix(".md"), "title": _title(found), "text": text}])
    else:
        write(text.rstrip("\n").split("\n"))


def _title(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ") if path.suffix == ".md" else ""


def _shipped(name: str) -> Path:
    return Path(str(files("hindsight").joinpath(name))).resolve()

"""A live view of a lake that somebody else fills: open incidents, servers, groups by lag, isolations."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Annotated, NamedTuple

import typer
from rich.cells import set_cell_size
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hindsight.jobs.asking.asking import asked
from hindsight.jobs.commands.command_options import LakeThere
from hindsight.jobs.engines.asker import Asker, records
from hindsight.jobs.explaining.explain_row import explain
from hindsight.jobs.explaining.explanation import blocks
from hindsight.jobs.running.places import absolute, require_lake
from hindsight.jobs.running.terminal import columns, laid_out, legible, widths_of, write

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_LAST_DATE = "SELECT MAX(event_date) AS last FROM queue_progress"
PANELS = {title: text for _, title, _, text in blocks("queries", "top", of="commands")}
_COLOURS = {"CRITICAL": "bold red", "HIGH": "red", "MEDIUM": "yellow", "LOW": "cyan"}
_KEYS = "1-4 or Tab: panel   j k or arrows: row   Enter: open   /: filter   Esc: back   q: end"
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
_NAMES = {"\x1b[A": "k", "\x1b[B": "j", "\t": "tab", "\r": "open", "\n": "open", "\x1b": "back", "\x7f": "erase"}


class Panel(NamedTuple):
    """The rows of a question, its columns' names first, as texts that a terminal can show."""

    names: list[str]
    rows: list[list[str]]


class Top:
    """What is shown, and what keys make of it; ``explained`` gives the lines of an incident by its id."""

    def __init__(self, explained: Callable[[str], list[str]]) -> None:
        self.panels = {name: Panel([], []) for name in PANELS}
        self.chosen, self.row, self.filter, self.ended = 0, 0, "", False
        self._typing = False
        self._opened: list[str] = []
        self._explained = explained

    def rows(self) -> list[list[str]]:
        """Those of the chosen panel that have the filter's text somewhere."""
        rows = list(self.panels.values())[self.chosen].rows
        return [row for row in rows if self.filter.lower() in " ".join(row).lower()]

    def press(self, key: str) -> None:
        """A key, by its character or its name of ``_NAMES``."""
        if self._typing:
            self._type(key)
        elif key == "q":
            self.ended = True
        elif key == "back":
            self._opened, self.filter = [], self.filter if self._opened else ""
        elif key in ("j", "k"):
            most = len(self._opened or self.rows()) - 1
            self.row = max(0, min(self.row + (1 if key == "j" else -1), most))
        elif key == "open" and not self._opened:
            self._open()
        elif key == "/":
            self._typing, self.filter = True, ""
        elif key in ("tab", *map(str, range(1, len(PANELS) + 1))):
            self.chosen = (self.chosen + 1) % len(PANELS) if key == "tab" else int(key) - 1
            self.row, self._opened = 0, []

    def _type(self, key: str) -> None:
        if key in ("open", "back"):
            self._typing, self.row = False, 0
            self.filter = self.filter if key == "open" else ""
        elif key == "erase":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key

    def _open(self) -> None:
        rows = self.rows()
        if not rows:
            return
        names, row = list(self.panels.values())[self.chosen].names, rows[min(self.row, len(rows) - 1)]
        of = dict(zip(names, row, strict=True))
        lines = self._explained(of["incident_id"]) if "incident_id" in of else [f"{n}: {c}" for n, c in of.items()]
        self._opened, self.row = lines, 0

    def shown(self, height: int) -> Table:
        """As rich draws it; names of the lake are texts, never rich's marks."""
        grid = Table.grid(expand=True)
        heads = [f"{n} {name} ({len(panel.rows)})" for n, (name, panel) in enumerate(self.panels.items(), 1)]
        line = Text("  ").join(
            Text(head, style="reverse" if n == self.chosen else "dim") for n, head in enumerate(heads)
        )
        grid.add_row(line)
        is_filtered = self._typing or self.filter
        grid.add_row(Text(f"Filter: {legible(self.filter)}{'_' * self._typing}" if is_filtered else ""))
        room = max(3, height - 6)
        if self._opened:
            for text in self._opened[self.row : self.row + room]:
                grid.add_row(Text(legible(text), no_wrap=True, overflow="ellipsis"))
        else:
            grid.add_row(self._table(room))
        grid.add_row(Text(_KEYS, style="dim", no_wrap=True, overflow="ellipsis"))
        return grid

    def _table(self, room: int) -> Table | Text:
        rows, names = self.rows(), list(self.panels.values())[self.chosen].names
        if not rows:
            return Text("nothing" + (" has that" if self.filter else ""))
        table = Table(box=None, expand=True, pad_edge=False)
        for name in names:
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=3 if name == "sentence" else None)
        first = max(0, min(self.row - room // 2, len(rows) - room))
        for place, row in enumerate(rows[first : first + room], first):
            style = "reverse" if place == self.row else _COLOURS.get(row[0], "")
            table.add_row(*(Text(legible(cell)) for cell in row), style=style)
        return table


def asked_panels(asker: Asker) -> dict[str, Panel]:
    """What a lake answers now."""
    (last,) = (row["last"] for row in records(asker, _LAST_DATE))
    since = f"DATE '{(last or date.max) - timedelta(days=1)}'"
    found = {}
    for name, text in PANELS.items():
        rows = records(asker, text.replace("{since}", since))
        cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
        found[name] = Panel(list(rows[0]) if rows else [], cells)
    return found


@app.command("top")
def top(
    lake: LakeThere,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks at the lake.")] = 5,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as text, and end.")] = False,
) -> None:
    """Show live what a lake says: incidents, servers, groups by lag, isolations; keys filter and open one.

    Writes nothing to the lake; hindsight watch fills it.
    """
    require_lake(lake)
    root = absolute(lake)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        with asked(root, None, "local", name="top", master=None) as asker:
            write(_as_text(asked_panels(asker)))
        return
    with _keys() as next_key:
        _live(root, every, next_key)


def _as_text(panels: dict[str, Panel]) -> Iterator[str]:
    width = columns()
    for name, panel in panels.items():
        yield f"{name}: {len(panel.rows)}"
        if panel.rows:
            cells = [[legible(cell) for cell in row] for row in (panel.names, *panel.rows)]
            lines = (f"  {line}" for line in laid_out(cells, widths_of(cells), "  "))
            yield from ((set_cell_size(line, width) if width else line).rstrip() for line in lines)


def _live(root: str, every: float, next_key: Callable[[float], str | None]) -> None:
    def explained(incident: str) -> list[str]:
        with asked(root, None, "local", name="top", master=None) as asker:
            sections = explain(asker, "drift_incident", f"incident_id = '{incident}'")
            return "\n\n".join(section.text(columns()) for section in sections).split("\n")

    view, console, due = Top(explained), Console(), 0.0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not view.ended:
            if time.monotonic() >= due:
                with asked(root, None, "local", name="top", master=None) as asker:
                    view.panels = asked_panels(asker)
                due = time.monotonic() + every
            live.update(view.shown(console.size.height), refresh=True)
            if key := next_key(max(0.0, due - time.monotonic())):
                view.press(key)


@contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """What waits so many seconds for a key; the terminal is as before afterwards."""
    try:
        import termios
        import tty
    except ImportError:
        raise typer.BadParameter("keys are read as POSIX does it, which this system has not; try --once.") from None
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    read: deque[str] = deque()

    def next_key(seconds: float) -> str | None:
        if not read and select.select([handle], [], [], seconds)[0]:
            # Keys that are pressed while a view is drawn come together.
            read.extend(_KEY.findall(os.read(handle, 1024).decode(errors="replace")))
        if not read:
            return None
        key = read.popleft()
        return _NAMES.get(key, key)

    try:
        tty.setcbreak(handle)
        yield next_key
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)

"""What people read on a terminal: text in, the same without anything that a terminal obeys out.

Names and messages come from whoever wrote the input; an escape sequence in them could recolour, hide or forge lines.
A run's events and its progress stand on stderr: words on a terminal, elsewhere one JSON line an event.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from hindsight.jobs.running.run_log import LOGGER

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.console import Console
    from rich.spinner import Spinner
    from structlog.typing import EventDict, Processor

# Control characters (C0 but for the tab, DEL, C1), line ends of Unicode, what turns the writing direction, and halves
# of surrogate pairs, which no stream can write.
_OBEYED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COLOURS = {"CRITICAL": "1;31", "HIGH": "31", "MEDIUM": "33", "LOW": "36"}
_LOOK_EVERY_S = 0.5
_PLANNING = "planning"
_NOT_FOR_PEOPLE = frozenset({"at", "event", "job", "level", "run_id"})
_SEVERITY = re.compile(rf"^ *(?:{'|'.join(_COLOURS)})\b")


def legible(line: str) -> str:
    r"""One line of text as it can be shown; what a terminal would obey stands as ``\u001b``, as JSON writes it too."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def legible_lines(text: str) -> str:
    """Several lines of which hindsight itself made the ends."""
    return "\n".join(map(legible, text.split("\n")))


def write(lines: Iterable[str]) -> None:
    """Print lines on stdout; how severe a thing is has a colour where somebody looks at it."""
    is_seen = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    shown = (_SEVERITY.sub(_coloured, legible(line), count=1) if is_seen else legible(line) for line in lines)
    sys.stdout.writelines(f"{line}\n" for line in shown)


def write_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows for a machine, one JSON object a line; whoever reads them from a pipe has them at once."""
    write(map(json_text, rows))
    sys.stdout.flush()


def json_text(value: Any) -> str:
    """A row, or what is nested in one, as JSON; an instant as ISO 8601 has it."""
    return json.dumps(value, default=plain, ensure_ascii=False)


def plain(value: Any) -> str | float:
    """What JSON has no form for, as a number or as text."""
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, datetime):
        return str(value)
    at = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return f"{at.isoformat()}Z"


def _coloured(found: re.Match[str]) -> str:
    return f"\x1b[{_COLOURS[found[0].strip()]}m{found[0]}\x1b[0m"


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def columns() -> int | None:
    """How wide what people read may be: as the terminal is, or as COLUMNS says. None: into a pipe, lines stay whole."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return max(40, shutil.get_terminal_size().columns)


def say(lines: Iterable[str]) -> None:
    """Print lines for people: what is too long for their terminal goes on below, further in."""
    write(part for line in lines for part in _fitting(line))


def _fitting(line: str) -> list[str]:
    width = columns()
    if width is None or width_of(legible(line)) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
    return wrapped(line.strip(" "), f"{indent}    ", first=indent)


def widths_of(cells: list[list[str]]) -> list[int]:
    """How wide the columns of such rows are, wide characters measured."""
    return [max(3, *map(width_of, column)) for column in zip(*cells, strict=True)]


def laid_out(cells: list[list[str]], widths: list[int], between: str = " ") -> list[str]:
    """Rows of cells in columns."""
    return [between.join(c + " " * (w - width_of(c)) for c, w in zip(row, widths, strict=True)) for row in cells]


def upright(cells: list[list[str]]) -> list[str]:
    """The same with a line for each cell, its column's name before it; long ones go on below."""
    names, *rows = cells
    indent = min(26, max(map(width_of, names))) + 2
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(f"- {number} -")
        for name, cell in zip(names, row, strict=True):
            short = width_of(name) <= indent - 2
            lines += [] if short else [name]
            lines += wrapped(cell, " " * indent, first=name + " " * (indent - width_of(name)) if short else None) or [
                name
            ]
    return lines


def wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    """A sentence as lines that fit the terminal (80 columns where there is none), each after ``indent``.

    ``first``: what the first line begins with instead. Wide characters take two columns. A word that is longer than a
    line is cut: no name makes the terminal do that, and none begins a line by itself.
    """
    from rich.console import Console
    from rich.text import Text

    room = max(40, shutil.get_terminal_size().columns - len(indent))
    lines = [line.plain.rstrip() for line in Text(legible(text)).wrap(Console(width=room), room)]
    return [(indent if place or first is None else first) + line for place, line in enumerate(lines)]


def start_log() -> None:
    """Send the run's events to stderr, and what libraries warn of; not errors that are raised as well."""
    import structlog  # which ``run_log`` has loaded

    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    structlog.configure(
        processors=[*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    shown: Processor = _words if sys.stderr.isatty() else structlog.processors.JSONRenderer(ensure_ascii=False)
    handler = _OnConsole()
    handler.addFilter(lambda record: record.name == LOGGER or record.levelno >= logging.WARNING)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                shown,
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    for chatty in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)


def progress(spark: SparkContext) -> AbstractContextManager[None]:
    """Show on a terminal, while the block runs, how many tasks of the stages at work are done."""
    tracker = spark.statusTracker()

    def at_work() -> str:
        stages = [info for info in map(tracker.getStageInfo, tracker.getActiveStageIds()) if info]
        done, every = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
        return f"{done} of {every} tasks, stages: {', '.join(s.name for s in stages)}" if stages else _PLANNING

    return shown(at_work)


@contextmanager
def shown(at_work: Callable[[], str]) -> Iterator[None]:
    """Show on a terminal, while the block runs, what is at work."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.live import Live
    from rich.spinner import Spinner

    ended = Event()
    spinner = Spinner("dots", _PLANNING)
    # stdout is left alone: it may be somebody's file.
    with Live(spinner, console=_console(), transient=True, redirect_stdout=False, redirect_stderr=False):
        looker = Thread(target=_look, args=(at_work, spinner, ended), daemon=True)
        looker.start()
        try:
            yield
        finally:
            ended.set()
            looker.join()


def _look(at_work: Callable[[], str], spinner: Spinner, ended: Event) -> None:
    while not ended.wait(_LOOK_EVERY_S):
        spinner.update(text=at_work())


@cache
def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


class _OnConsole(logging.Handler):
    """Above the line that shows the progress, where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, of any length."""
        line = legible_lines(self.format(record))
        if sys.stderr.isatty():
            _console().print(line, soft_wrap=True)
        else:
            sys.stderr.write(f"{line}\n")


def _words(_logger: Any, _method: str, event: EventDict) -> str:
    shown = ((name, value) for name, value in event.items() if name not in _NOT_FOR_PEOPLE)
    facts = ", ".join(f"{name.replace('_', ' ')} {_word(v)}" for name, v in shown)
    job = f"{event['job']}: " if "job" in event else ""
    return f"{job}{event['event']}" + (f" ({facts})" if facts else "")


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)

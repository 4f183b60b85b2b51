"""What a run tells while it works, on stderr: words on a terminal, elsewhere one JSON line an event.

Each line has the event's name and its facts; run id and job come from ``RunContext.step``. What libraries warn of
comes the same way.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from hindsight.jobs.running.terminal import legible_lines
from hindsight.jobs.running.unseen import unseen

with unseen("rich"):  # which only a terminal needs
    import structlog

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.console import Console
    from rich.spinner import Spinner
    from structlog.typing import EventDict, Processor

_LOGGER = "hindsight"
_LOOK_EVERY_S = 0.5
_PLANNING = "planning"
_NOT_FOR_PEOPLE = frozenset({"at", "event", "job", "level", "run_id"})


def tell(event: str, **facts: Any) -> None:
    """Log an event of the run: ``facts`` are plain values."""
    structlog.stdlib.get_logger(_LOGGER).info(event, **facts)


def start_log() -> None:
    """Send the run's events to stderr, and what libraries warn of; not errors that are raised as well."""
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
    handler.addFilter(lambda record: record.name == _LOGGER or record.levelno >= logging.WARNING)
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
    logging.getLogger(_LOGGER).setLevel(logging.INFO)
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

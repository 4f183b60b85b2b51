"""A line that a logger wrote as JSON in; the line that a pattern would have made of it, and its stack trace, out.

- logstash-logback-encoder, and ``logging.structured.format`` of Spring Boot from 3.4 on, ``logstash``
- ECS: ecs-logging-java, log4j2's JsonTemplateLayout, Spring Boot's ``ecs``; its names flat or nested
- GELF, as Spring Boot's ``gelf`` writes it
- log4j2's JsonLayout, logback's JsonEncoder, Quarkus
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

# By which names these layouts tell it; the first that a line has counts.
_MESSAGE = ("formattedMessage", "message", "short_message")
_TIME = ("@timestamp", "timestamp", "timeMillis", "instant")
_LEVEL = ("_level_name", "log.level", "level")
_THREAD = ("thread_name", "process.thread.name", "_process_thread_name", "thread", "threadName")
_LOGGER = ("logger_name", "log.logger", "_log_logger", "logger", "loggerName")
_THROWN = ("stack_trace", "error.stack_trace", "_error_stack_trace", "stackTrace", "thrown", "throwable", "exception")
_CLASS = ("name", "className", "exceptionType")
_OF_SYSLOG = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")  # by GELF's number
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_FROM = 100_000_000_000  # a greater number counts milliseconds, a smaller one seconds
_MOST_CAUSES = 20


def plain_line(text: str) -> str | None:
    """``time LEVEL [thread] logger - message`` and below it what was thrown; None: the line is in no such layout."""
    try:
        told = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    message, at, level = (_first(told, names) for names in (_MESSAGE, _TIME, _LEVEL))
    at, level = _stamp(at), _OF_SYSLOG[level] if isinstance(level, int) and 0 <= level < 8 else level
    if not (isinstance(message, str) and at and isinstance(level, str)):
        return None
    thread, logger = (_first(told, names) for names in (_THREAD, _LOGGER))
    head = [at, level, f"[{_one_line(thread)}]", _one_line(logger)]
    return "\n".join([f"{' '.join(head)} - {message}", *_thrown(_first(told, _THROWN))])


def _first(told: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of the names that is there; a point in one also leads into a nested object."""
    for name in names:
        value: Any = told.get(name)
        if value is None and "." in name:
            value = told
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _stamp(at: Any) -> str | None:
    """A text as it is; numbers and log4j2's ``instant``, which count from the epoch, as UTC."""
    if isinstance(at, dict):
        seconds, nanos = at.get("epochSecond"), at.get("nanoOfSecond")
        at = seconds * 1000 + nanos // 1_000_000 if isinstance(seconds, int) and isinstance(nanos, int) else None
    if isinstance(at, (int, float)):
        try:
            when = _EPOCH + timedelta(milliseconds=round(at if at >= _MS_FROM else at * 1000))
        except OverflowError:
            return None
        return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"
    return at if isinstance(at, str) else None


def _one_line(name: Any) -> str:
    return " ".join(name.split()) if isinstance(name, str) else ""


def _thrown(thrown: Any) -> Iterator[str]:
    """The lines of a stack trace; of one that is an object the exception and its causes alone."""
    if isinstance(thrown, str):
        yield from thrown.splitlines()
    elif isinstance(thrown, list):
        yield from (line for part in thrown if isinstance(part, str) for line in part.splitlines())
    caused = ""
    for _ in range(_MOST_CAUSES):
        if not isinstance(thrown, dict) or not isinstance(name := _first(thrown, _CLASS), str):
            return
        said = thrown.get("message")
        yield f"{caused}{_one_line(name)}" + (f": {said}".replace("\n", " ") if isinstance(said, str) else "")
        caused, thrown = "Caused by: ", thrown.get("cause")

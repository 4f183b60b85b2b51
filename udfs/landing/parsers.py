"""The readers of landing formats by the formats' names; one is loaded when a file of its format is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hindsight.udfs.landing.landing_formats import CONSUMED, HOOK, OWN_SNAPSHOTS, TRACE
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile, ParsedLine

if TYPE_CHECKING:
    from hindsight.udfs.formats.plain_rows import PlainFormat

NOTHING_KNOWN = LandedFile()
_Known = Callable[[tzinfo, LandedFile], dict[str, Any]]


def _nothing(zone: tzinfo, file: LandedFile) -> dict[str, Any]:
    """Of lines that say everything themselves."""
    return {}


# Where each reader stands, and what it is given beside the lines.
_READERS: Mapping[str, tuple[str, str, _Known]] = {
    HOOK: ("formats.hook_lines", "parse_hook_lines", _nothing),
    TRACE: ("formats.trace_topic_lines", "parse_trace_topic", _nothing),
    CONSUMED: ("formats.consume_lines", "parse_consume_lines", _nothing),
    "canonical_sends": ("formats.canonical_lines", "parse_canonical_sends", _nothing),
    OWN_SNAPSHOTS: ("formats.canonical_lines", "parse_canonical_snapshots", lambda zone, file: {"file": file}),
    "admin_snapshots": ("formats.admin_snapshot_lines", "parse_admin_snapshots", _nothing),
    "mqadmin": ("formats.mqadmin_lines", "parse_mqadmin", lambda zone, file: {"zone": zone, "file": file}),
    "heartbeat": ("formats.admin_snapshot_lines", "parse_heartbeats", _nothing),
    "client_log": (
        "logs.client_log_lines",
        "parse_client_log",
        lambda zone, file: {"zone": zone, "file": file.path, "layout": file.layout, "look": file.look},
    ),
    "broker_log": (
        "logs.broker_log_lines",
        "parse_broker_log",
        lambda zone, file: {"zone": zone, "file": file.path, "look": file.look},
    ),
}


def _parse(name: str, lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` for each line of a file; ``zone``: of local times without one."""
    module, function, known = _READERS[name]
    parsed: Iterator[ParsedLine] = getattr(import_module(f"hindsight.udfs.{module}"), function)(
        lines, **known(zone, file)
    )
    return parsed


PARSERS = {name: partial(_parse, name) for name in _READERS}


def _hook_rows() -> PlainFormat:
    from hindsight.udfs.formats.hook_lines import HOOK_LINES

    return HOOK_LINES


# How lines of the kind that most of a file's are can be read together.
PLAIN: Mapping[str, Callable[[], PlainFormat]] = {HOOK: _hook_rows}

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
# Where each reader stands.
_READERS = {
    HOOK: ("formats.hook_lines", "parse_hook_lines"),
    TRACE: ("formats.trace_topic_lines", "parse_trace_topic"),
    CONSUMED: ("formats.consume_lines", "parse_consume_lines"),
    "canonical_sends": ("formats.canonical_lines", "parse_canonical_sends"),
    OWN_SNAPSHOTS: ("formats.canonical_lines", "parse_canonical_snapshots"),
    "admin_snapshots": ("formats.admin_snapshot_lines", "parse_admin_snapshots"),
    "mqadmin": ("formats.mqadmin_lines", "parse_mqadmin"),
    "heartbeat": ("formats.admin_snapshot_lines", "parse_heartbeats"),
    "client_log": ("logs.client_log_lines", "parse_client_log"),
    "broker_log": ("logs.broker_log_lines", "parse_broker_log"),
}
# What a reader is given beside the lines; the others' lines say everything themselves.
_GIVEN: Mapping[str, Callable[[tzinfo, LandedFile], dict[str, Any]]] = {
    OWN_SNAPSHOTS: lambda zone, file: {"file": file},
    "mqadmin": lambda zone, file: {"zone": zone, "file": file},
    "client_log": lambda zone, file: {"zone": zone, "file": file.path, "layout": file.layout, "look": file.look},
    "broker_log": lambda zone, file: {"zone": zone, "file": file.path, "look": file.look},
}


def _parse(name: str, lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` for each line of a file; ``zone``: of local times without one."""
    module, function = _READERS[name]
    given = _GIVEN[name](zone, file) if name in _GIVEN else {}
    parsed: Iterator[ParsedLine] = getattr(import_module(f"hindsight.udfs.{module}"), function)(lines, **given)
    return parsed


PARSERS = {name: partial(_parse, name) for name in _READERS}


def _hook_rows() -> PlainFormat:
    from hindsight.udfs.formats.hook_lines import HOOK_LINES

    return HOOK_LINES


# How lines of the kind that most of a file's are can be read together.
PLAIN: Mapping[str, Callable[[], PlainFormat]] = {HOOK: _hook_rows}

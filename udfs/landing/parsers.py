"""The readers of landing formats by the formats' names; one is loaded when a file of its format is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from hindsight.udfs.landing.landing_formats import CONSUMED, HOOK, OWN_SNAPSHOTS, TRACE
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile, ParsedLine

if TYPE_CHECKING:
    from hindsight.udfs.formats.plain_rows import PlainFormat

NOTHING_KNOWN = LandedFile()


class Parser(Protocol):
    """The lines of one file in, one ``ParsedLine`` each out.

    ``zone``: of local times without a zone. ``file``: for formats whose lines leave to it what they are about.
    """

    def __call__(self, lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
        """Parse one file."""
        ...


def _by_itself(module: str, name: str) -> Parser:
    """A parser, by where it stands, for lines that say everything themselves."""

    def parse_file(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
        parsed: Iterator[ParsedLine] = getattr(import_module(f"hindsight.udfs.formats.{module}"), name)(lines)
        return parsed

    return parse_file


def _hook_rows() -> PlainFormat:
    from hindsight.udfs.formats.hook_lines import HOOK_LINES

    return HOOK_LINES


def _client_log(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    from hindsight.udfs.logs.client_log_lines import parse_client_log

    return parse_client_log(lines, zone=zone, file=file.path, layout=file.layout, look=file.look)


def _broker_log(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    from hindsight.udfs.logs.broker_log_lines import parse_broker_log

    return parse_broker_log(lines, zone=zone, file=file.path, look=file.look)


def _mqadmin(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    from hindsight.udfs.formats.mqadmin_lines import parse_mqadmin

    return parse_mqadmin(lines, zone=zone, file=file)


def _canonical_snapshots(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    from hindsight.udfs.formats.canonical_lines import parse_canonical_snapshots

    return parse_canonical_snapshots(lines, file=file)


PARSERS: Mapping[str, Parser] = {
    HOOK: _by_itself("hook_lines", "parse_hook_lines"),
    TRACE: _by_itself("trace_topic_lines", "parse_trace_topic"),
    CONSUMED: _by_itself("consume_lines", "parse_consume_lines"),
    "canonical_sends": _by_itself("canonical_lines", "parse_canonical_sends"),
    OWN_SNAPSHOTS: _canonical_snapshots,
    "admin_snapshots": _by_itself("admin_snapshot_lines", "parse_admin_snapshots"),
    "mqadmin": _mqadmin,
    "heartbeat": _by_itself("admin_snapshot_lines", "parse_heartbeats"),
    "client_log": _client_log,
    "broker_log": _broker_log,
}
# How lines of the kind that most of a file's are can be read together.
PLAIN: Mapping[str, Callable[[], PlainFormat]] = {HOOK: _hook_rows}

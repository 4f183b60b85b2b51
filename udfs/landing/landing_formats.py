"""The registry of landing formats: folder, file names, parser, and the tables and side it feeds.

A new format is one parser and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.formats.canonical_lines import parse_canonical_sends, parse_canonical_snapshots
from hindsight.udfs.formats.heartbeat_lines import parse_heartbeats
from hindsight.udfs.formats.hook_blocks import HOOK_LINES
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.formats.mqadmin_lines import parse_mqadmin
from hindsight.udfs.formats.plain_rows import PlainFormat
from hindsight.udfs.formats.trace_topic_lines import parse_trace_topic
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile, ParsedLine
from hindsight.udfs.logs.broker_log_lines import parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log

NOTHING_KNOWN = LandedFile()
HOOK, TRACE = "producer_hook", "trace_topic"
OWN_SNAPSHOTS = "canonical_snapshots"


class Parser(Protocol):
    """The lines of one file in, one ``ParsedLine`` each out.

    ``zone``: of local times without a zone. ``file``: for formats whose lines leave to it what they are about.
    """

    def __call__(self, lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
        """Parse one file."""
        ...


def _by_itself(parse: Callable[[Iterable[Line]], Iterator[ParsedLine]]) -> Parser:
    """A parser for lines that say everything themselves."""

    def parse_file(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
        return parse(lines)

    return parse_file


def _client_log(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    return parse_client_log(lines, zone=zone, file=file.path, layout=file.layout, look=file.look)


def _broker_log(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    return parse_broker_log(lines, zone=zone, file=file.path, look=file.look)


def _mqadmin(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    return parse_mqadmin(lines, zone=zone, file=file)


def _canonical_snapshots(lines: Iterable[Line], zone: tzinfo, file: LandedFile = NOTHING_KNOWN) -> Iterator[ParsedLine]:
    return parse_canonical_snapshots(lines, file=file)


@dataclass(frozen=True)
class LandingFormat:
    """A kind of landing file.

    ``name`` is its folder under the landing root; ``patterns`` are the names of its files, each also with ``.gz``.
    ``side`` says whose derived tables its rows can change; ``releases`` which clients' (or brokers') writing is read.
    ``distance``: of several formats that tell of one producer (or group) on one date, the nearest to it is computed
    with, 0 being its own record. ``commands`` names a list beside a file that says which command wrote it, and when.
    ``zipped``: a file may also be the one in a ZIP archive of its name with ``.zip``. ``text``: its encoding is that of
    the machine that wrote it, not always UTF-8. ``plain``: how lines of the kind that most of a file's are can be read
    together.
    """

    name: str
    side: Literal["producer", "consumer"]
    patterns: tuple[str, ...]
    tables: tuple[str, ...]
    releases: str
    parse: Parser
    distance: int = 0
    commands: str | None = None
    zipped: bool = False
    text: bool = False
    plain: PlainFormat | None = None

    def takes(self, name: str) -> bool:
        """Whether a file of this name, packed or not, is one of the format's."""
        ends = (".gz", ".zip") if self.zipped else (".gz",)
        plain = next((name.removesuffix(end) for end in ends if name.endswith(end)), name)
        return any(fnmatchcase(plain, pattern) for pattern in self.patterns)


# A log, and what is left of it when it is rolled: by number, or by date.
_LOG_NAMES = (
    "*.log",
    "*.LOG",
    "*.log.[0-9]",
    "*.log.[0-9]*[0-9]",
    "*.log-[0-9]*[0-9]",
    "*.out",
    "stdout",
    "*.txt",
)

FORMATS: dict[str, LandingFormat] = {
    landing_format.name: landing_format
    for landing_format in (
        LandingFormat(
            name=HOOK,
            side="producer",
            patterns=("*.jsonl",),
            tables=("send_attempt", "producer_instance", "lost_lines"),
            releases="4.0.0 on",
            parse=_by_itself(parse_hook_lines),
            plain=HOOK_LINES,
        ),
        LandingFormat(
            name=TRACE,
            side="producer",
            patterns=("*.jsonl",),
            tables=("send_attempt", "message_trace"),
            releases="4.4.0 on",
            parse=_by_itself(parse_trace_topic),
            distance=2,
        ),
        LandingFormat(
            name="canonical_sends",
            side="producer",
            patterns=("*.jsonl", "*.parquet"),
            tables=("send_attempt",),
            releases="any",
            parse=_by_itself(parse_canonical_sends),
            distance=1,
        ),
        LandingFormat(
            name=OWN_SNAPSHOTS,
            side="consumer",
            patterns=("*.jsonl", "*.parquet"),
            tables=(
                "snapshot_capture",
                "consumer_heartbeat",
                "queue_ownership",
                "topic_route",
                "queue_progress",
                "topic_status",
                "pop_assignment",
                "message_request_mode",
            ),
            releases="any",
            parse=_canonical_snapshots,
            distance=1,
        ),
        LandingFormat(
            name="admin_snapshots",
            side="consumer",
            patterns=("*.jsonl",),
            tables=(
                "collection_round",
                "snapshot_capture",
                "consumer_heartbeat",
                "queue_ownership",
                "pop_assignment",
                "queue_progress",
                "topic_route",
                "producer_connection",
                "topic_status",
                "topic_config",
                "subscription_group",
                "message_request_mode",
                "schedule_progress",
            ),
            releases="4.0.0 on",
            parse=_by_itself(parse_admin_snapshots),
        ),
        LandingFormat(
            name="mqadmin",
            side="consumer",
            patterns=("*.txt", "*.stderr", "*.err", "*@*"),
            tables=(
                "snapshot_capture",
                "consumer_heartbeat",
                "queue_ownership",
                "pop_assignment",
                "queue_progress",
                "topic_route",
                "producer_connection",
                "topic_status",
            ),
            releases="4.0.0 on",
            parse=_mqadmin,
            distance=2,
            commands="commands.jsonl",
            text=True,
        ),
        LandingFormat(
            name="heartbeat",
            side="consumer",
            patterns=("*.jsonl",),
            tables=("client_heartbeat",),
            releases="4.0.0 on",
            parse=_by_itself(parse_heartbeats),
        ),
        LandingFormat(
            name="client_log",
            side="consumer",
            patterns=_LOG_NAMES,
            zipped=True,
            text=True,
            tables=("rebalance_result", "client_event"),
            releases="4.1.0 on: 4.0.0 writes no time",
            parse=_client_log,
        ),
        LandingFormat(
            name="broker_log",
            side="consumer",
            patterns=_LOG_NAMES,
            zipped=True,
            text=True,
            tables=("membership_event",),
            releases="4.0.0 on",
            parse=_broker_log,
        ),
    )
}


def distances() -> dict[str, int]:
    """Each format's distance from what it tells of."""
    return {name: landing_format.distance for name, landing_format in FORMATS.items()}


def formats_of(side: Literal["producer", "consumer"]) -> tuple[str, ...]:
    """Names of the formats whose rows can change a side's derived tables."""
    return tuple(landing_format.name for landing_format in FORMATS.values() if landing_format.side == side)

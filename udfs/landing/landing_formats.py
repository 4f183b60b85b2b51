"""The registry of landing formats: folder, file names, and the tables and side it feeds.

A new format is one entry here and one in ``parsers.py``: who asks which formats there are loads none of their readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import Literal

HOOK, TRACE, CONSUMED = "producer_hook", "trace_topic", "consumer_hook"
OWN_SNAPSHOTS = "canonical_snapshots"


@dataclass(frozen=True)
class LandingFormat:
    """A kind of landing file.

    ``name`` is its folder under the landing root; ``patterns`` are the names of its files, each also with ``.gz``.
    ``side`` says whose derived tables its rows can change; ``releases`` which clients' (or brokers') writing is read.
    ``distance``: of several formats that tell of one producer (or group) on one date, the nearest to it is computed
    with, 0 being its own record. ``commands`` names a list beside a file that says which command wrote it, and when.
    ``zipped``: a file may also be the one in a ZIP archive of its name with ``.zip``. ``text``: its encoding is that of
    the machine that wrote it, not always UTF-8.
    """

    name: str
    side: Literal["producer", "consumer"]
    patterns: tuple[str, ...]
    tables: tuple[str, ...]
    releases: str
    distance: int = 0
    commands: str | None = None
    zipped: bool = False
    text: bool = False

    def takes(self, name: str) -> bool:
        """Whether a file of this name, packed or not, is one of the format's."""
        ends = (".gz", ".zip") if self.zipped else (".gz",)
        plain = next((name.removesuffix(end) for end in ends if name.endswith(end)), name)
        return self._names.match(plain) is not None

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.patterns)))


# A log, and what is left of it when it is rolled: by number, or by date.
_LOG_NAMES = ("*.log", "*.LOG", "*.log.[0-9]", "*.log.[0-9]*[0-9]", "*.log-[0-9]*[0-9]", "*.out", "stdout", "*.txt")
_JSON_LINES = ("*.jsonl",)
# What is read of a cluster's servers and clients, by whatever way.
_SNAPSHOTS = (
    *("snapshot_capture", "consumer_heartbeat", "queue_ownership", "pop_assignment", "topic_route"),
    *("queue_progress", "topic_status"),
)
_OF_BROKERS = ("topic_config", "subscription_group", "message_request_mode", "schedule_progress", "broker_status")

_OF_COLLECTOR = ("collection_round", *_SNAPSHOTS, "producer_connection", *_OF_BROKERS)
_ROWS = ("*.jsonl", "*.parquet")
_MQADMIN_NAMES = ("*.txt", "*.stderr", "*.err", "*@*")
_OF_CLIENTS = ("rebalance_result", "client_event")
_FROM_410 = "4.1.0 on: 4.0.0 writes no time"

_ALL = (
    LandingFormat(HOOK, "producer", _JSON_LINES, ("send_attempt", "producer_instance", "lost_lines"), "4.0.0 on"),
    LandingFormat(TRACE, "producer", _JSON_LINES, ("send_attempt", "message_trace"), "4.4.0 on", distance=2),
    LandingFormat(CONSUMED, "producer", _JSON_LINES, ("message_trace", "consumer_recording"), "4.7.1 on"),
    LandingFormat("canonical_sends", "producer", _ROWS, ("send_attempt",), "any", distance=1),
    LandingFormat(OWN_SNAPSHOTS, "consumer", _ROWS, (*_SNAPSHOTS, "message_request_mode"), "any", distance=1),
    LandingFormat("admin_snapshots", "consumer", _JSON_LINES, _OF_COLLECTOR, "4.0.0 on"),
    LandingFormat(
        "mqadmin",
        "consumer",
        _MQADMIN_NAMES,
        (*_SNAPSHOTS, "producer_connection"),
        "4.0.0 on",
        distance=2,
        commands="commands.jsonl",
        text=True,
    ),
    LandingFormat("heartbeat", "consumer", _JSON_LINES, ("client_heartbeat",), "4.0.0 on"),
    LandingFormat("client_log", "consumer", _LOG_NAMES, _OF_CLIENTS, _FROM_410, zipped=True, text=True),
    LandingFormat("broker_log", "consumer", _LOG_NAMES, ("membership_event",), "4.0.0 on", zipped=True, text=True),
)
FORMATS: dict[str, LandingFormat] = {one.name: one for one in _ALL}


def distances() -> dict[str, int]:
    """Each format's distance from what it tells of."""
    return {name: landing_format.distance for name, landing_format in FORMATS.items()}


def formats_of(side: Literal["producer", "consumer"]) -> tuple[str, ...]:
    """Names of the formats whose rows can change a side's derived tables."""
    return tuple(landing_format.name for landing_format in FORMATS.values() if landing_format.side == side)

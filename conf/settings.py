"""The settings that there are, by section, with their bounds; ``default.toml`` says what each is for."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

EventKind = Literal["opened", "worsened", "reopened", "lasting", "corrected", "resolved", "withdrawn"]
ProducerCode = Literal[
    "FLEET_SLOW",
    "BROKER_REFUSES",
    "ALL_ISOLATED",
    "NOT_RETURNING",
    "LONG_ISOLATION",
    "OVER_ISOLATION",
    "IMPOSSIBLE_CHOICE",
    "RELEASE_DIFFERS",
    "FAULT_OFF_SLOW",
]
Seconds = Annotated[float, Field(gt=0)]

_QUEUE = re.compile(r".+:[0-9]{1,9}", re.DOTALL)


class Section(BaseModel):
    """Values that nobody changes, of which every key is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last: a folder of zones
        raise ValueError("there is no such time zone") from None
    return zone


Zone = Annotated[str, AfterValidator(_zone)]


class ClientLogLayout(Section):
    """How some client logs are written, where lines do not tell; ``cluster`` and ``file`` are shell patterns."""

    cluster: str = "*"
    file: str = "*"
    pattern: str | None = None
    zone: Zone | None = None
    encoding: str | None = None
    date_from_file_name: bool = False


class TextEncoding(Section):
    """How some text files are encoded; ``cluster``, ``format`` and ``file`` are shell patterns."""

    encoding: str
    cluster: str = "*"
    format: str = "*"
    file: str = "*"


class Ingest(Section):
    """Bounds of what is read from landing files."""

    max_line_bytes: int = Field(ge=1024)
    max_raw_text_chars: int = Field(ge=0)
    client_log_zone: Zone
    client_log_zones: dict[str, str] = {}
    client_log_layout: tuple[ClientLogLayout, ...] = ()
    text_encoding: tuple[TextEncoding, ...] = ()
    rules: dict[str, str] = {}

    @field_validator("client_log_zones")
    @classmethod
    def _zones_exist(cls, zones: dict[str, str]) -> dict[str, str]:
        return {cluster: _zone(zone) for cluster, zone in zones.items()}


class Rounds(Section):
    """How captures are grouped into collection rounds."""

    max_round_s: int = Field(gt=0)
    gap_s: float = Field(gt=0)
    collector_gap_s: dict[str, Seconds] = {}
    loose_spread_s: float = Field(gt=0)


class ReplayOverride(Section):
    """What is known about producers that recorded no ``start``; patterns are shell patterns."""

    cluster: str = "*"
    producer_group: str = "*"
    client_version: str | None = None
    latency_fault_enabled: bool | None = None
    detector_enabled: bool | None = None
    latency_max_ms: tuple[int, ...] | None = None
    not_available_ms: tuple[int, ...] | None = None


class ReplayLadder(Section):
    """A ladder by a name: producers whose release is not recorded may have it."""

    name: str
    latency_max_ms: tuple[int, ...]
    not_available_ms: tuple[int, ...]

    @field_validator("name")
    @classmethod
    def _is_its_own(cls, given: str) -> str:
        if given in ("default", "recorded", "none"):
            raise ValueError(f"{given!r} has a meaning of its own in producer_release")
        return given


class Replay(Section):
    """How producers' fault tables are replayed."""

    carry_days: int = Field(ge=1)
    clock_tolerance_ms: int = Field(ge=0)
    route_stale_s: int = Field(ge=0)
    route_valid_s: int = Field(gt=0)
    override: tuple[ReplayOverride, ...] = ()
    ladder: tuple[ReplayLadder, ...] = ()


class ProducerFindings(Section):
    """When something about a producer stands out."""

    min_sends_per_minute: int = Field(ge=1)
    over_isolation_max_percent: float = Field(ge=0, le=100)
    fleet_slow_min_percent: float = Field(gt=0, le=100)
    broker_refuses_min_percent: float = Field(gt=0, le=100)
    broker_refuses_min_attempts: int = Field(ge=1)
    long_isolation_before_514_s: float = Field(gt=0)
    long_isolation_since_514_s: float = Field(gt=0)
    not_returning_s: float = Field(gt=0)
    not_returning_within_s: float = Field(gt=0)
    not_returning_expected_sends: float = Field(gt=0)
    not_returning_max_percent: float = Field(gt=0, le=100)
    fault_off_slow_ms: int = Field(gt=0)
    fault_off_slow_percentile: float = Field(gt=0, lt=100)
    fault_off_slow_minutes: int = Field(ge=1)


class Confirmation(Section):
    """How replayed windows are compared with what clients wrote in their logs."""

    within_ms: int = Field(ge=0)


class GroupStrategy(Section):
    """Allocation strategy of groups whose clients show none, and what no client shows of it; shell patterns."""

    cluster: str = "*"
    consumer_group: str = "*"
    name: str
    virtual_node_count: int | None = Field(default=None, ge=0)
    machine_rooms: tuple[str, ...] | None = None
    configured_queues: dict[str, tuple[str, ...]] | None = None
    broker_rooms: dict[str, str] | None = None
    client_rooms: dict[str, str] | None = None

    @field_validator("configured_queues")
    @classmethod
    def _queues_are_named(cls, given: dict[str, tuple[str, ...]] | None) -> dict[str, tuple[str, ...]] | None:
        for queue in (name for names in (given or {}).values() for name in names):
            if not _QUEUE.fullmatch(queue):
                raise ValueError(f"{queue!r} is no queue; write broker:queueId")
        return given

    @field_validator("broker_rooms", "client_rooms")
    @classmethod
    def _rooms_are_named(cls, given: dict[str, str] | None) -> dict[str, str] | None:
        if given is not None and not all(given.values()):
            raise ValueError("a room has no name")
        return given

    @model_validator(mode="after")
    def _both_have_rooms(self) -> GroupStrategy:
        if (self.broker_rooms is None) != (self.client_rooms is None):
            raise ValueError("broker_rooms and client_rooms belong together")
        return self

    @property
    def parameters(self) -> str:
        """The strategy's parameters as JSON; empty without any. Rooms are in order, as the first pattern counts."""
        names = ("virtual_node_count", "machine_rooms", "configured_queues")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        rooms = {name: getattr(self, name) for name in ("broker_rooms", "client_rooms")}
        given |= {name: list(of.items()) for name, of in rooms.items() if of is not None}
        return json.dumps(given, sort_keys=True) if given else ""


class ClientFamily(Section):
    """What no record shows of some members of a group; patterns are shell patterns."""

    cluster: str = "*"
    consumer_group: str = "*"
    client_id: str = "*"
    family: str | None = None
    strategy: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ClientFamily:
        if self.family is None and self.strategy is None:
            raise ValueError("it names neither a family nor a strategy")
        return self


class Opening(Section):
    """When a drift code may open an incident."""

    rounds: int = Field(ge=1)
    age_s: float = Field(ge=0)


class Maintenance(Section):
    """A stretch in which members of a group may differ in what they subscribe; patterns are shell patterns."""

    cluster: str = "*"
    consumer_group: str = "*"
    begin: datetime
    end: datetime


class Timing(Section):
    """When drift becomes an incident, and when the incident is over."""

    membership_grace_s: float = Field(ge=0)
    broker_grace_s: float = Field(ge=0)
    route_grace_s: float = Field(ge=0)
    broker_death_s: float = Field(ge=0)
    ordered_extra_s: float = Field(ge=0)
    critical_grace_s: float = Field(ge=0)
    subscription_grace_s: float = Field(ge=0)
    interval_rounds: int = Field(ge=1)
    close_rounds: int = Field(ge=1)
    close_s: float = Field(ge=0)
    data_gap_s: float = Field(ge=0)
    flapping_changes: int = Field(ge=2)
    flapping_rounds: int = Field(ge=1)
    standstill_s: float = Field(gt=0)
    owner_changes: int = Field(ge=1)
    owner_changes_s: float = Field(gt=0)
    falling_s: float = Field(gt=0)
    slow_handover_s: float = Field(gt=0)
    lock_starved_s: float = Field(ge=0)
    pull_idle_s: float = Field(ge=0)
    consume_blocked_s: float = Field(ge=0)
    offset_slack_s: float = Field(gt=0)
    offset_commit_s: float = Field(gt=5)
    offset_shown_s: float = Field(gt=0)
    retries_a_minute: float = Field(gt=0)
    revive_lag_s: float = Field(ge=0)
    fold_share: float = Field(gt=0, le=1)
    carry_days: int = Field(ge=1)
    opens: dict[str, Opening]
    maintenance: tuple[Maintenance, ...] = ()


class Drift(Section):
    """How observed ownership is judged."""

    progress_valid_s: int = Field(gt=0)
    lookback_s: int = Field(ge=0)
    heartbeat_expiry_s: int = Field(gt=0)
    strategy_carry_days: int = Field(ge=1)
    strategy: tuple[GroupStrategy, ...] = ()
    client_family: tuple[ClientFamily, ...] = ()


class Spark(Section):
    """Spark in local mode; a cluster brings its own configuration."""

    shuffle_partitions: int = Field(gt=0)
    driver_memory: str = Field(pattern=r"^[0-9]+[kmgtKMGT]$")
    options: dict[str, str] = Field(default={}, repr=False)  # some may be secret keys


class Report(Section):
    """Bounds of the page: what lies beyond them is counted on it, not shown."""

    days: int = Field(ge=1)
    brokers: int = Field(ge=1)
    producers: int = Field(ge=1)
    windows: int = Field(ge=1)
    groups: int = Field(ge=1)
    rounds: int = Field(ge=1)
    cells: int = Field(ge=1)
    rows: int = Field(ge=1)


class Metrics(Section):
    """Bounds of what a monitoring system is told."""

    most_series: int = Field(ge=1)


class EventSink(Section):
    """Where events are sent; addresses and tokens that are secrets stand in the environment or in a file."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    form: Literal["webhook", "slack", "dingtalk", "alertmanager"]
    url: str | None = Field(default=None, repr=False)
    url_env: str | None = None
    url_file: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    severity: Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"] = "INFO"

    @model_validator(mode="after")
    def _has_one_address(self) -> EventSink:
        if sum(each is not None for each in (self.url, self.url_env, self.url_file)) != 1:
            raise ValueError("give one of url, url_env and url_file")
        if self.token_env is not None and self.token_file is not None:
            raise ValueError("give one of token_env and token_file")
        return self


class Events(Section):
    """What is told of incidents, and to whom."""

    producer_codes: tuple[ProducerCode, ...]
    quiet_m: float = Field(ge=0)
    backfill_after_h: float = Field(gt=0)
    unsent: tuple[EventKind, ...]
    timeout_s: float = Field(gt=0)
    attempts: int = Field(ge=1)
    retry_s: float = Field(ge=0)
    alert_hold_m: float = Field(gt=0)
    sink: tuple[EventSink, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> Events:
        names = [sink.name for sink in self.sink]
        if len({*names}) < len(names):
            raise ValueError("two sinks have one name")
        return self


class Delta(Section):
    """Properties of the tables that hindsight creates."""

    retention_days: int = Field(ge=1)


class Lint(Section):
    """What `hindsight lint` leaves out: ``CODE`` or ``CODE:subject``, shell patterns."""

    accept: tuple[str, ...] = ()


class Quarantine(Section):
    """What is kept of refused lines."""

    keep_days: int = Field(ge=1)


class Settings(Section):
    """All settings of one run."""

    ingest: Ingest
    rounds: Rounds
    replay: Replay
    confirmation: Confirmation
    producer_findings: ProducerFindings
    drift: Drift
    timing: Timing
    report: Report
    metrics: Metrics

    events: Events
    lint: Lint = Lint()
    spark: Spark
    delta: Delta
    quarantine: Quarantine


def as_text(**sections: BaseModel) -> str:
    """Settings sections by their names, as JSON that ``publication`` keeps."""
    return json.dumps({name: section.model_dump(mode="json") for name, section in sections.items()}, sort_keys=True)


def fingerprint(*sections: BaseModel) -> str:
    """A short digest of settings sections: dates computed under other values are computed anew."""
    text = "\n".join(section.model_dump_json() for section in sections)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

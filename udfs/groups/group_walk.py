"""The rounds of a group in their order, and the ends of its dates, in; rows of the drift tables out.

What is known of the groups of a bucket, and by which settings they are folded: what ``group_fold`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hindsight.udfs.consumer.broker_assignment import RequestModes
from hindsight.udfs.consumer.capture_rounds import CapturedRounds
from hindsight.udfs.consumer.drift_timing import Maintenance, Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.group_rows import by_logical_queues, group_round, hosts_of, to_instant, to_ms
from hindsight.udfs.consumer.member_rules import Heartbeats, Setting, Shown
from hindsight.udfs.consumer.offset_marks import NO_READINGS, Readings
from hindsight.udfs.consumer.queue_ends import QueueEnds
from hindsight.udfs.consumer.rows_of_rounds import RoundKey
from hindsight.udfs.consumer.topic_routes import RoutedTopics
from hindsight.udfs.drift.drift_rows import change_rows, drift_rows, incident_row
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.drift.root_cause import Trouble
from hindsight.udfs.drift.told_beside import NOTHING_BESIDE, Beside
from hindsight.udfs.strategies.member_families import Declared
from hindsight.udfs.values.columns import DAY_MS

STATE = "state"
DRIFT, INCIDENT, CHANGE, SCOPE = "drift", "incident", "change", "scope"
NO_MODES = RequestModes()


class WalkSettings(NamedTuple):
    """What the walk goes by; ``maintenance`` entries hold shell patterns ``cluster``, ``consumer_group`` and instants
    ``begin``, ``end``."""

    timing: Timing
    carry_days: int
    maintenance: Sequence[Mapping[str, Any]] = ()


def opened(key: tuple[str, str, str], row: Mapping[str, Any], settings: WalkSettings) -> GroupHistory:
    """The history of a group that begins with the row of ``group_drift_state`` in which its date before closed."""
    evidence = {entry["incident_id"]: entry["lines"] for entry in row["evidence"] or ()}
    return GroupHistory.of_json(key, settings.timing, row["state"], _windows(key, settings), evidence)


def new_history(key: tuple[str, str, str], settings: WalkSettings) -> GroupHistory:
    """The history of a group that no date before tells of."""
    return GroupHistory(key, settings.timing, _windows(key, settings))


def step(history: GroupHistory, row: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the drift tables that a round gives, by kind: DRIFT, CHANGE, and what is said of topics, SCOPE.

    ``round`` and ``lags`` of its row are functions that give the value: a round with the ``signature`` of the one
    before is not asked, or by ``again``, if it has that, only for what is its own: it takes the last round, and gives
    None where this one shows something else after all.
    """
    at, read_at = to_ms(row["at"]) or 0, to_ms(row["progress_at"])
    is_fresh = read_at is not None and read_at > history.memory.progress_at
    read = (row["lags"]() or NO_READINGS) if is_fresh else NO_READINGS
    oldest = to_ms(row["oldest_pull_at"]), to_ms(row["oldest_consume_at"])
    before, told = history.hosts, by_logical_queues(read, history.hosts)
    if history.repeat(row["signature"], at, oldest, told):
        yield from _of_topics(history.inferred, {})
        return
    full, group = _brought(history, row)
    history.hosts = hosts_of(full)
    told = told if history.hosts == before else by_logical_queues(read, history.hosts)
    walked = history.step(group, told, signature=row["signature"])
    history.last = (full, walked.group) if history.settled is not None and _stays(walked.group) else None
    yield from ((DRIFT, made) for made in drift_rows(full, walked))
    yield from ((CHANGE, made) for made in change_rows(full, walked.changes))
    yield from _of_topics(walked.inferred, walked.scope)


def _of_topics(
    inferred: Mapping[str, tuple[str, ...]], scope: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for topic in sorted(inferred.keys() | scope.keys()):
        names = inferred.get(topic)
        said = {"inferred_strategies": None if names is None else list(names), "scope_reason": scope.get(topic)}
        yield SCOPE, {"topic": topic, **said}


def _brought(history: GroupHistory, row: Mapping[str, Any]) -> tuple[Mapping[str, Any], GroupRound]:
    """The round as it was brought together, and as the rules look at it; of a repeat only what is its own is read."""
    if history.asked is not None and history.last is not None and "again" in row:
        full, last = history.last
        group = row["again"](last)
        if group is not None:
            return {**full, "round_at": row["round_at"], "at": row["at"]}, group
    full = row["round"]()
    return full, group_round(full)


def _stays(group: GroupRound) -> bool:
    """What earlier rounds and brokers say of a round is as it will be when it is seen again."""
    return not (group.shared or group.returned or group.doubted or group.missed)


def close(
    history: GroupHistory, row: Mapping[str, Any], settings: WalkSettings
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the drift tables that the end of a date gives, by kind: INCIDENT, STATE; ``is_last``: no later date is
    known."""
    day = row["event_date"]
    place = {name: row[name] for name in ("cluster", "event_date", "collector", "consumer_group")}
    finished = history.close_date(day.isoformat())
    total = sum(len(queues) for queues in history.memory.routes.values())
    midnight = to_ms(datetime.combine(day, time(), UTC)) or 0
    # A group that nobody has read for so long is not waited for: what was open stays as it was last seen.
    forgotten = midnight - history.memory.last_at > settings.carry_days * DAY_MS
    live = [incident for _, incident in sorted(history.ledger.incidents.items())]
    for incident in finished:
        yield INCIDENT, {**place, **incident_row(incident, total, True, settings.timing)}
    if row["is_last"] or forgotten:
        for incident in live:
            yield INCIDENT, {**place, **incident_row(incident, total, forgotten, settings.timing)}
    if not forgotten and history.memory.last_at:
        states = [incident.state for incident in live]
        yield (
            STATE,
            {
                **place,
                "state": history.to_json(),
                "evidence": [{"incident_id": i, "lines": e} for i, e in history.ledger.evidence().items()],
                "open_incidents": sum(state != "RESOLVED" for state in states),
                "last_round_at": to_instant(history.memory.last_at),
            },
        )


def _windows(key: tuple[str, str, str], settings: WalkSettings) -> list[Maintenance]:
    cluster, _, group = key
    return [
        Maintenance(to_ms(entry["begin"]) or 0, to_ms(entry["end"]) or 0)
        for entry in settings.maintenance
        if fnmatchcase(cluster, entry["cluster"]) and fnmatchcase(group, entry["consumer_group"])
    ]


class FoldSettings(NamedTuple):
    """What the fold goes by beside the walk's settings; see ``hindsight.conf.settings.Drift`` and ``Rounds``."""

    walk: WalkSettings
    lookback_s: int
    progress_valid_s: int
    loose_spread_s: float


class Recorded(NamedTuple):
    """What is known of all groups of a bucket; topics and rounds are looked up in it.

    Attributes:
        rounds: by group and collector, instants of rounds, epoch us, in order, and their places in ``captured``.
        readings: by group and collector, instants at which offsets were read and the rounds of these, epoch us, sorted.
        lags: the reading of a round.
        asks_proxy: collectors, and the dates on which they asked a proxy.
        cut_rounds: collectors, and their rounds, epoch us, in which they had no time to ask everything.
        ends: the first offsets of queues, and dead letters.
        modes: how brokers hand out queues to groups that let them.
        troubles: of servers that a round may show effects of: by collector, the round, epoch us, and an instant, ms.
    """

    captured: CapturedRounds
    rounds: Mapping[tuple[str, str], Sequence[tuple[int, int]]]
    routes: RoutedTopics
    readings: Mapping[tuple[str, str], Sequence[tuple[int, int]]]
    lags: Callable[[RoundKey], Readings]
    asks_proxy: frozenset[tuple[str, date]]
    cut_rounds: frozenset[tuple[str, int]]
    ends: QueueEnds
    modes: RequestModes = NO_MODES
    troubles: Callable[[str, int, int], Sequence[Trouble]] = lambda *_: ()


class Told(NamedTuple):
    """What is told of a group whoever collected it.

    Attributes:
        declared: what settings say of a member.
        heartbeats: of its members; None: no heartbeat was ever taken in.
        events: instants, epoch us, joins and leaves, and of whom; None: no broker's log was ever taken in.
        beside: what logs and brokers' settings add to findings.
    """

    shown: Shown
    setting: Setting
    declared: Callable[[str], Declared]
    heartbeats: Heartbeats | None
    events: Sequence[tuple[int, str, str]] | None
    beside: Beside = NOTHING_BESIDE

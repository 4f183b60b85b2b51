"""What clients showed of their strategies in; each member's rule and the group's own, per round, out.

What heartbeats and brokers' logs add to a group's rounds: the age of each member's heartbeat, who came and went.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.allocation import STRATEGIES
from hindsight.udfs.clients.client_kinds import OTHER_CLASS
from hindsight.udfs.consumer.listed_members import Row, nulls_first
from hindsight.udfs.strategies.member_families import Declared, has_no_choice, profile_of_member
from hindsight.udfs.values.columns import DAY_US, differs, instant, microseconds, ranks
from hindsight.udfs.values.message_queues import is_like

CLIENT_LOG, RUNNING_INFO = "client_log", "running_info"
# Lines of a broker's log by what they are to the group; a channel that closed or expired names no client.
EVENTS = {
    "consumer_connected": "join",
    "consumer_unregistered": "leave",
    "consumer_channel_closed": "leave",
    "consumer_channel_expired": "leave",
}
_MS = 1_000  # microseconds


class Setting(NamedTuple):
    """What settings say of a group's strategy; None: nothing."""

    name: str | None = None
    parameters: str | None = None


_NOTHING = Setting()


class Rules(NamedTuple):
    """By which rule each distinct member decides, and the group's own.

    Attributes:
        members: per member ``client_id``, ``strategy``, ``source`` and ``profile``, sorted.
        profile: release family of the majority.
        parameters: the strategy's own, as JSON; '' for the defaults.
    """

    members: Sequence[Mapping[str, str | None]] = ()
    strategy: str = "AVG"
    source: str = "default"
    profile: str | None = None
    parameters: str = ""


class Shown:
    """What the clients of one group showed of their strategies, instant by instant."""

    def __init__(self, events: Iterable[tuple[str, int, str, str]]) -> None:
        """``events``: client id, instant, strategy, and ``CLIENT_LOG`` or ``RUNNING_INFO``."""
        self._instants: dict[tuple[str, str], list[int]] = {}
        self._strategies: dict[tuple[str, str], list[str]] = {}
        for client_id, at, strategy, source in sorted(events, key=lambda event: event[1:3]):
            told = self._strategies.setdefault((client_id, source), [])
            if not told or told[-1] != strategy:
                told.append(strategy)
                self._instants.setdefault((client_id, source), []).append(at)
        self._changes = sorted(at for instants in self._instants.values() for at in instants)

    def changes_until(self, at: int) -> int:
        """How often any client had shown another strategy than before, by then."""
        return bisect_right(self._changes, at)

    def last(self, client_id: str, source: str, at: int) -> str | None:
        """What a client last showed by then."""
        instants = self._instants.get((client_id, source), ())
        place = bisect_right(instants, at)
        return self._strategies[client_id, source][place - 1] if place else None


def member_rules(
    connections: Iterable[Row],
    reads: Iterable[Row],
    shown: Shown,
    at: int,
    setting: Setting = _NOTHING,
    declared: Callable[[str], Declared] = lambda _: Declared(),
) -> Rules:
    """The rules of one round, in which the group was read until ``at``.

    ``declared``: what settings say of a member by its client id; its family goes before what connections say. In order
    of trust: client log, running info, settings; a class that is none of RocketMQ's own says least. Clients that know
    AVG only have that, whatever is said. The group's: configured, else the majority of the known ones (ties in the
    order of STRATEGIES), else AVG, which is RocketMQ's default.
    """
    members = []
    for client_id, said in _said(connections, reads):
        own = declared(client_id)
        members.append(_rule(client_id, _profile(*said, client_id, own), shown, at, own.strategy or setting.name))
    if not members:
        return Rules()
    strategy, source = _majority(members, "strategy", list(STRATEGIES))
    profile, _ = _majority(members, "profile", [])
    return Rules(
        members=members,
        strategy=setting.name or strategy or "AVG",
        source="settings" if setting.name is not None else source or "default",
        profile=profile,
        parameters=setting.parameters or "",
    )


def _said(
    connections: Iterable[Row], reads: Iterable[Row]
) -> Iterable[tuple[str, tuple[str | None, int | None, str | None]]]:
    """What members say of themselves: the newest version that their connections report, with their language, and the
    release that their own running infos state."""
    said: dict[str, tuple[Any, Any]] = {}
    for row in connections:
        told = (nulls_first(row["version"]), nulls_first(row["language"]))
        said[row["client_id"]] = max(told, said.get(row["client_id"], told))
    stated: dict[str, str] = {}
    for row in reads:
        if row["client_version"] is not None:
            stated[row["client_id"]] = max(row["client_version"], stated.get(row["client_id"], ""))
    for client_id, ((_, version), (_, language)) in sorted(said.items()):
        yield client_id, (language, version, stated.get(client_id))


_profile = lru_cache(maxsize=65_536)(profile_of_member)


def _rule(client_id: str, profile: str | None, shown: Shown, at: int, configured: str | None) -> dict[str, str | None]:
    logged, info = shown.last(client_id, CLIENT_LOG, at), shown.last(client_id, RUNNING_INFO, at)
    known = info if info is not None and is_known(info) else None
    strategy: str | None
    source: str | None
    if has_no_choice(profile):
        strategy, source = "AVG", "release"
    elif logged is not None:
        strategy, source = logged, CLIENT_LOG
    elif known is not None:
        strategy, source = known, RUNNING_INFO
    elif configured is not None:
        strategy, source = configured, "settings"
    else:
        strategy, source = info, None if info is None else RUNNING_INFO
    return {"client_id": client_id, "strategy": strategy, "source": source, "profile": profile}


def _majority(
    rules: Sequence[Mapping[str, str | None]], name: str, order: Sequence[str]
) -> tuple[str | None, str | None]:
    """The most frequent known value, with its most trusted source; ties by ``order``, then by name."""
    known = [(value, rule["source"]) for rule in rules if (value := rule[name]) is not None and is_known(value)]
    counts = Counter(value for value, _ in known)
    place = {value: number for number, value in enumerate(order)}
    first = min(counts, key=lambda value: (-counts[value], place.get(value, len(place)), value), default=None)
    return first, min((source for value, source in known if value == first and source is not None), default=None)


def is_known(strategy: str) -> bool:
    """Whether it is a strategy of RocketMQ's own; what an application's class does is not known."""
    return not strategy.startswith(OTHER_CLASS)


def setting_of(entries: Sequence[Mapping[str, Any]], cluster: str, consumer_group: str) -> Setting:
    """What settings say of a group: of the first entry whose shell patterns match and that holds a value.

    ``entries``: shell patterns ``cluster`` and ``consumer_group``, ``name``, ``parameters``.
    """
    own = [e for e in entries if is_like(cluster, e["cluster"]) and is_like(consumer_group, e["consumer_group"])]
    given = (next((e[name] for e in own if e.get(name) is not None), None) for name in Setting._fields)
    return Setting(*given)


SHOWN = pa.schema(
    [
        ("consumer_group", pa.string()),
        ("client_id", pa.string()),
        ("source", pa.string()),
        ("strategy", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
_EPOCH = date(1970, 1, 1)


class Sighting(NamedTuple):
    """A client showed its strategy in a source at an instant, epoch us."""

    consumer_group: str
    client_id: str
    source: str
    strategy: str
    at: int


def telling(shown: pa.Table) -> list[Sighting]:
    """Of rows ``SHOWN``, sorted, those that tell of another strategy than the one before, and the last of each date."""
    if not shown.num_rows:
        return []
    at = microseconds(shown, "at")
    names = [ranks(shown, name) for name in ("consumer_group", "client_id", "source")]
    strategy = ranks(shown, "strategy")
    order = np.lexsort([strategy, at, *names[::-1]])
    of_client = differs(*(column[order] for column in names))
    is_new = of_client | differs(strategy[order])
    is_last = np.append((of_client | differs((at // DAY_US)[order]))[1:], True)
    rows = shown.take(pa.array(order[is_new | is_last]))
    instants = microseconds(rows, "at").tolist()
    texts = (rows[name].to_pylist() for name in SHOWN.names[:4])
    return list(map(Sighting, *texts, instants))


def handed_on(sightings: Sequence[Sighting], dates: Sequence[date], carry_days: int) -> Iterator[tuple[date, Sighting]]:
    """Per date, client and source of a group's ``telling`` sightings the strategy last shown, while not older than
    ``carry_days``."""
    last: dict[tuple[str, str], list[tuple[date, Sighting]]] = {}
    for one in sightings:
        shown_on = _EPOCH + timedelta(days=one.at // DAY_US)
        last.setdefault((one.client_id, one.source), []).append((shown_on, one))
    for of_client in last.values():
        for day in dates:
            before = [entry for entry in of_client if entry[0] <= day]
            if before and day - before[-1][0] <= timedelta(days=carry_days):
                yield day, before[-1][1]


class Heartbeats:
    """The heartbeats of one group's consumers."""

    def __init__(self, beats: Iterable[tuple[str, int]], *, lookback_s: int, expiry_s: int) -> None:
        """``beats``: client id, and when a broker received it, epoch us."""
        self._by_client: dict[str, list[int]] = {}
        self._group: list[int] = []
        for client_id, at_us in sorted(beats, key=lambda beat: beat[1]):
            self._by_client.setdefault(client_id, []).append(at_us)
            self._group.append(at_us)
        self._lookback_ms, self._expiry_ms = lookback_s * 1000, expiry_s * 1000

    def ages(self, members: Iterable[str], at_us: int) -> list[dict[str, Any]] | None:
        """Each member's last heartbeat by ``at_us``, epoch us, within ``lookback_s``; None: the group had none.

        A member is stale when that is older than ``expiry_s``, or when there is none although heartbeats of the group
        were recorded for longer than that; what cannot be said is null. Instants count by their millisecond.
        """
        at_ms = at_us // _MS
        if self._last(self._group, at_ms) is None:
            return None
        is_missed = self._last(self._group, at_ms - self._expiry_ms, at_ms) is not None
        found = []
        for client_id in sorted(set(members)):
            heard_us = self._last(self._by_client.get(client_id, ()), at_ms)
            age_ms = None if heard_us is None else at_ms - heard_us // _MS
            found.append(
                {
                    "client_id": client_id,
                    "last_heartbeat_at": None if heard_us is None else instant(heard_us),
                    "age_ms": age_ms,
                    "stale": age_ms > self._expiry_ms if age_ms is not None else is_missed or None,
                }
            )
        return found or None

    def _last(self, instants: Sequence[int], until_ms: int, now_ms: int | None = None) -> int | None:
        """The last one not after ``until_ms`` and not longer than the lookback before ``now_ms``."""
        place = bisect_left(instants, (until_ms + 1) * _MS)
        least_ms = (until_ms if now_ms is None else now_ms) - self._lookback_ms
        return instants[place - 1] if place and instants[place - 1] // _MS >= least_ms else None


def member_events(
    rounds: Sequence[tuple[int, int]], events: Iterable[tuple[int, str, str]], *, lookback_s: int
) -> dict[int, list[dict[str, Any]]]:
    """Per round, who came (``join``) or went (``leave``) since the round before it, or in ``lookback_s``.

    Each broker writes a line of its own: the last one counts.

    Args:
        rounds: instant at which a group was last read in it, and the round's own, epoch us.
        events: instant, epoch us; join or leave; client id, else address.
    """
    in_order = sorted(rounds)
    instants = [at for at, _ in in_order]
    last: dict[tuple[int, str, str], int] = {}
    for at_us, kind, subject in events:
        place = bisect_left(instants, at_us)
        if place == len(instants) or instants[place] // 1_000_000 - at_us // 1_000_000 > lookback_s:
            continue
        key = (in_order[place][1], kind, subject)
        last[key] = max(at_us, last.get(key, at_us))
    found: dict[int, list[dict[str, Any]]] = {}
    for (round_us, kind, subject), at_us in sorted(last.items(), key=lambda entry: (entry[1], *entry[0][1:])):
        found.setdefault(round_us, []).append({"at": instant(at_us), "kind": kind, "subject": subject})
    return found

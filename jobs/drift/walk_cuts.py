"""Where the walk of a date is cut: what a bucket's groups need to go on from there out, and in again.

Two things are kept at a cut: of each group the state of its walk (``STATES``), and what the date has told so far that
later rounds may need, or that is written again as a whole when the date closes (``TOLD``, by the cut that came next).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.jobs.drift.drift_copies import END_SCHEMA
from hindsight.jobs.engines.runner import Given
from hindsight.udfs.consumer.member_rules import Sighting
from hindsight.udfs.consumer.topic_facts import Expected
from hindsight.udfs.groups.group_fold import GroupFold
from hindsight.udfs.rebalances.round_shares import ShareRound
from hindsight.udfs.servers.server_fold import ServerFold

KEPT_STATES, KEPT_TOLD = "kept states", "told so far"
STATES = pa.schema(
    [
        ("cluster", pa.string()),
        ("event_date", pa.date32()),
        ("until_us", pa.int64()),
        ("read_until_us", pa.int64()),
        ("longest_us", pa.int64()),
        ("collector", pa.string()),
        ("consumer_group", pa.string()),
        ("state", pa.string()),
    ]
)
TOLD = pa.schema(
    [
        ("cluster", pa.string()),
        ("event_date", pa.date32()),
        ("until_us", pa.int64()),
        ("kind", pa.string()),
        ("collector", pa.string()),
        ("consumer_group", pa.string()),
        ("value", pa.string()),
    ]
)
SHARE, EXPECTED, CHANGE, SHOWN_BY, UNCOLLECTED, END_OF_QUEUE, NOT_KEPT = (
    "share", "expected", "change", "shown", "uncollected", "end", "not kept",
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
Group = tuple[str, str]  # consumer group, collector


class Cuts(NamedTuple):
    """Where the walks of a cluster's groups are cut.

    Attributes:
        from_us: the instant from which rounds of the first date are judged, epoch us; 0: all of them.
        at: by date, the instants at which states are kept.
        collected: topics, collectors and days since 1970 of route reads that are not among the rows.
    """

    from_us: int = 0
    at: Mapping[date, Sequence[int]] = {}
    collected: Sequence[tuple[str, str, int]] = ()


NO_CUTS = Cuts()


class KeptSoFar:
    """What was kept of a bucket's groups where this run goes on."""

    def __init__(self, given: Given) -> None:
        self.states: dict[Group, str] = {}
        for rows in given.tables(KEPT_STATES):
            columns = (rows[name].to_pylist() for name in ("consumer_group", "collector", "state"))
            self.states |= {(group, collector): state for group, collector, state in zip(*columns, strict=True)}
        self._told: dict[str, list[tuple[str, str, Any]]] = defaultdict(list)
        for rows in given.tables(KEPT_TOLD):
            columns = (rows[name].to_pylist() for name in ("kind", "consumer_group", "collector", "value"))
            for kind, group, collector, value in zip(*columns, strict=True):
                self._told[kind].append((group, collector, json.loads(value)))

    def shares(self) -> dict[Group, list[ShareRound]]:
        """The rounds of the date that showed something else than the one before."""
        found: dict[Group, list[ShareRound]] = defaultdict(list)
        for group, collector, value in self._told[SHARE]:
            found[group, collector].append(ShareRound.of_state(value))
        return found

    def sightings(self) -> list[dict[str, Any]]:
        """When clients showed their strategies, as rows ``SHOWN``; instants epoch us."""
        names = ("client_id", "source", "strategy", "at")
        return [
            {"consumer_group": group, **dict(zip(names, value, strict=True))}
            for group, _, value in self._told[SHOWN_BY]
        ]

    def expected(self) -> set[tuple[Any, ...]]:
        """Groups and names of the date's expectations."""
        return {(group, *value) for group, _, value in self._told[EXPECTED]}

    def changes(self) -> set[tuple[Any, ...]]:
        """Groups, collectors and keys of the date's membership changes; instants epoch us."""
        return {(group, collector, *value) for group, collector, value in self._told[CHANGE]}


class CutRows:
    """What is kept at the cuts of a bucket's walk, one after the other."""

    def __init__(
        self,
        cluster: str,
        folds: Sequence[GroupFold | ServerFold],
        sightings: Mapping[str, Sequence[Sighting]],
        ends: pa.Table,
        from_us: int,
        lookback_s: int,
        shares: Mapping[Group, int],
    ) -> None:
        """``ends``: what was told of queues' ends, as far as it was new, also ``lookback_s`` before a date;
        ``from_us``: what is earlier was kept, of each group's shares so many."""
        self._cluster, self._folds, self._sightings, self._ends = cluster, folds, sightings, ends
        self._last_us, self._ends_us, self._lookback_us = from_us, from_us, lookback_s * 1_000_000
        self._shares: dict[Group, int] = defaultdict(int, shares)
        self._expected: set[tuple[str, tuple[Any, ...]]] = set()
        self._uncollected: set[tuple[str, str, str]] = set()

    def at(
        self,
        day: date,
        cut_us: int,
        shares: Mapping[Group, Sequence[ShareRound]],
        expected: Iterable[tuple[str, Expected]],
        changes: list[tuple[Group, tuple[Any, ...]]],
    ) -> Iterator[tuple[str, pa.Table]]:
        """Rows ``STATES`` and ``TOLD`` of a cut; what the date has made so far is given. ``changes`` is emptied."""
        place = {"cluster": self._cluster, "event_date": day, "until_us": cut_us}
        states = [
            place
            | {"read_until_us": fold.read_until, "longest_us": fold.longest, "collector": fold.key[1]}
            | {"consumer_group": fold.key[2], "state": fold.state()}
            for fold in self._folds
        ]
        yield KEPT_STATES, pa.Table.from_pylist(states, STATES)
        told = [
            *self._new_shares(shares),
            *self._new_expectations(expected),
            *((CHANGE, of, list(key)) for of, key in changes),
            *self._new_sightings(cut_us),
            *self._new_ends(cut_us),
            *self._of_folds(),
        ]
        changes.clear()
        rows = [
            place | {"kind": kind, "consumer_group": group, "collector": collector, "value": _text(value)}
            for kind, (group, collector), value in told
        ]
        yield KEPT_TOLD, pa.Table.from_pylist(rows, TOLD)
        self._last_us = self._ends_us = cut_us

    def close_date(self, midnight_us: int) -> None:
        """The next date begins."""
        self._ends_us = midnight_us - self._lookback_us
        self._shares.clear()
        self._expected.clear()
        self._uncollected.clear()

    def _new_shares(self, shares: Mapping[Group, Sequence[ShareRound]]) -> Iterator[tuple[str, Group, Any]]:
        for of, rounds in shares.items():
            yield from ((SHARE, of, one.to_state()) for one in rounds[self._shares[of] :])
            self._shares[of] = len(rounds)

    def _new_expectations(self, expected: Iterable[tuple[str, Expected]]) -> Iterator[tuple[str, Group, Any]]:
        for group, one in expected:
            name = tuple(one.key.values())
            if (group, name) not in self._expected:
                self._expected.add((group, name))
                yield EXPECTED, (group, ""), list(name)

    def _new_sightings(self, cut_us: int) -> Iterator[tuple[str, Group, Any]]:
        for group, sightings in self._sightings.items():
            for one in sightings:
                if self._last_us <= one.at < cut_us:
                    yield SHOWN_BY, (group, ""), [one.client_id, one.source, one.strategy, one.at]

    def _new_ends(self, cut_us: int) -> Iterator[tuple[str, Group, Any]]:
        at = self._ends["captured_at"].cast(pa.int64())
        wanted = [self._ends_us <= one < cut_us for one in at.to_pylist()]
        rows = self._ends.filter(pa.array(wanted, pa.bool_()))
        plain = pa.table(
            [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns], rows.column_names
        )
        yield from ((END_OF_QUEUE, ("", ""), list(row.values())) for row in plain.to_pylist())

    def _of_folds(self) -> Iterator[tuple[str, Group, Any]]:
        for fold in self._folds:
            _, collector, group = fold.key
            if fold.is_assigned:
                yield NOT_KEPT, (group, collector), "brokers assign"
            for topic in sorted(fold.uncollected):
                if (group, collector, topic) not in self._uncollected:
                    self._uncollected.add((group, collector, topic))
                    yield UNCOLLECTED, (group, collector), topic


def ends_of(told: pa.Table) -> pa.Table:
    """What was kept of queues' ends, as rows ``END_SCHEMA``."""
    values = [json.loads(value) for value in told["value"].to_pylist()]
    columns = list(zip(*values, strict=True)) or [()] * len(END_SCHEMA)
    fields = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in END_SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields)).cast(END_SCHEMA)


def change_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What names a membership change of a group and collector; instants epoch us."""
    return row["topic"], (row["changed_at"] - _EPOCH) // _US, (row["settled_at"] - _EPOCH) // _US


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

"""Rows of doubtful choices in, rows of verdicts out: where the record's nested columns become the kernels' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

from udfs.choice_readings import (
    BrokerRecord,
    NearUpdate,
    Removal,
    Removals,
    item_readings,
    route_readings,
)
from udfs.fault_tolerance import FaultItem, FaultProfile
from udfs.recorded_routes import Route
from udfs.release_profiles import PROFILES
from udfs.send_verdicts import Choice, KnownBroker, judge

NO_SWITCH = "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"
_Row = Mapping[str, Any]


class ChoiceJudge:
    """Judges the doubtful choices of one producer process, given in order of their begin."""

    def __init__(self, tolerance_ms: int) -> None:
        self._tolerance_ms = tolerance_ms
        self._removals = Removals(tolerance_ms)
        self._latest_ms = 0
        self._date: date | None = None

    def verdict(self, row: _Row) -> dict[str, Any]:
        """A row of ``records`` as a row of send_verdict, with ``removals``: what the choice made its client forget."""
        if row["begin_ms"] < self._latest_ms:
            raise ValueError(
                f"choice {row['msg_id']} of {row['client_id']} begins at {row['begin_ms']}, before the last one judged "
                f"({self._latest_ms}); sort each process's choices by their begin before they are judged."
            )
        self._latest_ms = row["begin_ms"]
        if row["event_date"] != self._date:
            self._date = row["event_date"]
            self._removals.close_date()
        profile = _profile(row["profile"], tuple(row["latency_max_ms"] or ()), tuple(row["not_available_ms"] or ()))
        enabled = bool(row["latency_fault_enabled"])
        choice = Choice(row["broker_name"], row["last_broker_name"], row["begin_ms"])
        handed_over = [own for broker in row["brokers"] if (own := self._handed_over(broker)) is not None]
        routes = [route for route in map(Route.of, row["routes"] or ()) if route is not None]
        records = [_record(row, broker, routes) for broker in _with_route_brokers(handed_over, routes)]
        known = [self._known(record, choice, profile, enabled, bool(row["detector_enabled"])) for record in records]
        judgement = judge(choice, known, profile, enabled=enabled)
        removals = self._removals.note(judgement, choice, records)
        if judgement.verdict == "impossible" and row["latency_fault_enabled"] is None:
            # The client may have been switched on, and gone by a table of which no update is known.
            return {"admissible": None, "rule": None, "verdict": "unknown", "reason": NO_SWITCH, "removals": []}
        return {
            "admissible": sorted(judgement.admissible),
            "rule": judgement.rule,
            "verdict": judgement.verdict,
            "reason": judgement.reason,
            "removals": [removal._asdict() for removal in removals],
        }

    def _handed_over(self, broker: _Row) -> _Row | None:
        """The broker as the dates before left it: what they forgot counts as in fault_item_state; None: not known."""
        item = broker["item"]
        removal = item and self._removals.before_date(broker["known_broker"], item["updated_at_ms"])
        if not removal:
            return broker
        if removal.surely:
            return {**broker, "item": None} if broker["on_date"] else None
        return {**broker, "item": {**item, "forgotten_at_ms": removal.at_ms}}

    def _known(
        self, record: BrokerRecord, choice: Choice, profile: FaultProfile, enabled: bool, detector_enabled: bool
    ) -> KnownBroker:
        items = item_readings(
            record if enabled else record._replace(item=None, near=()),
            choice.now_ms,
            profile,
            tolerance_ms=self._tolerance_ms,
            detector_enabled=detector_enabled,
            removal=self._removals.last(record.broker_name),
        )
        return KnownBroker(record.broker_name, items, route_readings(record, choice, profile))


@cache
def _profile(profile: str, latency_max_ms: tuple[int, ...], not_available_ms: tuple[int, ...]) -> FaultProfile:
    return replace(PROFILES[profile], latency_max_ms=latency_max_ms, not_available_ms=not_available_ms)


def _with_route_brokers(brokers: Sequence[_Row], routes: Sequence[Route]) -> list[_Row]:
    """The brokers that the process knew, and those that only a route names."""
    known = {broker["known_broker"] for broker in brokers}
    routed = {name for route in routes for name in route.brokers()}
    nothing = {"item": None, "near": None, "used_before_ms": None, "used_after_ms": None}
    return [*brokers, *({"known_broker": name, **nothing} for name in sorted(routed - known))]


def _record(row: _Row, broker: _Row, routes: Sequence[Route]) -> BrokerRecord:
    item, name = broker["item"], broker["known_broker"]
    forgotten_ms = item and item["forgotten_at_ms"]
    return BrokerRecord(
        name,
        None if item is None else FaultItem(item["latency_ms"], item["start_ms"], item["reachable"]),
        item and item["updated_at_ms"],
        tuple(_near(row, update) for update in broker["near"] or () if not _is_own(row, update)),
        broker["used_before_ms"],
        broker["used_after_ms"],
        tuple(route.entry(name) for route in routes) or None,
        None if forgotten_ms is None else Removal(name, forgotten_ms, surely=False),
    )


def _near(row: _Row, update: _Row) -> NearUpdate:
    """A callback runs on another thread than the one that its line names."""
    by_same_thread = row["thread"] is not None and update["update_thread"] == row["thread"]
    earlier = update["update_begin_ms"] < row["begin_ms"] and update["at_ms"] <= row["begin_ms"]
    sure = by_same_thread and earlier and update["phase_rank"] == 0
    return NearUpdate(update["at_ms"], update["latency_ms"], update["isolation"], update["reachable"], sure)


def _is_own(row: _Row, update: _Row) -> bool:
    """An attempt never sees its own end, nor that of a later attempt of the same send."""
    return update["update_msg_id"] == row["msg_id"] and (update["update_attempt"] or 0) >= (row["attempt"] or 0)

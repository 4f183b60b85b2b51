"""Processes whose choices contradict their record in; findings that say so, and what they may be instead, out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hindsight.udfs.producer.producer_finding import (
    Finding,
    Fleet,
    Observed,
    Thresholds,
    clock,
    producer_name,
    window_doubt,
)

_MADE = {
    "choices": "it chose brokers that it must have avoided",
    "retries": "its retries went to brokers that it must not take",
    "turns": "brokers did not get their turn",
    "response_codes": "its sends did not go on after broker errors as they must",
}


def release_differs(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A process's start, lines or settings tell a release, switch and ladder; what it chose rules all of that out.

    One finding per process and date. It is told with what remains (table producer_release).
    """
    by_process: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in given.releases:
        by_process[row["process"]].append(row)
    for place, rows in sorted(by_process.items()):
        stated = [row for row in rows if row["recorded"]]
        if stated and all(row["state"] == "ruled_out" for row in stated):
            yield _differs(given, place, stated[0], [row for row in rows if row["state"] == "remains"])


def _differs(given: Observed, place: int, stated: Mapping[str, Any], remains: Sequence[Mapping[str, Any]]) -> Finding:
    process = given.day.processes[place]
    who, rules = producer_name(process), process.rules
    switch = "on" if stated["latency_fault_enabled"] else "off"
    others = "; ".join(dict.fromkeys(setup_of(row) for row in remains)) or "no known release with a named ladder"
    since = stated["begin_at"] or 0
    return Finding(
        "RELEASE_DIFFERS",
        process=place,
        topic=None,
        broker_name=None,
        kind=None,
        since=since,
        until=None,
        certainty="possible" if rules.detects else "certain",
        doubt=window_doubt("possible") if rules.detects else None,
        subject=f"{who}, {rules.settings.client_version}",
        evidence=f"producer_release: client_id={process.producer[1]}, families={stated['families']}, "
        f"ladder={stated['ladder']}, latency_fault_enabled={str(stated['latency_fault_enabled']).lower()}",
        sentence=f"{who} is recorded as {rules.settings.client_version} with the switch {switch}, but "
        f"{_MADE[stated['ruled_out_by']]} in {stated['against']} of {stated['chances']} cases, first at "
        f"{clock(since)}; what remains: {others}",
    )


def setup_of(row: Mapping[str, Any]) -> str:
    """A row of producer_release in a few words; the detector is left out."""
    if not row["latency_fault_enabled"]:
        return f"{row['families']} with the switch off"
    return f"{row['families']} with the {row['ladder']} ladder"

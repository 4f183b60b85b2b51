"""Recorded attempts of a producer in, what it told its fault table of brokers out, for a person to follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from hindsight.jobs.engines.asker import Record
from hindsight.jobs.explaining.explanation import Section
from hindsight.udfs.not_available_duration import not_available_duration
from hindsight.udfs.producer.send_outcome import fault_update
from hindsight.udfs.release_profiles import FaultProfile, profile_named

_ORDER = ("at", "begin_at", "thread", "msg_id")


def profile_in_force(rules: Section, name: str) -> FaultProfile:
    """The release family called ``name``, with the ladders of ``rules`` (``rules_in_force``)."""
    (own,) = rules.rows
    return replace(
        profile_named(name),
        latency_max_ms=tuple(own["latency_max_ms"]),
        not_available_ms=tuple(own["not_available_ms"]),
    )


def updates_of(attempts: Iterable[Record], profile: FaultProfile, rules: Section) -> list[Record]:
    """Every updateFaultItem that rows of ``send_attempt`` stand for, in the order in which they count."""
    detects = bool(rules.rows[0]["detector_enabled"])
    found = [update for attempt in attempts for update in _updates(attempt, profile, detector_enabled=detects)]
    return sorted(found, key=lambda update: tuple(update[name] or "" for name in _ORDER))


def _updates(attempt: Record, profile: FaultProfile, *, detector_enabled: bool) -> Iterator[Record]:
    # A trace does not say the mode; it tells of the broker's answer, as a SYNC attempt's end does.
    mode = attempt["mode"] or "SYNC"
    for phase, at, exception in _phases(attempt, mode):
        told = fault_update(
            profile,
            mode=mode,
            phase=phase,
            exception=exception,
            error=attempt["error"],
            detector_enabled=detector_enabled,
        )
        if told is None:
            continue
        latency = round((at - attempt["begin_at"]) / timedelta(milliseconds=1))
        held = not_available_duration(latency, told.isolation, profile)
        line = "callback_line" if phase == "callback" else "submit_line" if attempt["submit_line"] else "source_line"
        yield {
            "at": at,
            "begin_at": attempt["begin_at"],
            "thread": attempt["thread"],
            "msg_id": attempt["msg_id"],
            "broker_name": attempt["broker_name"],
            "latency_ms": latency,
            "exception": exception,
            "isolation": told.isolation,
            "reachable": told.reachable,
            "not_available_ms": held,
            "available_again_at": at + timedelta(milliseconds=held),
            "line": f"{attempt[line.replace('line', 'file')]}:{attempt[line]}",
        }


def _phases(attempt: Record, mode: str) -> Iterator[tuple[str, datetime, str | None]]:
    """When an attempt told the table something: at its end; ASYNC at its submit and at its callback."""
    pinned = attempt["queue_selected_by"] not in (None, "client")
    if mode != "ASYNC":
        if not pinned:
            yield ("result" if mode == "SYNC" else "submit"), attempt["end_at"], attempt["exception"]
        return
    if attempt["submit_end_at"] and not pinned:
        yield "submit", attempt["submit_end_at"], None
    if attempt["callback_end_at"]:
        yield "callback", attempt["callback_end_at"], attempt["exception"]

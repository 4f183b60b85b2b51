"""A window in, the attempts to its broker and the ladder in force out: what opened it, and what ended it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from jobs.engines.asker import Asker, Record, records
from jobs.explanation import MOST, Section, at_instant, on_date, rules_in_force, same
from udfs.not_available_duration import not_available_duration
from udfs.release_profiles import PROFILES, FaultProfile
from udfs.send_outcome import fault_update


def explained_window(asker: Asker, window: Record) -> Iterator[Section]:
    """The sections of a row of ``broker_availability_window``."""
    rules = rules_in_force(asker, window)
    yield rules
    own = {**rules.rows[0], "detector_enabled": bool(rules.rows[0]["detector_enabled"])}
    profile = replace(
        PROFILES[window["profile"]],
        latency_max_ms=tuple(own["latency_max_ms"]),
        not_available_ms=tuple(own["not_available_ms"]),
    )
    order = ("at", "begin_at", "thread", "msg_id")
    updates = sorted(
        _updates(asker, window, profile, own), key=lambda update: tuple(update[name] or "" for name in order)
    )
    yield Section(
        "The producer's updates of this broker in its fault table", _how_to_read(profile, window), updates[:MOST]
    )
    yield _ending(asker, window)


def _how_to_read(profile: FaultProfile, window: Record) -> str:
    ladder = zip(profile.latency_max_ms, profile.not_available_ms, strict=False)
    rungs = ", ".join(f"{low} -> {held}" for low, held in ladder)
    said = [
        f"In order of end, begin, thread, message; the first {MOST} that fall into the window.",
        f"An attempt counts at its end; an isolation as {profile.isolation_latency_ms:,} ms, whatever was measured.",
        f"The last latencyMax that the latency reaches names the notAvailableDuration: {rungs} ms.",
        "Available again is the end plus that duration.",
        "An update can only move it forward."
        if profile.has_reachable
        else "Each update replaces what the one before it said; a quick one ends the window.",
    ]
    if window["state"] == "unreachable":
        said.append(
            "Unreachable: from an update that says so (reachable false) to one that says otherwise, or the detector."
        )
    if window["continues_previous"]:
        said.append("It began on the date before: explain the window that ends at this midnight to see what opened it.")
    return " ".join(said)


def _updates(asker: Asker, window: Record, profile: FaultProfile, own: Record) -> Iterator[Record]:
    until = window["window_end"] or window["window_start"]
    of_both = same(asker, window, "cluster", "producer_group", "client_id", "broker_name")
    sent = records(
        asker,
        f"""SELECT * FROM send_attempt WHERE {of_both}
        AND event_date BETWEEN {on_date(window["window_start"] - timedelta(days=1))} AND {on_date(until)}
        AND end_at >= {at_instant(window["window_start"])}
        AND LEAST(end_at, COALESCE(submit_end_at, end_at)) <= {at_instant(until)}
        ORDER BY end_at LIMIT {MOST * 10}""",
    )
    for attempt in sent:
        for phase, at, exception in _phases(attempt):
            told = fault_update(
                profile,
                mode=attempt["mode"],
                phase=phase,
                exception=exception,
                error=attempt["error"],
                detector_enabled=own["detector_enabled"],
            )
            if told is None or not window["window_start"] <= at <= until:
                continue
            latency = round((at - attempt["begin_at"]) / timedelta(milliseconds=1))
            held = not_available_duration(latency, told.isolation, profile)
            line = (
                "callback_line" if phase == "callback" else "submit_line" if attempt["submit_line"] else "source_line"
            )
            yield {
                "at": at,
                "begin_at": attempt["begin_at"],
                "thread": attempt["thread"],
                "msg_id": attempt["msg_id"],
                "latency_ms": latency,
                "exception": exception,
                "isolation": told.isolation,
                "reachable": told.reachable,
                "not_available_ms": held,
                "available_again_at": at + timedelta(milliseconds=held),
                "line": f"{attempt[line.replace('line', 'file')]}:{attempt[line]}",
            }


def _phases(attempt: Record) -> Iterator[tuple[str, datetime, str | None]]:
    """When an attempt told the table something: at its end; ASYNC at its submit and at its callback."""
    pinned = attempt["queue_selected_by"] not in (None, "client")
    if attempt["mode"] != "ASYNC":
        if not pinned:
            yield ("result" if attempt["mode"] == "SYNC" else "submit"), attempt["end_at"], attempt["exception"]
        return
    if attempt["submit_end_at"] and not pinned:
        yield "submit", attempt["submit_end_at"], None
    if attempt["callback_end_at"]:
        yield "callback", attempt["callback_end_at"], attempt["exception"]


_ENDINGS = {
    "expired": "Nothing ended it before its time: it ends when the broker is available again.",
    "overwritten": "An update ended it: before 5.1.4 the last one alone counts.",
    "removed": "The fallback forgot the broker (pickOneAtLeast found no other).",
    "reachable_again": "An answer, or the detector, found the broker reachable.",
    "restarted": "The producer started again, with an empty table.",
    "cut_at_midnight": "It lasts over midnight; the next date continues it.",
    "open": "The producer's record ends inside it: it ends when the broker is available again, unless something not "
    "recorded changed it.",
}


def _ending(asker: Asker, window: Record) -> Section:
    starts = records(
        asker,
        f"""SELECT 'start' AS what, started_at AS at, source_file || ':' || source_line AS line
        FROM producer_instance WHERE {same(asker, window, "cluster", "producer_group", "client_id")}
        UNION ALL
        SELECT 'last attempt', MAX(end_at), MAX_BY(source_file || ':' || source_line, end_at) FROM send_attempt
        WHERE {same(asker, window, "cluster", "event_date", "producer_group", "client_id")}""",
    )
    return Section("How it ended", f"{window['end_reason']}: {_ENDINGS[window['end_reason']]}", starts)

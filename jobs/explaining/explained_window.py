"""A window in, the attempts to its broker and the ladder in force out: what opened it, and what ended it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.explaining.explanation import MOST, REPLAYED, Section, at_instant, on_date, rules_in_force, same
from hindsight.jobs.explaining.recorded_updates import profile_in_force, updates_of
from hindsight.udfs.release_profiles import FaultProfile


def explained_window(asker: Asker, window: Record) -> Iterator[Section]:
    """The sections of a row of ``broker_availability_window``."""
    rules = rules_in_force(asker, window)
    yield rules
    profile = profile_in_force(rules, window["profile"])
    updates = _updates(asker, window, profile, rules)
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


def _updates(asker: Asker, window: Record, profile: FaultProfile, rules: Section) -> list[Record]:
    until = window["window_end"] or window["window_start"]
    of_both = same(asker, window, "cluster", "producer_group", "client_id", "broker_name")
    sent = records(
        asker,
        f"""SELECT * FROM {REPLAYED} WHERE {of_both}
        AND event_date BETWEEN {on_date(window["window_start"] - timedelta(days=1))} AND {on_date(until)}
        AND end_at >= {at_instant(window["window_start"])}
        AND LEAST(end_at, COALESCE(submit_end_at, end_at)) <= {at_instant(until)}
        ORDER BY end_at LIMIT {MOST * 10}""",
    )
    return [
        {name: value for name, value in update.items() if name != "broker_name"}
        for update in updates_of(sent, profile, rules)
        if window["window_start"] <= update["at"] <= until
    ]


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

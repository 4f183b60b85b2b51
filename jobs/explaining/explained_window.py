"""A window in, the attempts to its broker and the ladder in force out: what opened it, and what ended it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.explaining.explained_choice import profile_in_force, updates_of
from hindsight.jobs.explaining.explanation import (
    MOST,
    REPLAYED,
    Section,
    at_instant,
    on_date,
    queried,
    rules_in_force,
    same,
)
from hindsight.udfs.release_profiles import PROFILES, FaultProfile


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


def explained_send(asker: Asker, call: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the verdict and the result."""
    yield rules_in_force(asker, call)
    yield _settings(asker, call)
    yield _attempts(asker, call)
    yield _held(asker, call)


def _settings(asker: Asker, call: Record) -> Section:
    """How the producer sends, as it recorded itself."""
    profile = PROFILES.get(call["profile"] or "")
    return queried(
        asker,
        "How the producer sends (producer_replay.recorded)",
        f"{_rules_of(profile)} Null: not recorded; DefaultMQProducer's own default counts: 2 retries, 3000 ms, false.",
        f"""SELECT recorded.retry_times_sync, recorded.retry_times_async, recorded.retry_another_broker,
            recorded.send_timeout_ms FROM producer_replay
            WHERE {same(asker, call, "cluster", "event_date", "producer_group", "client_id", "started_at")}""",
    )


def _rules_of(profile: FaultProfile | None) -> str:
    if profile is None:
        return "The release is not known, so nothing is said of retries."
    codes = ", ".join(map(str, profile.retry_response_codes))
    more = " and those that the application adds" if profile.retry_codes_configurable else ""
    time = (
        "One time-out covers all attempts" if profile.attempts_share_timeout else "Each attempt has the whole time-out"
    )
    return (
        f"SYNC: at most 1 + retry_times_sync attempts. The next one follows a RemotingException or MQClientException, "
        f"a broker's error of code {codes}{more}, and another status than SEND_OK if retry_another_broker. {time}. "
        "ONEWAY, and a queue that the application chose: one attempt. ASYNC: the client retries where no hook sees it."
    )


def _attempts(asker: Asker, call: Record) -> Section:
    """The attempts, with their lines."""
    day, until = on_date(call["begin_at"]), on_date(call["end_at"] + timedelta(days=1))
    return queried(
        asker,
        "Its attempts (send_attempt)",
        "gone_ms: what was gone of the time-out as the attempt ended, counted from the first one's begin.",
        f"""SELECT attempt, begin_at, end_at, latency_ms,
            UNIX_MILLIS(end_at) - UNIX_MILLIS({at_instant(call["begin_at"])}) AS gone_ms, broker_name, queue_id,
            outcome, exception, error, response_code, queue_selected_by,
            CONCAT(source_file, ':', source_line) AS line FROM send_attempt
            WHERE {same(asker, call, "cluster", "producer_group", "client_id", "msg_id", "mode")}
            AND event_date BETWEEN {day} AND {until}
            AND begin_at BETWEEN {at_instant(call["begin_at"])} AND {at_instant(call["end_at"])}
            ORDER BY begin_at, attempt LIMIT {MOST}""",
    )


def _held(asker: Asker, call: Record) -> Section:
    """The brokers that were left out of the choice meanwhile."""
    return queried(
        asker,
        "Brokers that the producer treated as not available meanwhile (broker_availability_window)",
        "A retry goes to another broker if one is available (see send_verdict for its choice).",
        f"""SELECT broker_name, state, window_start, window_end, trigger_kind, certainty
            FROM broker_availability_window
            WHERE {same(asker, call, "cluster", "event_date", "producer_group", "client_id")}
            AND window_start <= {at_instant(call["end_at"])}
            AND (window_end > {at_instant(call["begin_at"])} OR window_end IS NULL)
            ORDER BY window_start, broker_name LIMIT {MOST}""",
    )

"""Why a broker was chosen or avoided: a verdict or a window in, what its client went by out.

Of a row of send_verdict: rules, fault items, brokers in use, routes. Of a window: the attempts to its broker and the
ladder in force, which opened and ended it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hindsight.jobs.engines.asker import Asker, Record, records
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
from hindsight.udfs.fault_tolerance import FaultItem, FaultTable
from hindsight.udfs.not_available_duration import not_available_duration
from hindsight.udfs.producer.attempt_updates import fault_update
from hindsight.udfs.release_profiles import PROFILES, FaultProfile, profile_named

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


_READ = 20_000
_EPOCH = datetime(1970, 1, 1)


def explained_choice(asker: Asker, verdict: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the verdict."""
    rules = rules_in_force(asker, verdict)
    yield rules
    if verdict["profile"] in PROFILES and rules.rows:
        yield _items(asker, verdict, rules)
    producer = same(asker, verdict, "cluster", "event_date", "producer_group", "client_id")
    at = at_instant(verdict["begin_at"])
    yield queried(
        asker,
        "What the producer treated as not available when the attempt began (broker_availability_window)",
        "A broker is left out of the choice from window_start on, up to window_end.",
        f"""SELECT broker_name, state, window_start, window_end, trigger_kind, trigger_latency_ms, certainty
            FROM broker_availability_window WHERE {producer}
            AND window_start <= {at} + INTERVAL 1 SECOND
            AND (window_end > {at} - INTERVAL 1 SECOND OR window_end IS NULL)
            ORDER BY broker_name, window_start LIMIT {MOST}""",
    )
    near = f"begin_at BETWEEN {at} - INTERVAL 30 SECONDS AND {at} + INTERVAL 30 SECONDS"
    yield queried(
        asker,
        "Brokers that it used for the topic within 30 s",
        "A broker used before and after was in the client's list; so was the one that was chosen.",
        f"""SELECT broker_name, COUNT_IF(begin_at < {at}) AS before, COUNT_IF(begin_at > {at}) AS after
            FROM send_attempt WHERE {producer} AND {same(asker, verdict, "topic")} AND {near}
            GROUP BY broker_name ORDER BY broker_name LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Recorded routes of the topic around that time (topic_route)",
        "",
        f"""SELECT captured_at, broker_name, write_queue_nums, perm, has_master, order_topic_conf
            FROM topic_route
            WHERE {same(asker, verdict, "cluster", "event_date", "topic")}
            AND captured_at BETWEEN {at} - INTERVAL 300 SECONDS AND {at} + INTERVAL 60 SECONDS
            ORDER BY captured_at DESC, broker_name LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "The send's attempts",
        "lastBrokerName is the broker of the attempt before.",
        f"""SELECT attempt, begin_at, end_at, broker_name, queue_id, last_broker_name, outcome, queue_selected_by,
            source_file || ':' || source_line AS line FROM send_attempt
            WHERE {producer} AND {same(asker, verdict, "msg_id")} ORDER BY begin_at LIMIT {MOST}""",
    )


def _items(asker: Asker, verdict: Record, rules: Section) -> Section:
    """The fault table as the client made its choice: what the date began with, then update after update."""
    profile, at = profile_in_force(rules, verdict["profile"]), verdict["begin_at"]
    stored = _stored_items(asker, verdict)
    sent = _attempts_before(asker, verdict)
    changes = [(update["at"], update) for update in updates_of(sent, profile, rules) if update["at"] < at]
    changes += [(row["window_end"], row) for row in _forgotten(asker, verdict)]
    table = FaultTable(profile, items={name: _item(row) for name, row in stored.items()})
    updated = {name: row["last_update_at"] for name, row in stored.items()}
    for instant, change in sorted(changes, key=lambda each: each[0]):
        if "latency_ms" not in change:
            table.remove(change["broker_name"])
            continue
        told = {name: change[name] for name in ("latency_ms", "isolation", "reachable")}
        table.update(change["broker_name"], now_ms=_ms(instant), **told)
        updated[change["broker_name"]] = instant
    rows = [
        {
            "broker_name": name,
            "currentLatency": item.current_latency_ms,
            "startTimestamp": None if item.start_ms is None else _EPOCH + timedelta(milliseconds=item.start_ms),
            "reachable": item.reachable,
            "available": table.is_available(name, _ms(at)),
            "updated_at": updated.get(name),
        }
        for name, item in sorted(table.items().items())
    ]
    cut = f" Only the last {_READ:,} attempts of the date were read." if len(sent) == _READ else ""
    words = "A broker is available from startTimestamp on. Updates of the same millisecond are not in it."
    return Section("The fault items at the choice", words + cut, rows)


def _stored_items(asker: Asker, verdict: Record) -> dict[str, Record]:
    """What the process held at the end of the last recorded date before."""
    rows = records(
        asker,
        f"""SELECT * FROM fault_item_state
        WHERE {same(asker, verdict, "cluster", "producer_group", "client_id", "started_at")}
        AND event_date < {on_date(verdict["begin_at"])} AND forgotten_at IS NULL ORDER BY event_date LIMIT {_READ}""",
    )
    last = max((row["event_date"] for row in rows), default=None)
    return {row["broker_name"]: row for row in rows if row["event_date"] == last}


def _attempts_before(asker: Asker, verdict: Record) -> list[Record]:
    since = verdict["started_at"] or verdict["begin_at"].replace(hour=0, minute=0, second=0, microsecond=0)
    return records(
        asker,
        f"""SELECT * FROM {REPLAYED}
        WHERE {same(asker, verdict, "cluster", "event_date", "producer_group", "client_id")}
        AND begin_at >= {at_instant(since)} AND begin_at < {at_instant(verdict["begin_at"])}
        AND broker_name IS NOT NULL ORDER BY begin_at DESC LIMIT {_READ}""",
    )


def _forgotten(asker: Asker, verdict: Record) -> list[Record]:
    """Brokers that the fallback had the client forget before."""
    return records(
        asker,
        f"""SELECT broker_name, window_end FROM broker_availability_window
        WHERE {same(asker, verdict, "cluster", "event_date", "producer_group", "client_id", "started_at")}
        AND end_reason = 'removed' AND window_end < {at_instant(verdict["begin_at"])}
        ORDER BY window_end LIMIT {_READ}""",
    )


def _item(row: Record) -> FaultItem:
    start = row["start_at"]
    return FaultItem(row["current_latency_ms"], None if start is None else _ms(start), row["reachable"])


def _ms(instant: datetime) -> int:
    return round(instant.replace(tzinfo=UTC).timestamp() * 1000)


def explained_window(asker: Asker, window: Record) -> Iterator[Section]:
    """The sections of a row of ``broker_availability_window``."""
    rules = rules_in_force(asker, window)
    yield rules
    profile = profile_in_force(rules, window["profile"])
    updates = _updates_in(asker, window, profile, rules)
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


def _updates_in(asker: Asker, window: Record, profile: FaultProfile, rules: Section) -> list[Record]:
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

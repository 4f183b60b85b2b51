"""Why a broker was chosen or avoided: a verdict or a window in, what its client went by out.

Of a row of send_verdict: rules, fault items, brokers in use, routes. Of a window: the attempts to its broker and the
ladder in force, which opened and ended it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, section
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
    rules = section(asker, "rules_in_force", verdict)
    yield rules
    if verdict["profile"] in PROFILES and rules.rows:
        yield _items(asker, verdict, rules)
    for name in ("held_at_choice", "brokers_in_use", "routes_near_choice", "attempts_of_send"):
        yield section(asker, name, verdict)


def _items(asker: Asker, verdict: Record, rules: Section) -> Section:
    """The fault table as the client made its choice: what the date began with, then update after update."""
    profile, at = profile_in_force(rules, verdict["profile"]), verdict["begin_at"]
    stored = _stored_items(asker, verdict)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    since = verdict | {"since": verdict["started_at"] or midnight}
    sent = section(asker, "attempts_before", since, read=_READ).rows
    changes = [(update["at"], update) for update in updates_of(sent, profile, rules) if update["at"] < at]
    changes += [(row["window_end"], row) for row in section(asker, "forgotten", verdict, read=_READ).rows]
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
    rows = section(asker, "stored_items", verdict, read=_READ).rows
    last = max((row["event_date"] for row in rows), default=None)
    return {row["broker_name"]: row for row in rows if row["event_date"] == last}


def _item(row: Record) -> FaultItem:
    start = row["start_at"]
    return FaultItem(row["current_latency_ms"], None if start is None else _ms(start), row["reachable"])


def _ms(instant: datetime) -> int:
    return round(instant.replace(tzinfo=UTC).timestamp() * 1000)


def explained_window(asker: Asker, window: Record) -> Iterator[Section]:
    """The sections of a row of ``broker_availability_window``."""
    rules = section(asker, "rules_in_force", window)
    yield rules
    profile = profile_in_force(rules, window["profile"])
    updates = _updates_in(asker, window, profile, rules)
    yield Section(
        "The producer's updates of this broker in its fault table", _how_to_read(profile, window), updates[:MOST]
    )
    reason = window["end_reason"]
    yield section(asker, "ending", window, ending=f"{reason}: {_ENDINGS[reason]}")


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
    sent = section(asker, "attempts_of_window", window | {"until": until}).rows
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


def explained_send(asker: Asker, call: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the verdict and the result."""
    yield section(asker, "rules_in_force", call)
    yield section(asker, "sending", call, rules=_rules_of(PROFILES.get(call["profile"] or "")))
    yield section(asker, "attempts_of_call", call)
    yield section(asker, "held_meanwhile", call)


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

"""A row of send_verdict in, what its client knew as it chose out: rules, fault items, brokers in use, routes."""

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

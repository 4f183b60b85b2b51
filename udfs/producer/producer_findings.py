"""What is known of producers on a date, and of their fleet, in; rows of producer_finding out.

Every rule sees one date, so a date computed alone gives the rows of a run over many. What lasts over midnight is told
by each date, but for LONG_ISOLATION, whose window knows when its whole stretch opened. Only replayed processes have
windows, so a producer that could not be replayed has no finding on isolations: that is not health.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hindsight.udfs.producer.minute_counts import CERTAINTIES, MINUTES, Held, isolates, reasons_of
from hindsight.udfs.producer.producer_finding import (
    Finding,
    Fleet,
    Observed,
    Run,
    Thresholds,
    also_doubted,
    clock,
    date_of,
    iso,
    producer_name,
    runs,
    seconds,
    window_doubt,
)
from hindsight.udfs.producer.producer_rows import FINDING
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.return_rules import not_returning
from hindsight.udfs.producer.window_doubts import weakened
from hindsight.udfs.release_profiles import profile_named

_NAMED = 5  # a sentence names so many brokers at most


def long_isolation(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A broker was not available to a producer for 60 s or longer; from 5.1.4 on for 10 s or longer.

    The whole stretch counts, from its opening, on whatever date. It is told once: on the date on which it became so
    long, by what that date knows; ``to`` is null where it lasts over that date's midnight (view broker_isolation joins
    the parts). So later dates change nothing that was said of earlier ones. In 5.1.4 unreachable is not available.
    """
    for window in given.windows:
        if isolates(window):
            yield from _grown_long(window, given, limits)


def _grown_long(window: Mapping[str, Any], given: Observed, limits: Thresholds) -> Iterable[Finding]:
    since_514 = profile_named(window["profile"]).extend_only
    limit = 1000 * (limits.long_isolation_since_514_s if since_514 else limits.long_isolation_before_514_s)
    start, end, opened, last = (window[n] for n in ("window_start", "window_end", "opened_at", "last_attempt_at"))
    # A window without known end lasted at least as long as its producer's record.
    age = (max(last, start) if end is None else end) - opened
    if age < limit or start - opened >= limit:
        return
    goes_on = window["end_reason"] == "cut_at_midnight" or end is None
    unseen = window["end_reason"] == "open" and opened + limit > last
    too_short = "the producer's record ends before it is so long"
    who, broker = producer_name(given.day.processes[window["process"]]), window["broker_name"]
    of_date = f"{date_of(given.day, opened)} " if opened < 0 else ""
    why = "a failed send" if window["trigger_kind"] == "isolation" else "a slow send"
    yield Finding(
        "LONG_ISOLATION",
        process=window["process"],
        broker_name=broker,
        kind=window["state"],
        since=opened,
        until=None if goes_on else end,
        certainty=weakened(window["certainty"], [too_short] if unseen else []),
        doubt=too_short if unseen else window_doubt(window["certainty"], reasons_of(window)),
        evidence=f"broker_availability_window: client_id={window['client_id']}, broker_name={broker}, "
        f"state={window['state']}, window_start={iso(given.day, start)}",
        sentence=f"{who} treated {broker} as not available for {seconds(age)}{' and longer' if goes_on else ''} from "
        f"{of_date}{clock(opened)} on, after {why} of {window['trigger_latency_ms']} ms; "
        f"{seconds(int(limit))} is long under its release",
    )


def all_isolated(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A producer held every broker of a topic that it sends to not available at once.

    Of a topic those brokers are known that a route of the date shows as writable or that any producer of the cluster
    sent to; without a route there may be others, so the finding is ``possible``. What lasts over midnight is told by
    each date.
    """
    by_process: dict[int, list[Held]] = defaultdict(list)
    for held in given.held:
        by_process[held.process].append(held)
    for process, stretches in sorted(by_process.items()):
        for topic in sorted(given.topics.get(process, ())):
            routed = fleet.writable.get(topic, frozenset())
            brokers = sorted({*routed, *fleet.queues.get(topic, ())})
            own = [held for held in stretches if held.broker_name in brokers]
            for since, at_once in _overlaps(own, len(brokers)):
                yield _at_once(given, process, topic, brokers, bool(routed), since, at_once)


def _overlaps(stretches: Sequence[Held], brokers: int) -> Iterable[tuple[int, list[Held]]]:
    """Since when so many brokers are held, and their stretches then; it lasts until the first of these ends.

    Stretches of one broker never overlap nor adjoin, so nothing begins while all are held.
    """
    begins: dict[int, list[Held]] = defaultdict(list)
    for held in stretches:
        begins[held.since].append(held)
    now: dict[str, Held] = {}
    for since, fresh in sorted(begins.items()):
        now = {name: held for name, held in now.items() if held.until is None or held.until > since}
        now |= {held.broker_name: held for held in fresh}
        if len(now) == brokers:
            yield since, [*now.values()]


def _at_once(
    given: Observed, process: int, topic: str, brokers: Sequence[str], routed: bool, since: int, at_once: list[Held]
) -> Finding:
    until = min((held.until for held in at_once if held.until is not None), default=None)
    who = producer_name(given.day.processes[process])
    names = ", ".join(brokers) if len(brokers) <= _NAMED else f"{len(brokers)} of them"
    others = None if routed else "no route is recorded, there may be other brokers"
    how_long = "with no end on this date" if until is None else f"for {seconds(until - since)}"
    return Finding(
        "ALL_ISOLATED",
        process=process,
        topic=topic,
        since=since,
        until=until,
        **also_doubted(at_once, others),
        subject=f"{who}, every broker of {topic}",
        evidence=f"broker_availability_window: client_id={given.day.processes[process].producer[1]}, every broker of "
        f"{topic}, at {iso(given.day, since)}",
        sentence=f"{who} treated every broker of {topic} ({names}) as not available at once from {clock(since)} on, "
        f"{how_long}",
        broker_names=tuple(brokers),
    )


def fault_off_slow(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """The switch is known to be off, and p99 of the latency of a broker was 550 ms or more in 5 minutes on end.

    p99 is the value at rank ceil(0.99 n): it is so high exactly when more than 1 % of the attempts took so long, which
    is counted, exactly and in any order. ONEWAY and submits do not count, they tell nothing of the broker. A minute
    without attempts ends the run, as midnight does.
    """
    day, answered = given.day, dict(zip(*(column.tolist() for column in given.answered), strict=True))
    minutes = [
        (number // MINUTES, number % MINUTES, (slow, answered[number]))
        for number, slow in zip(*(column.tolist() for column in given.slow), strict=True)
        if slow * 100 > answered[number] * (100 - limits.fault_off_slow_percentile)
    ]
    for run in runs(minutes):
        if run.end - run.first < limits.fault_off_slow_minutes:
            continue
        place, broker = run.key // len(day.brokers), day.brokers[run.key % len(day.brokers)]
        process = day.processes[place]
        who, partial = producer_name(process), process.certainty == "partial"
        slow, every = (sum(each) for each in zip(*run.values, strict=True))
        yield Finding(
            "FAULT_OFF_SLOW",
            process=place,
            broker_name=broker,
            **run.stretch(),
            certainty="partial" if partial else "certain",
            doubt=window_doubt("partial") if partial else None,
            evidence=f"send_attempt: client_id={process.producer[1]}, broker_name={broker}, "
            f"begin_at={run.instants(day)}",
            sentence=f"{who} does not avoid slow brokers, and {slow} of its {every} attempts to {broker} "
            f"{run.clocks()} took {limits.fault_off_slow_ms} ms or longer",
        )


def impossible_choice(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A producer sent to a broker outside the admissible set: wrong profile, wrong clock, or a queue chosen by others.

    Of Go and C++ producers: to a queue whose turn it was not, or once more when its client would not.

    One finding per process, topic and broker of a date, with their number and the first of them: a wrong profile makes
    one attempt in twenty impossible, which is one finding, not thousands.
    """
    by_pair: dict[tuple[int, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in given.impossible:
        by_pair[row["process"], row["topic"], row["broker_name"]].append(row)
    for (place, topic, broker), rows in sorted(by_pair.items()):
        process, who = given.day.processes[place], producer_name(given.day.processes[place])
        first = min(rows, key=lambda r: (r["begin_at"], r["msg_id"], -1 if r["attempt"] is None else r["attempt"]))
        admissible = ", ".join(sorted(first["admissible"])) or "none"
        because = first["reason"] or f"when admissible were {admissible} (rule {first['rule']})"
        yield Finding(
            "IMPOSSIBLE_CHOICE",
            process=place,
            topic=topic,
            broker_name=broker,
            since=first["begin_at"],
            until=max(row["begin_at"] for row in rows),
            certainty="certain",
            subject=f"{who}, {topic} to {broker}",
            evidence=f"send_verdict: client_id={process.producer[1]}, msg_id={first['msg_id']}",
            sentence=f"{who} chose {broker} for {len(rows)} attempt(s) of {topic}, which its release could not: first "
            f"at {clock(first['begin_at'])}, {because}",
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


_FLEET = 2  # fewer active producers are none


def over_isolation(given: Observed, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A producer isolated a broker that at most 10 % of the active producers isolated, minute by minute.

    Active: 30 sends in the minute or more, and replayed. Certain only if it holds whatever the producers did whose
    windows are not certain or not known.
    """
    share = limits.over_isolation_max_percent
    few = []
    for process, broker, minute, word in zip(*(column.tolist() for column in given.isolating), strict=True):
        name = given.day.brokers[broker]
        at = fleet.minutes[name, minute]
        if at.isolating * 100 <= at.active * share:
            proven = at.isolating_at_most * 100 <= (at.active + at.active_unknown) * share
            few.append(((process, name), minute, (CERTAINTIES[word], proven, (at.isolating, at.active))))
    for run in runs(few):
        yield _alone(given.day, run)


def _alone(day: Day, run: Run) -> Finding:
    (process, broker), who = run.key, producer_name(day.processes[run.key[0]])
    weakest, proven = max(word for word, _, _ in run.values), all(proven for _, proven, _ in run.values)
    isolating, active = max(most for _, _, most in run.values)
    unknown = [] if proven else ["of other active producers too little is known"]
    return Finding(
        "OVER_ISOLATION",
        process=process,
        broker_name=broker,
        **run.stretch(),
        certainty=weakened(weakest, unknown),
        doubt=window_doubt(weakest, day.processes[process].doubts) or next(iter(unknown), None),
        evidence=f"fleet_minute: broker_name={broker}, minute_at={run.instants(day)}",
        sentence=f"{who} held {broker} not available {run.clocks()}, when no more than {isolating} of {active} "
        "active producers did",
    )


def fleet_slow(day: Day, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """At least 50 % of the active producers held a broker not available, minute by minute: the broker is slow.

    One that is active alone says nothing of the others: LONG_ISOLATION tells of it. Certain only if the certain windows
    alone are so many, of all who were active and not off.
    """
    share = limits.fleet_slow_min_percent
    many = [
        (broker, minute, at)
        for (broker, minute), at in sorted(fleet.minutes.items())
        if at.active >= _FLEET and at.isolating > 0 and at.isolating * 100 >= at.active * share
    ]
    for run in runs(many):
        proven = all(at.isolating_at_least * 100 >= (at.active + at.active_unknown) * share for at in run.values)
        isolating, active = max((at.isolating, at.active) for at in run.values)
        unknown = max(at.active_unknown for at in run.values)
        others = f"; {unknown} more could not be judged" if unknown > 0 else ""
        yield Finding(
            "FLEET_SLOW",
            broker_name=run.key,
            **run.stretch(),
            certainty="certain" if proven else "possible",
            doubt=None if proven else "with the certain windows alone there are fewer",
            evidence=f"fleet_minute: broker_name={run.key}, minute_at={run.instants(day)}",
            sentence=f"up to {isolating} of {active} active producers treated {run.key} as not available "
            f"{run.clocks()}{others}",
        )


def broker_refuses(day: Day, fleet: Fleet, limits: Thresholds) -> Iterable[Finding]:
    """A broker was too busy for 5 % of a minute's attempts, and for ten or more; or did not store so many safely.

    Too busy: SYSTEM_BUSY; not safely: another SendStatus than SEND_OK. What the hooks saw is counted, so the
    finding is certain: what they did not see can only be more.
    """
    for kind, words in _REFUSALS.items():
        many = [
            (broker, minute, (getattr(at, kind), at.attempts))
            for (broker, minute), at in fleet.refusals.items()
            if getattr(at, kind) >= limits.broker_refuses_min_attempts
            and getattr(at, kind) * 100 >= at.attempts * limits.broker_refuses_min_percent
        ]
        for run in runs(many):
            refused, attempts = (sum(numbers) for numbers in zip(*run.values, strict=True))
            yield Finding(
                "BROKER_REFUSES",
                broker_name=run.key,
                kind=kind,
                **run.stretch(),
                certainty="certain",
                evidence=f"failed_attempts: broker_name={run.key}, minute={run.instants(day)}",
                sentence=f"{run.key} answered {refused} of {attempts} attempts {words} {run.clocks()}",
            )


_REFUSALS = {
    "busy": "with SYSTEM_BUSY",
    "not_store_ok": "with another status than SEND_OK (stored, but not yet flushed or copied)",
}


Rule = Callable[[Observed, Fleet, Thresholds], Iterable[Finding]]
# What is said of single producers; each rule with its code.
RULES: dict[str, Rule] = {
    "LONG_ISOLATION": long_isolation,
    "ALL_ISOLATED": all_isolated,
    "OVER_ISOLATION": over_isolation,
    "NOT_RETURNING": not_returning,
    "FAULT_OFF_SLOW": fault_off_slow,
    "IMPOSSIBLE_CHOICE": impossible_choice,
    "RELEASE_DIFFERS": release_differs,
}
# What is said of brokers, by all producers together.
FLEET_RULES = (fleet_slow, broker_refuses)


def findings_of(given: Observed, fleet: Fleet, limits: Thresholds) -> pa.Table:
    """What is found of single producers."""
    return _rows(given.day, [finding for rule in RULES.values() for finding in rule(given, fleet, limits)])


def findings_of_fleet(day: Day, fleet: Fleet, limits: Thresholds) -> pa.Table:
    """What is found of all of them together, once a cluster and date."""
    return _rows(day, [finding for rule in FLEET_RULES for finding in rule(day, fleet, limits)])


def _rows(day: Day, findings: Sequence[Finding]) -> pa.Table:
    return pa.Table.from_pylist([finding.row(day) for finding in findings], schema=FINDING)

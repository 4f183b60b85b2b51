"""Fleet minutes in; findings out that set one producer against the fleet, or speak of the whole of it.

Only replayed processes have windows, so a producer that could not be replayed has no finding here: that is not health.
"""

from __future__ import annotations

from collections.abc import Iterable

from hindsight.udfs.producer.held_stretches import CERTAINTIES
from hindsight.udfs.producer.minute_counts import MINUTE_MS
from hindsight.udfs.producer.producer_finding import (
    Finding,
    Fleet,
    Observed,
    Run,
    Thresholds,
    iso_minute,
    minute_clock,
    producer_name,
    runs,
    window_doubt,
)
from hindsight.udfs.producer.replayed_day import Day

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
    certainty = "possible" if not proven and weakest in ("certain", "inferred") else weakest
    doubt = window_doubt(weakest, day.processes[process].doubts) or (
        None if proven else "of other active producers too little is known"
    )
    return Finding(
        "OVER_ISOLATION",
        process=process,
        topic=None,
        broker_name=broker,
        kind=None,
        since=run.first * MINUTE_MS,
        until=run.end * MINUTE_MS,
        certainty=certainty,
        doubt=doubt,
        subject=f"{who}, {broker}",
        evidence=_evidence(day, broker, run),
        sentence=f"{who} held {broker} not available between {minute_clock(run.first)} and {minute_clock(run.end)}, "
        f"when no more than {isolating} of {active} active producers did",
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
            process=None,
            topic=None,
            broker_name=run.key,
            kind=None,
            since=run.first * MINUTE_MS,
            until=run.end * MINUTE_MS,
            certainty="certain" if proven else "possible",
            doubt=None if proven else "with the certain windows alone there are fewer",
            subject=run.key,
            evidence=_evidence(day, run.key, run),
            sentence=f"up to {isolating} of {active} active producers treated {run.key} as not available between "
            f"{minute_clock(run.first)} and {minute_clock(run.end)}{others}",
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
                process=None,
                topic=None,
                broker_name=run.key,
                kind=kind,
                since=run.first * MINUTE_MS,
                until=run.end * MINUTE_MS,
                certainty="certain",
                doubt=None,
                subject=run.key,
                evidence=f"failed_attempts: broker_name={run.key}, minute={iso_minute(day, run.first)} to "
                f"{iso_minute(day, run.end)}",
                sentence=f"{run.key} answered {refused} of {attempts} attempts {words} between "
                f"{minute_clock(run.first)} and {minute_clock(run.end)}",
            )


_REFUSALS = {
    "busy": "with SYSTEM_BUSY",
    "not_store_ok": "with another status than SEND_OK (stored, but not yet flushed or copied)",
}


def _evidence(day: Day, broker: str, run: Run) -> str:
    since, until = iso_minute(day, run.first), iso_minute(day, run.end)
    return f"fleet_minute: broker_name={broker}, minute_at={since} to {until}"

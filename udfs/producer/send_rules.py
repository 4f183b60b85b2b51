"""Attempts and verdicts on them in; producers without the switch that meet slow brokers, impossible choices out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hindsight.udfs.producer.minute_counts import MINUTE_MS, MINUTES
from hindsight.udfs.producer.producer_finding import (
    Finding,
    Fleet,
    Observed,
    Thresholds,
    clock,
    iso_minute,
    minute_clock,
    producer_name,
    runs,
    window_doubt,
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
            topic=None,
            broker_name=broker,
            kind=None,
            since=run.first * MINUTE_MS,
            until=run.end * MINUTE_MS,
            certainty="partial" if partial else "certain",
            doubt=window_doubt("partial") if partial else None,
            subject=f"{who}, {broker}",
            evidence=f"send_attempt: client_id={process.producer[1]}, broker_name={broker}, "
            f"begin_at={iso_minute(day, run.first)} to {iso_minute(day, run.end)}",
            sentence=f"{who} does not avoid slow brokers, and {slow} of its {every} attempts to {broker} between "
            f"{minute_clock(run.first)} and {minute_clock(run.end)} took {limits.fault_off_slow_ms} ms or longer",
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
            kind=None,
            since=first["begin_at"],
            until=max(row["begin_at"] for row in rows),
            certainty="certain",
            doubt=None,
            subject=f"{who}, {topic} to {broker}",
            evidence=f"send_verdict: client_id={process.producer[1]}, msg_id={first['msg_id']}",
            sentence=f"{who} chose {broker} for {len(rows)} attempt(s) of {topic}, which its release could not: first "
            f"at {clock(first['begin_at'])}, {because}",
        )

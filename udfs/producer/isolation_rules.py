"""Windows of a date in; findings about isolations out: too long, and of every broker of a topic.

Only replayed processes have windows, so a producer that could not be replayed has no finding here: that is not health.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hindsight.udfs.clients.client_kinds import ordered_queues
from hindsight.udfs.producer.minute_counts import Held, isolates, reasons_of
from hindsight.udfs.producer.producer_finding import (
    Finding,
    Fleet,
    Observed,
    Thresholds,
    clock,
    date_of,
    iso,
    producer_name,
    seconds,
    window_doubt,
)
from hindsight.udfs.release_profiles import profile_named

Reasons = tuple[str, ...]
_NAMED = 5  # a sentence names so many brokers at most
_PERM_WRITE = 2  # PermName.PERM_WRITE


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
    certainty = "possible" if unseen and window["certainty"] in ("certain", "inferred") else window["certainty"]
    who, broker = producer_name(given.day.processes[window["process"]]), window["broker_name"]
    of_date = f"{date_of(given.day, opened)} " if opened < 0 else ""
    why = "a failed send" if window["trigger_kind"] == "isolation" else "a slow send"
    yield Finding(
        "LONG_ISOLATION",
        process=window["process"],
        topic=None,
        broker_name=broker,
        kind=window["state"],
        since=opened,
        until=None if goes_on else end,
        certainty=certainty,
        doubt="the producer's record ends before it is so long"
        if unseen
        else window_doubt(window["certainty"], reasons_of(window)),
        subject=f"{who}, {broker}",
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
            for since, until, certainty, reasons in _overlaps(own, len(brokers)):
                yield _at_once(given, process, topic, brokers, bool(routed), since, until, certainty, reasons)


def _overlaps(stretches: Sequence[Held], brokers: int) -> Iterable[tuple[int, int | None, str, Reasons]]:
    """Maximal stretches in which so many brokers are held, their weakest certainty, and why it is no stronger.

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
            ends = [held.until for held in now.values() if held.until is not None]
            reasons = tuple(dict.fromkeys(reason for held in now.values() for reason in held.reasons))
            yield since, min(ends, default=None), _weakest([held.certainty for held in now.values()]), reasons


def _weakest(certainties: Sequence[str]) -> str:
    return next((word for word in ("possible", "partial", "inferred") if word in certainties), "certain")


def _at_once(
    given: Observed,
    process: int,
    topic: str,
    brokers: Sequence[str],
    routed: bool,
    since: int,
    until: int | None,
    weakest: str,
    reasons: Reasons,
) -> Finding:
    who = producer_name(given.day.processes[process])
    names = ", ".join(brokers) if len(brokers) <= _NAMED else f"{len(brokers)} of them"
    doubts = [None if routed else "no route is recorded, there may be other brokers", window_doubt(weakest, reasons)]
    how_long = "with no end on this date" if until is None else f"for {seconds(until - since)}"
    return Finding(
        "ALL_ISOLATED",
        process=process,
        topic=topic,
        broker_name=None,
        kind=None,
        since=since,
        until=until,
        certainty="possible" if not routed and weakest in ("certain", "inferred") else weakest,
        doubt="; ".join(doubt for doubt in doubts if doubt) or None,
        subject=f"{who}, every broker of {topic}",
        evidence=f"broker_availability_window: client_id={given.day.processes[process].producer[1]}, every broker of "
        f"{topic}, at {iso(given.day, since)}",
        sentence=f"{who} treated every broker of {topic} ({names}) as not available at once from {clock(since)} on, "
        f"{how_long}",
        broker_names=tuple(brokers),
    )


def writable_brokers(routes: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """By topic, brokers that a producer keeps of topic_route rows: perm has W, a master is there, queues to write to.

    Or, where the route has an orderTopicConf, those that it gives queues, and no others.
    Source: MQClientInstance#topicRouteData2TopicPublishInfo, 4.0.0 to 5.3.3.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for row in routes:
        if row["order_topic_conf"]:
            ordered = ordered_queues(row["order_topic_conf"]) or {}
            found[row["topic"]].update(name for name, queues in ordered.items() if queues > 0)
        elif row["perm"] & _PERM_WRITE and row["has_master"] and (row["write_queue_nums"] or 0) > 0:
            found[row["topic"]].add(row["broker_name"])
    return {topic: frozenset(brokers) for topic, brokers in found.items()}

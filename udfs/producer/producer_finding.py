"""What all rules of producer findings share: what they are given, the shape they return, runs of minutes, wording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hindsight.udfs.producer.minute_counts import CERTAINTIES, MINUTE_MS, Held, HeldMinutes, Tally
from hindsight.udfs.producer.producer_lives import Process
from hindsight.udfs.producer.replayed_day import Day
from hindsight.udfs.producer.unseen_life import REASON_OF, sentence_of
from hindsight.udfs.producer.window_doubts import weakened
from hindsight.udfs.values.columns import DAY_MS, EPOCH

# How bad each finding is by itself.
SEVERITY = {
    "FLEET_SLOW": "HIGH",  # the broker, not a producer: most of those who send are affected
    "BROKER_REFUSES": "HIGH",  # the broker: whoever sends to it gets an error, or less safety than was asked for
    "ALL_ISOLATED": "HIGH",  # nothing is left to choose from: sends go to brokers that just failed
    "NOT_RETURNING": "HIGH",  # heals only at the next route change; until then the others carry the load
    "LONG_ISOLATION": "MEDIUM",  # capacity is missing to one producer, for a known time
    "OVER_ISOLATION": "MEDIUM",  # one producer's own network or ladder: the broker serves the others
    "IMPOSSIBLE_CHOICE": "MEDIUM",  # what is said of this producer rests on a wrong profile, clock or assumption
    "RELEASE_DIFFERS": "MEDIUM",  # what is said of this producer rests on a record that its choices contradict
    "FAULT_OFF_SLOW": "LOW",  # advice: the switch would have helped
}


class Thresholds(NamedTuple):
    """The settings of section ``producer_findings``, by their names there."""

    min_sends_per_minute: int = 30
    over_isolation_max_percent: float = 10
    fleet_slow_min_percent: float = 50
    broker_refuses_min_percent: float = 5
    broker_refuses_min_attempts: int = 10
    long_isolation_before_514_s: float = 60
    long_isolation_since_514_s: float = 10
    not_returning_s: float = 60
    not_returning_within_s: float = 600
    not_returning_expected_sends: float = 50
    not_returning_max_percent: float = 10
    fault_off_slow_ms: int = 550
    fault_off_slow_percentile: float = 99
    fault_off_slow_minutes: int = 5


DEFAULT_LIMITS = Thresholds()


class FleetMinute(NamedTuple):
    """One minute and broker of fleet_minute."""

    active: int
    isolating: int
    isolating_at_least: int
    isolating_at_most: int
    active_unknown: int


class Refusals(NamedTuple):
    """Attempts to a broker in a minute; those that it refused as too busy; those that it stored without SEND_OK."""

    attempts: int
    busy: int
    not_store_ok: int


class Fleet(NamedTuple):
    """What is known of all producers of a cluster on a date.

    Attributes:
        minutes: by broker and minute of the date.
        queues: by topic, of each broker that any producer sent to the most queues seen; None: no queue id was.
        writable: by topic, the brokers that producers keep of its recorded routes.
        served: each broker and minute in which any attempt to it began.
        refusals: by broker and minute, in order, where there are any.
    """

    minutes: Mapping[tuple[str, int], FleetMinute]
    queues: Mapping[str, Mapping[str, int | None]]
    writable: Mapping[str, frozenset[str]]
    served: frozenset[tuple[str, int]]
    refusals: Mapping[tuple[str, int], Refusals]


class Sends(NamedTuple):
    """What a producer sent while a broker was watched: first attempts whose queue the client chose itself.

    Attributes:
        expected: how many its share of the queues would bring the broker, in thousandths.
        observed: how many it got.
        last: when the last of all that count began, ms of the date.
    """

    expected: int
    observed: int
    last: int


NO_SENDS = Sends(0, 0, 0)


class Observed(NamedTuple):
    """What is known of some producers on a date; instants in ms of the date.

    Attributes:
        windows: rows of broker_availability_window with the place of their ``process``.
        held, isolating: see there.
        topics: of each process, by place, the topics that it sent to.
        slow, answered: of processes without the switch, attempts that took ``fault_off_slow_ms``, and all that tell of
            the broker, by ``item * 1440 + minute``.
        impossible: rows of send_verdict with that verdict, with the place of their ``process``.
        sends_after: of each held stretch that is watched (``return_rules``) what its process sent; absent: nothing.
        releases: rows of producer_release on processes whose record is contradicted, with the place of their
            ``process``.
    """

    day: Day
    windows: Sequence[Mapping[str, Any]]
    held: Sequence[Held]
    isolating: HeldMinutes
    topics: Mapping[int, frozenset[str]]
    slow: Tally
    answered: Tally
    impossible: Sequence[Mapping[str, Any]]
    sends_after: Mapping[Held, Sends]
    releases: Sequence[Mapping[str, Any]] = ()


class Finding(NamedTuple):
    """A row of producer_finding; instants in ms of the date, None: see the contract."""

    code: str
    since: int
    until: int | None
    certainty: str
    evidence: str
    sentence: str
    process: int | None = None
    subject: str | None = None  # None: the producer, the broker, or both
    topic: str | None = None
    broker_name: str | None = None
    kind: str | None = None
    doubt: str | None = None
    broker_names: tuple[str, ...] | None = None  # those of the topic, where it is about every one

    def row(self, day: Day) -> dict[str, Any]:
        """As the table has it; a doubt is told with the sentence."""
        doubted = "" if self.doubt is None else f" ({self.certainty}: {self.doubt})"
        nobody = {"cluster": day.cluster, "event_date": day.midnight_ms // DAY_MS}
        named = (None if self.process is None else producer_name(day.processes[self.process]), self.broker_name)
        return {
            **(nobody if self.process is None else day.key_of(self.process)),
            "code": self.code,
            "severity": SEVERITY[self.code],
            "subject": self.subject or ", ".join(name for name in named if name is not None),
            "topic": self.topic,
            "broker_name": self.broker_name,
            "broker_names": self.broker_names,
            "kind": self.kind,
            "from": (self.since + day.midnight_ms) * 1000,
            "to": None if self.until is None else (self.until + day.midnight_ms) * 1000,
            "certainty": self.certainty,
            "evidence": [self.evidence],
            "sentence": f"{self.sentence}{doubted}.",
        }


class Run(NamedTuple):
    """Minutes on end of one key: the first one, the one after the last, and what is known of each."""

    key: Any
    first: int
    end: int
    values: list[Any]

    def stretch(self) -> dict[str, Any]:
        """``since`` and ``until`` of a finding about it."""
        return {"since": self.first * MINUTE_MS, "until": self.end * MINUTE_MS}

    def clocks(self) -> str:
        """When it was, in a sentence."""
        return f"between {_minute_clock(self.first)} and {_minute_clock(self.end)}"

    def instants(self, day: Day) -> str:
        """When it was, as the tables' keys have it."""
        return " to ".join(iso(day, minute * MINUTE_MS) for minute in (self.first, self.end))


def runs(minutes: Iterable[tuple[Any, int, Any]]) -> list[Run]:
    """Maximal runs of (key, minute of the date, value), which come by key and in order."""
    found: list[Run] = []
    for key, minute, value in minutes:
        if found and found[-1].key == key and found[-1].end == minute:
            found[-1] = found[-1]._replace(end=minute + 1)
            found[-1].values.append(value)
        else:
            found.append(Run(key, minute, minute + 1, [value]))
    return found


def window_doubt(certainty: str, reasons: Sequence[str] = ()) -> str | None:
    """Why windows of this certainty may differ from what the producer held; None for certain ones.

    ``reasons``: of the windows or their process, as far as they are known (``unseen_life``).
    """
    if certainty == "certain":
        return None
    return sentence_of(reasons or [REASON_OF[certainty]])


def also_doubted(held: Iterable[Held], why: str | None) -> dict[str, Any]:
    """``certainty`` and ``doubt`` of a finding that rests on these stretches and, where it is not None, on ``why``."""
    weakest = max((each.certainty for each in held), key=CERTAINTIES.index)
    doubts = (why, window_doubt(weakest, [reason for each in held for reason in each.reasons]))
    return {
        "certainty": weakened(weakest, [why] if why else []),
        "doubt": "; ".join(doubt for doubt in doubts if doubt) or None,
    }


def producer_name(process: Process) -> str:
    """The producer as a person calls it."""
    return f"{process.producer[1]} of {process.producer[0]}"


def clock(ms: int) -> str:
    """A clock time, UTC, to the ms; its date is the finding's."""
    return f"{_time(ms):%H:%M:%S}.{ms % 1000:03}"


def _minute_clock(minute: int) -> str:
    """A clock time, UTC, to the minute; the end of a date is 24:00."""
    return f"{minute // 60:02}:{minute % 60:02}"


def seconds(ms: int) -> str:
    """A length in seconds, to a tenth; half of one is one."""
    return f"{tenths(ms)} s"


def tenths(thousandths: int) -> str:
    """Thousandths as a number with one decimal."""
    rounded = (abs(thousandths) + 50) // 100
    return f"{'-' if thousandths < 0 else ''}{rounded // 10}.{rounded % 10}"


def iso(day: Day, ms: int) -> str:
    """An instant as the tables' keys have it, UTC."""
    at = _time(ms + day.midnight_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def date_of(day: Day, ms: int) -> str:
    """The date of an instant, UTC."""
    return f"{_time(ms + day.midnight_ms):%Y-%m-%d}"


def _time(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)

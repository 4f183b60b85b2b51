"""Ladders of the fault table weighed by the sends that a lake has; an open loop, with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import reduce
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.asker import Asker, BadQueryError, Record, query
from hindsight.jobs.running.run_context import DateRange
from hindsight.udfs.landing.landing_formats import distances
from hindsight.udfs.producer.attempt_updates import Outcome
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.scenarios.ladder_effects import (
    NEVER,
    Effect,
    Health,
    Sends,
    Spans,
    defaults,
    effect,
    frontier,
    health_of,
    on_trial,
    windows,
)
from hindsight.udfs.values.columns import BoolArray, IntArray
from hindsight.udfs.values.message_queues import is_like

_NEWEST = PROFILES["P533"]
_WHO = ("cluster", "producer_group", "client_id")
_ALL = -1


class _Producer(NamedTuple):
    """A producer's rule and its sends to each broker."""

    profile: FaultProfile
    own: FaultProfile | None  # None: the switch is off
    detector: bool
    brokers: Mapping[str, tuple[Sends, IntArray]]  # with the outcome of each send
    known: Sequence[tuple[Sends, IntArray, Health, Spans]] = ()  # of brokers that are known: and when it avoided them


def weighed(
    asker: Asker,
    cluster: str,
    producer_group: str,
    dates: DateRange,
    slow_ms: int,
    near_ms: int,
    given: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (),
) -> list[Record]:
    """Rows with their ``part``: broker (how it was seen), unknown (a producer that is left out), ladder.

    Raises: BadQueryError: no send is recorded of these; LadderTooShortError: a client would throw under a ladder.
    """
    nearness = " ".join(f"WHEN '{name}' THEN {own}" for name, own in distances().items())
    within = f"BETWEEN DATE'{dates.first or date.min}' AND DATE'{dates.last or date.max}'"
    rows = asker.answer(
        query("queries", "ladder_sends", of="scenarios").format(distances=nearness, dates=within)
    ).read_all()
    named = [name for name in pc.unique(rows["cluster"]).to_pylist() if is_like(name, cluster)]
    rows = rows.filter(pc.is_in(rows["cluster"], pa.array(named, pa.string())))
    if not rows.num_rows:
        raise BadQueryError("no send is recorded of such clusters and dates.")
    sends = _Sends(rows, slow_ms)
    evidence = sends.evidence()
    health = {where: health_of(*seen, near_ms=near_ms) for where, seen in evidence.items()}
    found: list[Record] = [_seen(where, health[where], evidence[where][2]) for where in sorted(health)]
    producers: list[_Producer] = []
    for who, places in sends.producers():
        if not is_like(who[1], producer_group):
            continue
        one = sends.producer(places)
        if isinstance(one, str):
            found.append({"part": "unknown", **dict(zip(_WHO, who, strict=True)), "unknown_because": one})
        else:
            producers.append(_known(one, who[0], health, sends.outcomes))
    return found + _ladders(producers, sends.outcomes, given)


class _Sends:
    """The recorded sends in columns; ``outcomes``: how those ended that threw something."""

    def __init__(self, rows: pa.Table, slow_ms: int) -> None:
        self._rows = rows
        self._begin, self._end = (rows[name].to_numpy() for name in ("begin_ms", "end_ms"))
        self._latency = rows["latency_ms"].to_numpy()
        self.outcomes, self._outcome = _outcomes(rows)
        failed = _isolating(self._outcome, self.outcomes, _NEWEST, detector=False)
        threw = self._outcome != _ALL
        is_final = rows["is_final"].to_numpy(zero_copy_only=False)
        self._tells = is_final & (failed | ~threw & rows["answered"].to_numpy(zero_copy_only=False))
        self._is_bad: BoolArray = self._tells & (failed | (self._latency >= slow_ms))
        self._updates = rows["updates"].to_numpy(zero_copy_only=False)
        self._broker, self._topic = (
            rows[name].combine_chunks().dictionary_encode() for name in ("broker_name", "topic")
        )

    def evidence(self) -> dict[tuple[str, str], tuple[IntArray, IntArray, BoolArray]]:
        """By cluster and broker: begin, end and badness of the sends that say how it was."""
        return {
            (where[0], where[1]): (self._begin[own], self._end[own], self._is_bad[own])
            for where, places in _grouped(self._rows, ("cluster", "broker_name"))
            if len(own := places[self._tells[places]])
        }

    def producers(self) -> Iterator[tuple[tuple[str, ...], IntArray]]:
        """Each producer with the places of its sends."""
        return _grouped(self._rows, _WHO)

    def producer(self, places: IntArray) -> _Producer | str:
        """A producer's rule and sends; or why no rule of it is known."""
        rule = self._rows.slice(int(places[0]), 1).to_pylist()[0]
        if rule["profile"] is None or rule["profile"].split("|")[0] not in PROFILES:
            return "; ".join(rule["reasons"] or ["no rule of its release is known"])
        profile = PROFILES[rule["profile"].split("|")[0]]
        own = replace(
            profile, latency_max_ms=tuple(rule["latency_max_ms"]), not_available_ms=tuple(rule["not_available_ms"])
        )
        brokers = {}
        of_broker, of_topic = (each.indices.to_numpy()[places] for each in (self._broker, self._topic))
        for broker in np.unique(of_broker).tolist():
            to_it = of_broker == broker
            own_places = places[to_it]
            own_places = own_places[np.argsort(self._end[own_places], kind="stable")]
            other = places[~to_it & self._updates[places] & np.isin(of_topic, of_topic[to_it])]
            name = self._broker.dictionary[broker].as_py()
            brokers[name] = self._of(own_places, self._begin[other]), self._outcome[own_places]
        return _Producer(profile, own if rule["latency_fault_enabled"] else None, rule["detector_enabled"], brokers)

    def _of(self, places: IntArray, elsewhere: IntArray) -> Sends:
        begin, end, latency = (column[places] for column in (self._begin, self._end, self._latency))
        nothing = np.zeros(len(places), np.bool_)
        return Sends(begin, end, latency, nothing, self._updates[places], self._is_bad[places], elsewhere)


def _grouped(rows: pa.Table, by: Sequence[str]) -> Iterator[tuple[tuple[str, ...], IntArray]]:
    numbered = rows.select(list(by)).append_column("place", pa.array(np.arange(rows.num_rows)))
    for group in numbered.group_by(list(by), use_threads=False).aggregate([("place", "list")]).to_pylist():
        yield tuple(group[name] for name in by), np.array(group["place_list"], np.int64)


def _outcomes(rows: pa.Table) -> tuple[tuple[Outcome, ...], IntArray]:
    known: dict[Outcome, int] = {}
    outcome = np.full(rows.num_rows, _ALL, np.int64)
    threw = np.flatnonzero(np.asarray(pc.is_valid(rows["exception"])))
    for place, row in zip(threw.tolist(), rows.take(threw).select(list(Outcome._fields)).to_pylist(), strict=True):
        outcome[place] = known.setdefault(Outcome(**row), len(known))
    return tuple(known), outcome


def _isolating(outcome: IntArray, outcomes: Sequence[Outcome], profile: FaultProfile, *, detector: bool) -> BoolArray:
    told = [one.told(profile, detector_enabled=detector) for one in outcomes]
    return np.array([*(bool(one and one[0]) for one in told), False], np.bool_)[outcome]


def _seen(where: tuple[str, str], health: Health, is_bad: BoolArray) -> Record:
    named = {"cluster": where[0], "broker_name": where[1], "sends": len(is_bad), "sick_sends": int(is_bad.sum())}
    lengths = {"healthy_s": health.healthy.length() / 1_000, "sick_s": health.sick.length() / 1_000}
    return {"part": "broker", **named, **lengths}


def _known(
    one: _Producer, cluster: str, health: Mapping[tuple[str, str], Health], outcomes: Sequence[Outcome]
) -> _Producer:
    """The same with what no ladder on trial changes; sends that went elsewhere by themselves are left out."""
    known = []
    for broker, (sends, outcome) in one.brokers.items():
        if (seen := health.get((cluster, broker))) is not None:
            own = windows(_under(one, sends, outcome, outcomes, one.own), one.own)[1] if one.own else NEVER
            driven = own.has(sends.elsewhere) & ~seen.healthy.has(sends.elsewhere)
            known.append((sends._replace(elsewhere=sends.elsewhere[driven]), outcome, seen, own))
    return one._replace(known=known)


def _under(
    one: _Producer, sends: Sends, outcome: IntArray, outcomes: Sequence[Outcome], profile: FaultProfile
) -> Sends:
    return sends._replace(isolates=_isolating(outcome, outcomes, profile, detector=one.detector))


def _ladders(
    producers: Sequence[_Producer],
    outcomes: Sequence[Outcome],
    given: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> list[Record]:
    """The effect of each ladder on all producers together: their own, those given, the releases', and the frontier."""

    def weigh(rules: Iterable[Sequence[FaultProfile | None]]) -> list[Effect]:
        return [
            reduce(
                Effect.plus,
                chain.from_iterable(_effect(*pair, outcomes) for pair in zip(producers, of, strict=True)),
                Effect(),
            )
            for of in rules
        ]

    (own,) = weigh([[one.own for one in producers]])
    rows = [_row("own", "as each producer has it", own, own)]
    for each in given:
        latency, avoid = each
        (found,) = weigh([[replace(one.profile, latency_max_ms=latency, not_available_ms=avoid) for one in producers]])
        rows.append(_row("given", "each producer's own release", found, own, latency, avoid))
    releases = defaults()
    found_by_release = weigh([profile] * len(producers) for profile in releases)
    for (profile, names), found in zip(releases.items(), found_by_release, strict=True):
        rows.append(_row("default", names, found, own, profile.latency_max_ms, profile.not_available_ms))
    trials = list(zip(*(on_trial(one.profile) for one in producers), strict=True))
    tried = weigh(trials)
    for place in frontier(tried):
        of = trials[place][0]
        rows.append(
            _row("frontier", "each producer's own release", tried[place], own, of.latency_max_ms, of.not_available_ms)
        )
    return rows


def _effect(one: _Producer, rule: FaultProfile | None, outcomes: Sequence[Outcome]) -> Iterator[Effect]:
    """What a ladder does for one producer, at each broker; None: its switch is off."""
    of = rule or replace(one.profile, latency_max_ms=(), not_available_ms=())
    for sends, outcome, health, own in one.known:
        yield effect(_under(one, sends, outcome, outcomes, of), health, of, own)


def _row(
    which: str,
    releases: str,
    found: Effect,
    own: Effect,
    latency: Sequence[int] | None = None,
    avoid: Sequence[int] | None = None,
) -> Record:
    better = found.avoided_most <= own.avoided_most and found.met_most <= own.met_most and found[1::2] != own[1::2]
    return {
        "part": "ladder",
        "which": which,
        "releases": releases,
        "latency_max_ms": None if latency is None else list(latency),
        "not_available_ms": None if avoid is None else list(avoid),
        "healthy_avoided_at_least_s": found.avoided_least / 1_000,
        "healthy_avoided_at_most_s": found.avoided_most / 1_000,
        "sick_sends_at_least": found.met_least,
        "sick_sends_at_most": found.met_most,
        "better_than_own": better,
        "certainty": "open loop",
    }

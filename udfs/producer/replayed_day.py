"""Facts of a date and its processes in, what its attempts are looked up by out: codes, and what is known of the whole.

Brokers and topics are numbered in the order of their names, processes in that of ``processes``; an item is
``process * brokers + broker``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.clients.client_kinds import takes_turns
from hindsight.udfs.producer.attempt_columns import NEVER, Attempts, encoded, producers_of, texts
from hindsight.udfs.producer.attempt_facts import Cuts, segments_of
from hindsight.udfs.producer.producer_lives import Process, Producer
from hindsight.udfs.release_profiles import FaultProfile
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

LAST_BROKER_RULES = ("none", "equals", "not_equal", "filter")


class Day(NamedTuple):
    """One date of some producers of a cluster.

    Attributes:
        rules: each distinct release with its ladders, and whether its detector runs, of the replayed processes.
        rule_of: for each process its place in ``rules``; 0 as well where it is not replayed.
        replayed, off: what is said of each process; else its rules are unknown.
        by_turns: for each process, whether it takes queues in their turn, as Go's and C++'s do.
        extend_only, gated: for each process, whether its windows are only lengthened, and whether a broker that is not
            reachable is not available.
        last_broker_rule: for each process a place in ``LAST_BROKER_RULES``; -1: unknown.
        uses: each process, topic and broker of which the date has an attempt that can be judged, by number
            (``use_of``), in order; ``last_use``: begin of the last one, ms.
        sent: each process and topic that it sent to on the date, by number (``process * topics + topic``), in order.
        known: each item whose broker the process used or updated on the date, or of which it had one before, in order.
    """

    midnight_ms: int
    cluster: str
    brokers: list[str]
    topics: list[str]
    processes: list[Process]
    cuts: Cuts
    places: dict[tuple[Producer, int], int]
    rules: list[tuple[FaultProfile, bool]]
    rule_of: IntArray
    replayed: BoolArray
    off: BoolArray
    by_turns: BoolArray
    extend_only: BoolArray
    gated: BoolArray
    last_broker_rule: IntArray
    uses: IntArray
    last_use: IntArray
    sent: IntArray
    known: IntArray

    def process_of(self, a: Attempts) -> IntArray:
        """The process that made each attempt; -1: none that is alive on the date."""
        producers = producers_of(a)
        segments, first = segments_of(producers, a.begin, self.cuts)
        places = [
            self.places.get((name, segment), -1)
            for name, since, until in zip(producers.names, first[:-1].tolist(), first[1:].tolist(), strict=True)
            for segment in range(until - since)
        ]
        return np.array(places, dtype=np.int64)[segments]

    def key_of(self, process: int) -> dict[str, Any]:
        """The columns by which rows of tables name a process of the date; instants in epoch microseconds."""
        (group, client_id), started_ms = self.processes[process].producer, self.processes[process].life.started_ms
        return {
            "cluster": self.cluster,
            "event_date": self.midnight_ms // DAY_MS,
            "producer_group": group,
            "client_id": client_id,
            "started_at": None if started_ms is None else started_ms * 1000,
        }

    def profile_of(self, process: int) -> FaultProfile:
        """The release of a process, with its ladders.

        Raises: ValueError: where it is not known.
        """
        profile = self.processes[process].rules.profile
        if profile is None:
            raise ValueError(f"the release of {self.processes[process].producer} is not known; it cannot be replayed.")
        return profile

    def with_items(self, item: IntArray) -> Day:
        """The same, with brokers that the processes know by these items of the dates before."""
        return self._replace(known=np.union1d(self.known, item))

    def of_processes(
        self, facts: pa.Table, processes: list[Process], places: dict[tuple[Producer, int], int] | None = None
    ) -> Day:
        """The date with other processes; ``facts``: of it, ``places``: None: they stand where these do."""
        return day_of(
            facts,
            processes,
            self.places if places is None else places,
            cluster=self.cluster,
            midnight_ms=self.midnight_ms,
            cuts=self.cuts,
            more_brokers=self.brokers,
        )

    def topics_of(self) -> dict[int, frozenset[str]]:
        """The topics that each process sent to, by its place."""
        found: dict[int, set[str]] = defaultdict(set)
        for number in self.sent.tolist():
            found[number // len(self.topics)].add(self.topics[number % len(self.topics)])
        return {process: frozenset(topics) for process, topics in found.items()}

    def codes_of(self, a: Attempts) -> tuple[IntArray, IntArray, IntArray]:
        """The process of each attempt, its broker and its topic."""
        broker, topic = a.texts("broker_name").in_order_of(self.brokers), a.texts("topic").in_order_of(self.topics)
        return self.process_of(a), broker, topic

    def extends(self, item: IntArray) -> BoolArray:
        """Of which items windows are only lengthened."""
        return self.extend_only[item // max(len(self.brokers), 1)]

    def item_of(self, process: IntArray, broker: IntArray) -> IntArray:
        """The number of an item."""
        return process * len(self.brokers) + broker

    def use_of(self, process: IntArray, topic: IntArray, broker: IntArray) -> IntArray:
        """The number of a process's use of a broker for a topic."""
        return (process * len(self.topics) + topic) * len(self.brokers) + broker


def day_of(
    facts: pa.Table,
    processes: list[Process],
    places: dict[tuple[Producer, int], int],
    *,
    cluster: str,
    midnight_ms: int,
    cuts: Cuts,
    more_brokers: Sequence[str],
) -> Day:
    """The date's tables; ``more_brokers``: those of items that earlier dates handed over."""
    names = {name: sorted(facts[name].unique().drop_null().to_pylist()) for name in ("broker_name", "topic")}
    brokers = sorted({*names["broker_name"], *more_brokers})
    profiles = [process.rules.profile for process in processes]
    replayed = [process.rules.verdict == "replayed" for process in processes]
    own = [
        (p.rules.profile, bool(p.rules.settings.detector_enabled))
        if p.rules.verdict == "replayed" and p.rules.profile
        else None
        for p in processes
    ]
    rules = list(dict.fromkeys(rule for rule in own if rule is not None))
    place_of = {rule: place for place, rule in enumerate(rules)}
    day = Day(
        midnight_ms=midnight_ms,
        cluster=cluster,
        brokers=brokers,
        topics=names["topic"],
        processes=processes,
        cuts=cuts,
        places=places,
        rules=rules,
        rule_of=np.array([0 if rule is None else place_of[rule] for rule in own], dtype=np.int64),
        replayed=np.array(replayed, dtype=np.bool_),
        off=np.array([process.rules.verdict == "off" for process in processes], dtype=np.bool_),
        by_turns=np.array([takes_turns(p.rules.settings.client_version) for p in processes], dtype=np.bool_),
        extend_only=_of_profiles(profiles, "extend_only"),
        gated=_of_profiles(profiles, "reachable_gates_availability"),
        last_broker_rule=np.array(
            [-1 if p is None else LAST_BROKER_RULES.index(p.last_broker_rule) for p in profiles], dtype=np.int64
        ),
        uses=np.zeros(0, np.int64),
        last_use=np.zeros(0, np.int64),
        sent=np.zeros(0, np.int64),
        known=np.zeros(0, np.int64),
    )
    return _with_uses(day, facts)


def _of_profiles(profiles: Sequence[FaultProfile | None], name: str) -> BoolArray:
    return np.array([p is not None and getattr(p, name) for p in profiles], dtype=np.bool_)


def _with_uses(day: Day, facts: pa.Table) -> Day:
    named = encoded(facts.filter(facts["broker_name"].is_valid()))
    process = _process_of_facts(day, named)
    topic, broker = texts(named["topic"]).in_order_of(day.topics), texts(named["broker_name"]).in_order_of(day.brokers)
    used = np.asarray(named["last_use"].is_valid())
    last_use = named["last_use"].fill_null(NEVER).to_numpy()
    alive = process >= 0
    told = used | (named["updated"].to_numpy() & day.replayed[process] if len(day.replayed) else used)
    numbers = day.use_of(process, topic, broker)[alive & used]
    uses, place = np.unique(numbers, return_inverse=True)
    latest = np.full(len(uses), NEVER)
    np.maximum.at(latest, place, last_use[alive & used])
    began = alive & (named["attempts"].to_numpy() > 0)
    sent = np.unique(process[began] * len(day.topics) + topic[began])
    seen = np.unique(day.item_of(process, broker)[alive & told])
    return day._replace(uses=uses, last_use=latest, sent=sent, known=seen)


def _process_of_facts(day: Day, facts: pa.Table) -> IntArray:
    """Each process is looked up once: it has a row for each broker of each topic."""
    groups, clients, segments = texts(facts["producer_group"]), texts(facts["client_id"]), facts["segment"].to_numpy()
    sizes = [max(len(each), 1) for each in (groups.values, clients.values, range(segments.max(initial=0) + 1))]
    every = np.ravel_multi_index((groups.codes, clients.codes, segments), sizes)
    numbers, place = np.unique(every, return_inverse=True)
    whose = zip(*(each.tolist() for each in np.unravel_index(numbers, sizes)), strict=True)
    found = [day.places.get(((groups.values[g], clients.values[c]), s), -1) for g, c, s in whose]
    return np.array(found, np.int64)[place]

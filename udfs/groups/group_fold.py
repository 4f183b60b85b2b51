"""What was recorded of one consumer group in; its rounds in order, judged, and rows of the drift tables out.

A round that shows what the one before showed costs next to nothing: what follows from it is looked up, not worked out.

An example: three members, 12 queues, read every 15 s.

    09:00:00  members, rules, route and owners are brought together; AVG gives each member 4 queues, as observed
    09:00:15  the same answers (``captured.shows`` is equal): facts, rules and expectation are those of the round
              before, and ``GroupHistory.repeat`` only moves time on
    09:00:30  one member has left: another expectation, 6 queues each, and the walk judges the round in full; findings
              are in their grace time until the others can have shared anew

``walk`` is called hour by hour with the owners of that hour: a day's owners are never in memory together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import count
from typing import Any, NamedTuple, TypeVar

from hindsight.udfs.consumer.broker_assignment import ASSIGNMENT, NOT_ASSIGNED, Assigned, BrokerAssignments
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.group_rows import again
from hindsight.udfs.consumer.listed_members import Row, listed_members
from hindsight.udfs.consumer.member_rules import Rules, member_events, member_rules
from hindsight.udfs.consumer.offset_marks import Readings
from hindsight.udfs.consumer.owned_queues import NOTHING_POPPED, Owned, OwnedQueues, PoppedQueues
from hindsight.udfs.consumer.round_reads import NEEDED, NEEDED_AGAIN, reads_of
from hindsight.udfs.consumer.rows_of_rounds import RoundKey
from hindsight.udfs.consumer.topic_facts import Expected, GroupFacts, JudgedTopic, TopicFacts, verdict
from hindsight.udfs.consumer.topic_routes import TopicRoute
from hindsight.udfs.groups.group_walk import (
    DRIFT,
    SCOPE,
    FoldSettings,
    Recorded,
    Told,
    close,
    new_history,
    opened,
    step,
)
from hindsight.udfs.rebalances.round_shares import SHARES, ShownShares
from hindsight.udfs.values.columns import DAY_US, EPOCH, FAR, instant
from hindsight.udfs.values.kept_states import state_of, state_text
from hindsight.udfs.values.message_queues import is_system_topic, lite_parent

K = TypeVar("K")
V = TypeVar("V")
_S = 1_000_000  # microseconds
JUDGED = "judged"  # what a fold gives beside the rows of the walk
_MOST_KEPT = 64  # of what may be met again


class Round(NamedTuple):
    """A round that is brought together."""

    place: int
    key: RoundKey
    facts: GroupFacts
    is_read: bool  # the facts are of this round itself, instants and evidence too
    rules: Rules
    owned: Owned
    reading: tuple[int, int] | None  # when offsets were read last, and in which round
    loose: bool
    topics: list[tuple[TopicFacts, Expected | None]]  # with the expectation before
    assigned: Assigned


class GroupFold:
    """The rounds of a group as one collector read them; key: cluster, collector, consumer group."""

    def __init__(
        self,
        key: tuple[str, str, str],
        recorded: Recorded,
        told: Told,
        settings: FoldSettings,
        expectations: dict[tuple[Any, ...], Expected],
        opening: Mapping[str, Any] | None = None,
        kept: str | None = None,
    ) -> None:
        """``expectations``: those of the group, whoever collects it; ``opening``: its row of ``group_drift_state``.

        ``kept``: what ``state`` gave where the walk of the date was cut, instead of that row.
        """
        self.key, self._recorded, self._told, self._settings = key, recorded, told, settings
        _, collector, consumer_group = key
        self.rounds = recorded.rounds.get((consumer_group, collector), ())
        self._next = 0
        self._history = None if opening is None else opened(key, opening, settings.walk)
        self._readings = recorded.readings.get((consumer_group, collector), ())
        self._events = self._member_events()
        self._number = count(1)
        self._facts: dict[tuple[int, bool], GroupFacts] = {}
        self._rules: dict[tuple[int, int], tuple[int, Rules]] = {}
        self._topics: dict[tuple[Any, ...], TopicFacts] = {}
        self._shown_topics: dict[tuple[int, tuple[int, int]], list[str]] = {}
        self._consumed: dict[int, set[str]] = {}
        self._expectations = expectations
        self._shown: tuple[int, Sequence[str]] = (0, ())
        self._before: dict[str, tuple[int, Expected]] = {}
        self._last_reading: tuple[int, int] | None = None
        self._shares = ShownShares(settings.lookback_s)
        self._full_before: list[Expected | None] = []  # the expectations before of the last full round
        self._assigning = BrokerAssignments(key, recorded.modes, settings.lookback_s)
        self.uncollected: set[str] = set()  # topics that judged rounds of the date missed because nobody asks for them
        self.read_until = self.longest = 0  # of the rounds so far: the last read's end, and the longest one, us
        if kept is not None:
            self._go_on(kept)

    def _go_on(self, kept: str) -> None:
        state = state_of(kept)
        self._shares.shows = state["shows"]
        if state["history"] is not None:
            evidence = [{"incident_id": i, "lines": lines} for i, lines in state["evidence"].items()]
            row = {"state": state["history"], "evidence": evidence}
            self._history = opened(self.key, row, self._settings.walk)
            self._history.ledger.take_finished(state["finished"])

    def state(self) -> str:
        """What a fold needs to go on from here, beside the rounds of the last ``lookback_s``: JSON."""
        state: dict[str, Any] = {"shows": self._shares.shows, "history": None}
        if self._history is not None:
            ledger = self._history.ledger
            state |= {"history": self._history.to_json(), "evidence": ledger.evidence()}
            state["finished"] = ledger.finished_state()
        return state_text(state)

    @property
    def is_assigned(self) -> bool:
        """Brokers assign the group's queues: what is open of that is not in ``state``."""
        return self._assigning.is_open

    def _member_events(self) -> dict[int, list[dict[str, Any]]]:
        ends = [(int(self._recorded.captured.at[place]), at) for at, place in self.rounds]
        return member_events(ends, self._told.events or (), lookback_s=self._settings.lookback_s)

    def walk(
        self,
        owned: OwnedQueues,
        until_us: int,
        day: date | None,
        popped: PoppedQueues = NOTHING_POPPED,
        from_us: int = 0,
    ) -> Iterator[tuple[str, Any]]:
        """Rows of the rounds that begin before an instant, epoch us; of rounds that are only looked back on none.

        They come by kind, those of the walk as dicts, ``JudgedTopic`` as it is; ``owned`` and
        ``popped`` are the queues of these rounds, ``day`` is theirs if they are to be judged: from ``from_us`` on.
        """
        while self._next < len(self.rounds) and self.rounds[self._next][0] < until_us:
            at, place = self.rounds[self._next]
            self._next += 1
            brought = self.together(at, place, owned, popped)
            if day is not None and at // DAY_US == (day - EPOCH.date()).days and at >= from_us:
                yield from self._judged(brought, day)
                yield from self._shared(brought)
            self._pass_by(at, place)

    def _pass_by(self, at: int, place: int) -> None:
        captured = self._recorded.captured
        self._shares.pass_by(at)
        until = max(int(captured.read_until[place]), int(captured.swept_until[place]))
        self.read_until, self.longest = max(self.read_until, until), max(self.longest, until - at)

    def close(self, day: date, *, is_last: bool) -> Iterator[tuple[str, Any]]:
        """Rows that the end of a date gives."""
        self._shares.close_date()
        self.uncollected.clear()
        if self._history is None:
            return
        cluster, collector, consumer_group = self.key
        place = {"cluster": cluster, "collector": collector, "consumer_group": consumer_group, "event_date": day}
        yield from ((ASSIGNMENT, place | row) for row in self._assigning.close())
        yield from close(self._history, {**place, "is_last": is_last}, self._settings.walk)

    def together(self, at: int, place: int, owned: OwnedQueues, popped: PoppedQueues) -> Round:
        """A round, and all that follows from what it shows; rounds are asked for in order."""
        key = (self.key[2], self.key[1], at)
        captured, held = self._recorded.captured, owned.of(key)
        facts, is_read = self._facts_of(at, place)
        rule_number, rules = self._rules_of(facts, int(captured.read_until[place]))
        reading = self._reading(place)
        topics = []
        for topic in self._topics_of(at, facts, held, reading):
            route = self._recorded.routes.of(topic, self.key[1], at)
            of_topic = self._topic(topic, at, facts, (rule_number, rules), route)
            topics.append((of_topic, self._expected_before(of_topic, at)))
        loose = int(captured.spread_ms[place]) > self._settings.loose_spread_s * 1000
        assigned = NOT_ASSIGNED
        if facts.shared:
            until = int(captured.read_until[place])
            assigned = self._assigning.of([topic for topic, _ in topics], at, until, popped.of(key))
        return Round(place, key, facts, is_read, rules, held, reading, loose, topics, assigned)

    def _facts_of(self, at: int, place: int) -> tuple[GroupFacts, bool]:
        """What a round shows, and whether its own rows were read for it."""
        key = int(self._recorded.captured.shows[place]), self._was_cut(at)
        if key[0] and key in self._facts:
            return self._facts[key], False
        made = self._read(at, place, next(self._number))
        if key[0]:
            _keep(self._facts, key, made)
        return made, True

    def _read(self, at: int, place: int, number: int) -> GroupFacts:
        captures, connections = self._recorded.captured.captures, self._recorded.captured.connections
        rows = captures.at(place).select(NEEDED).to_pylist()
        connected = connections.of((self.key[2], self.key[1], at)).to_pylist()
        return GroupFacts(number, listed_members(rows, connected), reads_of(rows, was_cut=self._was_cut(at)))

    def _was_cut(self, at: int) -> bool:
        return (self.key[1], at) in self._recorded.cut_rounds

    def _rules_of(self, facts: GroupFacts, read_until: int) -> tuple[int, Rules]:
        key = facts.number, self._told.shown.changes_until(read_until)
        if key not in self._rules:
            connections, told = facts.listed.connections if facts.listed else (), self._told
            own = told.shown, read_until, told.setting, told.declared
            rules = member_rules(connections, facts.reads.reads, *own)
            _keep(self._rules, key, (next(self._number), rules))
        return self._rules[key]

    def _reading(self, place: int) -> tuple[int, int] | None:
        """The last readings of offsets, if they are not older than ``progress_valid_s`` when the round ends.

        Brokers may have been asked one by one: what a round read of them is one reading, each queue at its own instant.
        The reading that a round itself took counts: it is taken last.
        """
        captured = self._recorded.captured
        until = max(int(captured.read_until[place]), int(captured.swept_until[place]))
        found = bisect_right(self._readings, (until, FAR))
        if not found or until // _S - self._readings[found - 1][0] // _S > self._settings.progress_valid_s:
            return None
        return self._readings[found - 1]

    def _topics_of(self, at: int, facts: GroupFacts, held: Owned, reading: tuple[int, int] | None) -> list[str]:
        """The topics of a round: those that somebody subscribes or owns.

        Of a round that shows none of them, as nobody is listed: those that the group showed last, at most
        ``lookback_s`` before, and those in which it has offsets, of a Lite topic its parent.
        """
        key = facts.number, held.shows
        if key not in self._shown_topics:
            _keep(self._shown_topics, key, sorted({*facts.reads.subscribed, *held.topics()}))
        shown: Sequence[str] = self._shown_topics[key]
        if shown:
            self._shown = at, shown
        else:
            last, topics = self._shown
            lately = topics if at // _S - last // _S <= self._settings.lookback_s else ()
            shown = sorted({*lately, *self._consumed_topics(reading)})
        return [topic for topic in shown if not is_system_topic(topic)]

    def _consumed_topics(self, reading: tuple[int, int] | None) -> set[str]:
        if reading is None:
            return set()
        if reading[1] not in self._consumed:
            topics = {topic for topic, *_ in self._lags(reading).queues}
            _keep(self._consumed, reading[1], {lite_parent(topic) or topic for topic in topics})
        return self._consumed[reading[1]]

    def _topic(
        self, topic: str, at: int, facts: GroupFacts, rules: tuple[int, Rules], route: TopicRoute | None
    ) -> TopicFacts:
        is_collected = self._recorded.routes.is_collected(topic, self.key[1], at)
        key = topic, facts.number, rules[0], route and route.number, is_collected
        if key not in self._topics:
            made = TopicFacts(next(self._number), topic, facts, rules[1], route, is_route_collected=is_collected)
            if made.can_expect:
                self._expect(made)
            _keep(self._topics, key, made, most=_MOST_KEPT * 16)
        return self._topics[key]

    def _expect(self, of_topic: TopicFacts) -> None:
        inputs = of_topic.inputs()
        name = tuple(inputs.values())
        if name not in self._expectations:
            self._expectations[name] = of_topic.expect(inputs)
        of_topic.expected = self._expectations[name]
        if of_topic.expected.refusal is not None:
            of_topic.missing_inputs.append(f"expected allocation: {of_topic.expected.refusal}")

    def _expected_before(self, of_topic: TopicFacts, at: int) -> Expected | None:
        """The expectation of the last round that had one, at most ``lookback_s`` ago: in others the group may not have
        been asked."""
        last, before = self._before.get(of_topic.topic, (0, None))
        if of_topic.expected is not None and of_topic.expected.refusal is None:
            self._before[of_topic.topic] = at, of_topic.expected
        return before if at // _S - last // _S <= self._settings.lookback_s else None

    def _judged(self, brought: Round, day: date) -> Iterator[tuple[str, Any]]:
        if self._history is None:
            self._history = new_history(self.key, self._settings.walk)
        self._history.beside = self._told.beside
        at_ms = int(self._recorded.captured.at[brought.place]) // 1000
        self._history.troubles = self._recorded.troubles(self.key[1], brought.key[2], at_ms)
        found, scopes = [], {}
        for kind, row in step(self._history, self._row(brought, day)):
            if kind == SCOPE:
                scopes[row["topic"]] = row
                continue
            if kind == DRIFT:
                found.append(row)
            yield kind, row
        heartbeats = None
        if self._told.heartbeats is not None:
            at = int(self._recorded.captured.at[brought.place])
            heartbeats = self._told.heartbeats.ages(brought.facts.members, at)
        spread_ms = int(self._recorded.captured.spread_ms[brought.place])
        for facts, _ in brought.topics:
            if not self._recorded.routes.is_collected(facts.topic, self.key[1], brought.key[2]):
                self.uncollected.add(facts.topic)
            said = verdict(facts, found, scopes.get(facts.topic))
            if brought.facts.shared:
                self._assigning.take(facts, brought.key[2], brought.assigned, brought.owned, said[1])
            yield JUDGED, JudgedTopic(facts, brought.key[2], spread_ms, brought.loose, heartbeats, *said)

    def _shared(self, brought: Round) -> Iterator[tuple[str, Any]]:
        """Who holds what, if the round shows something else than the one before."""
        topics, shows = [facts for facts, _ in brought.topics], int(self._recorded.captured.shows[brought.place])
        if self._shares.is_other(shows, topics, brought.owned):
            own = brought.facts if brought.is_read else self._read(brought.key[2], brought.place, 0)
            yield SHARES, self._shares.shown(int(self._recorded.captured.at[brought.place]), own, topics, brought.owned)

    def _row(self, brought: Round, day: date) -> dict[str, Any]:
        """The round as ``group_walk`` takes it."""
        _, collector, round_us = brought.key
        events = self._events.get(round_us) if self._told.events is not None else None
        through_proxy = (collector, day) in self._recorded.asks_proxy
        shows = tuple(facts.number for facts, _ in brought.topics)
        is_again = brought.reading is not None and self._last_reading == (round_us // DAY_US, brought.reading[0])
        self._last_reading = brought.reading and (round_us // DAY_US, brought.reading[0])
        pulled, consumed = brought.owned.oldest
        at = int(self._recorded.captured.at[brought.place])
        dead = self._recorded.ends.dead_letters(collector, self.key[2], at)
        return {
            "at": at,
            "progress_at": brought.reading and brought.reading[0],
            "lags": lambda: None if is_again or brought.reading is None else self._lags(brought.reading),
            "signature": (
                brought.facts.number,
                brought.loose,
                through_proxy,
                shows,
                brought.owned.shows,
                repr(events),
                dead,
                brought.assigned.shows,
                self._history and self._history.troubles,
            ),
            "oldest_pull_at": pulled,
            "oldest_consume_at": consumed,
            "round_at": instant(round_us),
            "round": lambda: self._full(brought, day, events, through_proxy, dead),
            "again": lambda group: self._again(group, brought),
        }

    def _lags(self, reading: tuple[int, int]) -> Readings:
        return self._recorded.lags((self.key[2], self.key[1], reading[1]))

    def _again(self, group: GroupRound, brought: Round) -> GroupRound | None:
        """The last round that was brought together in full, as this one shows it again; None: it shows another."""
        if brought.is_read or any(a is not b for a, (_, b) in zip(self._full_before, brought.topics, strict=True)):
            return None
        routes, collector, round_us = self._recorded.routes, self.key[1], brought.key[2]
        return again(
            group,
            int(self._recorded.captured.at[brought.place]) // 1000,
            self._recorded.captured.captures.at(brought.place),
            {facts.topic: routes.evidence(facts.topic, collector, round_us) for facts, _ in brought.topics},
            cache(brought.owned.by_topic),
        )

    def _full(
        self,
        brought: Round,
        day: date,
        events: Sequence[Row] | None,
        through_proxy: bool,
        dead: tuple[int, int] | None,
    ) -> dict[str, Any]:
        cluster, collector, consumer_group = self.key
        self._full_before = [before for _, before in brought.topics]
        facts, round_us, routes = brought.facts, brought.key[2], self._recorded.routes
        captures = self._recorded.captured.captures.at(brought.place).select(NEEDED_AGAIN)
        listed, reads = (facts.listed, facts.reads) if brought.is_read else facts.again(captures.to_pylist())
        return {
            "cluster": cluster,
            "collector": collector,
            "consumer_group": consumer_group,
            "event_date": day,
            "round_at": instant(round_us),
            "at": int(self._recorded.captured.at[brought.place]),
            "message_model": facts.model,
            "members": facts.members,
            "member_rules": brought.rules.members if brought.topics else [],
            "reads": reads.reads,
            "listings": listed.listings if listed else None,
            "offset_reads": facts.reads.offsets,
            "loses_answers": facts.reads.loses_answers,
            "broker_views": listed.broker_views if listed else None,
            "connections": listed.connections if listed else None,
            "through_proxy": through_proxy,
            "ordered": facts.reads.ordered,
            "loose": brought.loose and bool(brought.topics),
            "shared": facts.shared,
            "owners": brought.owned.by_topic(),
            "pops": brought.assigned.popped,
            "topics": [
                topic.row(routes.evidence(topic.topic, collector, round_us), before) | brought.assigned.row(topic.topic)
                for topic, before in brought.topics
            ],
            "member_list_hash": facts.list_hash,
            "distinct_views": listed.distinct_views if listed else None,
            "member_events": events,
            "dead_letters": dead,
        }


def _keep(kept: dict[K, V], key: K, value: V, most: int = _MOST_KEPT) -> None:
    """Keep a value, and no more than so many: the oldest goes."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]

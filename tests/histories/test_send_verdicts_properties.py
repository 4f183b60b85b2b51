"""One fault table serves two topics: verdicts versus every table that the client can have had, kept side by side."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import PROFILES, FaultTable, RouteBroker
from hindsight.udfs.producer.choice_readings import (
    FORGOTTEN,
    BrokerRecord,
    Removal,
    Removals,
    RouteEntry,
    item_readings,
    route_readings,
)
from hindsight.udfs.producer.send_verdicts import Choice, KnownBroker, judge
from tests.random_examples import examples

TOPICS = {"orders": ("a", "b"), "bills": ("b", "c", "d"), "audit": ("d",)}
BROKERS = ("a", "b", "c", "d")
LISTED, NO_ENTRY = RouteEntry(4, True, True), RouteEntry(None, False, False)
FALLBACK_FAMILIES = ("P43", "P48", "P49c", "P498", "P500", "P511")


class Client:
    """The client itself: it draws where RocketMQ draws, and forgets what its fallback finds without queues."""

    def __init__(self, profile, dice):
        self.table, self.dice, self.profile = FaultTable(profile), dice, profile

    def choose(self, topic, now, last):
        """The broker chosen, and the one forgotten on the way."""
        listed = frozenset(TOPICS[topic])
        preferred = self.table.preferred(listed, now, last)
        if preferred:
            return self.dice.choice(sorted(preferred)), None
        picks = self.table.pick_one_at_least(now)
        if picks:
            pick = self.dice.choice(sorted(picks))
            if pick in listed:
                return pick, None
            self.table.remove(pick)
            return self.dice.choice(sorted(listed)), pick
        return self.dice.choice(sorted(listed)), None


def tables_after(items, profile, topic, now, last, chosen):
    """Each table that the client can have after it chose the broker, given one that it may have had before."""
    table, listed = FaultTable(profile, items=items), frozenset(TOPICS[topic])
    preferred = table.preferred(listed, now, last)
    if preferred:
        return [items] if chosen in preferred else []
    picks = table.pick_one_at_least(now)
    after = [items] if chosen in picks & listed or not picks else []
    return after + [{name: item for name, item in items.items() if name != pick} for pick in sorted(picks - listed)]


def frozen(tables):
    return list({tuple(sorted(items.items())): items for items in tables}.values())


def admissible(items, profile, topic, now, last):
    route = [RouteBroker(broker, 4, True) for broker in TOPICS[topic]]
    return FaultTable(profile, items=items).admissible(TOPICS[topic], route, now, last)


@examples(37, 150)
@given(seed=st.integers(0, 10**9), family=st.sampled_from(FALLBACK_FAMILIES))
def test_verdicts_hold_for_every_table_that_the_client_can_have_had(seed, family):
    dice, profile = random.Random(seed), PROFILES[family]
    client, removals = Client(profile, dice), Removals(0)
    history = FaultTable(profile)  # updates alone: what the record shows
    updated, possible, now = {}, [{}], 1_000_000
    last = topic = None
    for _ in range(40):
        now += dice.choice((1, 5, 2_000, 31_000, 200_000))
        if last is None:
            topic = dice.choice(sorted(TOPICS))
        chosen, forgotten = client.choose(topic, now, last)
        choice = Choice(chosen, last, now)
        records = [
            BrokerRecord(
                name,
                history.items().get(name),
                updated.get(name),
                (),
                None,
                None,
                (LISTED if name in TOPICS[topic] else NO_ENTRY,),
            )
            for name in BROKERS
        ]
        known = [
            KnownBroker(
                r.broker_name,
                item_readings(
                    r, now, profile, tolerance_ms=0, detector_enabled=False, removal=removals.last(r.broker_name)
                ),
                route_readings(r, choice, profile),
            )
            for r in records
        ]
        judgement = judge(choice, known, profile, enabled=True)
        truly = frozenset().union(*(admissible(items, profile, topic, now, last) for items in possible))
        assert truly <= judgement.admissible
        assert judgement.verdict != "impossible"
        if len(possible) == 1 and not any(i.reason == FORGOTTEN for k in known for i in k.items):
            assert truly == judgement.admissible
            assert judgement.verdict == "consistent"
        assert forgotten is None or forgotten in judgement.removable
        for r in records:
            if r.broker_name in judgement.removable:
                surely = r.broker_name == judgement.surely_removed and not r.near
                removals.note(Removal(r.broker_name, now, surely), r.updated_at_ms)
        possible = frozen([t for items in possible for t in tables_after(items, profile, topic, now, last, chosen)])
        if judgement.surely_removed is not None:
            assert forgotten == judgement.surely_removed
            assert all(judgement.surely_removed not in items for items in possible)
        now += dice.choice((1, 40, 600, 3_500))
        failed = dice.random() < 0.4
        told = {"latency_ms": dice.choice((3, 60, 700, 2_500)), "isolation": failed, "now_ms": now}
        for items in possible:
            table = FaultTable(profile, items=items)
            table.update(chosen, **told)
            items.clear()
            items.update(table.items())
        possible = frozen(possible)
        client.table.update(chosen, **told)
        history.update(chosen, **told)
        updated[chosen] = now
        last = chosen if failed and dice.random() < 0.7 else None

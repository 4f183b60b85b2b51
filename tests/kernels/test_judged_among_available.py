"""A choice judged by each broker's own options where nothing falls back, versus reading by reading."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import PROFILES, FaultItem
from hindsight.udfs.producer.send_verdicts import (
    SAME_MILLISECOND,
    Choice,
    ItemReading,
    KnownBroker,
    RouteReading,
    judge,
    judged_by_readings,
)

BROKERS = ("a", "b", "c", "d")
ITEMS = st.none() | st.builds(FaultItem, st.sampled_from((3, 700)), st.none() | st.integers(0, 20), st.booleans())
REASONS = st.sampled_from((SAME_MILLISECOND, "clock_tolerance", "detector"))
ROUTES = st.builds(RouteReading, st.booleans(), st.sampled_from((None, 0, 4)), st.booleans(), st.none())


@st.composite
def known_brokers(draw):
    """The first reading of each kind is what the record says; every further one has to assume something."""
    known = []
    for name in draw(st.lists(st.sampled_from(BROKERS), min_size=1, unique=True)):
        items = [
            ItemReading(draw(ITEMS)),
            *(ItemReading(draw(ITEMS), draw(REASONS)) for _ in range(draw(st.integers(0, 2)))),
        ]
        routes = [draw(ROUTES), *(draw(ROUTES)._replace(reason="stale_route") for _ in range(draw(st.integers(0, 1))))]
        known.append(KnownBroker(name, tuple(items), tuple(routes)))
    return known


@settings(max_examples=300)
@given(
    known_brokers(),
    st.sampled_from(BROKERS),
    st.none() | st.sampled_from(BROKERS),
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
)
def test_both_ways_give_the_same_judgement(known, broker, last, family, enabled):
    choice, profile = Choice(broker, last, 10), PROFILES[family]
    assert judge(choice, known, profile, enabled=enabled) == judged_by_readings(choice, known, profile, enabled)


@settings(max_examples=20)
@given(known_brokers(), st.sampled_from(sorted(PROFILES)), st.integers(5, 8))
def test_so_it_is_with_more_doubts_than_combinations_are_tried(known, family, more):
    doubts = tuple(RouteReading(listed, 4, True, reason) for listed, reason in ((True, None), (False, "stale_route")))
    held = FaultItem(700, 11, True)
    crowd = [KnownBroker(f"x{n}", (ItemReading(held), ItemReading(None, "detector")), doubts) for n in range(more)]
    choice, profile = Choice("a", None, 10), PROFILES[family]
    every = [*known, *crowd]
    assert judge(choice, every, profile, enabled=True) == judged_by_readings(choice, every, profile, True)


def test_an_update_of_the_same_millisecond_leaves_a_choice_possible():
    listed = (RouteReading(True, 4, True),)
    held = ItemReading(FaultItem(700, 11, True), SAME_MILLISECOND)
    known = [KnownBroker("a", (ItemReading(None), held), listed), KnownBroker("b", (ItemReading(None),), listed)]
    judgement = judge(Choice("a", None, 10), known, PROFILES["P533"], enabled=True)
    assert (judgement.verdict, judgement.reason) == ("possible", SAME_MILLISECOND)
    assert judgement == judged_by_readings(Choice("a", None, 10), known, PROFILES["P533"], True)

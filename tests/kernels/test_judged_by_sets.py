"""A choice judged by sets of what its readings say, versus a fault table for each combination of readings."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.fault_tolerance import PROFILES, FaultItem
from hindsight.udfs.producer.send_verdicts import (
    SAME_MILLISECOND,
    Board,
    Choice,
    ItemReading,
    KnownBroker,
    RouteReading,
    bit_of,
    judge,
)
from tests.random_examples import examples
from tests.readings_by_tables import judged_by_tables

BROKERS = ("a", "b", "c", "d")
ITEMS = st.none() | st.builds(FaultItem, st.sampled_from((3, 700)), st.none() | st.integers(0, 20), st.booleans())
REASONS = st.sampled_from((SAME_MILLISECOND, "clock_tolerance", "detector"))
HELD = st.builds(FaultItem, st.sampled_from((700, 900, 2_500)), st.integers(9, 14), st.booleans())
ROUTES = st.builds(RouteReading, st.booleans(), st.sampled_from((None, 0, 4)), st.booleans(), st.none())


@st.composite
def known_brokers(draw, held=ITEMS):
    """The first reading of each kind is what the record says; every further one has to assume something."""
    known = []
    for name in draw(st.lists(st.sampled_from(BROKERS), min_size=1, unique=True)):
        items = [
            ItemReading(draw(held)),
            *(ItemReading(draw(held), draw(REASONS)) for _ in range(draw(st.integers(0, 2)))),
        ]
        routes = [draw(ROUTES), *(draw(ROUTES)._replace(reason="stale_route") for _ in range(draw(st.integers(0, 1))))]
        known.append(KnownBroker(name, tuple(items), tuple(routes)))
    return known


@examples(75, 300)
@given(
    known_brokers(),
    st.sampled_from(BROKERS),
    st.none() | st.sampled_from(BROKERS),
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
)
def test_both_ways_give_the_same_judgement(known, broker, last, family, enabled):
    choice, profile = Choice(broker, last, 10), PROFILES[family]
    assert judge(choice, known, profile, enabled=enabled) == judged_by_tables(choice, known, profile, enabled=enabled)


@examples(125, 500)
@given(known_brokers(HELD), st.randoms(use_true_random=False), st.sampled_from(sorted(PROFILES)))
def test_so_it_is_where_most_brokers_are_held(known, dice, family):
    last = dice.choice((None, None, dice.choice(BROKERS)))
    choice, profile = Choice(dice.choice(known).broker_name, last, 10), PROFILES[family]
    assert judge(choice, known, profile, enabled=True) == judged_by_tables(choice, known, profile, enabled=True)


CROWDED = {  # what is known of the brokers of a crowd: held and perhaps not, or free and perhaps not listed
    "held": (ItemReading(FaultItem(700, 11, True)), ItemReading(None, "detector")),
    "free": (ItemReading(None),),
}


@examples(10, 40)
@given(
    known_brokers(),
    st.sampled_from(sorted(PROFILES)),
    st.lists(st.sampled_from(sorted(CROWDED)), min_size=5, max_size=11),
    st.none() | st.sampled_from(("x0", "x1")),
)
def test_so_it_is_with_more_doubts_than_combinations_are_tried(known, family, crowd, last):
    doubts = tuple(RouteReading(listed, 4, True, reason) for listed, reason in ((True, None), (False, "stale_route")))
    every = [*known, *(KnownBroker(f"x{n}", CROWDED[kind], doubts) for n, kind in enumerate(crowd))]
    for broker in ("a", "x0"):
        choice, profile = Choice(broker, last, 10), PROFILES[family]
        assert judge(choice, every, profile, enabled=True) == judged_by_tables(choice, every, profile, enabled=True)


def test_an_update_of_the_same_millisecond_leaves_a_choice_possible():
    listed = (RouteReading(True, 4, True),)
    held = ItemReading(FaultItem(700, 11, True), SAME_MILLISECOND)
    known = [KnownBroker("a", (ItemReading(None), held), listed), KnownBroker("b", (ItemReading(None),), listed)]
    judgement = judge(Choice("a", None, 10), known, PROFILES["P533"], enabled=True)
    assert (judgement.verdict, judgement.reason) == ("possible", SAME_MILLISECOND)
    assert judgement == judged_by_tables(Choice("a", None, 10), known, PROFILES["P533"], enabled=True)


RANKS = (None, (False, 3, 0), (True, 700, 20))
LISTED = (RouteReading(True, 4, True), RouteReading(True, 4, False), RouteReading(False, None, False, "stale_route"))


def test_boards_that_have_the_same_in_common_find_the_same_options():
    """Of every broker but that of the attempt before: a judge asks one of them for all."""
    found = {}
    for profile, enabled, last, count in product(PROFILES.values(), (True, False), (None, "b"), (3, 4)):
        board = Board(Choice("a", last, 10), bit_of(0), profile, enabled=enabled, tolerance_ms=0, brokers=count)
        for rank, reachable in product(RANKS, (True, False)):
            readings = [(rank, reachable, None), (None, True, "possibly_absent")]
            options = board.add(bit_of(2), "c", readings, LISTED)
            assert found.setdefault((board.common, rank, reachable), options) == options
    assert len({common for common, _, _ in found}) > 8

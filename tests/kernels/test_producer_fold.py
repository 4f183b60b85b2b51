"""The producer fold on random producers, row by row, and cut anywhere. No Spark."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from hindsight.udfs.producer.choice_readings import ROUTE_POLL_MS
from tests.folded import comparable, cut_at, folded, history_of, rows_of
from tests.random_examples import SOAKING
from tests.random_producers import PRODUCERS, lines_of, name_of
from tests.recorded_rows import attempt_rows, start_row
from tests.restless_producers import DAY_MS, restless
from tests.row_wise_checks import *  # noqa: F403  the tests themselves

RANDOM = rows_of(
    [row for producer in PRODUCERS for row in attempt_rows(lines_of(*producer))],
    [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS],
)


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))]
FEW = {name_of(*producer) for producer in PRODUCERS[:8:3]}


@pytest.fixture(scope="module")
def random_whole():
    return folded(RANDOM)


@pytest.fixture(scope="module")
def rebuilt(random_whole):
    made = random_whole
    wanted = ("send_verdict", "broker_availability_window", "fault_item_state")
    return {name: [SimpleNamespace(**row) for row in made[name].to_pylist()] for name in wanted}


def cuts(seed):
    """Instants of a date: far apart, close together, and at its edges."""
    dice = random.Random(seed)
    some = [dice.randrange(DAY_MS) for _ in range(dice.choice((1, 5, 40)))]
    close = [dice.choice(some) + dice.choice((1, 3, 29_999, 30_000)) for _ in range(10)]
    return {*some, *close, *dice.choice(([], [0], [1, DAY_MS - 1], [DAY_MS]))}


def parts_of_an_hour(seed):
    dice = random.Random(seed)
    return {3_600_000 + dice.randrange(600_000) for _ in range(dice.choice((2, 30, 400)))}


@pytest.fixture(scope="module")
def restless_whole():
    given = rows_of(*restless())
    return given, {name: comparable(table) for name, table in folded(given).items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_dates_give_what_whole_dates_give(restless_whole, seed):
    given, whole = restless_whole
    assert {name: comparable(table) for name, table in folded(given, cut=cut_at(cuts(seed))).items()} == whole
    assert all(whole.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_as_short_as_a_tolerance_give_what_the_date_gives(random_whole, seed):
    whole = {name: comparable(table) for name, table in random_whole.items()}
    parts = folded(RANDOM, cut=cut_at(parts_of_an_hour(seed)))
    assert {name: comparable(table) for name, table in parts.items()} == whole


@pytest.mark.random
def test_producers_folded_apart_are_those_folded_together():
    """Nothing of one producer depends on another one."""
    given = rows_of(*restless(count=12 if SOAKING else 6))
    dates = history_of(given).dates
    together = folded(given)
    apart = [
        folded({name: [r for r in rows if r["client_id"] == client] for name, rows in given.items()}, dates=dates)
        for client in sorted({row["client_id"] for row in given["send_attempt"]})
    ]
    for name in ("broker_availability_window", "send_verdict"):
        assert sorted(row for made in apart for row in comparable(made[name])) == comparable(together[name])


@pytest.mark.random
def test_parts_that_end_a_route_poll_after_each_choice_give_what_the_date_gives():
    """Then what was near a choice lies on the other side of the cut."""
    few = {name: [row for row in rows if row.get("client_id") in FEW] for name, rows in RANDOM.items()}
    begins = {round(row["begin_at"].timestamp() * 1000) % DAY_MS for row in few["send_attempt"]}
    some = sorted(begins)[:: 1 if SOAKING else 5]
    parts = folded(few, cut=cut_at({begin + ROUTE_POLL_MS + more for begin in some for more in (0, 1, 3)}))
    assert {name: comparable(table) for name, table in parts.items()} == {
        name: comparable(table) for name, table in folded(few).items()
    }

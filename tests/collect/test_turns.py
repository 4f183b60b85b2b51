"""Whatever cuts a turn, the next one begins with the first question that was not taken: each is asked in its turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.collect import server as server_module
from hindsight.jobs.collect.questions import Question
from hindsight.jobs.collect.server import Manners
from hindsight.jobs.collect.turns import Cut, Turns
from tests.collect import virtual_time


@given(
    subjects=st.integers(1, 7),
    kinds=st.integers(1, 3),
    budgets=st.lists(st.integers(0, 9), min_size=1, max_size=20),
)
def test_turns_that_are_cut_anywhere_go_on_with_the_next_question(subjects, kinds, budgets):
    names = [f"s{n}" for n in range(subjects)]
    total, taken, turns, server = subjects * kinds, [], Turns(), server_module.Server("a:1", Manners(), {})

    def about(subject):
        return [Question(f"k{k}", subject, {}) for k in range(kinds)]

    for budget in budgets:
        now = []
        turn = turns.of(server, "step", names, about, lambda now=now, budget=budget: len(now) >= budget)
        for question in turn:
            now.append((question.subject, question.kind))
        asked = Counter(kind for _, kind in now)
        assert len(now) == min(budget, total) and len(set(now)) == len(now)
        assert asked + turn.left == Counter({f"k{k}": subjects for k in range(kinds)})
        turns.ended(server, "step", turn.next_place)
        assert turns.owes(server, "step") == (budget < total)
        taken += now
    in_order = [(subject, f"k{k}") for subject in names for k in range(kinds)]
    begins = 0
    for budget in budgets:
        begin = begins % total
        assert list(islice(taken, 0, min(budget, total))) == (in_order[begin:] + in_order[:begin])[:budget]
        taken = taken[min(budget, total) :]
        begins = begin + budget if budget < total else 0


def test_who_stops_waiting_for_the_rate_takes_nobody_s_turn():
    async def run():
        loop, server = asyncio.get_running_loop(), server_module.Server("127.0.0.1:1", Manners(per_second=10), {})
        server._next_turn_at = loop.time() + 0.05
        waiting = [asyncio.create_task(server.pace()) for _ in range(50)]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        begun = loop.time()
        await server.pace()
        return loop.time() - begun

    assert virtual_time.run(run()) < 0.06


def test_a_step_that_begins_late_gets_its_part_of_what_is_left_and_no_more_when_it_goes_on():
    async def run():
        cut, over, ends = Cut(100.0), [], []
        for at, share in ((0, 0.1), (10, 0.1), (10, 0.4), (70, 0.6), (85, 0.6), (90, 1.0), (95, 1.0)):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            cut.begin_step(share)
            over.append(cut.over(share))
            ends.append(cut._end_of(share))
        return over, ends

    over, ends = virtual_time.run(run())
    assert over == [False, True, False, False, True, False, False]
    assert ends == pytest.approx([10, 10, 40, 80, 80, 100, 100])

"""A test that ends its process, as one that hangs does, costs itself alone: all others are run, once."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import pytest_xdist_make_scheduler

TESTS = [f"tests/test_{file}.py::test_{number}" for file in "abcdefg" for number in range(4)]
PROCESSES = 3


class Process:
    """One that runs what it is given as xdist's do: the last only when it knows that no more will come."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def can_go_on(self) -> bool:
        return len(self.given) > (0 if self.shutting_down else 1)


@given(st.sets(st.sampled_from(TESTS), max_size=6), st.lists(st.integers(0, PROCESSES - 1), min_size=40))
def test_all_others_are_run_once(ending, turns):
    options = {"dist": "loadfile", "tx": ["popen"] * PROCESSES}
    config = SimpleNamespace(getvalue=options.get, option=SimpleNamespace(loadscopereorder=False))
    scheduler = pytest_xdist_make_scheduler(config, None)
    begun, ended = [], []

    def begins() -> Process:
        process = Process()
        scheduler.add_node(process)
        scheduler.add_node_collection(process, TESTS)
        return process

    at_work = [begins() for _ in range(PROCESSES)]
    scheduler.schedule()
    while any(process.given for process in at_work):
        turn = turns[len(begun) % len(turns)]
        process = next(one for one in at_work[turn:] + at_work[:turn] if one.can_go_on())  # else all wait for ever
        test = process.given.pop(0)
        begun.append(TESTS[test])
        assert len(begun) <= len(TESTS)
        if TESTS[test] in ending:
            ended.append(scheduler.remove_node(process))
            at_work[at_work.index(process)] = begins()
            scheduler.schedule()
        else:
            scheduler.mark_test_complete(process, test)
    assert sorted(begun) == TESTS and {*ended} == ending
    assert all(process.shutting_down for process in at_work)

"""Rounds without markers, against the rule read word by word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.consumer.capture_rounds import RETRY, rounds_of_runs

GAP_S = 60
T0 = datetime(2026, 11, 21, tzinfo=UTC)


def expected_rounds(reads):
    """By the words of the rule: the first capture that asks again what its round has asked begins the next."""
    seconds = sorted({second for second, *_ in reads})
    of = {s: [(q, ok, code) for second, q, ok, code in reads if second == s] for s in seconds}

    def asks_again(start, index):
        here, previous = seconds[index], seconds[index - 1]
        repeated = {q for q, *_ in of[here]} & {q for s in seconds[start:index] for q, *_ in of[s]}
        silent = {q for q, ok, code in of[previous] if not ok and code is None}
        retried = repeated <= silent and here - previous <= RETRY.total_seconds()
        return bool(repeated) and not retried

    found, start = {}, 0
    for index, second in enumerate(seconds):
        if index and (second - seconds[index - 1] > GAP_S or asks_again(start, index)):
            start = index
        found[second] = seconds[start]
    return found


def found_rounds(reads):
    """Second of each capture -> second of its round, by the kernel; runs are told apart before it."""
    seconds = sorted({second for second, *_ in reads})
    captures, run_at = [], None
    for index, second in enumerate(seconds):
        if not index or second - seconds[index - 1] > GAP_S:
            run_at = second
        here = [(hash(q), ok, code) for s, q, ok, code in reads if s == second]
        asked, silent = [q for q, *_ in here], [q for q, ok, code in here if not ok and code is None]
        captures.append({"cluster": "c", "collector": "", "run_at": run_at, "at": T0 + timedelta(seconds=second)})
        captures[-1] |= {"asked": asked, "unanswered": silent}
    made = {int((c["at"] - T0).total_seconds()): c["round_at"] - T0 for c in rounds_of_runs(iter(captures))}
    return {second: int(began.total_seconds()) for second, began in made.items()}


pauses = st.sampled_from((0, 1, 8, 14, 15, 16, 59, 60, 61, 90))
answers = st.sampled_from(((True, None), (True, None), (False, None), (False, 206)))


@given(st.lists(st.tuples(pauses, st.sampled_from("abcd"), answers), max_size=40))
def test_a_question_asked_again_begins_a_round(steps):
    reads, second = [], 0
    for pause, question, (answered, code) in steps:
        second += pause
        reads.append((second, question, answered, code))
    assert found_rounds(reads) == expected_rounds(reads)


@given(st.integers(2, 9), st.integers(1, 6))
def test_each_of_many_sweeps_is_a_round(questions, sweeps):
    """Also where no pause stands between them."""
    reads = [(n * questions + q, q, True, None) for n in range(sweeps) for q in range(questions)]
    assert sorted(set(found_rounds(reads).values())) == [n * questions for n in range(sweeps)]

"""The round of each capture, and what a member said of itself in it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from hindsight.schemas import CONSUMER_HEARTBEAT, SNAPSHOT_CAPTURE
from hindsight.schemas.arrow_types import row_schema
from hindsight.udfs.consumer.capture_rounds import (
    ASKED,
    MARKERS,
    RoundLimits,
    asked_proxies,
    capture_rounds,
    with_own_words,
)
from tests.engines.random_rows import HOSTILE
from tests.kernels.test_repeated_questions import GAP_S, expected_rounds

T0 = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
COLLECTOR = {"cluster": "c", "collector": "mqadmin"}
MEMBER = {**COLLECTOR, "consumer_group": "g", "client_id": "c1", "round_at": T0, "event_date": T0.date()}


def at(second):
    return T0 + timedelta(seconds=second)


def told(member, captures):
    """What becomes of a member's heartbeat."""
    heartbeats = pa.Table.from_pylist([member], schema=row_schema(CONSUMER_HEARTBEAT))
    infos = pa.Table.from_pylist([{**member, **capture} for capture in captures], schema=row_schema(SNAPSHOT_CAPTURE))
    (row,) = with_own_words(heartbeats, infos, asked_proxies(infos)).to_pylist()
    return row


def test_a_capture_that_tells_no_subscriptions_does_not_take_those_of_another():
    def own(*captures):
        rows = [
            {"kind": "consumerRunningInfo", "answered": answered, "captured_at": at(second)}
            | ({} if said is None else {"subscriptions": [{"topic": topic} for topic in said]})
            for second, answered, said in captures
        ]
        assert told(MEMBER, rows) == told(MEMBER, rows[::-1])
        found = told(MEMBER, rows)["subscriptions"]
        return None if found is None else [one["topic"] for one in found]

    assert own((0, True, ["T"]), (1, True, None)) == ["T"]
    assert own((0, True, ["T"]), (1, True, ["U"])) == ["U"]
    assert own((0, True, ["T"]), (1, True, [])) == []
    assert own((0, False, ["T"]), (1, True, None)) is None


def test_a_member_s_kind_is_what_its_running_info_says_else_what_its_connection_does():
    def kind(client_id, language, *captures):
        rows = [
            {"kind": asked, "answered": code is None, "captured_at": at(1), "client_kind": said, "error_code": code}
            for asked, said, code in captures
        ]
        return told({**MEMBER, "client_id": client_id, "language": language}, rows)["client_kind"]

    info = "consumerRunningInfo"
    assert kind("10.0.0.1@7", "JAVA", (info, "lite_pull", None)) == "lite_pull"
    assert kind("10.0.0.1@7", "JAVA", (info, None, None)) == "unknown"
    assert kind("10.0.0.1@7", None, (info, None, None)) == "unknown"
    assert kind("10.0.0.1@7", "JAVA", (info, None, 206)) == "unknown"
    assert kind("10.0.0.1@7", "GO") == "other"
    assert kind("node7@19191@0@8abc12", "JAVA") == "grpc"
    # CODE 3: whoever was asked does not know the request, which every broker does.
    assert kind("10.0.0.1@7", "JAVA", (info, None, 3)) == "remoting_proxy"
    assert kind("node7@19191@0@8abc12", "GO", ("consumeStats", None, 3)) == "grpc"


MOST_S = 120


def second_of(instant):
    return int((instant - T0).total_seconds())


def rounds_of(reads, markers=(), *, pieces=1):
    """Second of each capture -> second of its round; reads: (second, question, answered, code)."""
    rows = [
        {**COLLECTOR, "captured_at": at(s), "kind": q[0], "subject": q[1:], "answered": ok, "error_code": code}
        for s, q, ok, code in reads
    ]
    marks = pa.Table.from_pylist([{**COLLECTOR, "round_at": at(second)} for second in markers], schema=MARKERS)
    split = [pa.Table.from_pylist(rows[start::pieces], schema=ASKED) for start in range(pieces)]
    found = capture_rounds(split, marks, RoundLimits(MOST_S, {"": 2.0, "mqadmin": float(GAP_S)})).to_pylist()
    assert len(found) == len({s for s, *_ in reads})
    assert {row["kind"] for row in found} <= {"marker", "gap"}
    return {second_of(row["captured_at"]): second_of(row["round_at"]) for row in found}


@pytest.mark.parametrize("seed", range(3))
def test_a_question_asked_again_begins_a_round(seed):
    draw = Random(seed)
    reads, second = [], 0
    for _ in range(60):
        second += draw.choice((0, 1, 8, 14, 16, 59, 60, 61, 90))
        answered = draw.random() < 0.6
        code = None if answered else draw.choice((None, 206))
        reads.append((second, draw.choice(("ag", "bg", "ag2", "cT")), answered, code))
    assert rounds_of(reads) == rounds_of(reads, pieces=7) == expected_rounds(reads)


SWEEP = (("ag", 0), ("bT", 1), ("cg", 2))


def test_sweeps_a_minute_apart_are_rounds_of_their_own():
    reads = [(60 * n + second, question, True, None) for n in range(4) for question, second in SWEEP]
    assert sorted(set(rounds_of(reads).values())) == [0, 60, 120, 180]


@pytest.mark.parametrize(("code", "pause", "rounds"), [(None, 9, 1), (206, 9, 2), (None, 16, 2)])
def test_only_a_quick_retry_of_what_nobody_answered_stays_in_its_round(code, pause, rounds):
    reads = [
        (0, "bT", True, None),
        (1, "ag", False, code),
        (1 + pause, "ag", True, None),
        (2 + pause, "cg", True, None),
    ]
    assert len(set(rounds_of(reads).values())) == rounds


def test_captures_that_ask_nothing_begin_no_round():
    rows = [
        {**COLLECTOR, "captured_at": at(s), "kind": kind, "subject": "g|c", "answered": True}
        for s, kind in enumerate((None, None, "consumerRunningInfo", "consumerRunningInfo"))
    ]
    captures = pa.Table.from_pylist(rows, schema=ASKED)
    found = capture_rounds([captures], MARKERS.empty_table(), RoundLimits(MOST_S, {"": 2.0})).to_pylist()
    assert sorted(second_of(row["round_at"]) for row in found) == [0, 0, 0, 3]


def test_a_capture_belongs_to_the_marker_before_it_while_a_round_lasts():
    reads = [(s, "ag", True, None) for s in (0, 5, 60, 119, 124, 126, 300)]
    assert rounds_of(reads, markers=(5, 118)) == {0: 0, 5: 5, 60: 5, 119: 118, 124: 118, 126: 118, 300: 300}
    assert rounds_of(reads[:3], markers=(-61,)) == {0: -61, 5: -61, 60: 60}


def test_a_run_that_lasts_over_midnight_begins_anew_where_it_began_too_long_before():
    midnight = second_of(datetime(2026, 11, 22, tzinfo=UTC))
    questions = iter(range(10_000))

    def rounds(first):
        reads = [(midnight + s, f"q{next(questions)}", True, None) for s in range(first, 61, 30)]
        return sorted({second - midnight for second in rounds_of(reads).values()})

    assert rounds(-MOST_S) == [-MOST_S]
    assert rounds(-MOST_S - 30) == [-MOST_S - 30, 0]


def test_the_pause_that_ends_a_round_is_that_of_the_collector_of_this_name():
    names = [*HOSTILE, "x"]
    rows = [
        {"cluster": "c", "collector": name, "captured_at": at(s), "answered": True} for name in names for s in (0, 30)
    ]
    gaps = {"": 2.0} | {name: 60.0 for name in HOSTILE if name}
    captures = pa.Table.from_pylist(rows, schema=ASKED)
    found = capture_rounds([captures], MARKERS.empty_table(), RoundLimits(MOST_S, gaps)).to_pylist()
    rounds = Counter(name for name, _ in {(row["collector"], row["round_at"]) for row in found})
    assert rounds == {name: 1 if name in gaps and name else 2 for name in names}

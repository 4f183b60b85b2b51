"""What is said of a message: never more than the records carry, and each outcome where they carry it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.telling.message_verdicts import (
    Began,
    Delivery,
    Life,
    Place,
    Reading,
    Recorded,
    Seen,
    Subscription,
    days_of,
    is_offset_id,
    may_be_of,
    moved,
    passed,
    recorded,
    send_verdict,
    stints,
    verdicts,
)
from tests.random_examples import examples

AT = datetime(2026, 11, 27, 12)
PLACE = Place("T", "broker-a", 0, 17)


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def readings(*pairs: tuple[float, int]) -> tuple[Reading, ...]:
    return tuple(Reading(after(s), offset) for s, offset in pairs)


OWNED = (Seen("c1", after(-10), after(40)),)
COVERED = {"c1": (Recorded(after(-60), after(60)),)}
SKIPPED = Life(PLACE, AT, readings=readings((-5, 10), (5, 12), (30, 18)), owners=OWNED, recorded=COVERED)
ONCE = replace(SKIPPED, deliveries=(Delivery(after(6), "c1", True, 3, "SUCCESS", 0, PLACE),))


def told(life: Life) -> list[str]:
    return [each.verdict for each in verdicts(life)]


def test_lost_is_said_where_all_is_covered_and_the_offset_passed_it():
    (one,) = verdicts(SKIPPED)
    assert one.verdict == "lost" and "passed between" in one.cause
    assert passed(SKIPPED) == (after(5), after(30))


@pytest.mark.parametrize(
    "gap",
    [
        {"recorded": {}},
        {"recorded": {"c1": (Recorded(after(2), after(60)),)}},
        {"recorded": {"c1": (Recorded(after(-60), after(-30)),)}},
        {"recorded": {"c1": (Recorded(after(-60), after(60), lost_at=(after(20),)),)}},
        {"recorded": {"c1": (Recorded(after(-60), after(60), lost_at=(after(600),)),)}},
        {"recorded": {"c1": (Recorded(after(-60), after(-50)), Recorded(after(20), after(60)))}},
        {"owners": ()},
        {
            "owners": (Seen("c1", AT, AT), Seen("c1", after(61), after(90))),
            "readings": readings((70, 18)),
        },
        {"owners": (Seen("c1", after(61), after(90)),), "readings": readings((70, 18))},
        {"owners": OWNED, "readings": readings((101, 18))},
        {"owners": (*OWNED, Seen("c2", after(3), after(4)))},
        {"stored_at": None},
        {"place": Place("T", "broker-a", 0, None)},
        {"place": None},
        {"readings": ()},
        {"readings": readings((-5, 10))},
    ],
)
def test_what_the_records_do_not_cover_is_unknown(gap):
    assert told(replace(SKIPPED, **gap)) == ["unknown"]


def test_a_recorder_that_ended_with_its_process_covers_it():
    ended = Seen("c1", after(-10), after(10))
    owners = (ended, Seen("c2", after(20), after(40)))
    both = {"c1": (Recorded(after(-60), after(8)),), "c2": (Recorded(after(9), after(60)),)}
    assert told(replace(SKIPPED, owners=owners, recorded=both)) == ["lost"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jumps": ("OFFSET_JUMPED",)}, "OFFSET_JUMPED"),
        ({"readings": readings((2, 30), (30, 31))}, "began behind it"),
        ({"firsts": (Reading(after(4), 18),)}, "deleted before"),
    ],
)
def test_why_it_was_lost(changes, words):
    (one,) = verdicts(replace(SKIPPED, **changes))
    assert one.verdict == "lost" and words in one.cause


HAND_OVER = Began(after(10), "c2", 18, 18, 16, "c1", is_after=True, evidence="f:7")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, "skipped"),
        ({"stored": 0, "stored_by": None}, "skipped"),
        ({"stored": 17}, "skipped"),
        ({"stored": 18}, None),
        ({"least": 17}, "perhaps skipped"),
        ({"least": 17, "most": 17}, None),
        ({"is_after": False}, None),  # the one before read on
        ({"least": 16, "most": 17, "stored": 18}, "read again"),
        ({"least": 16, "most": 18, "stored": 18}, "perhaps read again"),
        ({"least": 16, "most": 16, "stored": 18, "is_after": False}, "read again"),
        ({"least": 18, "most": 18, "stored": 20}, None),
        ({"least": 16, "most": 16, "stored": 17}, None),
    ],
)
def test_a_hand_over_skipped_it_or_brought_it_again_by_where_both_stood(changes, what):
    told = [line.partition(":")[0] for _, line in moved(replace(SKIPPED, begins=(HAND_OVER._replace(**changes),)))]
    assert told == ([what] if what else [])


def test_why_it_was_lost_or_came_twice_names_the_hand_over_and_its_evidence():
    (lost,) = verdicts(replace(SKIPPED, begins=(HAND_OVER,), jumps=("OFFSET_JUMPED",)))
    assert (lost.verdict, lost.cause) == ("lost", "skipped: c2 began at 18, c1 had stored 16 (f:7)")
    again = Delivery(after(20), "c2", True, 3, "SUCCESS", 0, PLACE)
    (twice,) = verdicts(
        replace(
            ONCE,
            deliveries=(*ONCE.deliveries, again),
            begins=(HAND_OVER._replace(least=10, most=10, stored=20, is_after=False),),
        )
    )
    assert twice.verdict == "consumed_twice" and "read again: c2 began at 10, c1 stored 20 later (f:7)" in twice.cause
    # By itself it proves nothing: who had the queue may have read on without storing.
    assert told(replace(SKIPPED, begins=(HAND_OVER,), recorded={})) == ["unknown"]


def test_what_was_deleted_after_it_was_passed_was_not_lost_by_that():
    (one,) = verdicts(replace(SKIPPED, firsts=(Reading(after(100), 18),)))
    assert "deleted" not in one.cause


def test_not_consumed_yet_says_where_the_group_stands():
    (one,) = verdicts(replace(SKIPPED, readings=readings((5, 12), (30, 17)), owners=()))
    assert one.verdict == "not_consumed_yet" and "17" in one.cause and "no owner" in one.cause


A, ALL, SQL = Subscription("c1", frozenset("a")), Subscription("c2", frozenset()), Subscription("c3", None)


@pytest.mark.parametrize(
    ("subscriptions", "tag", "known", "expected"),
    [
        ((A,), "b", True, "filtered"),
        ((A,), None, True, "filtered"),
        ((A,), "a", True, "lost"),
        ((A,), "b", False, "lost"),
        ((A, ALL), "b", True, "filtered"),  # brokers go by whichever member told last
        ((ALL,), "b", True, "lost"),
        ((SQL,), "b", True, "unknown"),
    ],
)
def test_filtered_by_whose_subscription(subscriptions, tag, known, expected):
    (one,) = verdicts(replace(SKIPPED, subscriptions=subscriptions, tag=tag, is_tag_known=known))
    assert one.verdict == expected
    assert expected != "filtered" or "c1" in one.cause


def test_of_members_that_differ_filtered_needs_the_same_proof_as_lost():
    differ = replace(SKIPPED, subscriptions=(A, ALL), tag="b", is_tag_known=True, recorded={})
    assert told(differ) == ["unknown"]


@pytest.mark.parametrize("owners", [(), (*OWNED, Seen("c2", after(3), after(30)))])
def test_filtered_is_not_said_of_a_group_whose_subscriptions_are_not_all_known(owners):
    life = replace(SKIPPED, owners=owners, subscriptions=(A,), tag="b", is_tag_known=True)
    assert told(life) == ["unknown"]


def signs(*told: tuple[float, str]) -> list[dict]:
    return [{"client_id": "c1", "kind": kind, "told_at": after(at), "shut_down": True} for at, kind in told]


@pytest.mark.parametrize(
    ("told_at", "expected"),
    [
        (((-40, "start"), (-10, "alive"), (20, "alive"), (50, "alive")), "lost"),
        (((-40, "start"), (-10, "alive"), (50, "alive")), "unknown"),  # a file of lines is missing
        (((-40, "start"), (-10, "alive"), (5, "dropped"), (20, "alive"), (50, "alive")), "unknown"),
        (((-40, "start"), (-10, "alive"), (3, "stop"), (20, "start"), (50, "alive")), "lost"),
    ],
)
def test_a_recorder_covers_what_its_signs_hold_together(told_at, expected):
    assert told(replace(SKIPPED, recorded=recorded(signs(*told_at)))) == [expected]


def test_a_queue_is_held_while_readings_follow_each_other():
    read = [("c1", after(0)), ("c1", after(60)), ("c2", after(61)), ("c1", after(121))]
    assert stints(read) == [
        Seen("c1", after(0), after(60)),
        Seen("c2", after(61), after(61)),
        Seen("c1", *[after(121)] * 2),
    ]


def delivery(at: float, success: bool | None, by: str = "c1", retry: int = 0, place=PLACE, cost: int | None = 3):
    return Delivery(after(at), by, success, cost, "SUCCESS" if success else "FAILED", retry, place)


RETRY = Place("%RETRY%g", "broker-a", 0, 3)


@pytest.mark.parametrize(
    ("deliveries", "changes", "expected", "words"),
    [
        ([delivery(6, True)], {}, "consumed_once", "by c1"),
        ([delivery(6, False), delivery(16, True, retry=1, place=RETRY)], {}, "consumed_once", "after 1 that failed"),
        ([delivery(6, None), delivery(9, True, by="c2")], {}, "consumed_once", "never returned"),
        ([delivery(6, False)], {}, "not_consumed_yet", "still to come"),
        ([delivery(6, None)], {}, "not_consumed_yet", "has not returned"),
        ([delivery(6, False, retry=16, place=RETRY)], {}, "dead_letter", "16 retries"),
        ([delivery(6, False, retry=1, place=RETRY)], {"max_retries": 1}, "dead_letter", "1 retries"),
        ([delivery(6, False, retry=99)], {"max_retries": None}, "not_consumed_yet", ""),
        ([delivery(6, True), delivery(7, True, place=Place("T", "b", 1, 4))], {}, "consumed_twice", "stored 2 times"),
        ([delivery(6, True), delivery(9, True, by="c2")], {}, "consumed_twice", "next owner"),
        ([delivery(6, True, cost=9_000), delivery(9, True, by="c2")], {}, "consumed_twice", "at one time"),
        ([delivery(6, True), delivery(16, True, retry=1, place=RETRY)], {}, "consumed_twice", "retry topic"),
        ([delivery(6, True), delivery(60, True)], {"readings": readings((20, 18), (50, 2))}, "consumed_twice", "back"),
        ([delivery(6, True), delivery(6, True, by="c2")], {"is_broadcast": True}, "consumed_once", "2 client(s)"),
        ([delivery(6, True), delivery(8, True)], {"is_broadcast": True}, "consumed_twice", "1 client(s)"),
    ],
)
def test_what_was_delivered(deliveries, changes, expected, words):
    one, *_ = verdicts(replace(SKIPPED, deliveries=tuple(deliveries), **changes))
    assert one.verdict == expected and words in one.cause


def test_how_it_was_consumed_stands_beside_how_often():
    late = replace(ONCE, late_s=5, is_orderly=True, overtaken=2)
    assert told(late) == ["consumed_once", "late", "out_of_order"]
    assert told(replace(late, late_s=7, is_orderly=False)) == ["consumed_once"]
    slow = replace(ONCE, deliveries=(delivery(1, True, cost=61_000),))
    assert told(slow) == ["consumed_once", "late"]


def test_once_is_at_least_once_where_an_owner_is_not_covered():
    assert "at least once" not in verdicts(ONCE)[0].cause
    assert "at least once" in verdicts(replace(ONCE, recorded={}))[0].cause
    by_trace = replace(ONCE, deliveries=(ONCE.deliveries[0]._replace(by_recorder=False),))
    assert "at least once" in verdicts(by_trace)[0].cause


@examples(100, 500)
@given(
    moved=st.lists(st.tuples(st.integers(-60, 120), st.integers(-1, 40)), max_size=6),
    owner=st.tuples(st.integers(-60, 60), st.integers(0, 90)),
    record=st.none() | st.tuples(st.integers(-60, 60), st.integers(0, 90)),
    lost=st.none() | st.integers(-60, 120),
)
def test_lost_needs_a_passing_and_a_recorder_that_covers_it(moved, owner, record, lost):
    owners = (Seen("c1", after(owner[0]), after(sum(owner))),)
    spans = (
        ()
        if record is None
        else (Recorded(after(record[0]), after(sum(record)), () if lost is None else (after(lost),)),)
    )
    life = replace(SKIPPED, readings=readings(*moved), owners=owners, recorded={"c1": spans})
    (one,) = verdicts(life)
    _, by = passed(life)
    is_covered = record is not None and (lost is None or lost < 0) and record[0] <= max(0, owner[0])
    if one.verdict == "lost":
        assert by is not None and is_covered
    assert (one.verdict in ("lost", "unknown")) or by is None


@examples(50, 200)
@given(
    st.permutations([*ONCE.readings, *readings((40, 18), (50, 20))]),
    st.permutations([delivery(1, False), delivery(6, True), delivery(9, True)]),
)
def test_the_order_of_the_rows_does_not_matter(read, delivered):
    life = replace(ONCE, readings=tuple(read), deliveries=tuple(delivered))
    assert verdicts(life) == verdicts(replace(life, readings=tuple(sorted(read)), deliveries=tuple(sorted(delivered))))


def attempt(outcome="EXCEPTION", exception=None, mode="SYNC", of=None):
    return {"outcome": outcome, "exception": exception, "mode": mode, "queue_offset_of": of}


NEVER = "org.apache.rocketmq.remoting.exception.RemotingConnectException"
MAYBE = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
REFUSED = "org.apache.rocketmq.client.exception.MQBrokerException"


@pytest.mark.parametrize(
    ("attempts", "transaction", "expected"),
    [
        ([attempt("SEND_OK")], None, None),
        ([attempt(exception=MAYBE), attempt("SEND_OK")], None, None),
        ([attempt(exception=NEVER), attempt(exception=REFUSED)], None, "not_sent"),
        ([attempt(exception=NEVER), attempt(exception=MAYBE)], None, "send_unknown"),
        ([attempt(exception=NEVER, mode="ASYNC")], None, "send_unknown"),
        ([attempt("SUBMITTED", mode="ONEWAY")], None, "send_unknown"),
        ([], None, "send_unknown"),
        ([attempt("SEND_OK", of="half")], "ROLLBACK_MESSAGE", "not_sent"),
        ([attempt("SEND_OK", of="half")], None, "unknown"),
        ([attempt("SEND_OK", of="half")], "COMMIT_MESSAGE", None),
    ],
)
def test_whether_it_was_sent(attempts, transaction, expected):
    found = send_verdict(attempts, transaction)
    assert (found and found.verdict) == expected


@pytest.mark.parametrize(
    ("msg_id", "day", "expected"),
    [
        ("7F000001000418B4AAC20A4CB8000001", "2026-11-03", True),
        ("7F000001000418B4AAC20A4CB8000001", "2026-11-05", False),
        ("7F000001000418B4AAC2000000010001", "2026-11-01", True),
        ("7F000001000418B4AAC2000000010001", "2026-10-31", True),
        ("7F000001000418B4AAC2000000010001", "2026-10-30", False),
        ("anything", "2026-10-30", True),
    ],
)
def test_a_unique_key_tells_the_days_on_which_it_may_have_been_made(msg_id, day, expected):
    assert may_be_of(datetime.fromisoformat(day).date(), days_of(msg_id)) is expected


@examples(50, 300)
@given(st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)), st.integers(-12, 14))
def test_whatever_the_clients_zone_its_utc_date_is_among_them(at, hours):
    local = at + timedelta(hours=hours)
    since = local - local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    key = f"7F000001000418B4AAC2{round(since.total_seconds() * 1000):08X}0001"
    assert may_be_of(at.date(), days_of(key))


@pytest.mark.parametrize(("address", "port"), list(product(("7F000001", "00" * 15 + "01"), (1, 10911, 65_535))))
def test_an_offset_id_has_a_port_where_a_port_stands(address, port):
    assert is_offset_id(f"{address}{port:08X}{500:016X}")
    assert not is_offset_id(f"{address}{0x18B4AAC2:08X}{500:016X}") and not is_offset_id("x" * 32)

"""What the record does not show of a producer: said in verdicts, windows, replay and findings alike."""

from __future__ import annotations

from itertools import pairwise

import pyarrow.compute as pc
import pytest

from hindsight.udfs.producer.attempt_columns import instants
from hindsight.udfs.producer.choice_readings import Removal, Removals
from hindsight.udfs.producer.producer_fold import END
from tests.hooked import REFUSED, TIMED_OUT, Hook, T, dropped, folded, route, start

AB = [row for at in range(-10_000, 100_000, 10_000) for row in route(at, "ab")]


def verdict_of(made, msg):
    """(verdict, reason) of the first attempt of a message; None: its choice was in no doubt."""
    found = [r for r in made["send_verdict"] if r["msg_id"] == msg and not r["attempt"]]
    return (found[0]["verdict"], found[0]["reason"]) if found else None


def windows(made):
    """(broker, since, until, certainty, reason), ms after ``T``."""
    ms = [[round(r[n].timestamp() * 1000) - T for n in ("window_start", "window_end")] for r in told(made)]
    return [(r["broker_name"], *at, r["certainty"], r["reason"]) for r, at in zip(told(made), ms, strict=True)]


def told(made):
    return sorted(made["broker_availability_window"], key=lambda r: (r["window_start"], r["broker_name"]))


def certainties(made):
    return {r["certainty"] for r in made["producer_replay"]}


def codes(made):
    return {r["code"] for r in made["producer_finding"]}


def is_fine(made):
    return "impossible" not in {r["verdict"] for r in made["send_verdict"]} and "IMPOSSIBLE_CHOICE" not in codes(made)


# -- ASYNC retries ---------------------------------------------------------------------------------------------------


def answered_by_another(version, *, held_ms=700, choice=4_000, lines=()):
    """An ASYNC send breaks at a unseen, b answers; then b is slow: both are held, and b may be taken."""
    h = Hook()
    return [
        start(-50, version),
        *h.turns("ab", 0, 10),
        h.attempt("a", 2_000, 1, mode="ASYNC", status=None, msg="AS"),
        h.attempt("a", 2_000, 310, mode="ASYNC", msg="AS", thread="netty", answeredBy="b"),
        h.attempt("b", 3_000, held_ms),
        *lines,
        h.attempt("b", choice, 5, msg="CHOICE"),
    ]


@pytest.mark.parametrize("version", ["4.9.8", "5.1.3", "5.1.4", "5.3.3"])
def test_a_choice_that_unseen_retries_explain_is_possible(version):
    made = folded(answered_by_another(version), AB)
    assert is_fine(made) and certainties(made) == {"partial"}
    assert verdict_of(made, "CHOICE") == ("possible", "unseen_retries")
    assert {reason for *_, reason in windows(made)} == {"unseen_retries"}


def test_long_after_the_last_unseen_retry_could_be_felt_a_choice_is_impossible_again():
    """5.3.3 avoids a broker for 30 s at most: what ASYNC sends hid before is over."""
    h = Hook("AC110002000118B4AAC3")
    late = [*h.turns("ab", 60_000, 10), h.attempt("b", 62_000, 700)]
    made = folded(answered_by_another("5.3.3", choice=63_000, lines=late), AB)
    assert verdict_of(made, "CHOICE") == ("impossible", None)


def test_of_a_failed_async_send_the_broker_that_failed_last_is_not_told():
    """Its callback names the first broker, as the hook does: which others it was tried at is in no line."""
    h = Hook()
    failed = {"exc": "org.apache.rocketmq.client.exception.MQClientException", "mode": "ASYNC", "thread": "netty"}
    lines = [
        start(-50, "4.9.8"),
        *h.turns("abc", 0, 9),
        h.attempt("a", 2_000, 1, mode="ASYNC", status=None, msg="AS"),
        h.attempt("a", 2_000, 900, msg="AS", **failed),
        h.attempt("a", 4_000, 5, msg="CHOICE"),
        *h.turns("abc", 10_000, 3),
    ]
    made = folded(lines)
    assert is_fine(made) and verdict_of(made, "CHOICE") == ("possible", "unseen_retries")


# -- lines that the recorder says it lost ----------------------------------------------------------------------------


def with_a_loss(version="4.9.8", *, told=3_700, choice=4_000):
    """b's isolation is lost: both are held, and the client falls back to the faster one."""
    h = Hook()
    return [
        start(-50, version),
        *h.turns("ab", 0, 10),
        h.attempt("a", 2_000, 1, exc=REFUSED, msg="M1"),
        h.attempt("b", 2_002, 3, last="a", msg="M1"),
        dropped(told),
        h.attempt("a", choice, 5, msg="CHOICE"),
        *h.turns("b", choice + 100, 3),
    ]


@pytest.mark.parametrize("version", ["4.0.0", "4.9.8", "5.1.3", "5.3.3"])
def test_lost_lines_make_nothing_impossible_and_no_window_certain(version):
    made = folded(with_a_loss(version))
    assert is_fine(made) and certainties(made) == {"possible"}
    assert {(certainty, reason) for *_, certainty, reason in windows(made)} == {("possible", "lost_lines")}
    assert {r["reason"] for r in made["producer_replay"]} == {"lost_lines"}


def test_before_a_loss_was_told_nobody_knows_when_it_was():
    made = folded(with_a_loss(told=60_000))
    assert is_fine(made) and {reason for *_, reason in windows(made)} == {"lost_lines"}


def test_what_was_lost_in_the_process_before_does_not_matter():
    h = Hook("AC110002000118B4AAC3")
    again = [start(60_000, "4.9.8"), *h.turns("ab", 60_100, 10)]
    again += [h.attempt("a", 62_000, 1, exc=REFUSED, msg="M2"), h.attempt("b", 62_002, 3, last="a", msg="M2")]
    made = folded([*with_a_loss(), *again, h.attempt("a", 65_000, 5, msg="LATER"), *h.turns("b", 65_100, 5)])
    assert verdict_of(made, "LATER") == ("impossible", None)
    assert [certainty for _, since, _, certainty, _ in windows(made) if since > 60_000] == ["certain"]


def test_a_loss_is_felt_beyond_midnight():
    """Told two minutes after midnight, it may be of the date before; an unseen isolation lasts into the next."""
    midnight = 1_767_744_000_000 - T
    h = Hook()
    made = folded(
        [
            start(midnight - 90_000, "4.9.8"),
            *h.turns("ab", midnight - 80_000, 10),
            h.attempt("a", midnight - 60_000, 1, exc=REFUSED, msg="M1"),
            h.attempt("b", midnight - 59_990, 3, last="a", msg="M1"),
            *h.turns("b", midnight - 59_000, 20),
            dropped(midnight + 120_000),
            *h.turns("b", midnight + 121_000, 20),
        ]
    )
    assert {(certainty, reason) for *_, certainty, reason in windows(made)} == {("possible", "lost_lines")}
    assert len(made["broker_availability_window"]) == 2 and certainties(made) == {"possible"}


# -- two processes under one id --------------------------------------------------------------------------------------


HEADS = "AC110002000118B4AAC2", "AC110002000218B4AAC2"


def twice(version="4.8.0", *, starts=True, heads=HEADS, threads=("t0", "q0")):
    """One process isolates a, the other one goes on sending to it."""
    one, other = (Hook(head, thread=thread) for head, thread in zip(heads, threads, strict=True))
    lines = [
        start(-50, version),
        *one.turns("ab", 0, 10),
        one.attempt("a", 2_000, 1, exc=REFUSED, msg="M3"),
        one.attempt("b", 2_002, 3, last="a", msg="M3"),
        *one.turns("b", 2_100, 30),
        start(500, version),
        *other.turns("ab", 600, 30),
    ]
    if starts:
        return lines
    own = {"version": version, "sendLatencyFaultEnable": True}
    return [{**line, **own} for line in lines if line["type"] != "start"]


@pytest.mark.parametrize(
    "lines",
    [
        twice(),
        twice("5.3.3"),
        twice(starts=False),
        twice(heads=("m", "n"), threads=("t0", "t0")),
        twice("5.1.3", heads=("m", "m"), threads=("t0", "t0")),
    ],
    ids=["ids and starts", "the same of 5.3.3", "ids alone", "threads that go on", "the same of 5.1.3"],
)
def test_nothing_is_impossible_or_certain_of_two_processes_in_one(lines):
    made = folded(lines)
    assert is_fine(made) and "certain" not in certainties(made)


def test_each_of_two_processes_may_have_found_another_broker_unreachable():
    """A retry takes the broker of before where it can reach no other; that the other process reaches one is not its."""
    failed = {"exc": "org.apache.rocketmq.client.exception.MQBrokerException"}
    one, other = (Hook(head, thread=thread) for head, thread in zip(HEADS, ("t0", "q0"), strict=True))
    lines = [start(-50, "5.1.4"), *one.turns("ab", 0, 10), start(500, "5.1.4"), *other.turns("ab", 600, 10)]
    lines += [one.attempt("b", 2_000, 1, **failed), other.attempt("b", 2_200, 3)]
    lines += [one.attempt("a", 4_000, 1, msg="M", **failed), one.attempt("a", 4_002, 1, msg="M", last="a", **failed)]
    assert is_fine(folded([*lines, *other.turns("b", 5_000, 9)], AB))


def test_a_process_that_was_started_anew_is_certain():
    """Its ids say that it is another one, although its threads have the names of those before and it came soon."""
    one, other = Hook(), Hook("AC110002000218B4AAC2")
    lines = [start(-50, "4.8.0"), *one.turns("ab", 0, 30), start(4_000, "4.8.0"), *other.turns("ab", 4_100, 30)]
    lines += [other.attempt("a", 8_000, 1, exc=REFUSED, msg="M4"), other.attempt("b", 8_002, 3, last="a", msg="M4")]
    made = folded([*lines, *other.turns("b", 8_100, 30)])
    assert certainties(made) == {"certain"} and {c for *_, c, _ in windows(made)} == {"certain"}


def test_ids_of_other_makers_tell_no_processes():
    """A UUID a message has no head: it says nothing, as it said nothing before."""
    h = Hook()
    ids = [f"{n:08x}-{n % 7:04x}-4000-8000-{n:012x}" for n in range(60)]
    lines = [{**line, "msgId": own} for line, own in zip(h.turns("ab", 0, 60), ids, strict=True)]
    assert certainties(folded([start(-50, "4.9.8"), *lines])) == {"certain"}


def application_s(prefixes):
    """Ids of an application's own, ten of each prefix in turn."""
    return [f"{prefix}-{n:04d}-billing" for prefix in prefixes for n in range(10)]


@pytest.mark.parametrize(
    ("ids", "certainty"),
    [
        (application_s("ABA"), "certain"),
        (application_s("ABCDEFGHIJKLMA"), "certain"),
        ([f"{'AB'[n // 10 % 2]}{n:012X}" for n in range(30)], "possible"),
    ],
)
@pytest.mark.parametrize("cuts", [(), (1_000, 2_000), (500, 1_500, 2_500)])
def test_ids_tell_the_same_of_processes_wherever_a_date_is_cut(ids, certainty, cuts):
    def in_parts(table, midnight_ms):
        begins = instants(table["begin_at"], midnight_ms) + midnight_ms - T
        edges = (-(1 << 40), *cuts, 1 << 40)
        for since, until in pairwise(edges):
            own = pc.and_(pc.greater_equal(begins, since), pc.less(begins, until))
            yield table.filter(own), END if until == edges[-1] else T + until - midnight_ms

    lines = [{**line, "msgId": own} for line, own in zip(Hook().turns("ab", 0, len(ids)), ids, strict=True)]
    assert certainties(folded([start(-50, "4.9.8"), *lines], cut=in_parts)) == {certainty}


# -- rungs and near-equal latencies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latency", "certainty", "reason"),
    [(549, None, None), (550, "certain", None), (998, "possible", "ladder_edge"), (1_000, "certain", None)],
)
def test_a_window_is_certain_unless_the_client_may_have_reached_the_next_rung(latency, certainty, reason):
    h = Hook()
    lines = [start(-50, "4.9.8"), *h.turns("ab", 0, 10), h.attempt("a", 2_000, latency)]
    made = folded([*lines, *h.turns("b", 4_000, 30)])
    assert [(c, why) for *_, c, why in windows(made)] == ([(certainty, reason)] if certainty else [])
    # A window that is not shown at all is no certain health.
    at_an_edge = latency in (549, 998)
    assert certainties(made) == {"possible" if at_an_edge else "certain"}


def test_a_rung_of_5_1_4_counts_only_where_it_outlasts_the_window_that_is_there():
    h = Hook()
    lines = [start(-50, "5.3.3"), *h.turns("ab", 0, 10), h.attempt("a", 2_000, 1, exc=REFUSED, msg="M5")]
    lines += [h.attempt("b", 2_002, 3, last="a", msg="M5"), h.attempt("a", 2_100, 549), *h.turns("b", 4_000, 30)]
    assert certainties(folded(lines)) == {"certain"}


def test_a_rung_is_felt_beyond_midnight():
    """999 ms hold a broker for 30 s, 1000 ms for 60 s: the window may go on into the next date."""
    midnight = 1_767_744_000_000 - T
    h = Hook()
    lines = [start(midnight - 90_000, "4.9.8"), *h.turns("ab", midnight - 80_000, 10)]
    lines += [h.attempt("a", midnight - 46_000, 999), *h.turns("b", midnight - 44_000, 60, every=1_000)]
    made = folded(lines)
    assert [(c, why) for *_, c, why in windows(made)] == [("possible", "ladder_edge")]
    by_date = {r["event_date"].day: r["certainty"] for r in made["producer_replay"]}
    assert by_date == {6: "possible", 7: "possible"}


@pytest.mark.parametrize(("other", "verdict"), [(3_001, "possible"), (3_003, "possible"), (3_004, "impossible")])
def test_the_fallback_orders_latencies_as_the_client_measured_them(other, verdict):
    """Both brokers are held after time-outs of about 3000 ms: which one is the faster the hook cannot tell."""
    h = Hook()
    lines = [start(-50, "4.9.8"), *h.turns("ab", 0, 10)]
    lines += [h.attempt("a", 2_000, 3_000, exc=TIMED_OUT), h.attempt("b", 2_010, other, exc=TIMED_OUT)]
    made = folded([*lines, h.attempt("b", 6_000, 5, msg="CHOICE")], route(-1_000, "ab") + route(5_000, "ab"))
    found = verdict_of(made, "CHOICE")
    assert found == (verdict, "near_latencies" if verdict == "possible" else None)


@pytest.mark.parametrize(("latency", "found"), [(549, ("possible", "ladder_edge")), (540, ("impossible", None))])
def test_a_rung_of_5_1_4_is_felt_however_many_quick_sends_follow(latency, found):
    """The windows of 5.1.4 and later are only lengthened: the item's last update does not tell its rung."""
    h = Hook()
    lines = [start(-50, "5.3.3"), *h.turns("ab", 0, 10), h.attempt("b", 1_000, 2_000, thread="t1")]
    lines += [h.attempt("a", 2_000, latency), h.attempt("a", 2_600, 5), h.attempt("b", 3_500, 5, msg="CHOICE")]
    assert verdict_of(folded(lines, AB), "CHOICE") == found


# -- updates so close together that either may be the last -----------------------------------------------------------


def closely(until, thread):
    """b is held; a time-out of a ends at 3,000 ms, and a send to a that is well soon after: then b is chosen."""
    h = Hook()
    return [
        start(-2_050, "4.9.8"),
        *h.turns("ab", -2_000, 10),
        h.attempt("a", 0, 3_000, exc=TIMED_OUT),
        h.attempt("b", 1_000, 2_500, thread="t2"),
        h.attempt("a", until - 1, 1, thread=thread),
        h.attempt("b", 6_000, 5, msg="CHOICE"),
    ]


@pytest.mark.parametrize(
    ("until", "thread", "found"),
    [
        (3_001, "t1", ("possible", "clock_tolerance")),
        (3_003, "t1", ("possible", "clock_tolerance")),
        (3_004, "t1", ("impossible", None)),
        (3_001, "t0", ("impossible", None)),  # one thread's updates come in order
    ],
)
def test_of_updates_close_together_either_may_be_the_last(until, thread, found):
    made = folded(closely(until, thread), AB)
    assert verdict_of(made, "CHOICE") == found
    is_doubted = found[0] == "possible"
    assert certainties(made) == {"possible" if is_doubted else "certain"}
    (window,) = [w for w in windows(made) if w[0] == "a"]
    assert window[1:] == (3_000, until, "possible" if is_doubted else "certain", found[1])


@pytest.mark.parametrize("cut", [2_999, 3_000, 3_001, 3_002, 5_998, 6_000])
def test_updates_close_together_are_found_wherever_a_date_is_cut(cut):
    def in_two(table, midnight_ms):
        at = T + cut - midnight_ms
        first = pc.less(instants(table["begin_at"], midnight_ms), at)
        yield table.filter(first), at
        yield table.filter(pc.invert(first)), END

    lines = closely(3_001, "t1")
    whole, parts = folded(lines, AB), folded(lines, AB, cut=in_two)
    for name in ("send_verdict", "broker_availability_window", "producer_replay"):
        assert parts[name] == whole[name]


# -- lists that clients wrote anew, or polled ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "found"),
    [("4.7.1", ("possible", "stale_route_or_rewritten_list")), ("4.9.8", ("impossible", None))],
)
def test_where_the_fallback_writes_into_the_list_a_broker_need_not_be_in_it(version, found):
    """a is forgotten as another topic's send takes it; the retry then writes b into the list in a's place."""
    h, more = Hook(), {"exc": TIMED_OUT}
    lines = [
        start(-50, version),
        *h.turns("ab", 0, 10),
        h.attempt("b", 2_000, 3_000, **more),
        h.attempt("b", 4_900, 3_000, thread="t1", msg="M1", **more),
        h.attempt("a", 4_950, 3),
        h.attempt("b", 5_100, 3_000, topic="T2", thread="t2", **more),
        h.attempt("b", 7_901, 0, thread="t1", msg="M1", last="b", **more),
        h.attempt("b", 9_000, 3_000, msg="CHOICE", **more),
        h.attempt("a", 15_000, 3),
    ]
    routes = [row for at in range(-10_000, 30_000, 10_000) for row in (*route(at, "ab"), *route(at, "b", topic="T2"))]
    assert verdict_of(folded(lines, routes), "CHOICE") == found


@pytest.mark.parametrize(("later", "found"), [("a", ("possible", "stale_route")), ("ab", ("impossible", None))])
def test_a_client_may_have_polled_the_route_that_is_read_next(later, found):
    h = Hook()
    lines = [start(-50, "4.9.8"), *h.turns("ab", 0, 10), h.attempt("a", 2_000, 3_000, exc=TIMED_OUT)]
    lines += [h.attempt("b", 6_000, 3), h.attempt("a", 8_000, 3_000, msg="CHOICE", exc=TIMED_OUT)]
    made = folded(lines, route(-10_000, "ab") + route(0, "ab") + route(10_000, later))
    assert verdict_of(made, "CHOICE") == found


# -- a broker that was not in the route ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "found"),
    [("abc", True), ("bc", False), (None, True)],
    ids=["in the route all the while", "not in the route", "no route recorded"],
)
def test_a_broker_that_the_route_does_not_have_need_not_return(listed, found):
    """Its window ended after 10 s; for 75 s more it was dead, and in no route."""
    h, other = Hook(), Hook("AC110003000118B4AAC2", client="10.0.0.2@1")
    lines = [start(-50, "5.3.3"), *h.turns("abc", 0, 12), h.attempt("a", 2_000, 1, exc=REFUSED, msg="M8")]
    lines += [h.attempt("b", 2_002, 3, last="a", msg="M8"), *h.turns("bc", 2_100, 900)]
    lines += [start(-50, "5.3.3", client="10.0.0.2@1"), *other.turns("abc", 0, 12), *other.turns("a", 30_000, 1)]
    routes = [row for at in range(-40_000, 100_000, 10_000) if listed for row in route(at, listed if at > 0 else "abc")]
    assert ("NOT_RETURNING" in codes(folded(lines, routes))) == found


# -- sends of which attempts are lost --------------------------------------------------------------------------------


def tried_again(without, *, loss=True, last="SEND_OK"):
    """A send of three attempts, without the lines of some of them; the recorder says that it lost some, or does not."""
    h = Hook()
    sent = [
        h.attempt("a", 2_000, 1, exc=REFUSED, msg="M1"),
        h.attempt("b", 2_002, 3, exc=REFUSED, last="a", times=1, msg="M1"),
        h.attempt("c", 2_006, 3, exc=None if last == "SEND_OK" else REFUSED, last="b", times=2, msg="M1"),
    ]
    kept = [line for place, line in enumerate(sent) if place not in without]
    after = [dropped(2_500), *h.turns("c", 3_000, 10)] if loss else h.turns("c", 3_000, 10)
    begun = start(-50, "4.9.8", retryTimesWhenSendFailed=2)
    (call,) = folded([begun, *h.turns("abc", 0, 9), *kept, *after])["send_call"]
    return call["result"], [(a["broker_name"], a["outcome"]) for a in call["attempts"]], call["retry_verdict"]


FAILED = "EXCEPTION"


@pytest.mark.parametrize("loss", [True, False])
@pytest.mark.parametrize(
    ("without", "attempts"),
    [
        ([0], [("a", None), ("b", FAILED), ("c", "SEND_OK")]),
        ([1], [("a", FAILED), ("b", None), ("c", "SEND_OK")]),
        ([0, 1], [(None, None), ("b", None), ("c", "SEND_OK")]),
    ],
)
def test_an_attempt_that_the_next_one_tells_of_is_one_of_the_send(without, attempts, loss):
    assert tried_again(without, loss=loss) == ("ok", attempts, "unknown")


@pytest.mark.parametrize(("without", "result"), [([0], "exception"), ([1], "exception"), ([], "exception")])
def test_a_send_that_used_all_its_attempts_failed_whichever_are_lost(without, result):
    assert tried_again(without, last="failed")[0] == result


def test_a_retry_that_the_rules_ask_for_was_made_where_lines_were_lost():
    """Else it is missing: the process went on."""
    assert tried_again([2]) == ("unknown", [("a", FAILED), ("b", FAILED), (None, None)], "unknown")
    assert tried_again([2], loss=False) == ("unknown", [("a", FAILED), ("b", FAILED)], "missing")


# -- settings that changed while the producer ran --------------------------------------------------------------------


def switched_off(version, *, rate=2):
    """From 3 s on every other send goes to a, each of which took so long that the record avoids it."""
    h = Hook()
    lines = [start(-50, version), *h.turns("ab", 0, 10), h.attempt("a", 2_000, 1, exc=REFUSED, msg="M8")]
    lines += [h.attempt("b", 2_002, 3, last="a", msg="M8"), *h.turns("b", 2_100, 5)]
    return lines + [
        h.attempt("a" if i % rate == 0 else "b", 3_000 + 100 * i, 700 if i % rate == 0 else 3) for i in range(120)
    ]


@pytest.mark.parametrize("version", ["4.0.0", "4.9.8", "5.1.3", "5.3.3"])
def test_a_producer_that_stopped_to_go_by_its_table_does_nothing_impossible(version):
    made = folded(switched_off(version), [row for at in (-1_000, 14_000) for row in route(at, "ab")])
    assert is_fine(made) and certainties(made) == {"possible"}
    assert "settings_changed" in {r["reason"] for r in made["send_verdict"]}
    assert {reason for *_, reason in windows(made)} == {"settings_changed"}


def test_one_choice_in_ten_is_no_change_of_settings():
    made = folded(switched_off("4.9.8", rate=10))
    assert "IMPOSSIBLE_CHOICE" in codes(made) and certainties(made) == {"certain"}


# -- a clock that stepped back ---------------------------------------------------------------------------------------


def stepped(by, *, head="AC110002000118B4AAC2", every=100):
    """At 10 s the clock goes back; what was isolated just before stands after what came of it."""
    h = Hook(head)
    lines = [start(-50, "4.9.8"), *h.turns("ab", 0, 99, every=every)]
    lines += [h.attempt("a", 9_950, 1, exc=REFUSED, msg=None), h.attempt("b", 9_952, 3, last="a", msg=None)]
    return [*lines, *h.turns("b", 10_000 - by, 60, every=every), *h.turns("ab", 25_000, 20)]


@pytest.mark.parametrize("by", [700, 4_000, 60_000])
def test_where_a_clock_stepped_back_no_order_is_certain(by):
    made = folded(stepped(by))
    at_step = [(c, why) for _, since, until, c, why in windows(made) if since <= 10_000 <= (until or 10_001)]
    felt = by < 60_000  # what lies a minute back is another stretch of the record, in its own order
    assert not felt or at_step == [("possible", "clock_step")]
    assert not felt or certainties(made) == {"possible"}


@pytest.mark.parametrize("by", [-5_000, 0])
def test_a_clock_that_runs_on_or_steps_forward_orders_all(by):
    assert certainties(folded(stepped(by))) == {"certain"}


def test_numbers_that_threads_give_out_in_turn_are_no_step():
    """Two threads overtake each other by a few ms all the time; ids of other makers count nothing."""
    h, ids = Hook(), Hook("m-")
    lines = [start(-50, "4.9.8"), *h.turns("ab", 0, 60, every=10)]
    lines[1::2], lines[2::2] = lines[2::2], lines[1::2]
    swapped = [{**line, "beginMs": line["beginMs"] + 4 * (n % 2)} for n, line in enumerate(lines[1:])]
    assert certainties(folded([lines[0], *swapped])) == {"certain"}
    again = [h.attempt("ab"[n % 2], 2_000 + 900 * n, 3, msg=lines[n + 1]["msgId"]) for n in range(5)]
    assert certainties(folded([*lines, *again, *h.turns("ab", 10_000, 20)])) == {"certain"}
    random = [{**line, "msgId": f"m-{n * 7919 % 10_007:08}"} for n, line in enumerate(ids.turns("ab", 0, 200))]
    assert certainties(folded([lines[0], *random])) == {"certain"}


def test_a_finding_says_why_it_is_no_surer():
    made = folded([*with_a_loss("5.3.3"), *Hook("AC110002000118B4AAC3").turns("b", 5_000, 200)])
    (long,) = (r for r in made["producer_finding"] if r["code"] == "LONG_ISOLATION")
    assert long["certainty"] == "possible" and "its recorder lost lines" in long["sentence"]


def test_a_doubtful_removal_goes_on_from_the_first_of_its_kind_until_a_sure_one_or_an_update():
    removals, told = Removals(tolerance_ms=3), []
    for at, surely, updated in ((10, False, 5), (20, False, 13), (30, True, 13), (40, True, 13), (50, False, 34)):
        told.append(removals.note(Removal("a", at, surely), updated))
    assert told == [True, False, True, False, True]
    assert removals.last("a") == Removal("a", 50, False)
    assert removals.of("a", 53) is not None and removals.of("a", 54) is None and removals.of("b", 0) is None

"""Single producers whose day is short enough to be reckoned by hand. No Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import partial

from hindsight.schemas import PRODUCER_INSTANCE, TOPIC_ROUTE
from hindsight.udfs.producer.attempt_columns import ATTEMPTS
from hindsight.udfs.producer.producer_date import Date, fold_date
from hindsight.udfs.producer.producer_rows import Ends
from hindsight.udfs.producer.replay_rules import overridden
from tests.folded import OPTIONS, arrow, epoch_ms, folded, history_of, rows_of
from tests.hostile_texts import HOSTILE
from tests.producer_dates import NOTHING_BEFORE, in_one

FIRST = date(2026, 1, 5)
TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
WHO = {"cluster": "c", "producer_group": "g", "client_id": "p"}
WHERE = {"source": "producer_hook", "source_file": "f", "source_line": 1}


def at(clock, day=0):
    return datetime.fromisoformat(f"{FIRST + timedelta(days=day)}T{clock}").replace(tzinfo=UTC)


def start(clock, day=0, **columns):
    told = {"started_at": at(clock, day), "client_version": "4.9.8", "latency_fault_enabled": True}
    return {**WHO, **WHERE, "event_date": FIRST + timedelta(days=day), **told, **columns}


def send(clock, broker="a", *, took=3, day=0, **columns):
    begin = at(clock, day)
    ends = {"begin_at": begin, "end_at": begin + timedelta(milliseconds=took), "latency_ms": took}
    how = {"thread": "t", "mode": "SYNC", "attempt": 0, "queue_id": 0, "outcome": "SEND_OK", "phase": "result"}
    names = {"topic": "T", "broker_name": broker, "broker_named_as": broker, "msg_id": f"{day} {clock} {broker}"}
    whole = {**WHO, **WHERE, "event_date": begin.date(), "exceptions_observable": True, **names, **ends, **how}
    return {**whole, **columns}


def failed(clock, broker="a", **columns):
    return send(clock, broker, took=10, **({"exception": TIMEOUT, "outcome": "EXCEPTION"} | columns))


def windows(*attempts, starts=(), options=OPTIONS):
    made = folded(rows_of(attempts, starts), options)["broker_availability_window"].to_pylist()
    return [
        (w["broker_name"], w["state"], *(f"{w[n]:%d %H:%M:%S}" if w[n] else None for n in ENDS), w["end_reason"])
        for w in sorted(made, key=lambda w: (w["window_start"], w["broker_name"], w["state"]))
    ]


ENDS = ("window_start", "window_end")


def test_a_restart_ends_what_the_process_held_and_the_next_one_begins_empty():
    starts = (start("09:00:00"), start("10:05:00"))
    made = windows(failed("10:00:00"), send("10:06:00", "b"), send("10:20:00", "b"), starts=starts)
    assert made == [("a", "unavailable", "05 10:00:00", "05 10:05:00", "restarted")]


def test_what_an_old_process_is_told_after_the_restart_holds_nothing():
    starts = (start("09:00:00"), start("10:00:05"))
    late = failed("10:00:00", mode="ASYNC", attempt=None, callback_end_at=at("10:00:06"))
    assert windows(late, send("10:20:00", "b"), starts=starts) == []


def test_a_pinned_async_send_tells_by_its_callback_alone():
    ends = {"mode": "ASYNC", "attempt": None, "submit_end_at": at("10:00:02"), "callback_end_at": at("10:00:03")}
    pinned = failed("10:00:00", queue_selected_by="selector", **ends)
    sync = failed("10:00:00", "b", queue_selected_by="selector")
    made = windows(pinned, sync, send("10:30:00", "c"), starts=[start("09:00:00")])
    assert made == [("a", "unavailable", "05 10:00:03", "05 10:10:03", "expired")]


def test_a_table_is_dropped_after_seven_days_without_an_attempt():
    for silent, states in ((7, 2), (8, 1)):
        told = folded(rows_of([failed("10:00:00"), send("10:00:00", "b", day=silent)], [start("09:00:00")]))
        rows = told["fault_item_state"].filter(told["fault_item_state"]["event_date"].to_numpy() > FIRST)
        assert rows.num_rows == (2 if states == 2 else 0)
        of_start = [row["started_at"] is not None for row in told["producer_replay"].to_pylist()]
        assert of_start == [True, states == 2]


def test_so_it_is_where_another_producer_is_heard_of_then():
    other = {"client_id": "q"}
    told = folded(rows_of([failed("10:00:00"), send("10:00:00", "b", day=8, **other)], [start("09:00:00")]))
    lives = {(row["client_id"], row["event_date"]) for row in told["producer_replay"].to_pylist()}
    assert lives == {("p", FIRST), ("q", FIRST + timedelta(days=8))}


def test_a_trace_tells_of_answers_only_and_its_windows_are_partial():
    unnamed = {"mode": None, "attempt": None, "thread": None, "queue_id": None, "exceptions_observable": False}
    told = {"client_version": "4.9.8", "latency_fault_enabled": True}
    slow, lost = send("10:00:00", took=600, **unnamed, **told), send("10:00:01", took=600, **unnamed, **told)
    made = folded(rows_of([slow, lost | {"broker_name": None}, send("10:30:00", "b", **unnamed, **told)], []))
    (window,) = made["broker_availability_window"].to_pylist()
    assert (window["broker_name"], window["certainty"], window["trigger_kind"]) == ("a", "partial", "latency")
    assert not made["send_verdict"].num_rows


def test_settings_tell_of_a_producer_what_nobody_recorded():
    entry = {"cluster": "c", "producer_group": "g*", "client_version": "4.9.8", "latency_fault_enabled": True}
    known = OPTIONS._replace(override=(entry | {"producer_group": "other"}, entry))
    sends = (failed("10:00:00"), send("10:30:00", "b"))
    assert windows(*sends) == []
    assert windows(*sends, options=known) == [("a", "unavailable", "05 10:00:00", "05 10:10:00", "expired")]


def test_a_broker_shunned_for_ever_is_told_as_shunned_for_366_days():
    """What a producer may be given for "never again" is no instant; nor may it make a row for each date to come."""
    year_ms = 366 * 86_400_000
    known = start("00:00:00", client_version="V5_3_3", latency_max_ms=[0, 550], not_available_ms=[0, 2**63 - 1])
    sends = (
        send("00:00:01", "a", took=900),
        send("00:00:05", "b", took=2),
        send("00:00:00", "b", took=2, day=2),
        send("00:00:01", "a", day=2),
    )
    made = folded(rows_of(sends, (known,)), OPTIONS)
    rule, *_ = made["producer_replay"].to_pylist()
    assert (rule["not_available_ms"], rule["recorded"]["not_available_ms"]) == ([0, year_ms], [0, 2**63 - 1])
    found = sorted(made["broker_availability_window"].to_pylist(), key=lambda w: w["window_start"])
    assert {(w["broker_name"], w["state"], w["not_available_ms"]) for w in found} == {("a", "unavailable", year_ms)}
    assert found[0]["window_start"] == at("00:00:01") + timedelta(milliseconds=900)
    assert len(found) < 20


def test_a_pattern_of_the_settings_matches_the_same_text_and_no_other():
    entries = [{"cluster": text, "producer_group": "*", "client_version": f"said of {text}"} for text in HOSTILE]
    names = [*HOSTILE, "`\n", "${env:HOME}x", "49", "x"]
    found = {name: overridden(entries, name, "g").client_version for name in names}
    assert found == {name: f"said of {name}" if name in HOSTILE else None for name in names}


def test_the_highest_queue_id_that_java_has_is_counted():
    given = rows_of((send("10:00:00", queue_id=2**31 - 1), send("10:00:01", queue_id=7)), ())
    midnight_ms = epoch_ms(FIRST)
    sent = history_of(given).attempts[midnight_ms].select(ATTEMPTS.names).cast(ATTEMPTS)
    beside = (arrow(PRODUCER_INSTANCE, []), arrow(TOPIC_ROUTE, []), *NOTHING_BEFORE, Ends(True, True), sent.slice(0, 0))
    date = Date("c", midnight_ms, partial(in_one, sent, midnight_ms), *beside)
    assert fold_date(date, OPTIONS).share.queues["queues"].to_pylist() == [2**31]

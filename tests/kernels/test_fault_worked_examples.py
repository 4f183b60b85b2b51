"""The worked examples of the producer's side: what each release makes of the same sends."""

import numpy as np
import pytest

from hindsight.udfs.fault_tolerance import PROFILES, FaultTable, RouteBroker, compute_not_available_duration
from hindsight.udfs.producer.attempt_updates import fault_update

TIMEOUT = "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"
WAIT_TIMEOUT = "org.apache.rocketmq.client.exception.MQClientException"

TWO_BROKERS_OF_FOUR_QUEUES = ["b1"] * 4 + ["b2"] * 4
ROUTE = [RouteBroker("b1", 4, True), RouteBroker("b2", 4, True)]

BEFORE_4_8_0 = ("P40", "P43")
FROM_4_8_0_BEFORE_5_1_4 = ("P48", "P49a", "P49b", "P49b3", "P49c", "P498", "P500", "P510", "P511")
SINCE_5_1_4 = ("P514", "P520", "P530", "P531", "P533")
BEFORE_5_1_4 = BEFORE_4_8_0 + FROM_4_8_0_BEFORE_5_1_4

OLD_AND_NEW_RUNGS = [  # latency, shunned before 5.1.4, shunned since
    (-1, 0, 0),
    (0, 0, 0),
    (49, 0, 0),
    (549, 0, 0),
    (550, 30000, 2000),
    (999, 30000, 2000),
    (1000, 60000, 2000),
    (1799, 60000, 2000),
    (1800, 60000, 5000),
    (2000, 120000, 5000),
    (3000, 180000, 6000),
    (4999, 180000, 6000),
    (5000, 180000, 10000),
    (14999, 180000, 10000),
    (15000, 600000, 30000),
]


@pytest.mark.parametrize("profile_id", BEFORE_5_1_4 + SINCE_5_1_4)
def test_a_latency_on_a_rung_shuns_the_broker_for_that_rung(profile_id: str) -> None:
    latency, old, new = np.array(OLD_AND_NEW_RUNGS).T
    successes = np.zeros(len(latency), dtype=np.bool_)
    actual = compute_not_available_duration(latency, successes, PROFILES[profile_id])
    np.testing.assert_array_equal(actual, old if profile_id in BEFORE_5_1_4 else new)


@pytest.mark.parametrize("profile_id", BEFORE_5_1_4 + SINCE_5_1_4)
def test_a_failure_shuns_the_broker_for_ten_minutes_before_5_1_4_and_ten_seconds_since(profile_id: str) -> None:
    failures = np.array([True, True])
    actual = compute_not_available_duration(np.array([3, 60000]), failures, PROFILES[profile_id])
    assert actual.tolist() == [600000 if profile_id in BEFORE_5_1_4 else 10000] * 2


def window_end(table: FaultTable, broker: str = "b") -> int | None:
    return table.items()[broker].start_ms


def replay_end(table: FaultTable, profile_id: str, now_ms: int, phase: str, latency_ms: int, error: str | None) -> None:
    mode = "SYNC" if phase == "result" else "ASYNC"
    exception = None if error is None else (WAIT_TIMEOUT if mode == "ASYNC" else TIMEOUT)
    outcome = fault_update(
        PROFILES[profile_id], mode=mode, phase=phase, exception=exception, error=error, detector_enabled=False
    )
    assert outcome is not None
    table.update("b", latency_ms=latency_ms, now_ms=now_ms, **outcome._asdict())


@pytest.mark.parametrize("profile_id", BEFORE_5_1_4)
def test_an_async_submit_ends_a_window_before_5_1_4(profile_id: str) -> None:
    table = FaultTable(PROFILES[profile_id])
    replay_end(table, profile_id, 0, "result", 3, "wait response on the channel timeout")
    assert window_end(table) == 600_000
    assert not table.is_available("b", 4_999)
    replay_end(table, profile_id, 5_000, "submit", 1, None)
    assert table.is_available("b", 5_000)
    replay_end(table, profile_id, 8_000, "callback", 3_000, "wait response timeout")
    assert [table.is_available("b", now) for now in (8_000, 607_999, 608_000)] == [False, False, True]


@pytest.mark.parametrize("profile_id", SINCE_5_1_4)
def test_a_window_is_only_ever_extended_since_5_1_4(profile_id: str) -> None:
    table = FaultTable(PROFILES[profile_id])
    replay_end(table, profile_id, 0, "result", 3, "wait response on the channel timeout")
    assert window_end(table) == 10_000
    replay_end(table, profile_id, 5_000, "result", 10, None)
    assert window_end(table) == 10_000
    replay_end(table, profile_id, 6_000, "result", 15_000, None)
    assert window_end(table) == 36_000


def replay_slow_sends(profile_id: str, attempts_of_send: int, failed: bool, sends: int) -> list[tuple[str, ...]]:
    """Brokers of each send where b1 takes 30 s and b2 50 s, and b1 was drawn where both are possible."""
    table = FaultTable(PROFILES[profile_id])
    now_ms = 0
    brokers: list[tuple[str, ...]] = []
    for _ in range(sends):
        sent: list[str] = []
        for _ in range(attempts_of_send):
            last = sent[-1] if sent else None
            choices = table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, now_ms, last)
            assert len(choices) == 1 or now_ms == 0
            sent.append(min(choices))
            latency_ms = 30_000 if sent[-1] == "b1" else 50_000
            now_ms += latency_ms
            table.update(sent[-1], latency_ms=latency_ms, isolation=failed, now_ms=now_ms)
        brokers.append(tuple(sent))
    return brokers


@pytest.mark.parametrize("profile_id", BEFORE_4_8_0)
def test_once_both_are_unavailable_every_send_goes_to_the_faster_broker(profile_id: str) -> None:
    actual = replay_slow_sends(profile_id, attempts_of_send=1, failed=False, sends=10)
    assert actual == [("b1",), ("b2",)] + [("b1",)] * 8


@pytest.mark.parametrize("profile_id", BEFORE_4_8_0)
def test_a_retry_goes_back_to_the_faster_broker_though_it_fails(profile_id: str) -> None:
    actual = replay_slow_sends(profile_id, attempts_of_send=2, failed=True, sends=4)
    assert actual == [("b1", "b1"), ("b2", "b1"), ("b1", "b1"), ("b1", "b1")]


@pytest.mark.parametrize("profile_id", PROFILES)
def test_after_a_failure_on_b1_only_clients_before_4_8_0_retry_on_b1(profile_id: str) -> None:
    table = FaultTable(PROFILES[profile_id])
    table.update("b1", latency_ms=3, isolation=True, now_ms=1_000)
    actual = table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 1_000, "b1")
    assert actual == {"b1" if profile_id in BEFORE_4_8_0 else "b2"}


def failed(profile_id: str, *brokers: str, now_ms: int = 0) -> FaultTable:
    table = FaultTable(PROFILES[profile_id])
    for latency_ms, broker in enumerate(brokers, start=1):
        table.update(broker, latency_ms=latency_ms, isolation=True, now_ms=now_ms)
    return table


@pytest.mark.parametrize("profile_id", SINCE_5_1_4)
def test_a_broker_inside_its_window_is_chosen_when_all_others_are_too(profile_id: str) -> None:
    table = failed(profile_id, "b1", "b2")
    assert table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 1_000, "b1") == {"b2"}
    assert table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 1_000) == {"b1", "b2"}


def test_in_5_1_4_alone_an_unreachable_broker_stays_unavailable_after_its_window() -> None:
    available = {}
    for profile_id in SINCE_5_1_4:
        table = FaultTable(PROFILES[profile_id])
        table.update("b", latency_ms=3, isolation=True, now_ms=0, reachable=False)
        available[profile_id] = table.is_available("b", 3_600_000)
        table.update("b", latency_ms=3, isolation=True, now_ms=3_600_000, reachable=True)
        assert table.is_available("b", 3_610_000), "any update that reports it reachable re-opens it"
    assert available == {"P514": False, "P520": True, "P530": True, "P531": True, "P533": True}


def test_the_fallback_of_4_9_8_alone_passes_over_a_read_only_broker() -> None:
    route = [RouteBroker("b1", 4, False), RouteBroker("b2", 4, True)]
    actual = {
        profile_id: failed(profile_id, "b1", "b2").admissible(["b2"] * 4, route, 1_000)
        for profile_id in FROM_4_8_0_BEFORE_5_1_4
    }
    # b1 is the faster one. 4.9.8 forgets it and takes any queue of its list, the others send to a read-only broker.
    assert actual == {p: frozenset({"b2" if p == "P498" else "b1"}) for p in FROM_4_8_0_BEFORE_5_1_4}


def test_a_pick_without_write_queues_is_forgotten_and_any_queue_taken() -> None:
    table = failed("P49c", "elsewhere", "b1", "b2")
    choice = (TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 1_000)
    assert table.pick_one_at_least(1_000) == {"elsewhere"}
    assert table.admissible(*choice) == {"b1", "b2"}
    assert table.possible_removals(*choice) == {"elsewhere"}
    assert set(table.items()) == {"elsewhere", "b1", "b2"}, "asking changes nothing"


def test_ties_across_the_middle_belong_to_the_better_half_whole() -> None:
    table = FaultTable(PROFILES["P500"])
    for broker, latency_ms in [("b1", 1), ("b2", 2), ("b3", 2), ("b4", 2), ("b5", 3)]:
        table.update(broker, latency_ms=latency_ms, isolation=True, now_ms=0)
    assert table.pick_one_at_least(1_000) == {"b1", "b2", "b3", "b4"}


def test_with_the_switch_off_nothing_is_recorded_and_only_a_retry_avoids_a_broker() -> None:
    for profile in PROFILES.values():
        table = FaultTable(profile, enabled=False)
        table.update("b1", latency_ms=3, isolation=True, now_ms=0)
        assert table.items() == {}
        assert table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 0) == {"b1", "b2"}
        assert table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 0, "b1") == {"b2"}
        assert table.admissible(["b1"], ROUTE, 0, "b1") == {"b1"}


def test_items_from_before_the_switch_was_turned_off_count_for_nothing() -> None:
    for profile_id, profile in PROFILES.items():
        table = FaultTable(profile, enabled=False, items=failed(profile_id, "b1", "b2").items())
        assert table.admissible(TWO_BROKERS_OF_FOUR_QUEUES, ROUTE, 1_000) == {"b1", "b2"}
        assert table.admissible(["b2"], ROUTE, 1_000, "b2") == {"b2"}


def test_without_any_pick_a_client_of_5_1_1_takes_any_queue_of_its_list() -> None:
    table = FaultTable(PROFILES["P511"])
    assert table.pick_one_at_least(0) == frozenset()
    assert table.admissible(["b1"], ROUTE, 0, "b1") == {"b1"}
    assert table.possible_removals(["b1"], ROUTE, 0, "b1") == frozenset()


def test_the_fallback_reads_the_first_entry_that_a_route_has_for_a_broker() -> None:
    route = [RouteBroker("b1", 0, True), RouteBroker("b1", 4, True), RouteBroker("b2", 4, True)]
    table = failed("P500", "b1", "b2")
    assert table.admissible(["b2"], route, 1_000) == {"b2"}
    assert table.possible_removals(["b2"], route, 1_000) == {"b1"}


def reachable_of(table: FaultTable) -> dict[str, bool]:
    return {broker: item.reachable for broker, item in table.items().items()}


@pytest.mark.parametrize("profile_id", SINCE_5_1_4)
def test_the_detector_forgets_unresolvable_brokers_and_only_ever_reopens(profile_id: str) -> None:
    table = FaultTable(PROFILES[profile_id])
    for broker in ("answers", "silent", "unresolvable"):
        table.update(broker, latency_ms=3, isolation=True, now_ms=0, reachable=False)
    table.update("healthy", latency_ms=3, isolation=False, now_ms=0)
    table.detect(now_ms=3_000, up={"answers"}, resolvable={"answers", "silent", "healthy"})
    assert reachable_of(table) == {"answers": True, "silent": False, "healthy": True}
    assert window_end(table, "answers") == 10_000, "a probe never ends a window"
    table.detect(now_ms=4_999, up={"silent"}, resolvable={"silent"})
    assert reachable_of(table) == {"answers": True, "silent": False, "healthy": True}, "looked at less than 2 s ago"
    table.detect(now_ms=5_000, up={"silent"}, resolvable={"silent"})
    assert reachable_of(table) == {"silent": True}

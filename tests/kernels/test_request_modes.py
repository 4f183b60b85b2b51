"""By which mode a broker hands out queues: what it told last, what was set before its own, retry topics pulled."""

from __future__ import annotations

import pytest

from hindsight.udfs.consumer.broker_assignment import POP, PULL, RequestMode, RequestModes

S = 1_000_000


def said(at_s, told_by, broker="broker-a", collector="", **more):
    nothing = dict.fromkeys(("topic", "consumer_group", "mode", "pop_share_queue_num", "server_load_balancer"))
    place = {"collector": collector, "broker_name": broker, "told_by": told_by, "captured_at": at_s * S}
    return {**nothing, **place, **more}


def set_modes(at_s, *modes, **place):
    """An answer to 402: topic, group, mode and share of each, and that these are all."""
    rows = [
        said(at_s, "messageRequestModes", topic=t, consumer_group=g, mode=m, pop_share_queue_num=n, **place)
        for t, g, m, n in modes
    ]
    return [*rows, said(at_s, "messageRequestModes", **place)]


def own(at_s, mode=PULL, share=-1, balances=True, **place):
    return [said(at_s, "brokerConfig", mode=mode, pop_share_queue_num=share, server_load_balancer=balances, **place)]


def modes_of(rows, topic="T", at_s=100, brokers=("broker-a",), group="g"):
    return RequestModes(rows, lookback_s=600).of(topic, group, "", brokers, at_s * S)


def mode_of(rows, **where):
    (told,) = modes_of(rows, **where).modes
    return told


def test_what_was_set_counts_before_the_brokers_own():
    rows = [*set_modes(1, ("T", "g", POP, 2), ("T", "h", PULL, 0)), *own(1)]
    assert mode_of(rows) == ("broker-a", RequestMode(POP, 2))
    assert mode_of(rows, group="h") == ("broker-a", RequestMode(PULL, 0))
    assert mode_of(rows, group="other") == mode_of(rows, topic="U") == ("broker-a", RequestMode(PULL, -1))


def test_the_brokers_own_mode_does_not_hold_for_retry_topics():
    rows = [*set_modes(1), *own(1, POP, 3, balances=False)]
    assert mode_of(rows) == ("broker-a", RequestMode(POP, 3, False))
    assert mode_of(rows, topic="%RETRY%g") == ("broker-a", RequestMode(PULL, 3, False))


@pytest.mark.parametrize(("at_s", "mode"), [(5, PULL), (10, POP), (19, POP), (20, PULL), (619, PULL)])
def test_the_last_answer_holds_until_the_next(at_s, mode):
    rows = [*own(1), *own(300), *set_modes(1), *set_modes(10, ("T", "g", POP, 1)), *set_modes(20)]
    assert mode_of(rows, at_s=at_s)[1].mode == mode


@pytest.mark.parametrize(
    "rows",
    [
        [],
        set_modes(1),
        own(1),
        [*set_modes(101), *own(1)],
        [*set_modes(1), *own(1, mode=None)],
        [*set_modes(1, collector="other"), *own(1, collector="other")],
        [*set_modes(1, broker="broker-b"), *own(1, broker="broker-b")],
    ],
    ids=["nothing", "no own", "nothing set known", "later", "before 5.0", "another collector", "another broker"],
)
def test_a_broker_of_which_one_word_lacks_is_silent(rows):
    assert modes_of(rows).silent == ("broker-a",)


def test_an_answer_is_forgotten_after_the_lookback():
    rows = [*set_modes(1), *own(1)]
    assert modes_of(rows, at_s=601).modes and not modes_of(rows, at_s=602).modes

"""What set a rebalance off and how long it took: each rule on a log of a few lines."""

from __future__ import annotations

import pytest

from tests.diagnose.made_logs import A, B, beats, created, log, ms, queue, result
from tests.diagnose.told_by_logs import told

C = "10.0.0.2@7"
NOTICE = "receive broker's notification[b:1], the consumer group: g changed, rebalance immediately"
ROUTE = (
    "the topic[T] route info changed, old[null] ,new[TopicRouteData [orderTopicConf=null, queueDatas=[QueueData "
    "[brokerName=b, readQueueNums=8, writeQueueNums=8, perm=6, topicSysFlag=0]], brokerDatas=[], filterServerTable={}]]"
)


def rebalances(*lines, others=()):
    logs = {"a.log": log(*beats(0, 200), *lines)} | {
        f"{i}.log": log(*beats(0, 200), *more) for i, more in enumerate(others)
    }
    return told(logs).rebalances


def essence(one):
    return one.triggers, one.woken_by, one.members_before, one.members_after, one.took_ms


@pytest.mark.parametrize(("members", "trigger"), [(3, "member_joined"), (1, "member_gone")])
@pytest.mark.parametrize("told_to", [True, False])
def test_more_or_fewer_members_than_before_are_the_trigger(members, trigger, told_to):
    notice = [(99.5, NOTICE)] if told_to else []
    _, one = rebalances((50, result(A, 0)), *notice, (100, result(A, 1, members=members)))
    woken_by, took = ("notification", 500) if told_to else ("timer", None)
    assert essence(one) == ((trigger,), woken_by, 2, members, took)
    assert one.moved == 1


def test_a_notice_long_before_is_none():
    _, one = rebalances((50, result(A, 0)), (90, NOTICE), (100, result(A, members=3)))
    # Of which change the numbers are no line tells: the client was told of one before, and made nothing of it.
    assert (one.triggers, one.also) == (("unknown",), ("member_gone", "member_joined"))
    assert (one.woken_by, one.took_ms, one.moved) == ("timer", None, 0)


def test_a_log_that_begins_with_the_result_does_not_tell_what_woke_the_client():
    (one,) = told({"a.log": log((0, result(A, 0)))}).rebalances
    assert essence(one) == (("unknown",), "not_said", None, 2, None)


def test_another_number_of_queues_is_a_changed_route_and_counts_from_the_route():
    _, one = rebalances((50, result(A, 0)), (90, ROUTE), (100, result(A, 0, 9, queue_count=16)))
    assert essence(one) == (("route_changed",), "timer", 2, 2, 10_000)
    twice = rebalances((50, result(A, 0)), (60, ROUTE), (90, ROUTE), (100, result(A, 0, 9, queue_count=16)))
    assert twice[-1].took_ms == 10_000


@pytest.mark.parametrize(
    ("message", "trigger"),
    [
        (f"doRebalance, g, add a new mq failed, {queue(1)}, because lock failed", "lock_acquired"),
        (
            f"[BUG]doRebalance, g, remove unnecessary mq, {queue(1)}, because pull is pause, so try to fixed it",
            "pull_expired",
        ),
        ("nothing of it", "timer"),
        (NOTICE, "unknown"),
    ],
)
def test_the_same_numbers_as_before_have_the_cause_that_the_log_tells(message, trigger):
    before = (0, 1) if trigger == "pull_expired" else (0,)
    taken = f"doRebalance, g, add a new mq, {queue(1)}"
    *_, one = rebalances((50, result(A, *before)), (98, message), (99.9, taken), (100, result(A, 0, 1)))
    assert (one.triggers, one.moved) == ((trigger,), 1)
    assert one.also == (("member_gone", "member_joined") if trigger == "unknown" else ())


def test_a_result_of_the_queues_that_the_client_had_is_no_rebalance():
    assert len(rebalances((50, result(A, 0, 1)), (98, NOTICE), (100, result(A, 0, 1)))) == 1


def test_a_client_that_starts_is_the_trigger_and_counts_from_its_start():
    (one,) = rebalances((50, created(A)), (52, result(A, 0)))
    assert essence(one) == (("start",), "start", None, 2, 2_000)
    assert one.joined == (A,)


def test_clients_that_follow_at_their_timers_belong_to_one_rebalance():
    first = [(50, result(A, 0)), (100, result(A, 0, 1, members=1))]
    second = [(50, result(C, 1)), (118, result(C, 5, members=1))]
    _, one = rebalances(*first, others=[second])
    assert (one.clients, one.took_ms, one.took_at_least_ms, one.members_after) == ((A, C), None, 18_000, 1)
    later = [(50, result(C, 1)), (130, result(C, 5, members=1))]
    assert [one.took_at_least_ms for one in rebalances(*first, others=[later])] == [0, 0, 0]


def test_a_change_in_the_midst_of_another_is_one_of_its_own():
    first = [(50, result(A, 0)), (100, result(A, 0, 1, members=3)), (110, result(A, 0, members=4))]
    second = [(50, result(C, 1)), (112, result(C, 5, members=4))]
    found = rebalances(*first, others=[second])
    assert [(one.members_after, one.took_at_least_ms) for one in found][1:] == [(3, 0), (4, 2_000)]


def test_two_topics_of_one_pass_are_one_rebalance():
    lines = [(50, result(A, 0)), (50, result(A, 0, topic="U")), (100, NOTICE)]
    *_, one = rebalances(*lines, (100.1, result(A, 1, members=1)), (100.2, result(A, 1, topic="U", members=1)))
    assert (one.topics, one.triggers, one.took_ms) == (("T", "U"), ("member_gone",), 200)


def test_who_left_is_named_where_a_log_names_it():
    stop = [(50, result(C, 1)), (99.9, f"the client factory [{C}] shutdown OK")]
    lines = [(50, result(A, 0)), (100, NOTICE), (100.1, result(A, 0, 1, members=1))]
    *_, one = rebalances(*lines, others=[stop])
    assert (one.left, one.began_at, one.took_ms) == ((C,), ms(99.9), 200)
    closed = (
        "2026-01-05 18:01:40 INFO t - NETTY EVENT: remove not active channel[ClientChannelInfo [channel=[id: 0x1, "
        f"L:/10.0.0.9:1 - R:/10.0.0.2:2], clientId={C}, language=JAVA, version=409, "
        "lastUpdateTimestamp=1767607300000]] "
        "from ConsumerGroupInfo groupChannelTable, consumer group: g\n"
    )
    diagnosis = told({"a.log": log(*beats(0, 200), *lines), "broker-a.log": closed.encode()})
    assert diagnosis.rebalances[-1].left == (C,)
    (member,) = (member for member in diagnosis.members if member.client_id == C)
    assert [(sign.how, sign.broker_name) for sign in member.signs] == [("channel closed", "broker-a")]


def test_a_client_of_its_name_that_begins_anew_does_not_compare_with_what_it_was():
    *_, one = rebalances((50, result(A, 0, members=5)), (100, created(A)), (101, result(A, 0, members=2)))
    assert essence(one) == (("start",), "start", None, 2, 1_000)
    assert B not in one.clients

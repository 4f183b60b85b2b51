"""What a client's lines say of its queues, line by line: each rule on a log of a few lines."""

from __future__ import annotations

import pytest

from hindsight.udfs.diagnosis.logged_ownership import (
    LOG_BEGINS,
    LOG_ENDS,
    LOG_SILENT,
    NOT_SAID_WHETHER_PUSH,
    OWNED,
    PART_MISSING,
    PULLS,
    RESTARTED,
    SHARED,
    STOPPED,
    UNKNOWN,
    WHOSE_NOT_SAID,
)
from hindsight.udfs.logs.log_wrappers import log_of
from tests.diagnose.made_logs import A, B, beats, created, got, log, ms, queue
from tests.diagnose.told_by_logs import held_at, told


def states(diagnosis, client=A, group="g", topic="T"):
    """(from, to, state, queues or reason), in seconds."""
    return [
        (
            (one.since - ms(0)) / 1000,
            None if one.until is None else (one.until - ms(0)) / 1000,
            one.state,
            one.reason or tuple(number for _, number in one.queues),
        )
        for one in diagnosis.ownership
        if one.key == (group, topic, client)
    ]


def test_a_result_holds_until_the_next_and_no_longer_than_the_log():
    lines = [*beats(0, 40), *got(10, A, 0, 1), *got(20, A, 2)]
    assert states(told({"a.log": log(*lines)})) == [
        (0, 10, UNKNOWN, LOG_BEGINS),
        (10, 20, OWNED, (0, 1)),
        (20, 40, OWNED, (2,)),
        (40, None, UNKNOWN, LOG_ENDS),
    ]


def test_of_a_client_that_begins_in_the_log_nothing_is_unknown_before():
    lines = [(0, created(A)), *beats(0, 20), *got(10, A, 0)]
    assert states(told({"a.log": log(*lines)}))[0] == (10, 20, OWNED, (0,))


def test_a_silence_is_unknown_and_what_it_held_it_holds_after_it():
    lines = [*beats(0, 40), *got(10, A, 0), *beats(100, 120)]
    assert states(told({"a.log": log(*lines)}))[1:] == [
        (10, 40, OWNED, (0,)),
        (40, 100, UNKNOWN, LOG_SILENT),
        (100, 120, OWNED, (0,)),
        (120, None, UNKNOWN, LOG_ENDS),
    ]
    assert states(told({"a.log": log(*lines)}, silence_ms=60_000))[1:] == [
        (10, 120, OWNED, (0,)),
        (120, None, UNKNOWN, LOG_ENDS),
    ]


def test_where_a_part_of_the_log_is_missing_what_it_held_is_unknown_until_it_says_so():
    parts = {"a.log.1": log(*beats(0, 40), *got(10, A, 0)), "a.log": log(*beats(100, 120), *got(110, A, 0, 3))}
    assert states(told(parts))[1:] == [
        (10, 40, OWNED, (0,)),
        (40, 110, UNKNOWN, PART_MISSING),
        (110, 120, OWNED, (0, 3)),
        (120, None, UNKNOWN, LOG_ENDS),
    ]


@pytest.mark.parametrize("says", ["add a new mq failed", "add new mq failed"])
def test_a_queue_that_could_not_be_taken_is_not_held_until_it_is(says):
    because = ", because lock failed" if says.startswith("add a") else ""
    lines = [
        *beats(0, 60),
        (10, f"doRebalance, g, {says}, {queue(1)}{because}"),
        *got(10.01, A, 0, 1),
        (30, f"doRebalance, g, add a new mq, {queue(1)}"),
        *got(30.01, A, 0, 1),
    ]
    held = states(told({"a.log": log(*lines)}))
    assert (held[1][3], held[2][3]) == ((0,), (0, 1))


def test_what_another_client_of_the_process_could_not_lock_stays_with_the_one_that_has_it():
    refused = (20, f"doRebalance, g, add a new mq failed, {queue(1)}, because lock failed")
    lines = [*beats(0, 60), *got(10, A, 1), refused, *got(20.1, B, 1, 5), *got(30, A, 1, 2)]
    diagnosis = told({"a.log": log(*lines)})
    assert [held[3] for held in states(diagnosis)[1:3]] == [(1,), (1, 2)]
    assert states(diagnosis, B)[1][3] == (5,)
    later = [*lines, (40, f"doRebalance, g, add a new mq, {queue(1)}"), *got(40.1, B, 1, 5)]
    assert states(told({"a.log": log(*later)}), B)[2][3] == (1, 5)


@pytest.mark.parametrize("stands", [1, 0])
def test_a_queue_whose_offset_the_broker_lacks_is_dropped_until_it_is_taken_again(stands):
    gone = (
        f"the pull request offset illegal, PullRequest [consumerGroup=g, messageQueue={queue(1)}, nextOffset=145] "
        "PullResult [pullStatus=OFFSET_ILLEGAL, nextBeginOffset=0, minOffset=0, maxOffset=146, msgFoundList=0]"
    )
    # A result of the queues that others are taken again with names it too.
    lines = [*beats(0, 60), *got(10, A, 0, 1), (20, gone), *got(25, A, 0, 1, 2), *got(40, A, 0, 1, 2)]
    lines += [(39, f"doRebalance, g, add a new mq, {queue(1)}")] * stands
    held = [held[3] for held in states(told({"a.log": log(*lines)}))]
    assert held == [LOG_BEGINS, (0, 1), (0,), (0, 2), *([(0, 1, 2)] * stands), LOG_ENDS]


def test_a_client_that_never_had_a_queue_stops_and_nobody_else_does():
    stop = [(20, f"the client factory [{B}] shutdown OK"), (20, "the consumer [g] shutdown OK")]
    diagnosis = told({"a.log": log((0, created(B)), *beats(0, 60), *got(10, A, 0), *stop)})
    assert states(diagnosis)[-2] == (10, 60, OWNED, (0,))


def test_one_id_in_two_processes_is_told_with_both_and_while_both_ran():
    one = log(*beats(0, 100), *got(10, A, 0), pid=7)
    other = log(*beats(40, 80), *got(50, A, 0), (60, f"the client factory [{A}] shutdown OK"), pid=8)
    (same,) = told({"one.log": one, "other.log": other}).same_ids
    assert (same.client_id, same.consumer_groups) == (A, ("g",))
    assert same.processes == (("one.log", 7), ("other.log", 8))
    assert (same.since, same.until) == (ms(50), ms(60))
    in_one = b"".join(sorted([*one.splitlines(True), *other.splitlines(True)]))
    assert told({"both.log": in_one}).same_ids[0].processes == (("both.log", 7), ("both.log", 8))
    after = log(*beats(101, 140), *got(110, A, 0), pid=8)
    assert told({"one.log": one, "other.log": after}).same_ids == []  # it began anew


def test_a_topic_that_is_no_longer_subscribed_is_given_up_queue_by_queue():
    gone = f"doRebalance, g, truncateMessageQueueNotMyTopic remove unnecessary mq, {queue(0)}"
    lines = [*beats(0, 60), *got(10, A, 0, 1), (20, gone)]
    assert [held[3] for held in states(told({"a.log": log(*lines)}))[1:3]] == [(0, 1), (1,)]
    both = [*got(11, B, 0), *lines]  # which of the two it was the line does not say
    diagnosis = told({"a.log": log(*both)})
    assert states(diagnosis, A)[-2][3] == states(diagnosis, B)[-2][3] == WHOSE_NOT_SAID


def test_a_client_that_stops_holds_nothing():
    lines = [*beats(0, 60), *got(10, A, 0), (20, f"the client factory [{A}] shutdown OK")]
    assert states(told({"a.log": log(*lines)}))[1:] == [(10, 20, OWNED, (0,)), (20, None, STOPPED, ())]


def test_a_consumer_that_stops_while_others_of_its_client_go_on_holds_nothing():
    lines = [*beats(0, 60), *got(10, A, 0), *got(11, A, 5, group="h"), (20, "the consumer [g] shutdown OK")]
    diagnosis = told({"a.log": log(*lines)})
    assert states(diagnosis)[1:] == [(10, 20, OWNED, (0,)), (20, None, STOPPED, ())]
    assert states(diagnosis, group="h")[-2][2] == OWNED
    two = [*lines, *got(10, B, 1)]
    assert states(told({"a.log": log(*two)}), B)[-2][3] == WHOSE_NOT_SAID
    after_its_client = [*two, (19.9, f"the client factory [{A}] shutdown OK")]
    assert states(told({"a.log": log(*after_its_client)}), B)[-2][2] == OWNED


def test_a_client_that_begins_anew_under_its_id_ended_at_a_time_that_is_not_known():
    lines = [(0, created(A)), *beats(0, 120), *got(10, A, 0), (80, created(A)), *got(90, A, 0)]
    assert states(told({"a.log": log(*lines)})) == [
        (10, 50, OWNED, (0,)),
        (50, 80, UNKNOWN, RESTARTED),
        (80, 90, STOPPED, ()),
        (90, 120, OWNED, (0,)),
        (120, None, UNKNOWN, LOG_ENDS),
    ]


def offsets(client, first, last):
    said = f"[persistAll] Group: g ClientId: {client} updateConsumeOffsetToBroker {queue(0)} 9"
    return [(second, said) for second in range(first, last + 1, 5)]


@pytest.mark.parametrize(
    "second", [("10.0.0.1@8", 1), ("custom", 0)], ids=["another process id", "a first client once more"]
)
def test_where_processes_share_a_log_a_client_lives_by_its_own_lines_alone(second):
    other, index = second
    lines = [
        (0, created("10.0.0.1@7")),
        *got(10, "10.0.0.1@7", 0),
        *offsets("10.0.0.1@7", 10, 60),  # killed
        (30, created(other, index)),
        *got(40, other, 1),
        *offsets(other, 40, 300),
    ]
    diagnosis = told({"a.log": log(*lines)})
    assert states(diagnosis, "10.0.0.1@7") == [(10, 60, OWNED, (0,)), (60, None, UNKNOWN, LOG_ENDS)]
    assert states(diagnosis, other)[0] == (40, 300, OWNED, (1,))


def test_processes_whose_ids_a_log_has_are_told_apart_by_them():
    one = log(*beats(0, 60), *got(10, A, 0), pid=7)
    other = log(*beats(0, 300), *got(10, B, 1), pid=8)
    diagnosis = told({"console.log": b"".join(sorted([*one.splitlines(True), *other.splitlines(True)]))})
    assert states(diagnosis, A)[-1] == (60, None, UNKNOWN, LOG_ENDS)
    assert states(diagnosis, B)[-1] == (300, None, UNKNOWN, LOG_ENDS)


def test_equal_notices_of_one_instant_do_not_make_two_logs_one():
    notice = (20, "receive broker's notification[b:1], the consumer group: g changed, rebalance immediately")
    killed = log(*beats(0, 40), *got(10, A, 0), notice)
    lives = log(*beats(0, 300), *got(10, B, 1), notice)
    diagnosis = told({"one.log": killed, "other.log": lives})
    assert states(diagnosis, A)[-1] == (40, None, UNKNOWN, LOG_ENDS)


def test_logs_side_by_side_that_name_one_client_are_of_two_processes():
    diagnosis = told({"one.log": log(*beats(0, 40), *got(10, A, 0)), "other.log": log(*beats(0, 300), *got(15, A, 1))})
    assert {troubles.process.log for troubles in diagnosis.troubles} == {"one.log", "other.log"}
    assert held_at(diagnosis, "g", "T", A, ms(200)).queues == (("b", 1),)


def test_what_is_not_said_to_be_a_push_consumer_s_is_allotted_only():
    (_, said), _ = got(10, A, 0)
    alone = told({"a.log": log(*beats(0, 20), (10, said))})
    assert states(alone)[1] == (10, 20, UNKNOWN, NOT_SAID_WHETHER_PUSH)
    beat = (
        f"HeartbeatData [clientID={A}, producerDataSet=[], consumerDataSet=[ConsumerData [groupName=g, "
        "consumeType=CONSUME_ACTIVELY, messageModel=CLUSTERING, consumeFromWhere=X, unitMode=false]]]"
    )
    pulls = told({"a.log": log(*beats(0, 20), *got(10, A, 0), (15, beat))})
    assert states(pulls)[1] == (10, 20, UNKNOWN, PULLS)
    pushes = told({"a.log": log(*beats(0, 20), (10, said), (15, beat.replace("ACTIVELY", "PASSIVELY")))})
    assert states(pushes)[1] == (10, 20, OWNED, (0,))


def test_queues_of_a_pop_consumer_are_shared():
    said = (
        f"broker rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId={A}, "
        f"assignmentSet=[MessageQueueAssignment [MessageQueue={queue(-1)}, Mode=POP]]"
    )
    assert states(told({"a.log": log(*beats(0, 20), (10, said))}))[1] == (10, 20, SHARED, (-1,))
    pulled = said.replace("queueId=-1", "queueId=3").replace("POP", "PULL")
    assert states(told({"a.log": log(*beats(0, 20), (10, pulled))}))[1] == (10, 20, OWNED, (3,))


@pytest.mark.parametrize(
    ("path", "log_name"),
    [
        ("h/x.log.3.gz", "h/x.log"),
        ("h/x.log-20260105", "h/x.log"),
        ("h/x.log.2026-01-05", "h/x.log"),
        ("h/otherdays/rocketmq_client-3.log.gz", "h/rocketmq_client.log"),
        ("h/push_4.9.8.log", "h/push_4.9.8.log"),
        ("h/consumer2.log", "h/consumer2.log"),
        ("stdout", "stdout"),
    ],
)
def test_what_a_rotation_names_is_one_log(path, log_name):
    assert log_of(path) == log_name

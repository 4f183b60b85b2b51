"""What a 5.x broker hands out, by the worked examples of the semantics document."""

from __future__ import annotations

import pytest

from hindsight.udfs.consumer.broker_assignment import POP, PULL, query_assignment
from hindsight.udfs.values.message_queues import MessageQueue

QUEUES = [MessageQueue("T", "broker-a", q) for q in range(4)]


def ids(count):
    return [f"c{i}" for i in range(count)]


def given(mode, queues, count, share=-1, strategy="AVG"):
    members = ids(count)
    answers = (query_assignment(mode, strategy, c, queues, members, pop_share_queue_num=share) for c in members)
    return [{q.queue_id for q in answer} for answer in answers]


def test_pop_shares_with_the_next_client():
    assert given(POP, QUEUES, 4, 1) == [{0, 1}, {1, 2}, {2, 3}, {3, 0}]


@pytest.mark.parametrize("share", [-1, 0, 3, 4])
def test_pop_shared_with_all_is_one_entry_a_broker(share):
    assert given(POP, QUEUES, 4, share) == [{-1}] * 4
    two = [*QUEUES, MessageQueue("T", "broker-b", 0)]
    assert [q.broker_name for q in query_assignment(POP, "AVG", "c0", two, ids(4), pop_share_queue_num=share)] == [
        "broker-a",
        "broker-b",
    ]


def test_pop_with_more_clients_than_queues_leaves_nobody_idle():
    assert given(POP, QUEUES[:2], 5, 1) == [{0}, {1}, {0}, {1}, {0}]


@pytest.mark.parametrize("count", [3, 5])
def test_a_client_that_the_broker_does_not_list_gets_nothing(count):
    members = ids(count)
    assert query_assignment(POP, "AVG", "other", QUEUES, members, pop_share_queue_num=1) == []
    assert query_assignment(PULL, "AVG", "other", QUEUES, members) == []


def test_pull_is_the_strategy_itself():
    assert given(PULL, QUEUES, 3) == [{0, 1}, {2}, {3}]
    assert given(PULL, QUEUES, 3, strategy="AVG_BY_CIRCLE") == [{0, 3}, {1}, {2}]


def test_a_strategy_that_the_broker_does_not_know_has_no_answer():
    assert query_assignment(PULL, "CONSISTENT_HASH", "c0", QUEUES, ids(2)) is None


def test_without_queues_or_members_there_is_no_answer():
    assert query_assignment(PULL, "AVG", "c0", [], ids(2)) is None
    assert query_assignment(POP, "AVG", "c0", QUEUES, []) is None


def test_another_mode_is_refused():
    with pytest.raises(ValueError, match="message request mode 'PUSH' is not known"):
        query_assignment("PUSH", "AVG", "c0", QUEUES, ids(2))

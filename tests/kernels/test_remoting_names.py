"""Whom answers name: brokers, topics, groups and clients; and which of them are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.remoting.remoting_frames import (
    broker_addresses,
    chosen_groups,
    chosen_topics,
    cluster_names,
    configured_groups,
    consuming_groups,
    listed_clients,
    listed_topics,
    retrying_groups,
    route_brokers,
)

NAMES = st.text("ab_%|-9", min_size=1, max_size=6)
MEMBERS = (
    *("brokerAddrTable", "brokerAddrs", "clusterAddrTable", "topicList", "queueDatas", "brokerName"),
    *("subscriptionGroupTable", "groupList", "connectionSet", "clientId", "0"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS) | st.integers() | st.sampled_from(["\udfff", "9" * 5000]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ({0: "m:1", 1: "s:1"}, "m:1"),
        ({"0": "m:1", "1": "s:1"}, "m:1"),  # as standard JSON has it
        ({2: "t:1", 1: "s:1"}, "s:1"),  # a broker whose master is gone
    ],
)
def test_a_broker_is_asked_at_its_master_or_else_at_its_first_replica(addresses, expected):
    assert broker_addresses({"brokerAddrTable": {"b": {"brokerAddrs": addresses}}}) == {"b": expected}


@given(JSON)
def test_an_answer_of_any_other_shape_names_nobody_and_breaks_nothing(value):
    for read in (broker_addresses, cluster_names, listed_topics, route_brokers, configured_groups):
        assert all(name.encode() for name in read(value))
    assert all(name.encode() for name in consuming_groups(value, "T"))
    assert all(client.encode() for client in listed_clients(value))


def test_a_client_on_two_channels_is_listed_once():
    connections = [{"clientId": "b"}, {"clientId": "a"}, {"clientId": "b"}, {"clientId": None}, {}]
    assert listed_clients({"connectionSet": connections}) == ["b", "a"]


def test_the_topic_s_own_name_among_its_groups_is_none():
    assert consuming_groups({"groupList": ["g", "Orders", "h"]}, "Orders") == {"g", "h"}


@given(st.sets(NAMES), st.sets(NAMES))
def test_the_plain_retry_topic_of_a_known_group_is_that_group_s(groups, topics):
    retries = {f"%RETRY%{group}" for group in groups}
    found = retrying_groups(topics | retries, groups)
    assert {found[f"%RETRY%{group}"] for group in groups} == groups


@pytest.mark.parametrize(
    ("retry", "groups", "expected"),
    [
        ("%RETRY%g", set(), "g"),
        ("%RETRY%g_a_b", set(), "g_a_b"),
        ("%RETRY%g_Orders", {"g"}, "g"),  # POP, up to 5.1
        ("%RETRY%g_Orders", {"g", "g_Orders"}, "g_Orders"),
        ("%RETRY%g_Other", {"g"}, "g_Other"),  # there is no topic Other
        ("%RETRY%g+Orders", set(), "g"),  # POP, 5.2.0 on
        ("%RETRY%a_b_Orders", {"a_b"}, "a_b"),
    ],
)
def test_pop_s_retry_topics_name_their_group(retry, groups, expected):
    assert retrying_groups(["Orders", "b_Orders", retry], groups) == {retry: expected}


def test_without_patterns_rocketmq_s_own_topics_and_groups_are_left_out():
    own = [
        "TBW102",
        "rmq_sys_wheel_timer",
        "broker-a",
        "Cl",
        "Cl_REPLY_TOPIC",
        "DefaultHeartBeatSyncerTopic",
        "AUTO_CREATE_TOPIC_KEY",
        "%RETRY%g",
    ]
    assert chosen_topics(["Orders", "My_REPLY_TOPIC", "%DLQ%g", *own], (), {"broker-a", "Cl"}) == [
        "%DLQ%g",
        "My_REPLY_TOPIC",
        "Orders",
    ]
    groups = ["g", "TOOLS_CONSUMER", "CID_RMQ_SYS_X", "CID_DefaultHeartBeatSyncerTopic", "CID_mine"]
    assert chosen_groups(groups, ()) == ["CID_mine", "g"]


def test_a_pattern_chooses_and_a_whole_name_is_asked_for_known_or_not():
    groups = ["g_a", "g_b", "h", "TOOLS_CONSUMER"]
    assert chosen_groups(groups, ("g_*", "nobody", "TOOLS_CONSUMER")) == ["TOOLS_CONSUMER", "g_a", "g_b", "nobody"]
    assert chosen_groups(groups, ("[gh]",)) == ["h"]
    assert chosen_topics(["Orders", "%RETRY%g"], ("*",), ()) == ["Orders"]

"""What rules of ownership do not apply to, and what may be said of it all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hindsight.udfs.consumer.round_facts import Listing, Past, Progress
from hindsight.udfs.drift.drift_rules import absence_is_told
from hindsight.udfs.drift.finding import Subject
from hindsight.udfs.drift.strategy_inference import scope_reasons
from tests.default_timing import default_timing, findings
from tests.kernels.test_drift_rules import A0, A1, B0, HEALTHY, group, read, topic

MINUTE = 60_000


def standing(offsets, *, at=10 * MINUTE, stood=2 * MINUTE, accrued=5):
    """Progress by queue: (broker offset, consumer offset, whether it stands)."""
    return Past(
        progress={
            ("T", *queue): Progress(at, broker - consumer, None, at - stood if still else at, accrued, broker)
            for queue, (broker, consumer, still) in offsets.items()
        }
    )


def of_kind(client_id, kind, version="V5_3_3", topics=("T",)):
    return read(client_id, topics=topics)._replace(kind=kind, client_version=version)


def codes(one):
    return sorted({(f.code, f.queue) for f in findings(one)}, key=str)


def nobody(**changes):
    listing = Listing(None, 1, True, 206, "f:list")
    fields = {"members": (), "listings": (listing,), "lists": {None: ()}, **changes}
    return replace(group(topic({}), reads=[]), reads={}, **fields)


@pytest.mark.parametrize(
    ("kind", "version"), [("pull", "V5_3_3"), ("lite_pull", "V4_9_8"), ("lite_pull", "V5_1_0"), ("pop", "V5_3_3")]
)
def test_of_members_that_do_not_show_what_they_hold_no_queue_is_an_orphan_and_nobody_is_idle(kind, version):
    one = group(topic({}), reads=[of_kind(c, kind, version) for c in ("c1", "c2")], shared=kind == "pop")
    assert codes(one) == []
    assert list(scope_reasons(one)) == ["T"]


def test_a_lite_pull_consumer_of_5_1_1_is_judged_as_a_push_consumer_is():
    one = group(topic({**HEALTHY, A1: []}), reads=[of_kind(c, "lite_pull", "V5_1_1") for c in ("c1", "c2")])
    assert codes(one) == [("ORPHAN_QUEUE", A1)]
    assert scope_reasons(one) == {}


def test_a_queue_that_stands_while_others_are_read_is_unserved_though_its_owner_cannot_be_seen():
    members = [of_kind(c, "pull") for c in ("c1", "c2")]
    stands = {A0: (90, 40, True), A1: (90, 90, False), B0: (90, 90, False)}
    one = group(topic({}), reads=members, past=standing(stands))
    assert [(f.code, f.queue, f.trust) for f in findings(one)] == [("UNSERVED_QUEUE", A0, "possible")]
    all_stand = dict.fromkeys((A0, A1, B0), (90, 40, True))
    assert codes(group(topic({}), reads=members, past=standing(all_stand))) == []
    shorter = standing(stands, stood=MINUTE - 1)
    assert codes(group(topic({}), reads=members, past=shorter)) == []
    no_messages = standing(stands, accrued=0)
    assert codes(group(topic({}), reads=members, past=no_messages)) == []


def test_who_chooses_queues_by_hand_follows_no_strategy_and_is_held_to_none():
    by_hand = [of_kind(c, "lite_pull", topics=()) for c in ("c1", "c2")]
    swapped = {A0: ["c2"], A1: ["c2"], B0: ["c1"]}
    one = group(topic(swapped), reads=by_hand)
    assert codes(one) == []
    assert "by hand" in scope_reasons(one)["T"]


def test_a_queue_that_was_read_and_that_nobody_chose_is_an_orphan_when_its_offset_stands():
    by_hand = [of_kind(c, "lite_pull", topics=()) for c in ("c1", "c2")]
    owners = {**HEALTHY, B0: []}
    stands = standing({A0: (90, 90, False), B0: (90, 40, True)})
    assert codes(group(topic(owners), reads=by_hand, past=stands)) == [("ORPHAN_QUEUE", B0)]
    assert codes(group(topic(owners), reads=by_hand)) == []  # nothing says that it was ever read
    never_read = standing({A0: (90, 90, False), B0: (90, 0, True)})
    assert codes(group(topic(owners), reads=by_hand, past=never_read)) == []


def test_where_the_broker_assigns_no_queue_is_an_orphan_though_everybody_answers_and_shows():
    reads = [of_kind(c, "push") for c in ("c1", "c2")]
    assert codes(group(topic({**HEALTHY, A1: []}), reads=reads, shared=True)) == []
    assert codes(group(topic({**HEALTHY, A1: []}), reads=reads)) == [("ORPHAN_QUEUE", A1)]


def test_lists_that_differ_are_nothing_to_members_that_ask_nobody_for_them():
    lists = {"broker-a": ("c1",), "broker-b": ("c2",)}
    by_hand = [of_kind(c, "lite_pull", topics=()) for c in ("c1", "c2")]
    assert codes(group(topic(HEALTHY), reads=by_hand, lists=lists)) == []
    subscribed = [of_kind(c, "lite_pull") for c in ("c1", "c2")]
    assert [code for code, _ in codes(group(topic(HEALTHY), reads=subscribed, lists=lists))] == ["VIEW_DIVERGENCE"]


def test_a_group_is_down_when_nobody_is_connected_and_no_offset_moves_while_messages_come():
    stands = {A0: (90, 40, True), A1: (90, 80, True)}
    (finding,) = findings(nobody(past=standing(stands)))
    assert (finding.code, finding.severity, finding.trust) == ("GROUP_DOWN", "CRITICAL", "possible")
    assert codes(nobody(past=standing({**stands, A1: (90, 90, False)}))) == []  # behind a proxy, it reads
    assert codes(nobody(past=standing(stands, accrued=0))) == []  # nothing comes
    assert codes(nobody(past=standing(stands, stood=MINUTE - 1))) == []
    assert codes(nobody(past=standing({A0: (90, 0, True)}))) == []  # never consumed: no group to be down
    assert codes(nobody()) == []
    assert codes(nobody(past=standing(stands), through_proxy=True)) == []
    some_failed = (Listing("broker-a", 1, True, 206, "f:1"), Listing("broker-b", 1, False, None, "f:2"))
    assert codes(nobody(past=standing(stands), listings=some_failed, lists={"broker-a": ()})) == []


@pytest.mark.parametrize(("silent", "found"), [(MINUTE, ["GROUP_DOWN"]), (MINUTE - 1, [])])
def test_at_a_broker_that_answers_no_more_no_offset_moves_while_it_is_silent(silent, found):
    """The group was left by everybody; of the last reading alone it is known that one of its offsets had moved."""
    some_failed = (Listing("broker-a", 1, True, 206, "f:1"), Listing("broker-b", 1, False, None, "f:2"))
    one = nobody(listings=some_failed, lists={"broker-a": ()})
    past = standing({A0: (90, 40, True), A1: (90, 80, False)}, at=one.at - silent)
    left = replace(one, past=replace(past, empty_since=one.at - 2 * MINUTE))
    assert [finding.code for finding in findings(left)] == found


def test_what_waits_for_a_group_whose_offsets_lie_beyond_the_end_is_not_told_as_none():
    beyond = standing({A0: (40, 90, True)})
    (down,) = [f for f in findings(nobody(past=beyond)) if f.code == "GROUP_DOWN"]
    assert "0 messages" not in down.sentence


def test_a_group_is_no_longer_down_when_an_offset_moved_or_somebody_is_listed():
    subject = Subject("GROUP_DOWN", None, None, None, None, None)
    moved = standing({A0: (90, 40, False)})
    assert absence_is_told(nobody(past=moved), subject, 9 * MINUTE)
    assert not absence_is_told(nobody(past=standing({A0: (90, 40, True)})), subject, 9 * MINUTE)
    assert not absence_is_told(nobody(), subject, 9 * MINUTE)
    assert absence_is_told(group(topic(HEALTHY)), subject, 9 * MINUTE)


def test_code_206_alone_is_unknown_and_says_where_nobody_is_connected():
    asked = tuple(Listing(broker, 1, True, 206, f"f:{broker}") for broker in ("broker-a", "broker-b"))
    one = nobody(listings=asked, lists={"broker-a": (), "broker-b": ()})
    assert scope_reasons(one)["T"].startswith("nobody is connected to broker-a, broker-b")


def test_a_member_that_was_asked_through_a_proxy_or_elsewhere_is_not_unreachable():
    not_supported = read("c2", answered=False)._replace(error_code=3)
    assert codes(group(topic(HEALTHY), reads=[read("c1"), not_supported])) == []
    not_online = read("c2", answered=False)._replace(error="CODE: 1  DESC: The Consumer <g> <c2> not online")
    lists = {"broker-a": ("c1", "c2"), "broker-b": ("c1",)}
    apart = group(topic(HEALTHY), reads=[read("c1"), not_online], lists=lists)
    assert [code for code, _ in codes(apart)] == ["VIEW_DIVERGENCE"]
    alike = group(topic(HEALTHY), reads=[read("c1"), not_online], lists=dict.fromkeys(lists, ("c1", "c2")))
    assert [code for code, _ in codes(alike)] == ["UNREACHABLE_CLIENT"]
    silent = group(topic(HEALTHY), reads=[read("c1"), read("c2", answered=False)], lists=lists)
    assert "UNREACHABLE_CLIENT" in [code for code, _ in codes(silent)]


def test_a_broker_that_told_no_list_may_list_more_members():
    of_both = replace(topic({**HEALTHY, B0: ["c1"], A1: []}), brokers=("broker-a", "broker-b"))
    assert codes(group(of_both, lists={"broker-a": ("c1", "c2")})) == []
    both = dict.fromkeys(("broker-a", "broker-b"), ("c1", "c2"))
    assert {code for code, _ in codes(group(of_both, lists=both))} >= {"ORPHAN_QUEUE", "WRONG_OWNER"}


def test_lists_of_brokers_that_no_client_of_the_group_asks_do_not_diverge():
    of_a = replace(topic(HEALTHY), brokers=("broker-a",))
    assert codes(group(of_a, lists={"broker-a": ("c1", "c2"), "broker-z": ()})) == []


def test_routes_that_differ_between_name_servers_are_a_divergence_of_their_own():
    differing = replace(topic(HEALTHY), routes_differ=True, name_servers=2)
    (finding,) = findings(group(differing))
    assert (finding.code, finding.topic, finding.kind) == ("VIEW_DIVERGENCE", None, "route of T")
    subject = Subject("VIEW_DIVERGENCE", None, None, None, None, "route of T")
    assert absence_is_told(group(replace(topic(HEALTHY), name_servers=2)), subject, 0)
    assert not absence_is_told(group(replace(topic(HEALTHY), name_servers=1)), subject, 0)


def test_of_a_static_topic_clients_before_5_0_and_of_other_languages_hold_other_queues():
    logical = replace(topic({}), is_logical=True)
    older = group(logical, reads=[of_kind("c1", "push"), of_kind("c2", "push", "V4_9_8")])
    assert (codes(older), scope_reasons(older)["T"][:2]) == ([], "c2")
    other = group(logical, reads=[of_kind("c1", "push"), of_kind("c2", None, None)], kinds={"c2": "other"})
    assert codes(other) == []
    newer = group(logical, reads=[of_kind(c, "push") for c in ("c1", "c2")])
    assert "ORPHAN_QUEUE" in {code for code, _ in codes(newer)}


def test_who_is_wrong_or_idle_is_not_said_of_a_retry_topic_while_its_route_may_be_new():
    retry = topic({A0: ["c2"]}, name="%RETRY%g", expected={A0: "c1"}, queues=(A0,))
    reads = [read(c, topics=("T", "%RETRY%g")) for c in ("c1", "c2")]
    assert {code for code, _ in codes(group(retry, reads=reads))} == {"WRONG_OWNER", "IDLE_CONSUMER"}
    assert codes(group(retry, reads=reads, past=Past(started_lately=True))) == []


def test_the_longest_of_many_names_does_not_fill_the_sentence():
    members = tuple(f"c{n}" for n in range(9))
    one = group(topic({}), members=members, reads=[of_kind(c, "pull") for c in members])
    assert scope_reasons(one)["T"] == "c0, c1, c2 and 6 more do not show which queues they hold"
    assert default_timing().standstill_s * 1000 == MINUTE

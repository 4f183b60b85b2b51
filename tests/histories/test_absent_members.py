"""Lists that one of two brokers gives, drawn by lot: a member that only the other one lists has not left."""

from __future__ import annotations

import json
import random

import pytest

from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import Connection
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.drift.group_memory import GroupMemory
from tests.default_timing import default_timing
from tests.histories.test_incident_fixtures import A0, A1, B0, BEGIN_MS, read, topic, world

BROKERS = ("broker-a", "broker-b")
STEP_MS = 3_000


def at(number):
    return BEGIN_MS + number * STEP_MS


def listed(number, members, owners=None, *, starts=None, silent=(), **changes):
    """A round of two brokers' topic, whose list shows these members."""
    now = at(number)
    reads = [read(c, now, answered=c not in silent, started_at=(starts or {}).get(c, 1)) for c in members]
    return world(now, owners, members=members, reads=reads, of_topic={"brokers": BROKERS}, **changes)


def walked(rounds, timing=None):
    history = GroupHistory(("c", "", "g"), timing or default_timing())
    return [history.step(one) for one in rounds]


def codes(round_):
    return {(j.finding.code, j.finding.trust) for j in round_.judged}


def test_a_member_that_comes_back_as_it_was_had_not_left():
    """c2 holds B0; every second list lacks it, so nobody shows B0 in those rounds."""
    both, one = ("c1", "c2"), ("c1",)
    rounds = [listed(n, both) for n in range(10)]
    rounds += [listed(n, *((one, {B0: ()}) if n % 2 else (both,))) for n in range(10, 60)]
    made = walked(rounds)
    assert codes(made[11]) == {("ORPHAN_QUEUE", "possible")}  # the first time it may have left
    assert all(codes(r) == set() for r in made[12:])
    assert made[13].group.doubted == ("c2",)
    assert {d.kind for r in made[12:] for d in [r.disturbance]} <= {"leave", "start"}  # nobody joins


def test_findings_are_not_muted_by_members_that_seem_to_come_and_go():
    both, one = ("c1", "c2"), ("c1",)
    rounds = [listed(n, both if n % 2 else one, None if n % 2 else {B0: ()}) for n in range(1, 40)]
    rounds += [listed(n, both, {A1: ("c1", "c2")}) for n in range(40, 44)]
    assert {j.judgement.state for r in walked(rounds)[-2:] for j in r.judged} == {"OPEN"}


def test_one_that_starts_anew_has_left_and_joined():
    both, one = ("c1", "c2"), ("c1",)
    rounds = [listed(n, both) for n in range(10)]
    rounds += [listed(n, one, {B0: ()}) for n in range(10, 12)]
    rounds += [listed(n, both, starts={"c2": at(11)}) for n in range(12, 14)]
    rounds += [listed(n, one, {B0: ()}) for n in range(14, 16)]
    made = walked(rounds)
    assert made[-1].group.doubted == () and {c for c, _ in codes(made[-1])} == {"ORPHAN_QUEUE"}


def test_an_absence_is_over_when_a_broker_would_have_given_the_member_up():
    both, one = ("c1", "c2"), ("c1",)
    rounds = [listed(0, both), listed(1, one, {B0: ()}), listed(2, both)]
    rounds += [listed(n, one, {B0: ()}) for n in range(3, 60)]
    made = walked(rounds)
    doubted = [number for number, r in enumerate(made) if r.group.doubted]
    assert doubted[0] == 3 and at(doubted[-1]) - at(3) < 120_000 <= at(doubted[-1] + 1) - at(3)
    assert codes(made[-1]) == {("ORPHAN_QUEUE", "certain")}


def test_the_list_of_the_only_broker_is_not_drawn_by_lot():
    one_broker = {"brokers": ("broker-a",)}
    rounds = [world(at(0), members=("c1", "c2"), of_topic=one_broker)]
    rounds.append(world(at(1), {B0: ()}, members=("c1",), reads=[read("c1", at(1))], of_topic=one_broker))
    assert codes(walked(rounds)[-1]) == {("ORPHAN_QUEUE", "certain")}


def test_a_silent_member_that_is_no_longer_listed_is_gone_as_was_to_come():
    both = ("c1", "c2")
    rounds = [listed(n, both, {B0: ()}, silent=("c2",)) for n in range(3)] + [listed(3, ("c1",), {B0: ()})]
    assert codes(walked(rounds)[-1]) == {("ORPHAN_QUEUE", "certain")}


def test_a_member_that_was_asked_elsewhere_is_not_silent():
    """While brokers are asked by name, one of them does not know c2; then a list drawn by lot lacks it."""
    not_online = read("c2", at(0), answered=False)._replace(error="CODE: 1  DESC: The Consumer <g> <c2> not online")
    lists = {"broker-a": ("c1", "c2"), "broker-b": ("c1",)}
    apart = world(at(0), reads=[read("c1", at(0)), not_online], lists=lists, of_topic={"brokers": BROKERS})
    assert codes(walked([apart, listed(1, ("c1",), {B0: ()})])[-1]) == {("ORPHAN_QUEUE", "possible")}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_remembered_is_the_same_wherever_it_is_written_down(seed):
    rng = random.Random(seed)
    rounds = [listed(n, ("c1", "c2") if rng.random() < 0.6 else ("c1",)) for n in range(40)]
    whole, cut = GroupHistory(("c", "", "g"), default_timing()), GroupHistory(("c", "", "g"), default_timing())
    moves, stuck = rng.randrange(2, 18), []  # a queue stands after twenty rounds
    for number, one in enumerate(rounds):
        consumed = 5 if number < moves else 6
        for history in (whole, cut):
            history.step(one, Readings.of([Reading(("T", *A0), one.at, 50, consumed)]))
        cut.memory = GroupMemory.of_state(json.loads(json.dumps(cut.memory.to_state())))
        assert json.dumps(cut.memory.to_state()) == json.dumps(whole.memory.to_state())
        assert cut.memory.standing.stuck == whole.memory.standing.stuck
        stuck.append(len(whole.memory.standing.stuck))
    assert {0, 1} == {*stuck}


def test_lists_by_name_are_no_lots():
    lists = {"broker-a": ("c1", "c2"), "broker-b": ("c1",)}
    assert ("VIEW_DIVERGENCE", "possible") in codes(walked([listed(0, ("c1", "c2"), lists=lists, silent=("c2",))])[0])
    rounds = [listed(0, ("c1", "c2"), lists=lists), listed(1, ("c1",), {B0: ()}, lists=dict.fromkeys(BROKERS, ("c1",)))]
    made = walked(rounds)
    assert ("VIEW_DIVERGENCE", "certain") in codes(made[0])
    assert codes(made[1]) == {("ORPHAN_QUEUE", "certain")}
    assert topic(0).brokers == ()


@pytest.mark.parametrize("differ_from", [1, 2, 5])
def test_lists_that_begin_to_differ_explain_what_nothing_else_does(differ_from):
    """They may be read before a fault and its effects after it, in one sweep."""
    same = dict.fromkeys(BROKERS, ("c1", "c2"))
    history = GroupHistory(("c", "", "g"), default_timing(membership_grace_s=-1000))
    expected = {A0: "c1", A1: "c2", B0: "c1"}
    allowed = {queue: frozenset({c}) for queue, c in expected.items()}
    claimants = {A0: frozenset({"c1"}), A1: frozenset({"c2"})}
    nobodys = {"expected": expected, "allowed": allowed, "claimants": claimants, "brokers": BROKERS}
    for number in range(6):
        lists = {**same, "broker-b": ("c1",)} if number >= differ_from else same
        owners = {A1: "c2", B0: () if number else "c1"}
        history.step(world(BEGIN_MS + number * 15_000, owners, of_topic=nobodys, connections=connections_of(lists)))
    (incident,) = history.ledger.incidents.values()
    assert incident.cause.name == "VIEW_DIVERGENCE"
    assert {a.code for a in incident.attached.values()} == {"ORPHAN_QUEUE", "VIEW_DIVERGENCE"}


def connections_of(lists):
    return tuple(Connection(b, c, f"10.0.0.{c[1]}:1") for b, ids in lists.items() for c in ids)


def test_lists_that_begin_to_differ_are_not_why_the_queues_of_a_dead_member_stand():
    """Brokers take it from their lists while a sweep asks for them, and an incident of its queues opens then."""
    history = GroupHistory(("c", "", "g"), default_timing(membership_grace_s=-1000))
    lists = dict.fromkeys(BROKERS, ("c1", "c2"))
    of_topic = {"brokers": BROKERS}
    for number in range(3):
        now, is_dead = BEGIN_MS + number * 60_000, number > 0
        if number == 2:
            lists["broker-b"], of_topic["claimants"] = ("c1",), {q: frozenset({"c1"}) for q in (A0, A1, B0)}
        group = world(
            now,
            {B0: ()} if is_dead else {},
            silent=("c2",) if is_dead else (),
            connections=connections_of(lists),
            of_topic=of_topic,
        )
        history.step(group, Readings.of([Reading(("T", *B0), now, 10 + 60 * number, 10)]))
    (incident,) = history.ledger.incidents.values()
    assert (incident.cause.name, incident.cause.key) == ("UNREACHABLE_CLIENT", "c2")
    assert {a.code for a in incident.attached.values()} == {"UNREACHABLE_CLIENT", "UNSERVED_QUEUE"}


@pytest.mark.parametrize(("differ_by", "opens"), [("121212", False), ("1233", True), ("1122", True), ("11", True)])
def test_lists_that_differ_by_other_members_each_time_are_of_who_comes_and_goes(differ_by, opens):
    """Brokers are asked one after the other, once a minute."""
    history = GroupHistory(("c", "", "g"), default_timing(membership_grace_s=-1000))
    for number, lacking in enumerate(differ_by):
        lists = {"broker-a": ("c1", "c2", "c3"), "broker-b": tuple(c for c in ("c1", "c2", "c3") if c[1] != lacking)}
        now, connections = BEGIN_MS + number * 60_000, connections_of(lists)
        history.step(world(now, connections=connections, of_topic={"brokers": BROKERS}))
    assert [i.cause.name for i in history.ledger.incidents.values()] == ["VIEW_DIVERGENCE"] * opens
